//! Calls of tools: which may run, in what order, and which have already run (E10, E11).
//!
//! The calls of a turn form a queue: the next starts when the former's result is in the log. A call that an earlier attempt of
//! the step already made (the n-th with that input) takes over its recorded result; the same call made twice on purpose runs
//! twice.

use contract::event::{Budget, StepStatus, StopReason, ToolFinished, ToolInput, ToolStarted, ToolStatus};
use contract::{CallId, Limits, StepId};
use sha2::{Digest, Sha256};

use crate::circle;
use crate::state::{Call, RunState};
use crate::step::{Decision, Effect, end_if_stopped, settle, stopping};

/// The model asked for a tool.
pub fn requested(limits: &Limits, state: &RunState, id: &CallId, d: &mut Decision) {
    let Some(call) = state.calls.iter().find(|c| c.id == *id) else { return };
    if stopping(state) {
        return refuse(call, ToolStatus::Cancelled, "the run is being stopped", d);
    }
    if let Some(recorded) = recorded(state, call) {
        let result = ToolFinished { call_id: call.id.clone(), replayed: true, ..recorded.1.clone() };
        return d.say_of(&call.step, call.attempt, result);
    }
    let of_run = state.calls.iter().filter(|call| counts(state, call)).count() as u64;
    for (used, value, limit, stop) in [
        (u64::from(call.ordinal), limits.tools_per_turn, "tools_per_turn", StopReason::TurnToolBudgetExceeded),
        (of_run, limits.tools_per_run, "tools_per_run", StopReason::RunToolBudgetExceeded),
    ] {
        if used > value {
            refuse(call, ToolStatus::Refused, &format!("{limit} is reached: {value}"), d);
            if state.stop.is_some() {
                return;
            }
            d.say_of(&call.step, call.attempt, Budget { stop, limit: limit.into(), used, value });
            d.effects.push(Effect::StopTurn { step: call.step.clone() });
            return;
        }
    }
    if let Err(why) = check(limits, &call.input) {
        return refuse(call, ToolStatus::Refused, &why, d);
    }
    let first = !state.calls_of(&call.step).any(|c| c.result.is_none() && c.ordinal < call.ordinal);
    if first {
        perform(call, d);
    }
}

/// Whether a call uses up the run's budget: what an attempt that was given up has lost is not the model's to pay for.
fn counts(state: &RunState, call: &Call) -> bool {
    let replayed = call.result.as_ref().is_some_and(|result| result.replayed);
    let latest = state.step(&call.step).is_some_and(|step| step.attempt == call.attempt);
    !replayed && (latest || call.is_recorded())
}

/// A call has its result.
pub fn finished(limits: &Limits, state: &RunState, id: &CallId, d: &mut Decision) {
    let Some(call) = state.calls.iter().find(|c| c.id == *id) else { return };
    circle::of_call(limits, state, call, d);
    if !stopping(state)
        && state.step(&call.step).is_some_and(|s| s.fault.is_none())
        && let Some(next) = state.calls_of(&call.step).find(|c| c.result.is_none())
    {
        if !next.started {
            perform(next, d);
        }
        return;
    }
    if let Some(step) = state.step(&call.step).filter(|s| s.fault.is_some()) {
        settle(limits, state, step, d);
    } else {
        close_turn(state, &call.step, d);
    }
    end_if_stopped(state, d, false);
}

/// Completes a turn's step once its stream has ended and none of its calls is open.
pub fn close_turn(state: &RunState, step: &StepId, d: &mut Decision) {
    let over = state.turn(step).is_some_and(|t| t.finish.is_some());
    if !over || state.calls_of(step).any(|c| c.result.is_none()) {
        return;
    }
    if let Some(step) = state.step(step).filter(|s| s.status == StepStatus::Running) {
        let (status, why) =
            if stopping(state) { (StepStatus::Skipped, Some("stopped".into())) } else { (StepStatus::Completed, None) };
        d.set(step, status, step.attempt, why);
    }
}

/// A worker died after a turn's stream had ended: installs are repeated, commands that were running are told as interrupted.
pub fn resume(limits: &Limits, state: &RunState, step: &StepId, d: &mut Decision) {
    let Some(open) = state.calls_of(step).find(|c| c.result.is_none()) else { return close_turn(state, step, d) };
    if open.started && !is_idempotent(&open.input) {
        refuse(open, ToolStatus::Interrupted, INTERRUPTED, d);
    } else {
        requested(limits, state, &open.id, d);
    }
}

