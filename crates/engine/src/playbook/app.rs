//! The app builder: turn → turn → … → check → build → publish. A check or build that fails adds a turn that sees why.

use contract::event::{Budget, RunCompleted, RunFailed, StepAdded, StepKind, StopReason, Work};
use contract::{Limits, StepId};

use crate::circle;
use crate::outcome::{self, Outcome};
use crate::state::{RunState, Step};
use crate::step::Decision;

/// The first step of a run. What a person changed needs no model.
pub(super) fn begin(state: &RunState, d: &mut Decision) {
    let first = if is_change(state) { StepKind::Check } else { StepKind::Turn };
    add(state, first, None, d);
}

fn is_change(state: &RunState) -> bool {
    matches!(super::work(state), Work::Change { .. })
}

/// A step was completed.
pub(super) fn next(limits: &Limits, state: &RunState, step: &Step, d: &mut Decision) {
    match step.kind {
        StepKind::Turn => match state.turn(&step.id) {
            Some(turn) => after_turn(outcome::of_turn(limits, state, turn), state, step, d),
            None => fail(d, "turn_lost", "A turn was completed that never began.", "Send the message again."),
        },
        StepKind::Check => add(state, StepKind::Build, Some(&step.id), d),
        // A browser has seen meanwhile that the app shows nothing: the check says so.
        StepKind::Build if blank(limits, state).is_some() => add(state, StepKind::Check, Some(&step.id), d),
        StepKind::Build => add(state, StepKind::Publish, Some(&step.id), d),
        StepKind::Publish => finish(state, state.stop.unwrap_or(StopReason::Done), d),
        // No playbook of an app adds one.
        StepKind::Skill => {}
    }
}

/// Why the app leaves the screen blank, as long as there are rounds left to mend it: a browser's word alone never keeps a build
/// from being published.
pub fn blank<'a>(limits: &Limits, state: &'a RunState) -> Option<&'a str> {
    state.shows_nothing().filter(|_| {
        state.is_to_be_mended() && state.stop.is_none() && u64::from(state.failed_rounds) < limits.fix_rounds
    })
}

fn after_turn(outcome: Outcome, state: &RunState, step: &Step, d: &mut Decision) {
    match outcome {
        Outcome::Continue => add(state, StepKind::Turn, Some(&step.id), d),
        Outcome::Build => add(state, StepKind::Check, Some(&step.id), d),
        Outcome::Finish(reason) => finish(state, reason, d),
        Outcome::Limit { stop, limit, value } => {
            d.say(Budget { stop, limit: limit.into(), used: value, value });
            if state.dirty {
                add(state, StepKind::Check, Some(&step.id), d);
            } else {
                finish(state, stop, d);
            }
        }
        Outcome::Refused => fail(
            d,
            "model_content_filtered",
            "The provider's content filter stopped the answer.",
            "Say it in other words, or use another model.",
        ),
    }
}

/// A step failed for good.
pub(super) fn failed(limits: &Limits, state: &RunState, step: &Step, d: &mut Decision) {
    let reason = step.reason.clone().unwrap_or_default();
    if let Some(fault) = &step.fault {
        // Not the project's fault: nothing that a model could mend.
        return fail(d, &fault.code, &fault.message, &fault.action);
    }
    match step.kind {
        StepKind::Turn | StepKind::Skill => fail(
            d,
            "turn_failed",
            &format!("The turn failed: {reason}"),
            "Send the message again. What was written is kept.",
        ),
        StepKind::Check | StepKind::Build => mend(limits, state, &reason, d),
        StepKind::Publish => fail(
            d,
            "publish_failed",
            &format!("The build is good but could not be published: {reason}"),
            "Make sure that the data folder has room, then send the message again.",
        ),
    }
}

