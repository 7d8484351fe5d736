//! Reading a run's events: from the store until it is dry, then live, with no gap, repeat or reorder (E21).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use contract::{Event, RunId};
use tokio::sync::broadcast;

use crate::live::Frame;
use crate::ports::bus::{Wake, woken};
use crate::ports::store::StoredEvent;
use crate::{Runtime, RuntimeError};

/// A place in a run's log that moves on.
pub struct EventReader {
    runtime: Arc<Runtime>,
    run: RunId,
    seq: u64,
    ready: VecDeque<Frame>,
    wakes: broadcast::Receiver<Wake>,
    ended: bool,
}

impl Runtime {
    /// Reads a run's events after a place.
    pub fn events(self: &Arc<Self>, run: RunId, after: u64) -> EventReader {
        let wakes = self.ports.bus.subscribe();
        EventReader { runtime: self.clone(), run, seq: after, ready: VecDeque::new(), wakes, ended: false }
    }
}

impl EventReader {
    /// The next event, as soon as there is one; none when the run has ended and everything was given.
    ///
    /// Dropping the future between events loses nothing.
    pub async fn next(&mut self) -> Result<Option<Frame>, RuntimeError> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                self.seq = frame.seq;
                self.ended |= frame.terminal;
                return Ok(Some(frame));
            }
            if self.ended {
                return Ok(None);
            }
            self.fill().await?;
        }
    }

    /// Takes what there is, or waits until there may be something.
    async fn fill(&mut self) -> Result<(), RuntimeError> {
        // Watching begins before looking, so that nothing falls between.
        let ring = self.runtime.live.ring(self.run);
        let mut grown = ring.as_ref().map(|r| r.watch());
        let from_ring = ring.as_ref().and_then(|r| r.after(self.seq)).filter(|frames| !frames.is_empty());
        if let Some(frames) = from_ring {
            self.ready.extend(frames);
            return Ok(());
        }
        let most = usize::try_from(self.runtime.limits.read_page).unwrap_or(usize::MAX);
        let page = self.runtime.ports.store.read_after(self.run, self.seq, most).await?;
        if !page.is_empty() {
            self.ready.extend(page.into_iter().map(frame));
            return Ok(());
        }
        if self.seq > 0 && self.is_past_the_end().await? {
            self.ended = true;
            return Ok(());
        }
        let poll = Duration::from_millis(self.runtime.limits.poll_ms);
        let run = self.run;
        let ring_grows = async {
            match &mut grown {
                Some(watch) => drop(watch.changed().await),
                None => std::future::pending::<()>().await,
            }
        };
        tokio::select! {
            () = woken(&mut self.wakes, |wake| wake == Wake::Appended(run)) => {}
            () = ring_grows => {}
            () = tokio::time::sleep(poll) => {}
        }
        Ok(())
    }

    /// Whether the event at this reader's place was the run's last.
    async fn is_past_the_end(&self) -> Result<bool, RuntimeError> {
        let last = self.runtime.ports.store.read_after(self.run, self.seq - 1, 1).await?;
        Ok(last.first().is_some_and(|event| is_terminal(&event.kind)))
    }
}

fn is_terminal(kind: &str) -> bool {
    matches!(kind, "run_completed" | "run_failed" | "run_cancelled")
}

/// Encodes a stored event for readers.
fn frame(stored: StoredEvent) -> Frame {
    let terminal = is_terminal(&stored.kind);
    let payload = String::from_utf8_lossy(&stored.payload);
    let json = stored.head.encode(&payload).into();
    Frame { seq: stored.head.seq, from_seq: stored.head.from_seq, kind: stored.kind.into(), json, terminal }
}

/// Encodes an event that was just committed.
pub(crate) fn committed(head: &contract::event::Head, event: &Event, payload: &str) -> Frame {
    Frame {
        seq: head.seq,
        from_seq: None,
        kind: event.kind().into(),
        json: head.encode(payload).into(),
        terminal: event.is_terminal(),
    }
}
