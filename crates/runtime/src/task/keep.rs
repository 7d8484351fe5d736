//! Snapshots of a run: what bounds the cost of taking it over.
//!
//! One is kept when as many bytes have been appended as the last one had, and not more often than every `snapshot_events`: so all
//! snapshots of a run together cost no more than its log, and reading what follows the last costs no more than reading it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::Task;
use crate::ports::store::{Claim, Entry, Snapshot};
use crate::recall::{Recalled, Tail};
use crate::{Runtime, RuntimeError};

/// When the next snapshot is due, and what the objects hold.
pub(super) struct Upkeep {
    tail: Tail,
    /// Hashes of bytes that are objects already, or are being put.
    known: Arc<Mutex<HashSet<String>>>,
}

impl Upkeep {
    /// The upkeep of a run that was just recalled.
    pub(super) fn new(tail: Tail) -> Self {
        Self { tail, known: Arc::default() }
    }

    /// Counts what is appended.
    pub(super) fn note(&mut self, entries: &[Entry]) {
        self.tail.events += entries.len() as u64;
        self.tail.bytes += entries.iter().map(|entry| entry.payload.len() as u64).sum::<u64>();
    }
}

impl Task {
    /// Keeps a snapshot if one is due. The run does not wait for it; if it fails, the log is enough.
    pub(super) fn keep(&mut self) {
        let tail = self.upkeep.tail;
        if tail.events < self.runtime.limits.snapshot_events || tail.bytes < tail.snapshot {
            return;
        }
        let Ok((snapshot, bytes)) = Recalled::snapshot(&self.state, &self.project, &self.base, &self.told, self.end)
        else {
            return;
        };
        let mut known = self.upkeep.known.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = bytes.into_iter().filter_map(|(hash, content)| known.insert(hash).then_some(content)).collect();
        drop(known);
        self.upkeep.tail = Tail { snapshot: snapshot.body.len() as u64, ..Tail::default() };
        let (runtime, claim, known) = (self.runtime.clone(), self.claim, self.upkeep.known.clone());
        self.hands.aside(async move {
            if let Err(error) = put(&runtime, claim, snapshot, fresh).await {
                tracing::warn!(run = %claim.run_id, %error, "a snapshot could not be kept");
                // What the objects hold is not known any more.
                known.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
        });
    }
}

async fn put(runtime: &Runtime, claim: Claim, snapshot: Snapshot, fresh: Vec<Bytes>) -> Result<(), RuntimeError> {
    for content in fresh {
        runtime.ports.objects.put(content).await?;
    }
    Ok(runtime.ports.store.put_snapshot(claim, snapshot).await?)
}
