//! Latest encoded events of the runs that are read here, so that a run's readers share what was read once.
//!
//! A frame comes here after its commit and never before: from the run's task if this process performs it, else from the run's
//! follower, which reads the store for all. Readers pull: a slow one costs nothing but the ring, and goes back to the store when the
//! ring has moved on (D8). A ring begins with a run's first reader and ends with its last.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use contract::RunId;
use contract::event::Head;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::ports::bus::Listener;
use crate::ports::store::{Entry, StoredEvent};

/// Pages of the store that readers who catch up hold at once, before they have made frames of them: a page can be larger than what one
/// reader may keep. Followers do not wait for them, so that many who catch up do not hold up those who are at the end.
const PAGES: usize = 32;

/// An event as readers get it: encoded once, shared by all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its place; the last one, if deltas were merged.
    pub seq: u64,
    /// The first one, if deltas were merged.
    pub from_seq: Option<u64>,
    /// Its type.
    pub kind: Arc<str>,
    /// The envelope as JSON.
    pub json: Bytes,
    /// Whether the run ends with it.
    pub terminal: bool,
}

impl Frame {
    /// Encodes an event that was just committed.
    pub fn committed(head: &Head, entry: &Entry) -> Self {
        Self::encode(head, entry.kind, &entry.payload)
    }

    /// Encodes a stored event.
    pub(crate) fn stored(event: &StoredEvent) -> Self {
        Self::encode(&event.head, &event.kind, &String::from_utf8_lossy(&event.payload))
    }

    pub(crate) fn encode(head: &Head, kind: &str, payload: &str) -> Self {
        let terminal = matches!(kind, "run_completed" | "run_failed" | "run_cancelled");
        Self { seq: head.seq, from_seq: head.from_seq, kind: kind.into(), json: head.encode(payload).into(), terminal }
    }

    /// The first event that is in it.
    pub fn first(&self) -> u64 {
        self.from_seq.unwrap_or(self.seq)
    }

    /// Bytes that it takes in memory.
    pub(crate) fn cost(&self) -> usize {
        self.json.len() + self.kind.len() + size_of::<Self>()
    }
}

/// The rings of the runs that somebody reads here.
pub struct Live {
    most_bytes: usize,
    rings: Mutex<HashMap<RunId, Shared>>,
    pages: Semaphore,
}

/// A ring and how many readers it has.
struct Shared {
    ring: Arc<Ring>,
    readers: usize,
}

impl Live {
    /// Rings that hold that many bytes each.
    pub fn new(most_bytes: usize) -> Self {
        Self { most_bytes, rings: Mutex::default(), pages: Semaphore::new(PAGES) }
    }

    fn rings(&self) -> MutexGuard<'_, HashMap<RunId, Shared>> {
        // The map is whole between its calls, so a panic elsewhere leaves it usable.
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody reads a run here, so that its events are worth encoding.
    pub fn is_read(&self, run: RunId) -> bool {
        self.rings().contains_key(&run)
    }

    /// Adds a run's committed frames, in order, and wakes its readers. Does nothing if there are none.
    pub fn publish(&self, run: RunId, frames: Vec<Frame>) {
        let ring = self.rings().get(&run).map(|shared| shared.ring.clone());
        if let Some(ring) = ring {
            self.add(&ring, frames);
        }
    }

    pub(crate) fn add(&self, ring: &Ring, frames: Vec<Frame>) {
        ring.add(frames, self.most_bytes);
    }

    /// Joins the readers of a run. The first brings the listener that the run's follower will use: it listens before anybody reads.
    pub(crate) fn join(&self, run: RunId, listen: impl FnOnce() -> Listener) -> Arc<Ring> {
        let mut rings = self.rings();
        let shared = rings.entry(run).or_insert_with(|| Shared { ring: Arc::new(Ring::new(listen())), readers: 0 });
        shared.readers += 1;
        shared.ring.clone()
    }

    /// Leaves the readers of a run; the last ends the ring.
    pub(crate) fn leave(&self, run: RunId, ring: &Arc<Ring>) {
        let mut rings = self.rings();
        if let Some(shared) = rings.get_mut(&run).filter(|shared| Arc::ptr_eq(&shared.ring, ring)) {
            shared.readers -= 1;
            if shared.readers == 0 {
                rings.remove(&run);
            }
        }
    }

