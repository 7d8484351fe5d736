//! The worker: claims runs, keeps their leases, and performs each in a task of its own.
//!
//! It polls; wake-ups only make it look sooner. It stops its runs by its own clock before their leases can have ended, and hands
//! them back when it is asked to stop.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use contract::RunId;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ports::bus::Wake;
use crate::ports::objects::ObjectsError;
use crate::ports::store::{AppendError, Claim, StoreError};
use crate::task::{self, End, Task};
use crate::{Runtime, RuntimeError};

/// Performs runs until it is asked to stop.
pub struct Worker {
    runtime: Arc<Runtime>,
    name: String,
    held: HashMap<RunId, Held>,
    tasks: JoinSet<(Claim, End)>,
    /// When the leases were last known to be lengthened.
    renewed: Instant,
    /// When they are to be lengthened next.
    beat: Instant,
    /// From when on runs are claimed again, after one was lost to a fault that the next might meet too.
    rested: Instant,
}

struct Held {
    claim: Claim,
    lost: CancellationToken,
    task: tokio::task::Id,
}

impl Worker {
    /// A worker with a name that events show.
    pub fn new(runtime: Arc<Runtime>, name: String) -> Self {
        let now = Instant::now();
        Self { runtime, name, held: HashMap::new(), tasks: JoinSet::new(), renewed: now, beat: now, rested: now }
    }

    /// Works until `stop`; then hands its runs back, for others or for its own next start.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut claimable = self.runtime.ports.bus.listen(Wake::Claimable);
        let heartbeat = Duration::from_millis(self.runtime.limits.heartbeat_ms);
        let poll = Duration::from_millis(self.runtime.limits.poll_ms);
        while !stop.is_cancelled() {
            // Leases come first: after the machine has slept, this worker must not take its own runs for a dead one's.
            if self.held.is_empty() {
                self.renewed = Instant::now();
                self.beat = self.renewed + heartbeat;
            } else if Instant::now() >= self.beat {
                self.beat = Instant::now() + if self.renew().await { heartbeat } else { poll };
            }
            if Instant::now() >= self.rested
                && let Err(error) = self.claim(&stop).await
            {
                tracing::error!(%error, "runs could not be claimed");
                self.rested = Instant::now() + poll;
            }
            tokio::select! {
                () = stop.cancelled() => {}
                Some(done) = self.tasks.join_next_with_id() => self.done(done).await,
                () = claimable.heard() => {}
                () = tokio::time::sleep_until(self.beat), if !self.held.is_empty() => {}
                () = tokio::time::sleep(poll) => {}
            }
        }
        while let Some(done) = self.tasks.join_next_with_id().await {
            self.done(done).await;
        }
    }

    async fn claim(&mut self, stop: &CancellationToken) -> Result<(), StoreError> {
        let limits = &self.runtime.limits;
        let room = usize::try_from(limits.runs_per_worker).unwrap_or(usize::MAX).saturating_sub(self.held.len());
        if room == 0 {
            return Ok(());
        }
        let now = self.runtime.ports.world.now_ms();
        for claim in self.runtime.ports.store.claim(&self.name, room, now, limits.lease_ms).await? {
            let lost = CancellationToken::new();
            metrics::counter!("baton_runs_claimed_total").increment(1);
            let performed = perform(self.runtime.clone(), self.name.clone(), claim, stop.clone(), lost.clone());
            let task = self.tasks.spawn(async move { (claim, performed.await) }).id();
            // A claim of a run that is still held here means that this worker lost it without noticing.
            if let Some(former) = self.held.insert(claim.run_id, Held { claim, lost, task }) {
                former.lost.cancel();
            }
        }
        Ok(())
    }

    async fn done(&mut self, done: Result<(tokio::task::Id, (Claim, End)), JoinError>) {
        let task = match &done {
            Ok((task, _)) => *task,
            Err(error) => error.id(),
        };
        let held = self.held.iter().find(|(_, held)| held.task == task).map(|(run, held)| (*run, held.claim));
        if let Some((run, _)) = held {
            self.held.remove(&run);
        }
        match (done, held) {
            (Ok((_, (_, End::Finished))), _) => {}
            (Ok((_, (claim, End::Drained))), _) => self.hand_back(claim).await,
            (Ok((_, (claim, End::Lost(error)))), _) => {
                tracing::warn!(run = %claim.run_id, %error, "a run was lost");
                // What another worker has by now is not given away by this; and if the fault passes, nobody waits for the lease.
                if !matches!(error, RuntimeError::Append(AppendError::Fenced | AppendError::Conflict { .. })) {
                    self.lost(claim).await;
                }
            }
            (Err(error), Some((run, claim))) => {
                tracing::error!(%run, %error, "the task of a run broke down");
                self.lost(claim).await;
            }
            (Err(error), None) => tracing::error!(%error, "the task of a run that is not held broke down"),
        }
    }

    /// Gives a run back after a fault.
    async fn lost(&mut self, claim: Claim) {
        self.rested = Instant::now() + Duration::from_millis(self.runtime.limits.poll_ms);
        self.hand_back(claim).await;
    }

    async fn hand_back(&self, claim: Claim) {
        if let Err(error) = self.runtime.ports.store.release(claim).await {
            tracing::warn!(run = %claim.run_id, %error, "a run could not be handed back; its lease ends by itself");
        }
    }

    /// Lengthens the leases. If that cannot be done in time, stops everything before another worker may begin.
    async fn renew(&mut self) -> bool {
        let limits = &self.runtime.limits;
        let claims: Vec<Claim> = self.held.values().map(|h| h.claim).collect();
        let asked = Instant::now();
        let safe = self.renewed + Duration::from_millis(limits.lease_ms.saturating_sub(limits.lease_margin_ms));
        let renewing = self.runtime.ports.store.renew(&claims, self.runtime.ports.world.now_ms(), limits.lease_ms);
        // After the machine has slept `safe` is past, but the claims may still be ours: they are asked for once more.
        let until = safe.max(asked + Duration::from_millis(limits.lease_margin_ms));
        let error = match tokio::time::timeout_at(until, renewing).await {
            Ok(Ok(lost)) => {
                self.renewed = asked;
                for held in lost.iter().filter_map(|claim| self.held.get(&claim.run_id).filter(|h| h.claim == *claim)) {
                    held.lost.cancel();
                }
                return true;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_elapsed) => "the store does not answer".to_owned(),
        };
        tracing::error!(error, "leases could not be renewed");
        // Stopped now, if the next beat would be too late.
        if Instant::now() + Duration::from_millis(limits.poll_ms) >= safe {
            self.held.values().for_each(|h| h.lost.cancel());
        }
        false
    }
}

async fn perform(
    runtime: Arc<Runtime>,
    worker: String,
    claim: Claim,
    stop: CancellationToken,
    lost: CancellationToken,
) -> End {
    match Task::open(runtime.clone(), worker, claim).await {
        Ok(task) => task.run(stop, lost).await,
        Err(
            error @ (RuntimeError::BadEvent { .. }
            | RuntimeError::LostObject { .. }
            | RuntimeError::BadManifest(_)
            | RuntimeError::Objects(ObjectsError::Damaged(_))),
        ) => match task::give_up(&runtime, claim, &error).await {
            Ok(()) => End::Finished,
            Err(error) => End::Lost(error),
        },
        Err(error) => End::Lost(error),
    }
}