const INTERRUPTED: &str = "its worker stopped or died while it ran; what it did is not known";

/// Records that calls will get no result: those that ran as interrupted, the others as never run. The last call comes first: the
/// end of a call starts the next in the queue, and there must be none left.
pub fn abandon(state: &RunState, d: &mut Decision, which: &dyn Fn(&Call) -> bool) {
    for call in state.calls.iter().rev().filter(|c| c.result.is_none() && which(c)) {
        if call.started {
            refuse(call, ToolStatus::Interrupted, INTERRUPTED, d);
        } else {
            refuse(call, ToolStatus::Cancelled, "the turn that asked for it was given up before it ran", d);
        }
    }
}

/// Hands a call over. It counts as started from here on, so that a successor never runs it a second time unknowingly.
fn perform(call: &Call, d: &mut Decision) {
    d.say_of(&call.step, call.attempt, ToolStarted { call_id: call.id.clone() });
    d.effects.push(Effect::PerformTool {
        call_id: call.id.clone(),
        step: (call.step.clone(), call.attempt),
        input: call.input.clone(),
    });
}

fn refuse(call: &Call, status: ToolStatus, why: &str, d: &mut Decision) {
    let result = ToolFinished {
        call_id: call.id.clone(),
        status,
        exit_code: None,
        output: call.printed.clone(),
        error: Some(why.to_owned()),
        // As far as it is known: until it last printed something.
        duration_ms: call.ran.1.saturating_sub(call.ran.0),
        replayed: false,
    };
    d.say_of(&call.step, call.attempt, result);
}

/// The call that an earlier attempt of the step made as the n-th with this input, and its recorded result.
pub fn recorded<'a>(state: &'a RunState, call: &Call) -> Option<(&'a Call, &'a ToolFinished)> {
    let same = |c: &&Call| c.step == call.step && c.input == call.input;
    let nth = nth(state, call);
    (1..call.attempt).rev().find_map(|attempt| {
        let made = state.calls.iter().filter(same).filter(|c| c.attempt == attempt).nth(nth)?;
        let result = made.result.as_ref().filter(|result| made.is_recorded() && !result.replayed)?;
        Some((made, result))
    })
}

/// A call's idempotency key: step, tool, hash of its input, and which of the step's calls with that input it is. It does not
/// depend on the attempt, so that a successor's call has the key of the one that it takes over (E11).
pub fn key(state: &RunState, call: &Call) -> String {
    let input = serde_json::to_string(&call.input).unwrap_or_default();
    let hash: String = Sha256::digest(input).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let tool = serde_json::to_value(call.input.tool()).ok();
    let tool = tool.as_ref().and_then(|tool| tool.as_str()).unwrap_or_default();
    format!("{}/{tool}/{hash}/{}", call.step, nth(state, call) + 1)
}

/// How many calls with the same input its attempt made before it.
fn nth(state: &RunState, call: &Call) -> usize {
    let same = |c: &&Call| c.step == call.step && c.attempt == call.attempt && c.input == call.input;
    state.calls.iter().filter(same).filter(|c| c.ordinal < call.ordinal).count()
}

/// Whether doing it again after an unknown end does no harm.
fn is_idempotent(input: &ToolInput) -> bool {
    match input {
        ToolInput::Install { .. } | ToolInput::WebSearch { .. } | ToolInput::UrlScrape { .. } => true,
        ToolInput::Command { .. } | ToolInput::Skill { .. } => false,
    }
}

/// The policy of commands: for clarity, not for safety, which is the sandbox's (lessons.md).
fn check(limits: &Limits, input: &ToolInput) -> Result<(), String> {
    match input {
        ToolInput::Command { command, args } => {
            if command.is_empty() || command.chars().any(|c| c.is_whitespace() || c.is_control()) {
                return Err("the command must be one word: arguments go into args, and there is no shell".into());
            }
            if args.len() as u64 > limits.command_args {
                return Err(format!("more than {} arguments", limits.command_args));
            }
            if args.iter().any(|a| a.len() as u64 > limits.command_arg_bytes || a.contains('\0')) {
                return Err(format!("an argument is longer than {} bytes or holds a NUL", limits.command_arg_bytes));
            }
            Ok(())
        }
        ToolInput::Install { packages, .. } => {
            if packages.len() as u64 > limits.install_packages {
                return Err(format!("more than {} packages", limits.install_packages));
            }
            Ok(())
        }
        ToolInput::WebSearch { .. } | ToolInput::UrlScrape { .. } | ToolInput::Skill { .. } => Ok(()),
    }
}
