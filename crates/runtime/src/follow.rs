//! The follower of a run: one for all who read the run in this process. It reads the store on a wake-up or when it is time to look,
//! and feeds the ring that they share.
//!
//! Where the run's task feeds the ring, because this process performs it, the follower finds that the ring has grown and reads nothing.
//! So a run that moves from one process to another is followed without anybody noticing.

use std::sync::Arc;
use std::time::Duration;

use contract::RunId;

use crate::live::{Frame, Ring};
use crate::ports::bus::Listener;
use crate::ports::store::StoreError;
use crate::{Runtime, size};

/// A run that is followed, and its readers.
pub(crate) struct Follower {
    runtime: Arc<Runtime>,
    run: RunId,
    ring: Arc<Ring>,
    /// Whether the follower ended as it should.
    done: bool,
}

impl Follower {
    /// Begins to follow; ends with the ring's last reader, or with the run.
    #[expect(clippy::disallowed_methods, reason = "ends with its readers, and they with it: nobody has to wait for it")]
    pub(crate) fn start(runtime: Arc<Runtime>, run: RunId, ring: Arc<Ring>, appended: Listener) {
        let follower = Self { runtime, run, ring, done: false };
        drop(tokio::spawn(follower.follow(appended)));
    }

    async fn follow(mut self, mut appended: Listener) {
        let ring = self.ring.clone();
        tokio::select! {
            biased;
            () = ring.deserted() => {}
            () = self.feed(&mut appended) => {}
        }
        self.done = true;
    }

    /// Feeds the ring to the run's end.
    async fn feed(&self, appended: &mut Listener) {
        let poll = Duration::from_millis(self.runtime.limits.poll_ms);
        let mut known = self.ring.end();
        let mut failing = false;
        while !self.ring.is_complete() {
            tokio::select! {
                biased;
                () = appended.heard() => {}
                () = tokio::time::sleep(poll) => {}
            }
            let end = self.ring.end();
            if end > known {
                // The run's task is here, and was faster.
                known = end;
                continue;
            }
            match self.read().await {
                Ok(()) => failing = false,
                Err(error) => {
                    metrics::counter!("baton_follow_errors_total").increment(1);
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(run = %self.run, %error, "a run's events cannot be read now; its readers wait");
                    }
                }
            }
            known = self.ring.end();
        }
    }

    /// Reads the store until it is dry.
    async fn read(&self) -> Result<(), StoreError> {
        let limits = &self.runtime.limits;
        let most = size(limits.read_page);
        loop {
            let page = self.runtime.ports.store.read_after(self.run, self.ring.end(), most).await?;
            let bytes: usize = page.iter().map(|event| event.payload.len()).sum();
            // A store also ends a page that has become large. Should a short and small one ever not be all, the next look finds the rest.
            let more = page.len() >= most || bytes > size(limits.reader_page_bytes) / 2;
            self.runtime.live.add(&self.ring, page.iter().map(Frame::stored).collect());
            if !more {
                return Ok(());
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if !self.done {
            // It broke down: its readers must not wait for it.
            self.runtime.live.abandon(self.run, &self.ring);
        }
    }
}
