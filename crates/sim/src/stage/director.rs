//! The director: counts the calls of all processes, says what happens to each, and sees what no log shows: who was given a run when,
//! and under which claim something was written after that.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use contract::{ProjectId, RunId};
use runtime::RuntimeError;
use runtime::ports::store::{Admission, Append, Claim, Entry};
use tokio::sync::Notify;

use super::plan::{Strike, Trouble};

/// What one rehearsal does to its calls, and what it saw.
#[derive(Default)]
pub(super) struct Director {
    seen: Mutex<Seen>,
    /// The person is to stop all runs.
    pub(super) stop: Notify,
}

#[derive(Default)]
struct Seen {
    calls: BTreeMap<&'static str, u32>,
    strikes: Vec<Strike>,
    /// The newest claim of a run that was given to anybody.
    given: HashMap<RunId, u64>,
    /// A run's project and the root of its family.
    places: HashMap<RunId, (ProjectId, RunId)>,
    /// The runs that have begun to write to a project and have not ended, and the root of their family.
    writing: HashMap<ProjectId, (RunId, HashSet<RunId>)>,
    ended: HashSet<RunId>,
    /// The newest claims that were given, for who starts a run from a run.
    claims: HashMap<RunId, Claim>,
    faults: Vec<String>,
}

impl Director {
    /// A director of these strikes.
    pub(super) fn new(strikes: Vec<Strike>) -> Self {
        Self { seen: Mutex::new(Seen { strikes, ..Seen::default() }), stop: Notify::new() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call and says what happens to it.
    pub(super) fn cue(&self, call: &'static str) -> Vec<Trouble> {
        let mut seen = self.seen();
        let count = seen.calls.entry(call).or_default();
        *count += 1;
        let number = *count;
        let strikes = seen.strikes.iter().filter(|strike| {
            let last = match strike.trouble {
                Trouble::Fail(n) | Trouble::Full(n) | Trouble::Lose(n) => strike.nth + n.saturating_sub(1),
                _ => strike.nth,
            };
            strike.call == call && (strike.nth..=last).contains(&number)
        });
        strikes.map(|strike| strike.trouble).collect()
    }

    /// How often each call was made.
    pub(super) fn census(&self) -> BTreeMap<&'static str, u32> {
        self.seen().calls.clone()
    }

    /// All calls together, to see whether anything happens.
    pub(super) fn total(&self) -> u64 {
        self.seen().calls.values().map(|count| u64::from(*count)).sum()
    }

    /// A run was accepted.
    pub(super) fn admitted(&self, admission: &Admission) {
        let mut seen = self.seen();
        let root = match admission.parent {
            Some(parent) => seen.places.get(&parent.run_id).map_or(parent.run_id, |(_, root)| *root),
            None => admission.run_id,
        };
        seen.places.insert(admission.run_id, (admission.session.project_id, root));
    }

    /// A worker was given runs.
    pub(super) fn claimed(&self, claims: &[Claim]) {
        let mut seen = self.seen();
        for claim in claims {
            let former = seen.given.insert(claim.run_id, claim.epoch);
            if former.is_some_and(|former| former >= claim.epoch) {
                seen.faults.push(format!("{} was given under epoch {} after {former:?}", claim.run_id, claim.epoch));
            }
            seen.claims.insert(claim.run_id, *claim);
        }
    }

    /// The newest claim of a run.
    pub(super) fn claim_of(&self, run: RunId) -> Option<Claim> {
        self.seen().claims.get(&run).copied()
    }

    /// The newest epoch under which a run was given when a call begins: nothing older may be written by it any more.
    pub(super) fn newest(&self, run: RunId) -> u64 {
        self.seen().given.get(&run).copied().unwrap_or(0)
    }

    /// An append was taken, that began when `newest` was the latest epoch.
    pub(super) fn appended(&self, append: &Append, newest: u64) {
        let mut seen = self.seen();
        let run = append.claim.run_id;
        if append.claim.epoch < newest {
            let fault =
                format!("{run} was given under epoch {newest}, and {} was still written under", append.claim.epoch);
            seen.faults.push(fault);
        }
        // Promise 7: one writer of a project at a time, which is one family of runs.
        let Some((project, root)) = seen.places.get(&run).copied() else { return };
        let seen = &mut *seen;
        if append.ends {
            seen.ended.insert(run);
        }
        // A run that is stopped before it began has nothing to wait for.
        let begins = |entry: &Entry| entry.kind.starts_with("file_") || entry.kind == "run_started";
        if !append.events.iter().any(begins) && !seen.writing.get(&project).is_some_and(|(_, runs)| runs.contains(&run))
        {
            return;
        }
        let (family, runs) = seen.writing.entry(project).or_insert_with(|| (root, HashSet::new()));
        let other = (*family != root && !runs.is_empty()).then_some(*family);
        *family = root;
        if append.ends {
            runs.remove(&run)
        } else {
            runs.insert(run)
        };
        if let Some(other) = other {
            seen.faults.push(format!("{run} wrote to {project} before the family of {other} had ended"));
        }
    }

    /// Whether a run goes on.
    pub(super) fn goes_on(&self, run: RunId) -> bool {
        !self.seen().ended.contains(&run)
    }

    /// A snapshot was read, by whoever takes a run over: it has to say what the log says. That is not known of a child in its
    /// parent's project: the files with which it began are in no log, and the parent goes on changing them.
    pub(super) fn recalled(&self, run: RunId, agrees: Result<bool, RuntimeError>) {
        match agrees {
            Ok(true) => {}
            Ok(false) if self.is_guest(run) => {}
            Ok(false) => self.seen().faults.push(format!("the snapshot of {run} is not what its log comes to")),
            Err(error) => self.seen().faults.push(format!("the log of {run} cannot be folded: {error}")),
        }
    }

    /// Whether a run works in the project of the run that started it.
    fn is_guest(&self, run: RunId) -> bool {
        let seen = self.seen();
        let Some((project, root)) = seen.places.get(&run) else { return false };
        *root != run && seen.places.get(root).is_some_and(|(of_root, _)| of_root == project)
    }

    /// What must not have happened and did.
    pub(super) fn faults(&self) -> Vec<String> {
        self.seen().faults.clone()
    }
}
