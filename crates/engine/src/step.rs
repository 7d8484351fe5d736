//! `step`: one event in, what to record and what to do out.
//!
//! Every event is folded and then stepped, the ones that `step` itself decided on included, until nothing more follows. The
//! caller appends them all in one commit and only then performs the effects, so a successor that finds an event also finds
//! everything that follows from it.

use contract::Limits;
use contract::event::{
    Budget, BuildError, BuildState, BuildStatus, CancelRequested, Event, NewEvent, Phase, PhaseChange, RunCancelled,
    RunCompleted, StepKind, StepRetry, StepState, StepStatus, StopReason, TimerFired, ToolInput, TurnStarted,
};
use contract::{CallId, StepId};

use crate::playbook;
use crate::state::{RunState, Step};
use crate::{retry, tools};

/// What the hands must do, after the decision is durable.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Perform a step.
    StartStep {
        /// The step.
        step: StepId,
        /// Which attempt.
        attempt: u32,
        /// What it does.
        kind: StepKind,
    },
    /// Stop asking the model: the turn has what it may have. The hands answer with `turn_completed`.
    StopTurn {
        /// The step.
        step: StepId,
    },
    /// Perform a call of a tool.
    PerformTool {
        /// The call.
        call_id: CallId,
        /// The step that asked, with the attempt.
        step: (StepId, u32),
        /// What was asked.
        input: ToolInput,
    },
    /// Say `timer_fired` with this token when it is due. Setting it again moves it.
    SetTimer {
        /// The token.
        token: String,
        /// Milliseconds since the Unix epoch.
        due: u64,
    },
    /// Stop everything in hand; each step and call that was running is reported as it ended.
    StopAll,
}

/// What follows from an event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// Events to record, each with the step that it belongs to.
    pub events: Vec<(Option<(StepId, u32)>, Event)>,
    /// What to do once they are durable.
    pub effects: Vec<Effect>,
}

impl Decision {
    /// Records an event of the run.
    pub fn say(&mut self, event: impl Into<Event>) {
        self.events.push((None, event.into()));
    }

    /// Records an event of a step.
    pub fn say_of(&mut self, step: &StepId, attempt: u32, event: impl Into<Event>) {
        self.events.push((Some((step.clone(), attempt)), event.into()));
    }

    /// Records a new state of a step.
    pub fn set(&mut self, step: &Step, state: StepStatus, attempt: u32, reason: Option<String>) {
        self.say_of(&step.id, attempt, StepState { id: step.id.clone(), state, attempt, reason, output: None });
    }
}

/// Token of the timer that bounds a run's whole time.
pub const WALL: &str = "wall";
const RETRY: &str = "retry:";

/// Decides what follows from an event that was just folded into `state`.
pub fn step(limits: &Limits, state: &RunState, entry: &NewEvent) -> Decision {
    let mut decision = Decision::default();
    let d = &mut decision;
    if state.ended {
        return decision;
    }
    match &entry.event {
        Event::RunStarted(_) => resume(limits, state, d),
        Event::CancelRequested(_) => stop(state, d),
        Event::TimerFired(timer) => timer_fired(limits, state, entry, timer, d),
        Event::StepAdded(added) => start_if_ready(state, &added.id, d),
        Event::StepState(changed) => step_changed(limits, state, changed, d),
        Event::StepRetry(r) => {
            d.effects.push(Effect::SetTimer { token: format!("{RETRY}{}", r.id), due: entry.at + r.delay_ms });
        }
        Event::Error(_) => step_failed(limits, state, entry, d),
        Event::ToolRequested(request) => tools::requested(limits, state, &request.call_id, d),
        Event::ToolFinished(finished) => tools::finished(limits, state, &finished.call_id, d),
        Event::TurnCompleted(_) => {
            if let Some((step, _)) = &entry.step {
                tools::close_turn(state, step, d);
            }
        }
        Event::Budget(budget) => {
            if budget.stop == StopReason::TimedOut {
                stop(state, d);
            }
        }
        Event::Usage(_) => spent(limits, state, d),
        Event::RunQueued(_)
        | Event::Session(_)
        | Event::PhaseChange(_)
        | Event::Status(_)
        | Event::RunCompleted(_)
        | Event::RunFailed(_)
        | Event::RunCancelled(_)
        | Event::TurnStarted(_)
        | Event::TextDelta(_)
        | Event::ThinkingStarted(_)
        | Event::ThinkingDelta(_)
        | Event::ThinkingEnded(_)
        | Event::SandboxStarted(_)
        | Event::SandboxEnded(_)
        | Event::FileStarted(_)
        | Event::FileDelta(_)
        | Event::FileCompleted(_)
        | Event::FileEdited(_)
        | Event::FileDeleted(_)
        | Event::FileRenamed(_)
        | Event::FileRejected(_)
        | Event::ElementRejected(_)
        | Event::ToolStarted(_)
        | Event::ToolOutput(_)
        | Event::BuildStatus(_)
        | Event::PreviewUrl(_)
        | Event::PreviewProblem(_)
        | Event::VersionCreated(_)
        | Event::RateLimit(_)
        | Event::LoopBroken(_)
        | Event::Warning(_) => {}
    }
    decision
}

