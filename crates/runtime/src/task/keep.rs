//! Snapshots of a run: what bounds the cost of taking it over.
//!
//! One is kept when as many bytes have been appended as the last one had, and not more often than every `snapshot_events`: so all
//! snapshots of a run together cost no more than its log, and reading what follows the last costs no more than reading it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::Task;
use crate::ports::store::{Claim, Entry, Snapshot};
use crate::recall::Recalled;
use crate::{Runtime, RuntimeError};

/// What has been appended since the last snapshot, and what the objects hold.
#[derive(Default)]
pub(super) struct Upkeep {
    events: u64,
    bytes: u64,
    /// Size of the last snapshot.
    last: u64,
    /// Hashes of bytes that are objects already, or are being put.
    known: Arc<Mutex<HashSet<String>>>,
}

impl Upkeep {
    /// Counts what is appended.
    pub(super) fn note(&mut self, entries: &[Entry]) {
        self.events += entries.len() as u64;
        self.bytes += entries.iter().map(|entry| entry.payload.len() as u64).sum::<u64>();
    }
}

impl Task {
    /// Keeps a snapshot if one is due. The run does not wait for it; if it fails, the log is enough.
    pub(super) fn keep(&mut self) {
        let due = self.upkeep.events >= self.runtime.limits.snapshot_events && self.upkeep.bytes >= self.upkeep.last;
        if !due {
            return;
        }
        let Ok((snapshot, bytes)) = Recalled::snapshot(&self.state, &self.project, &self.base, &self.told, self.end)
        else {
            return;
        };
        let mut known = self.upkeep.known.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = bytes.into_iter().filter_map(|(hash, content)| known.insert(hash).then_some(content)).collect();
        drop(known);
        (self.upkeep.events, self.upkeep.bytes) = (0, 0);
        self.upkeep.last = snapshot.body.len() as u64;
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
