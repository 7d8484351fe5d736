//! The worker: claims runs, keeps their leases, and performs each in a task of its own.
//!
//! It polls; wake-ups only make it look sooner. It stops its runs by its own clock before their leases can have ended, and hands
//! them back when it is asked to stop.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use contract::RunId;
use futures::future::join_all;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ports::bus::Wake;
use crate::ports::objects::ObjectsError;
use crate::ports::store::{AppendError, Claim, StoreError, StoreFault};
use crate::task::{self, End, Task};
use crate::{Runtime, RuntimeError};

/// Places beyond `runs_per_worker` for runs that were told to stop while they waited: they end at once, and nobody who has stopped one
/// waits for those of others.
const STOPPED_RUNS: usize = 8;

/// The longest rest while there is no room to write or no objects. The first is `poll_ms`, and each is twice as long as the one before:
/// what is full or away for a minute must not cost a run its `step_recoveries`, since it is no fault of its steps.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// Performs runs until it is asked to stop.
pub struct Worker {
    runtime: Arc<Runtime>,
    name: String,
    /// Runs that it performs at once, beside those that were stopped; none of a worker that only ends runs.
    most: usize,
    held: HashMap<RunId, Held>,
    tasks: JoinSet<(Claim, End)>,
    /// When the leases were last known to be lengthened.
    renewed: Instant,
    /// When they are to be lengthened next.
    beat: Instant,
    /// From when on runs are claimed again, after one was lost to a fault that the next might meet too.
    rested: Instant,
    /// Rests one after the other, for want of what all runs share.
    rests: u32,
    /// Claims that are given back after the rest.
    resting: Vec<Claim>,
    /// Claims that could not be given back, since the store did not answer: tried again, so that nobody waits for their leases.
    owed: Vec<Claim>,
}

struct Held {
    claim: Claim,
    lost: CancellationToken,
    task: tokio::task::Id,
}

impl Worker {
    /// A worker with a name that events show.
    pub fn new(runtime: Arc<Runtime>, name: String) -> Self {
        let most = usize::try_from(runtime.limits.runs_per_worker).unwrap_or(usize::MAX);
        Self::of(runtime, name, most)
    }

    /// One that performs nothing and only ends what was told to stop and nobody has: where there are doors and no workers, a run that
    /// waits can be stopped all the same. It needs no sandbox, since such a run changes nothing.
    pub fn ending(runtime: Arc<Runtime>, name: String) -> Self {
        Self::of(runtime, name, 0)
    }

