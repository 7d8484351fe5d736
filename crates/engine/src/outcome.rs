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
    let spoke = turn.parts.iter().any(|p| matches!(p, Part::Text(text) if !text.trim().is_empty()));
    let wanted = if state.stop.is_some() {
        build_or_finish(state)
    } else if turn.finish == Some(Finish::ContentFilter) {
        Outcome::Refused
    } else if rejected || matches!(turn.finish, Some(Finish::Length | Finish::Limit)) || (acted && !turn.done) {
        // Results are to be read, and files alone do not end a run: there may be more of them.
        Outcome::Continue
    } else if turn.done || (spoke && (state.dirty || is_answer(state, turn))) {
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
    if let Some(looped) = state.looped.as_ref().filter(|looped| looped.step == last.step) {
        return Cause::Circle(looped.what.clone());
    }
    let idle = last.parts.iter().all(|p| matches!(p, Part::Text(_))) && last.finish == Some(Finish::Stop);
    if idle { Cause::Nudge } else { Cause::Results }
}

#[cfg(test)]
mod tests {
    use contract::event::{Session, Work};
    use contract::{CallId, ChatId, MessageId, ProjectId, ProjectPath, StepId};

    use super::*;

    fn session(request: &str) -> Session {
        Session {
            chat_id: ChatId::from_bits(1),
            project_id: ProjectId::from_bits(1),
            user_message_id: MessageId::from_bits(1),
            assistant_message_id: MessageId::from_bits(2),
            is_new_chat: true,
            request: request.into(),
            intent: contract::event::Intent::Generate,
            follow_up: false,
            template: "react-vite".into(),
            model: contract::event::ModelRef { provider: contract::event::Provider::Demo, name: "demo".into() },
            work: Work::Message,
            fork: None,
        }
    }

    /// E13, in the order of the table: what a turn did, whether it said that it is done, how its stream ended, whether files have
    /// changed since the last build, how often it was reminded.
    #[test]
    fn what_a_turn_did_decides_what_comes_next() {
        let text = |said: &str| Part::Text(said.into());
        let file = || Part::File { path: ProjectPath::parse("a.ts").unwrap(), sha256: String::new() };
        let call = || Part::Call(CallId::new("turn-1.1.1"));
        let refused = || Part::Rejected("a.ts".into(), "edit_no_match".into(), "no".into());
        let (stop, length, limit) = (Finish::Stop, Finish::Length, Finish::Limit);
        let done = Outcome::Finish(StopReason::Done);
        let cases = [
            ("files and done", vec![text("Here."), file()], true, stop, true, 0, Outcome::Build),
            ("files alone", vec![text("First."), file()], false, stop, true, 0, Outcome::Continue),
            ("files after a reminder", vec![file()], false, stop, true, 1, Outcome::Continue),
            ("a call", vec![call()], false, stop, false, 0, Outcome::Continue),
            ("a call and done", vec![call()], true, stop, false, 0, done.clone()),
            ("a refused patch, though done", vec![file(), refused()], true, stop, true, 0, Outcome::Continue),
            ("cut off, though done", vec![file()], true, length, true, 0, Outcome::Continue),
            ("too long", vec![text("x")], false, limit, false, 0, Outcome::Continue),
            ("an answer to a question", vec![text("It is red.")], false, stop, false, 0, done.clone()),
            ("words after files", vec![text("All is written.")], false, stop, true, 0, Outcome::Build),
            ("nothing", vec![], false, stop, false, 1, Outcome::Finish(StopReason::NoToolResults)),
            ("nothing but done", vec![], true, stop, false, 0, done),
            ("filtered", vec![file()], false, Finish::ContentFilter, true, 0, Outcome::Refused),
        ];
        let limits = Limits::default();
        for (what, parts, done, finish, dirty, nudges, want) in cases {
            let step = StepId::new("turn-1");
            let finish = Some(finish);
            let turn = Turn { step, attempt: 1, parts, done, finish, dirty_without: false, cause: Cause::Request };
            let state = RunState { session: Some(session("what colour is it?")), dirty, nudges, ..RunState::default() };
            assert_eq!(of_turn(&limits, &state, &turn), want, "{what}");
        }
        let silent = Turn {
            step: StepId::new("turn-1"),
            attempt: 1,
            parts: vec![text("I will build a list.")],
            done: false,
            finish: Some(stop),
            dirty_without: false,
            cause: Cause::Request,
        };
        let asked = RunState { session: Some(session("a list")), ..RunState::default() };
        assert_eq!(of_turn(&limits, &asked, &silent), Outcome::Continue, "one nudge when nothing happened");
        let stopped = RunState { stop: Some(StopReason::RunToolBudgetExceeded), ..asked };
        assert_eq!(of_turn(&limits, &stopped, &silent), Outcome::Finish(StopReason::RunToolBudgetExceeded));
    }
}
