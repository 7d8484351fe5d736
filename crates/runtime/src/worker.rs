//! The worker: claims runs, keeps their leases, and performs each in a task of its own.
//!
//! It polls; wake-ups only make it look sooner. It stops its runs by its own clock before their leases can have ended, and hands
//! them back when it is asked to stop.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use contract::RunId;
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Runtime;
use crate::ports::bus::Wake;
use crate::ports::store::Claim;
use crate::task::{self, End, Task};
use crate::{RuntimeError, ports::store::StoreError};

/// Performs runs until it is asked to stop.
pub struct Worker {
    runtime: Arc<Runtime>,
    name: String,
    held: HashMap<RunId, Held>,
    tasks: JoinSet<(Claim, End)>,
}

struct Held {
    claim: Claim,
    lost: CancellationToken,
}

impl Worker {
    /// A worker with a name that events show.
    pub fn new(runtime: Arc<Runtime>, name: String) -> Self {
        Self { runtime, name, held: HashMap::new(), tasks: JoinSet::new() }
    }

    /// Works until `stop`; then hands its runs back, for others or for its own next start.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut wakes = self.runtime.ports.bus.subscribe();
        let mut renewed = self.runtime.ports.world.monotonic_ms();
        let heartbeat = Duration::from_millis(self.runtime.limits.heartbeat_ms);
        let poll = Duration::from_millis(self.runtime.limits.poll_ms);
        let mut beat = tokio::time::interval(heartbeat);
        while !stop.is_cancelled() {
            if let Err(error) = self.claim(&stop).await {
                tracing::error!(%error, "runs could not be claimed");
            }
            tokio::select! {
                () = stop.cancelled() => {}
                Some(done) = self.tasks.join_next() => self.done(done).await,
                () = claimable(&mut wakes) => {}
                _tick = beat.tick() => self.renew(&mut renewed).await,
                () = tokio::time::sleep(poll) => {}
            }
        }
        while let Some(done) = self.tasks.join_next().await {
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
            // A claim of a run that is still held here means that this worker lost it without noticing.
            if let Some(former) = self.held.insert(claim.run_id, Held { claim, lost: lost.clone() }) {
                former.lost.cancel();
            }
            metrics::counter!("baton_runs_claimed_total").increment(1);
            let performed = perform(self.runtime.clone(), self.name.clone(), claim, stop.clone(), lost);
            self.tasks.spawn(async move { (claim, performed.await) });
        }
        Ok(())
    }

    async fn done(&mut self, done: Result<(Claim, End), tokio::task::JoinError>) {
        let (claim, end) = match done {
            Ok(done) => done,
            Err(error) => {
                // The run's lease ends by itself, and it is claimed again.
                tracing::error!(%error, "the task of a run broke down");
                return;
            }
        };
        if self.held.get(&claim.run_id).is_some_and(|h| h.claim == claim) {
            self.held.remove(&claim.run_id);
        }
        match end {
            End::Finished => {}
            End::Drained => {
                if let Err(error) = self.runtime.ports.store.release(claim).await {
                    tracing::warn!(run = %claim.run_id, %error, "a run could not be handed back; its lease ends by itself");
                }
                self.runtime.ports.bus.send(Wake::Claimable);
            }
            End::Lost(error) => tracing::warn!(run = %claim.run_id, %error, "a run was lost"),
        }
    }

    /// Lengthens the leases. If that cannot be done in time, stops everything before another worker may begin.
    async fn renew(&mut self, renewed: &mut u64) {
        let limits = &self.runtime.limits;
        let world = &self.runtime.ports.world;
        let claims: Vec<Claim> = self.held.values().map(|h| h.claim).collect();
        let asked = world.monotonic_ms();
        match self.runtime.ports.store.renew(&claims, world.now_ms(), limits.lease_ms).await {
            Ok(lost) => {
                *renewed = asked;
                for claim in lost {
                    if let Some(held) = self.held.get(&claim.run_id).filter(|h| h.claim == claim) {
                        held.lost.cancel();
                    }
                }
            }
            Err(error) => {
                tracing::error!(%error, "leases could not be renewed");
                if world.monotonic_ms().saturating_sub(*renewed) + limits.lease_margin_ms >= limits.lease_ms {
                    self.held.values().for_each(|h| h.lost.cancel());
                }
            }
        }
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
            error @ (RuntimeError::BadEvent { .. } | RuntimeError::LostObject { .. } | RuntimeError::BadManifest(_)),
        ) => match task::give_up(&runtime, claim, &error).await {
            Ok(()) => End::Finished,
            Err(error) => End::Lost(error),
        },
        Err(error) => End::Lost(error),
    }
}

async fn claimable(wakes: &mut broadcast::Receiver<Wake>) {
    loop {
        match wakes.recv().await {
            Ok(Wake::Claimable | Wake::Inbox(_)) | Err(broadcast::error::RecvError::Lagged(_)) => return,
            Ok(Wake::Appended(_)) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending::<()>().await,
        }
    }
}
