//! Reading a run's events: from the store until it is dry, then live, with no gap, repeat or reorder (E21).
//!
//! A reader holds its place and little else. What it has taken and not yet given is bounded in events and bytes; what it needs from the
//! store it takes page by page, when it is asked for more.

use std::collections::VecDeque;
use std::sync::Arc;

use contract::RunId;
use tokio::sync::watch;

use crate::follow::Follower;
use crate::live::{Found, Frame, Ring};
use crate::merge;
use crate::ports::bus::Wake;
use crate::{Runtime, RuntimeError, size};

/// Bytes that a frame takes beside its event's own.
const ENVELOPE: usize = 160 + size_of::<Frame>();

/// A place in a run's log that moves on.
pub struct EventReader {
    runtime: Arc<Runtime>,
    run: RunId,
    seq: u64,
    /// What was taken and not yet given.
    ready: VecDeque<Frame>,
    ring: Arc<Ring>,
    grown: watch::Receiver<()>,
    /// Whether the store was dry once since the ring is watched, so that the ring tells whatever comes.
    live: bool,
    ended: bool,
    merged: bool,
    /// Bytes that may be ready at once; one event may be larger.
    most_bytes: usize,
    /// Events that the next page should have: as many as the last ones let expect to fit.
    page: usize,
}

impl Runtime {
    /// Reads a run's events after a place. To be called where tasks can be started.
    pub fn events(self: &Arc<Self>, run: RunId, after: u64) -> EventReader {
        let ring = self.live.join(run, || self.ports.bus.listen(Wake::Appended(run)));
        EventReader {
            run,
            seq: after,
            ready: VecDeque::new(),
            grown: ring.watch(),
            ring,
            live: false,
            ended: false,
            merged: false,
            most_bytes: size(self.limits.reader_page_bytes),
            page: size(self.limits.read_page),
            runtime: self.clone(),
        }
    }
}

impl EventReader {
    /// Joins adjacent deltas of one stream where it catches up from the store.
    #[must_use]
    pub fn merged(mut self) -> Self {
        self.merged = true;
        self
    }

    /// Takes no more than that many bytes at once, or one event.
    #[must_use]
    pub fn within(mut self, bytes: usize) -> Self {
        self.most_bytes = self.most_bytes.min(bytes);
        self
    }

    /// The next event, as soon as there is one; none when the run has ended and everything was given.
    ///
    /// Dropping the future between events loses nothing, and after an error it can be asked again.
    pub async fn next(&mut self) -> Result<Option<Frame>, RuntimeError> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                if self.ready.is_empty() {
                    // A reader that waits keeps no room for what it had to catch up with.
                    self.ready = VecDeque::new();
                }
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
        // Whatever is added from here on is seen by the next look.
        self.grown.mark_unchanged();
        match self.ring.after(self.seq, self.most_bytes) {
            Found::Frames(frames) => {
                self.ready = frames.into();
                self.go_live();
            }
            Found::End if self.live => {
                // The sender lives in the ring, which lives as long as its readers.
                let _ = self.grown.changed().await;
            }
            Found::End | Found::Elsewhere => {
                self.ready = self.page().await?;
                if self.ready.is_empty() {
                    self.ended = self.seq > 0 && !self.live && self.is_past_the_end().await?;
                    if !self.ended {
                        self.go_live();
                    }
                }
            }
            Found::Abandoned => return Err(RuntimeError::Broken),
        }
        Ok(())
    }

    /// The next page of the store.
    async fn page(&mut self) -> Result<VecDeque<Frame>, RuntimeError> {
        let limits = &self.runtime.limits;
        let _right = self.runtime.live.page().await;
        let mut page = self.runtime.ports.store.read_after(self.run, self.seq, self.page).await?;
        let mut bytes = 0;
        let fits = page.iter().take_while(|event| {
            bytes += event.payload.len() + ENVELOPE;
            bytes <= self.most_bytes
        });
        let fits = fits.count().max(1);
        // A store's page can be larger than what may be kept: what does not fit is read again, so the next one asks for less.
        self.page = match page.len() > fits {
            true => fits,
            false => self.page.saturating_mul(2).min(size(limits.read_page)),
        };
        page.truncate(fits);
        Ok(match self.merged {
            true => merge::frames(&page, size(limits.merged_delta_bytes)),
            false => page.iter().map(Frame::stored).collect(),
        })
    }

    /// From here on the ring tells whatever comes. The first for whom that is so sees to it that the ring is fed.
    fn go_live(&mut self) {
        self.live = true;
        if let Some(appended) = self.ring.begin(self.seq) {
            Follower::start(self.runtime.clone(), self.run, self.ring.clone(), appended);
        }
    }

    /// Whether the event at this reader's place was the run's last.
    async fn is_past_the_end(&self) -> Result<bool, RuntimeError> {
        let last = self.runtime.ports.store.read_after(self.run, self.seq - 1, 1).await?;
        Ok(last.first().is_some_and(|event| Frame::stored(event).terminal))
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        self.runtime.live.leave(self.run, &self.ring);
    }
}
