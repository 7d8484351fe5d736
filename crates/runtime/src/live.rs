//! Latest encoded events of the runs of this process, so that their readers need not ask the store.
//!
//! A frame comes here after its commit and never before. Readers pull: a slow one costs nothing but the ring, and goes back to
//! the store when the ring has moved on (D8).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use contract::RunId;
use tokio::sync::watch;

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

/// The rings of the runs that this process performs.
pub struct Live {
    most_bytes: usize,
    rings: Mutex<HashMap<RunId, Arc<Ring>>>,
}

pub(crate) struct Ring {
    frames: Mutex<VecDeque<Frame>>,
    end: watch::Sender<u64>,
}

impl Live {
    /// Rings that hold that many bytes each.
    pub fn new(most_bytes: usize) -> Self {
        Self { most_bytes, rings: Mutex::default() }
    }

    fn rings(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Arc<Ring>>> {
        // The map is whole between its calls, so a panic elsewhere leaves it usable.
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a run's ring.
    pub(crate) fn begin(&self, run: RunId, end: u64) -> Arc<Ring> {
        let ring = Arc::new(Ring { frames: Mutex::default(), end: watch::Sender::new(end) });
        self.rings().insert(run, ring.clone());
        ring
    }

    /// Ends a run's ring, if it is still this one; its readers go to the store.
    pub(crate) fn end(&self, run: RunId, ring: &Arc<Ring>) {
        let mut rings = self.rings();
        if rings.get(&run).is_some_and(|r| Arc::ptr_eq(r, ring)) {
            rings.remove(&run);
        }
    }

    /// A run's ring, if this process performs it.
    pub(crate) fn ring(&self, run: RunId) -> Option<Arc<Ring>> {
        self.rings().get(&run).cloned()
    }

    /// Adds committed frames to a ring and wakes its readers.
    pub(crate) fn publish(&self, ring: &Ring, new: Vec<Frame>) {
        let Some(end) = new.last().map(|f| f.seq) else { return };
        let mut frames = ring.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.extend(new);
        let mut bytes: usize = frames.iter().map(|f| f.json.len()).sum();
        while bytes > self.most_bytes && frames.len() > 1 {
            bytes -= frames.pop_front().map_or(0, |f| f.json.len());
        }
        drop(frames);
        ring.end.send_replace(end);
    }
}

impl Ring {
    /// Frames after a place; none if the ring has moved on and the store has to be asked.
    pub(crate) fn after(&self, seq: u64) -> Option<Vec<Frame>> {
        let frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let first = frames.front()?;
        (first.from_seq.unwrap_or(first.seq) <= seq + 1)
            .then(|| frames.iter().filter(|f| f.seq > seq).cloned().collect())
    }

    /// Tells when the ring grows.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.end.subscribe()
    }
}