    fn of(runtime: Arc<Runtime>, name: String, most: usize) -> Self {
        let now = Instant::now();
        let (held, tasks, resting, owed) = (HashMap::new(), JoinSet::new(), vec![], vec![]);
        Self { runtime, name, most, held, tasks, renewed: now, beat: now, rested: now, rests: 0, resting, owed }
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
            if Instant::now() >= self.rested {
                self.owed.append(&mut self.resting);
                self.give_back().await;
                if let Err(error) = self.claim(&stop).await {
                    tracing::error!(%error, "runs could not be claimed");
                    self.rested = Instant::now() + poll;
                }
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                Some(done) = self.tasks.join_next_with_id() => self.done(done).await,
                () = claimable.heard() => {}
                () = tokio::time::sleep_until(self.beat), if !self.held.is_empty() => {}
                () = tokio::time::sleep(poll) => {}
            }
        }
        let grace = Duration::from_millis(self.runtime.limits.shutdown_ms);
        let drained = async {
            while let Some(done) = self.tasks.join_next_with_id().await {
                self.done(done).await;
            }
            self.owed.append(&mut self.resting);
            self.give_back().await;
        };
        if tokio::time::timeout(grace, drained).await.is_err() {
            tracing::warn!("runs could not be stopped within shutdown_ms; their leases end by themselves");
        }
    }

    async fn claim(&mut self, stop: &CancellationToken) -> Result<(), StoreError> {
        let most = self.most;
        let room = most.saturating_sub(self.held.len());
        if room > 0 {
            self.take(room, false, stop).await?;
        }
        let spare = most.saturating_add(STOPPED_RUNS).saturating_sub(self.held.len());
        if self.held.len() >= most && spare > 0 {
            self.take(spare, true, stop).await?;
        }
        Ok(())
    }

    /// Takes runs, or of these only those that were told to stop, and begins to perform them.
    async fn take(&mut self, most: usize, stopped: bool, stop: &CancellationToken) -> Result<(), StoreError> {
        let (limits, store) = (&self.runtime.limits, &self.runtime.ports.store);
        let now = self.runtime.ports.world.now_ms();
        let asked = match stopped {
            true => store.claim_stopped(&self.name, most, now, limits.lease_ms),
            false => store.claim(&self.name, most, now, limits.lease_ms),
        };
        // Not longer than until leases have to be lengthened again.
        let claimed = match tokio::time::timeout(Duration::from_millis(limits.heartbeat_ms), asked).await {
            Ok(claimed) => claimed?,
            Err(_elapsed) => return Err(StoreError::new(StoreFault::Unavailable, "the store does not answer")),
        };
        for claim in claimed {
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
                // What another worker has by now is not given away by this; and if the fault passes, nobody waits for the lease.
                if matches!(error, RuntimeError::Append(AppendError::Fenced | AppendError::Conflict { .. })) {
                    tracing::info!(run = %claim.run_id, "another worker has the run");
                } else {
                    tracing::warn!(run = %claim.run_id, %error, "a run was lost");
                    self.lost(claim, is_want(&error)).await;
                }
            }
            (Err(error), Some((run, claim))) => {
                tracing::error!(%run, %error, "the task of a run broke down");
                self.lost(claim, false).await;
            }
            (Err(error), None) => tracing::error!(%error, "the task of a run that is not held broke down"),
        }
    }

    /// Gives a run back after a fault. If something is wanting that all runs share, and still is when it was waited for, whoever takes the
    /// run would fare no better: it is given back when this worker has rested, and at the latest its lease ends by itself.
    async fn lost(&mut self, claim: Claim, want: bool) {
        let (now, poll) = (Instant::now(), Duration::from_millis(self.runtime.limits.poll_ms));
        if !want {
            self.rested = self.rested.max(now + poll);
            return self.hand_back(claim).await;
        }
        // What is lost while it rests is lost for the same want.
        if now >= self.rested {
            if now > self.rested + LONGEST_REST {
                self.rests = 0;
            }
            self.rested = now + poll.saturating_mul(1 << self.rests.min(16)).min(LONGEST_REST);
            self.rests += 1;
        }
        if self.rests > 1 {
            self.resting.push(claim);
        } else {
            self.hand_back(claim).await;
        }
    }

    async fn hand_back(&mut self, claim: Claim) {
        self.owed.push(claim);
        self.give_back().await;
    }

    /// Gives back what is owed. What cannot be given back now is tried again; at the latest its lease ends by itself.
    async fn give_back(&mut self) {
        if self.owed.is_empty() {
            return;
        }
        let store = self.runtime.ports.store.clone();
        let release = |claim: Claim| {
            let store = store.clone();
            async move { store.release(claim).await }
        };
        let released = join_all(self.owed.iter().copied().map(release));
        let most = Duration::from_millis(self.runtime.limits.heartbeat_ms);
        let Ok(released) = tokio::time::timeout(most, released).await else {
            return tracing::warn!("runs could not be handed back yet: the store does not answer");
        };
        let mut outcomes = released.into_iter();
        self.owed.retain(|claim| match outcomes.next() {
            Some(Err(error)) => {
                tracing::warn!(run = %claim.run_id, %error, "a run could not be handed back yet");
                true
            }
            Some(Ok(())) | None => false,
        });
        // Whoever has room need not find them by looking.
        self.runtime.ports.bus.send(Wake::Claimable);
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
    let end = if claim.epoch > runtime.limits.run_claims {
        End::Lost(RuntimeError::Hopeless { claims: runtime.limits.run_claims })
    } else {
        match Task::open(runtime.clone(), worker, claim).await {
            Ok(task) => task.run(stop, lost).await,
            Err(error) => End::Lost(error),
        }
    };
    match end {
        End::Lost(error) if is_for_good(&error) => match task::give_up(&runtime, claim, &error).await {
            Ok(()) => End::Finished,
            Err(error) => End::Lost(error),
        },
        End::Finished | End::Drained | End::Lost(_) => end,
    }
}

/// Whether it is for want of what all runs share: room to write, or the objects. A store that does not answer costs no recoveries, since
/// nothing can be begun there.
fn is_want(error: &RuntimeError) -> bool {
    match error {
        RuntimeError::Store(error) | RuntimeError::Append(AppendError::Store(error)) => error.fault == StoreFault::Full,
        RuntimeError::Objects(_) => true,
        RuntimeError::Append(AppendError::Fenced | AppendError::Conflict { .. })
        | RuntimeError::Sandbox(_)
        | RuntimeError::BadEvent { .. }
        | RuntimeError::LostObject { .. }
        | RuntimeError::BadManifest(_)
        | RuntimeError::Hopeless { .. }
        | RuntimeError::Broken => false,
    }
}

/// Whether the run would fail in the same way at every worker.
fn is_for_good(error: &RuntimeError) -> bool {
    match error {
        RuntimeError::BadEvent { .. }
        | RuntimeError::LostObject { .. }
        | RuntimeError::BadManifest(_)
        | RuntimeError::Hopeless { .. }
        | RuntimeError::Objects(ObjectsError::Damaged(_)) => true,
        RuntimeError::Store(_)
        | RuntimeError::Append(_)
        | RuntimeError::Objects(_)
        | RuntimeError::Sandbox(_)
        | RuntimeError::Broken => false,
    }
}