/// Nanodollars of a cent.
const CENT: u64 = 10_000_000;

/// What the run has used of its money and tokens is told once a call has ended; then it finishes what it has (E14, N6).
fn spent(limits: &Limits, state: &RunState, d: &mut Decision) {
    let tokens = state.tokens.input.saturating_add(state.tokens.output);
    for (used, value, limit) in
        [(state.cost / CENT, limits.run_cost_cents, "run_cost_cents"), (tokens, limits.run_tokens, "run_tokens")]
    {
        if value > 0 && used >= value && state.stop.is_none() {
            let stop = StopReason::CostBudgetExceeded;
            return d.say(Budget { stop, limit: limit.into(), used, value });
        }
    }
}

/// A worker has the run. What was in hand when the former one died begins again; on an empty graph, the playbook begins.
fn resume(limits: &Limits, state: &RunState, d: &mut Decision) {
    d.effects.push(Effect::SetTimer { token: WALL.into(), due: state.performed.due(limits.run_wall_ms) });
    if stopping(state) {
        // The former worker's processes died with it.
        tools::abandon(state, d, &|_| true);
        for live in state.steps.iter().filter(|s| is_live(s.status)) {
            d.set(live, StepStatus::Skipped, live.attempt, Some("stopped".into()));
        }
        end_if_stopped(state, d, state.steps.iter().any(|s| is_live(s.status)));
        return;
    }
    if state.steps.is_empty() {
        playbook::begin(limits, state, d);
        return;
    }
    for step in &state.steps {
        match step.status {
            StepStatus::Running => restart(limits, state, step, d),
            StepStatus::Retrying => {
                let due = step.retry_at.unwrap_or(state.created_at);
                d.effects.push(Effect::SetTimer { token: format!("{RETRY}{}", step.id), due });
            }
            StepStatus::Pending => start_if_ready(state, &step.id, d),
            StepStatus::Ready
            | StepStatus::Waiting
            | StepStatus::Completed
            | StepStatus::Failed
            | StepStatus::Skipped
            | StepStatus::DeadLettered => {}
        }
    }
}

fn restart(limits: &Limits, state: &RunState, step: &Step, d: &mut Decision) {
    let turn_is_over = state.turn(&step.id).is_some_and(|t| t.finish.is_some());
    if turn_is_over {
        // Nothing of the stream runs again; calls that have no result are repeated, or told as interrupted.
        tools::resume(limits, state, &step.id, d);
        return;
    }
    tools::abandon(state, d, &|call| call.step == step.id);
    if step.kind == StepKind::Build {
        let message = "The worker that built it is gone.".to_owned();
        let error = BuildError { code: "build_interrupted".into(), message, log_tail: String::new() };
        let (status, build_id) = (BuildState::Failed, format!("{}.{}", step.id, step.attempt));
        let ended = BuildStatus { status, build_id, duration_ms: None, error: Some(error), output: None };
        d.say_of(&step.id, step.attempt, ended);
    }
    if u64::from(step.attempt) > limits.step_recoveries + u64::from(step.failures) {
        d.set(step, StepStatus::Failed, step.attempt, Some("workers died or had no room, again and again".into()));
    } else {
        d.set(step, StepStatus::Running, step.attempt + 1, Some("its worker is gone".into()));
    }
}

fn start_if_ready(state: &RunState, id: &StepId, d: &mut Decision) {
    let Some(step) = state.step(id) else { return };
    let ready = |dep: &StepId| state.step(dep).is_some_and(|s| s.status == StepStatus::Completed);
    if step.status == StepStatus::Pending && step.depends_on.iter().all(ready) && !stopping(state) {
        d.set(step, StepStatus::Running, 1, None);
    }
}

fn step_changed(limits: &Limits, state: &RunState, changed: &StepState, d: &mut Decision) {
    let Some(step) = state.step(&changed.id) else { return };
    match changed.state {
        StepStatus::Running => {
            say_begin(state, step, d);
            d.effects.push(Effect::StartStep { step: step.id.clone(), attempt: step.attempt, kind: step.kind });
        }
        StepStatus::Completed if stopping(state) => end_if_stopped(state, d, false),
        StepStatus::Completed => {
            for pending in state.steps.iter().filter(|s| s.depends_on.contains(&step.id)) {
                start_if_ready(state, &pending.id, d);
            }
            playbook::next(limits, state, step, d);
        }
        StepStatus::Failed if stopping(state) => end_if_stopped(state, d, false),
        StepStatus::Failed => playbook::failed(limits, state, step, d),
        StepStatus::Skipped => end_if_stopped(state, d, false),
        StepStatus::Pending
        | StepStatus::Ready
        | StepStatus::Waiting
        | StepStatus::Retrying
        | StepStatus::DeadLettered => {}
    }
}