    /// Ends a ring that nobody feeds any more, so that the next reader begins another one.
    pub(crate) fn abandon(&self, run: RunId, ring: &Arc<Ring>) {
        let mut rings = self.rings();
        if rings.get(&run).is_some_and(|shared| Arc::ptr_eq(&shared.ring, ring)) {
            rings.remove(&run);
        }
        drop(rings);
        ring.held().abandoned = true;
        ring.grown.send_replace(());
    }

    /// The right to hold a page of the store.
    pub(crate) async fn page(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed, so there is a permit.
        self.pages.acquire().await.ok()
    }
}

/// The latest events of one run.
pub(crate) struct Ring {
    held: Mutex<Held>,
    grown: watch::Sender<()>,
}

struct Held {
    /// Events that follow each other without a hole.
    frames: VecDeque<Frame>,
    bytes: usize,
    /// The place before the first frame, and the ring's end if there is none; none before it has begun.
    start: Option<u64>,
    /// For the follower, until it begins.
    listener: Option<Listener>,
    /// Whether the follower broke down.
    abandoned: bool,
}

/// What a ring knows of what comes after a place.
pub(crate) enum Found {
    /// These frames.
    Frames(Vec<Frame>),
    /// Nothing: whoever is there is at the end as far as this process knows, and is woken.
    End,
    /// It does not reach back that far, or has not begun: the store has to be asked.
    Elsewhere,
    /// Nobody feeds it any more.
    Abandoned,
}

impl Ring {
    fn new(listener: Listener) -> Self {
        let held = Held { frames: VecDeque::new(), bytes: 0, start: None, listener: Some(listener), abandoned: false };
        Self { held: Mutex::new(held), grown: watch::Sender::new(()) }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // It is whole between its calls, so a panic elsewhere leaves it usable.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a ring that has not begun begin at a place at which somebody found nothing more. Gives the listener to the first who asks:
    /// they see to it that the ring is fed.
    pub(crate) fn begin(&self, at: u64) -> Option<Listener> {
        let mut held = self.held();
        held.start.get_or_insert(at);
        held.listener.take()
    }

    /// The last event that it knows of.
    pub(crate) fn end(&self) -> u64 {
        self.held().end().unwrap_or(0)
    }

    /// Whether its last event is the run's.
    pub(crate) fn is_complete(&self) -> bool {
        self.held().frames.back().is_some_and(|last| last.terminal)
    }

    /// What comes after a place: at least one frame if there is one, then as many as have no more than `most` bytes.
    pub(crate) fn after(&self, seq: u64, most: usize) -> Found {
        let held = self.held();
        match (held.start, held.end()) {
            _ if held.abandoned => Found::Abandoned,
            (Some(_), Some(end)) if end <= seq => Found::End,
            (Some(start), Some(_)) if start <= seq => {
                let from = held.frames.partition_point(|frame| frame.seq <= seq);
                let mut bytes = 0;
                let fits = |frame: &&Frame| {
                    bytes += frame.cost();
                    bytes <= most || bytes == frame.cost()
                };
                Found::Frames(held.frames.range(from..).take_while(fits).cloned().collect())
            }
            (Some(_) | None, _) => Found::Elsewhere,
        }
    }

    fn add(&self, new: Vec<Frame>, most_bytes: usize) {
        let mut held = self.held();
        let before = held.end();
        new.into_iter().for_each(|frame| held.push(frame));
        held.trim(most_bytes);
        let grown = held.end() != before;
        drop(held);
        if grown {
            self.grown.send_replace(());
        }
    }

    /// Tells when the ring grows.
    pub(crate) fn watch(&self) -> watch::Receiver<()> {
        self.grown.subscribe()
    }

    /// Returns when nobody reads any more.
    pub(crate) async fn deserted(&self) {
        self.grown.closed().await;
    }
}

impl Held {
    fn end(&self) -> Option<u64> {
        self.frames.back().map(|last| last.seq).or(self.start)
    }

    /// Adds a frame that is not there yet. What does not follow begins the ring anew: whoever needs what lies between asks the store.
    fn push(&mut self, frame: Frame) {
        match self.end() {
            Some(end) if frame.seq <= end => return,
            Some(end) if frame.first() == end + 1 => {}
            Some(_) | None => {
                self.frames.clear();
                self.bytes = 0;
                self.start = Some(frame.first() - 1);
            }
        }
        self.bytes += frame.cost();
        self.frames.push_back(frame);
    }

    fn trim(&mut self, most_bytes: usize) {
        while self.bytes > most_bytes && self.frames.len() > 1 {
            if let Some(gone) = self.frames.pop_front() {
                self.bytes -= gone.cost();
                self.start = Some(gone.seq);
            }
        }
    }
}
