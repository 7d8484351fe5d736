//! Going round in circles: the same call with the same result again and again, or the same error after repairs (contracts.md § 3).
//!
//! The first time the approach is changed: what went round is left out of the prompt and the model is told. The second time the run
//! stops, with what was spent and what can be done.

use contract::Limits;
use contract::event::{Budget, Circle, LoopBroken, StopReason, ToolInput};

use crate::prompt::{one_line, words};
use crate::state::{Call, RunState};
use crate::step::{Decision, Effect};

/// Characters of a call or an error that are told.
const WHAT_CHARS: usize = 200;
/// Characters of an error that make its fingerprint.
const PRINT_CHARS: usize = 2_000;

/// What follows when a call has its result: nothing, unless it closes a circle.
pub fn of_call(limits: &Limits, state: &RunState, call: &Call, d: &mut Decision) {
    if state.stop.is_some() || !loops(limits, state, call) {
        return;
    }
    let times = limits.loop_repeats;
    if state.looped.is_none() {
        let what = said(&call.input);
        d.say_of(&call.step, call.attempt, LoopBroken { circle: Circle::Call, times, what });
    } else {
        let stop = StopReason::LoopDetected;
        d.say_of(&call.step, call.attempt, Budget { stop, limit: "loop_repeats".into(), used: times, value: times });
    }
    d.effects.push(Effect::StopTurn { step: call.step.clone() });
}

/// What follows when a check or build has failed, before the turn that mends it.
pub fn of_error(limits: &Limits, state: &RunState, reason: &str, d: &mut Decision) {
    if let Some(times) = same_error(limits, state)
        && times == limits.loop_repeats
    {
        let what = reason.lines().next().unwrap_or_default().chars().take(WHAT_CHARS).collect();
        d.say(LoopBroken { circle: Circle::Error, times, what });
    }
}

/// How often the latest error came in a row, if that is a circle.
pub fn same_error(limits: &Limits, state: &RunState) -> Option<u64> {
    let times = state.same_error.as_ref().map(|(_, times)| u64::from(*times))?;
    (times >= limits.loop_repeats).then_some(times)
}

/// An error without what is different each time it is told: digits, blanks and letter case.
pub fn print(error: &str) -> String {
    let mut print = String::new();
    for word in error.split_whitespace() {
        let number = |c: char| c.is_ascii_digit();
        let parts: Vec<_> = word.split(number).filter(|part| !part.is_empty()).map(str::to_lowercase).collect();
        print += &parts.join("#");
        print.push(' ');
    }
    print.chars().take(PRINT_CHARS).collect()
}

/// The same call with the same result, as often as the limit says, among the latest since the last circle.
fn loops(limits: &Limits, state: &RunState, call: &Call) -> bool {
    let alike = |c: &&Call| {
        // What was interrupted or given up says nothing about going round in circles.
        let (Some(a), Some(b), true) = (&c.result, &call.result, c.is_recorded() && call.is_recorded()) else {
            return false;
        };
        c.input == call.input && a.status == b.status && a.output == b.output && !a.replayed && !b.replayed
    };
    let window = usize::try_from(limits.loop_window).unwrap_or(usize::MAX);
    let since = state.looped.as_ref().map_or(0, |looped| looped.calls);
    let finished = state.calls.iter().skip(since).rev().filter(|c| c.result.is_some()).take(window);
    finished.filter(alike).count() as u64 >= limits.loop_repeats
}

fn said(input: &ToolInput) -> String {
    let text = match words(input) {
        // A command speaks for itself.
        ("command", line) => line,
        (kind, what) => format!("{kind} {what}"),
    };
    one_line(&text, WHAT_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_the_same_wherever_it_stands_in_its_file() {
        let one = print("src/App.tsx(12,7): error TS2304: Cannot find name 'useFoo'.\n  built in 812 ms");
        assert_eq!(one, print("src/App.tsx(9,70): error TS2304:  cannot find name 'useFoo'.\nbuilt in 95 ms"));
        assert_ne!(one, print("src/App.tsx(12,7): error TS2304: Cannot find name 'useBar'."));
    }
}