fn say_begin(state: &RunState, step: &Step, d: &mut Decision) {
    let (phase, message) = match step.kind {
        // The step's own state says it.
        StepKind::Skill => return,
        StepKind::Turn => (Phase::Generating, "Writing"),
        StepKind::Check => (Phase::Checking, "Looking over the project"),
        StepKind::Build => (Phase::Building, "Building"),
        StepKind::Publish => (Phase::Publishing, "Publishing"),
    };
    d.say_of(&step.id, step.attempt, PhaseChange { phase, message: message.into() });
    if let (StepKind::Turn, Some(session)) = (step.kind, &state.session) {
        let turn = state.count(StepKind::Turn);
        d.say_of(&step.id, step.attempt, TurnStarted { turn, model: session.model.clone() });
    }
}

/// An error that belongs to a step ends its attempt, once no call of it is in hand any more.
fn step_failed(limits: &Limits, state: &RunState, entry: &NewEvent, d: &mut Decision) {
    let Some((id, attempt)) = &entry.step else { return };
    let Some(step) = state.step(id).filter(|s| s.attempt == *attempt && s.status == StepStatus::Running) else {
        return;
    };
    tools::abandon(state, d, &|call| call.step == *id && !call.started);
    settle(limits, state, step, d);
}

/// Ends an attempt that went wrong: tried again if that can help, or failed.
pub(crate) fn settle(limits: &Limits, state: &RunState, step: &Step, d: &mut Decision) {
    let in_hand = state.calls.iter().any(|c| c.step == step.id && c.started && c.result.is_none());
    let Some(error) = step.fault.as_ref().filter(|_| step.status == StepStatus::Running && !in_hand) else { return };
    if stopping(state) {
        d.set(step, StepStatus::Skipped, step.attempt, Some("stopped".into()));
    } else if error.retryable && u64::from(step.failures) + 1 < limits.step_attempts {
        let delay_ms = retry::delay_ms(limits, state.created_at, &step.id, step.failures, error.retry_after_ms);
        let next = StepRetry { id: step.id.clone(), attempt: step.attempt + 1, delay_ms, error: error.message.clone() };
        d.set(step, StepStatus::Retrying, step.attempt, Some(error.message.clone()));
        d.say_of(&step.id, step.attempt, next);
    } else {
        d.set(step, StepStatus::Failed, step.attempt, Some(error.message.clone()));
    }
}

fn timer_fired(limits: &Limits, state: &RunState, entry: &NewEvent, timer: &TimerFired, d: &mut Decision) {
    if timer.token == WALL {
        let used = state.performed.until(entry.at);
        d.say(Budget { stop: StopReason::TimedOut, limit: "run_wall_ms".into(), used, value: limits.run_wall_ms });
    } else if let Some(id) = timer.token.strip_prefix(RETRY)
        && let Some(step) = state.step(&StepId::new(id))
        && step.status == StepStatus::Retrying
        && !stopping(state)
    {
        d.set(step, StepStatus::Running, step.attempt + 1, None);
    }
}

/// Whether the run is being stopped, so that nothing new may begin.
pub fn stopping(state: &RunState) -> bool {
    state.cancelled_by.is_some() || state.timed_out
}

fn is_live(status: StepStatus) -> bool {
    match status {
        StepStatus::Pending | StepStatus::Ready | StepStatus::Running | StepStatus::Waiting | StepStatus::Retrying => {
            true
        }
        StepStatus::Completed | StepStatus::Failed | StepStatus::Skipped | StepStatus::DeadLettered => false,
    }
}

fn stop(state: &RunState, d: &mut Decision) {
    let in_hand = state.running().count() > 0;
    tools::abandon(state, d, &|call| !call.started);
    for idle in state.steps.iter().filter(|s| is_live(s.status) && s.status != StepStatus::Running) {
        d.set(idle, StepStatus::Skipped, idle.attempt, Some("stopped".into()));
    }
    if in_hand {
        d.effects.push(Effect::StopAll);
    } else {
        end_if_stopped(state, d, state.steps.iter().any(|s| is_live(s.status)));
    }
}

/// Says that the run has ended once nothing is in hand: a cancelled run's processes are gone (promise 4). `others` tells that
/// steps are still to be skipped by events already decided on; the last of them ends the run.
pub(crate) fn end_if_stopped(state: &RunState, d: &mut Decision, others: bool) {
    let in_hand = state.calls.iter().any(|c| c.started && c.result.is_none());
    if others || in_hand || !stopping(state) || state.steps.iter().any(|s| is_live(s.status)) {
        return;
    }
    match &state.cancelled_by {
        Some(by) => d.say(RunCancelled { by: by.clone() }),
        None => d.say(RunCompleted {
            stop_reason: StopReason::TimedOut,
            result: "The run's time was up. What was written is kept; send a message to go on.".into(),
        }),
    }
}

/// The event that a cancel in the inbox becomes.
pub fn cancel(by: &str) -> CancelRequested {
    CancelRequested { by: by.to_owned() }
}