/// Another turn to mend what a check or build found, unless the rounds or turns are used up.
fn mend(limits: &Limits, state: &RunState, reason: &str, d: &mut Decision) {
    if let Some(stop) = state.stop {
        return finish(state, stop, d);
    }
    if is_change(state) {
        return fail(
            d,
            "build_failed",
            &format!("The project does not build with this change: {reason}"),
            "The change is kept and the last good version stays on screen. Change it again, or send a message to have it mended.",
        );
    }
    if u64::from(state.failed_rounds) > limits.fix_rounds {
        return fail(
            d,
            "build_failed",
            &format!("The project still does not build after {} repairs: {reason}", limits.fix_rounds),
            "The last good version stays on screen and the files are kept. Say what to do differently, or look at the build's output.",
        );
    }
    match outcome::limit_turns(limits, state) {
        Outcome::Limit { stop, limit, value } => {
            d.say(Budget { stop, limit: limit.into(), used: value, value });
            finish(state, stop, d);
        }
        // It depends on nothing: what came before it did not succeed.
        Outcome::Continue | Outcome::Build | Outcome::Finish(_) | Outcome::Refused => {
            circle::of_error(limits, state, reason, d);
            add(state, StepKind::Turn, None, d);
        }
    }
}

fn add(state: &RunState, kind: StepKind, after: Option<&StepId>, d: &mut Decision) {
    let n = state.count(kind) + 1;
    let (name, title) = match kind {
        StepKind::Turn => ("turn", format!("Turn {n}")),
        StepKind::Check => ("check", "Check the project".to_owned()),
        StepKind::Build => ("build", "Build the app".to_owned()),
        StepKind::Publish => ("publish", "Publish the preview".to_owned()),
        StepKind::Skill => ("skill", format!("Skill {n}")),
    };
    let id = StepId::new(format!("{name}-{n}"));
    d.say(StepAdded { id, kind, title, depends_on: after.into_iter().cloned().collect(), critical: true });
}

fn finish(state: &RunState, reason: StopReason, d: &mut Decision) {
    let said = match reason {
        StopReason::Done if state.published && state.shows_nothing().is_some() => {
            "The app is built, but the browser that looked at it saw nothing on the screen. Say what to do about it."
        }
        StopReason::Done if state.published => "The app is built and published.",
        StopReason::Done => "Answered. No file was changed.",
        StopReason::NoToolResults => {
            "The model only spoke and changed nothing, even after a reminder. Say what is to be built or changed."
        }
        StopReason::MaxTurnsReached => "The run used up its turns. Send a message to go on from here.",
        StopReason::TurnToolBudgetExceeded => {
            "The model asked for too many tools in one turn. Send a message to go on from here."
        }
        StopReason::RunToolBudgetExceeded => "The run used up its tool calls. Send a message to go on from here.",
        StopReason::ContextLimitExceeded => {
            "The prompt does not fit the model. Begin a new chat, or use a model with a larger window."
        }
        StopReason::ToolPayloadBudgetExceeded => "The tools' results were too large to go on with.",
        StopReason::ContinuationBudgetExceeded => "What had to be carried on was too large.",
        StopReason::ResponseSizeExceeded => "The model's answer was too large.",
        StopReason::CostBudgetExceeded => "The money for this run was used up.",
        StopReason::LoopDetected => {
            "The model went round in circles, also after it was told. Go back to the last good version, try a stronger model, or say what to do differently."
        }
        StopReason::Cancelled | StopReason::TimedOut | StopReason::Failed => "Stopped.",
    };
    let spent = (reason == StopReason::LoopDetected).then(|| {
        let (turns, tools) = (state.count(StepKind::Turn), state.calls.len());
        format!(" It took {turns} turns, {tools} tool calls and {} tokens.", state.tokens.input + state.tokens.output)
    });
    let said = &format!("{said}{}", spent.unwrap_or_default());
    let broken = state.build_error.is_some() && reason != StopReason::Done;
    let result =
        if broken { format!("{said} The last build failed; the last good version stays.") } else { said.clone() };
    d.say(RunCompleted { stop_reason: reason, result });
}

fn fail(d: &mut Decision, code: &str, message: &str, action: &str) {
    d.say(RunFailed { code: code.into(), message: message.into(), action: action.into() });
}
