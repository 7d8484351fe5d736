//! The outcome of a turn (E13): what the model did decides what comes next. One table, read from top to bottom.

use contract::Limits;
use contract::event::{Finish, StepKind, StepStatus, StopReason};

use crate::state::{Cause, Part, RunState, Turn};

/// What comes after a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The model must see what came of it.
    Continue,
    /// What it wrote is to be checked and built.
    Build,
    /// There is nothing to build and nothing to say.
    Finish(StopReason),
    /// One more question, under a limit that is reached.
    Limit {
        /// How the run stops.
        stop: StopReason,
        /// The limit's name.
        limit: &'static str,
        /// Its value.
        value: u64,
    },
    /// The provider will not go on.
    Refused,
}

/// Reads the table for a turn whose stream has ended and whose calls all have results.
pub fn of_turn(limits: &Limits, state: &RunState, turn: &Turn) -> Outcome {
    let acted = turn.parts.iter().any(|p| !matches!(p, Part::Text(_)));
    let rejected = turn.parts.iter().any(|p| matches!(p, Part::Rejected(..)));
    let called = turn.parts.iter().any(|p| matches!(p, Part::Call(_)));
    let spoke = turn.parts.iter().any(|p| matches!(p, Part::Text(text) if !text.trim().is_empty()));
    let wanted = if state.stop.is_some() {
        build_or_finish(state)
    } else if turn.finish == Some(Finish::ContentFilter) {
        Outcome::Refused
    } else if rejected || matches!(turn.finish, Some(Finish::Length | Finish::Limit)) || (called && !turn.done) {
        Outcome::Continue
    } else if turn.done || acted || (spoke && (state.dirty || is_answer(state, turn))) {
        build_or_finish(state)
    } else if u64::from(state.nudges) < limits.nudges_per_run {
        Outcome::Continue
    } else if state.dirty {
        Outcome::Build
    } else {
        Outcome::Finish(StopReason::NoToolResults)
    };
    if wanted == Outcome::Continue { limit_turns(limits, state) } else { wanted }
}

fn build_or_finish(state: &RunState) -> Outcome {
    if state.dirty { Outcome::Build } else { Outcome::Finish(state.stop.unwrap_or(StopReason::Done)) }
}

/// Continues, unless the turns are used up.
pub fn limit_turns(limits: &Limits, state: &RunState) -> Outcome {
    if u64::from(state.count(StepKind::Turn)) < limits.turns_per_run {
        Outcome::Continue
    } else {
        Outcome::Limit { stop: StopReason::MaxTurnsReached, limit: "turns_per_run", value: limits.turns_per_run }
    }
}

/// Whether words alone are what the person can have wanted: they asked something, or the model asks back.
fn is_answer(state: &RunState, turn: &Turn) -> bool {
    let asks = |text: &str| text.lines().any(|line| line.trim_end().ends_with('?'));
    state.session.as_ref().is_some_and(|s| asks(&s.request))
        || turn.parts.iter().any(|p| matches!(p, Part::Text(text) if asks(text)))
}

/// Why the turn that begins now is asked for.
pub fn cause_of_next_turn(state: &RunState) -> Cause {
    let Some(last) = state.turns.last() else { return Cause::Request };
    let failed = state
        .steps
        .iter()
        .rev()
        .skip(1)
        .take_while(|s| s.kind != StepKind::Turn)
        .find(|s| s.status == StepStatus::Failed && matches!(s.kind, StepKind::Check | StepKind::Build));
    if let Some(step) = failed {
        return Cause::Mend(match (&state.build_error, step.kind) {
            (Some(error), StepKind::Build) => format!("{}\n\n{}", error.message, error.log_tail),
            _ => step.reason.clone().unwrap_or_default(),
        });
    }
    let idle = last.parts.iter().all(|p| matches!(p, Part::Text(_))) && last.finish == Some(Finish::Stop);
    if idle { Cause::Nudge } else { Cause::Results }
}
