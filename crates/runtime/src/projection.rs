//! Rows that are drawn from events, the same for every store (E22).

use contract::api::{ExecutionState, RunStatus};
use contract::event::{Event, NewEvent, PreviewKind, RunFailed, StepKind, StepStatus, StopReason};
use engine::RunState;

use crate::ports::store::RowChange;

/// The rows that change with an event that was just folded into `state`.
pub fn rows(state: &RunState, entry: &NewEvent) -> Vec<RowChange> {
    let mut rows: Vec<RowChange> = progress(state, &entry.event).into_iter().collect();
    if entry.event.is_terminal() {
        let duration_ms = entry.at.saturating_sub(state.created_at);
        rows.push(RowChange::Answered { tokens: state.tokens.output, duration_ms });
    }
    rows.extend(row(state, entry));
    rows
}

/// Adds a row to those of one append; pieces of an answer become one.
pub(crate) fn add(rows: &mut Vec<RowChange>, row: RowChange) {
    if let (Some(RowChange::AssistantText { text }), RowChange::AssistantText { text: more }) = (rows.last_mut(), &row)
    {
        text.push_str(more);
    } else {
        rows.push(row);
    }
}

/// What the run is doing from this event on, if it is told by that.
fn progress(state: &RunState, event: &Event) -> Option<RowChange> {
    let doing = if let Event::StepState(step) = event {
        match (step.state, state.step(&step.id)?.kind) {
            (StepStatus::Running, StepKind::Turn) => ExecutionState::LlmStream,
            (StepStatus::Running, StepKind::Check | StepKind::Build | StepKind::Publish | StepKind::Skill) => {
                ExecutionState::Apply
            }
            (StepStatus::Retrying, StepKind::Turn) => ExecutionState::NextTurn,
            (
                StepStatus::Pending
                | StepStatus::Ready
                | StepStatus::Waiting
                | StepStatus::Retrying
                | StepStatus::Completed
                | StepStatus::Failed
                | StepStatus::Skipped
                | StepStatus::DeadLettered,
                _,
            ) => return None,
        }
    } else if let Event::TurnCompleted(_) = event
        && state.calls.iter().any(|call| call.result.is_none())
    {
        ExecutionState::ToolExec
    } else {
        return None;
    };
    Some(RowChange::Progress { state: doing, turn: state.count(StepKind::Turn) })
}

fn row(state: &RunState, entry: &NewEvent) -> Option<RowChange> {
    let at = entry.at;
    let run = |status, stop_reason, failed: Option<&RunFailed>| {
        let (code, error) = failed.map(|failed| (failed.code.clone(), failed.message.clone())).unzip();
        Some(RowChange::Run { status, stop_reason, code, error, at })
    };
    match &entry.event {
        Event::RunStarted(_) => run(RunStatus::Running, None, None),
        Event::RunCompleted(done) => run(RunStatus::Completed, Some(done.stop_reason), None),
        Event::RunFailed(failed) => run(RunStatus::Failed, Some(StopReason::Failed), Some(failed)),
        Event::RunCancelled(_) => run(RunStatus::Cancelled, Some(StopReason::Cancelled), None),
        Event::TextDelta(delta) => Some(RowChange::AssistantText { text: delta.text.clone() }),
        Event::StepState(step) if step.state == StepStatus::Running && step.attempt > 1 => {
            let is_turn = state.step(&step.id).is_some_and(|s| s.kind == StepKind::Turn);
            is_turn.then(|| RowChange::AssistantReset { text: state.prose() })
        }
        Event::ToolRequested(request) => Some(RowChange::ToolRequested {
            call_id: request.call_id.clone(),
            tool: request.input.tool(),
            input: serde_json::to_string(&request.input).unwrap_or_default(),
            key: state.calls.iter().find(|call| call.id == request.call_id).map(|c| engine::tools::key(state, c))?,
        }),
        Event::ToolFinished(finished) => Some(RowChange::ToolFinished {
            call_id: finished.call_id.clone(),
            status: finished.status,
            output: finished.output.clone(),
            error: finished.error.clone(),
            duration_ms: finished.duration_ms,
        }),
        Event::BuildStatus(build) => Some(RowChange::Build {
            build_id: build.build_id.clone(),
            status: build.status,
            duration_ms: build.duration_ms,
            error: build.error.as_ref().and_then(|e| serde_json::to_string(e).ok()),
            at,
        }),
        Event::RunQueued(_) | Event::CancelRequested(_) | Event::TimerFired(_) | Event::PhaseChange(_) => None,
        Event::Status(_) | Event::Session(_) | Event::StepAdded(_) | Event::StepState(_) | Event::StepRetry(_) => None,
        Event::TurnStarted(_) | Event::TurnCompleted(_) | Event::ElementRejected(_) | Event::SandboxStarted(_) => None,
        Event::ThinkingStarted(_) | Event::ThinkingDelta(_) | Event::ThinkingEnded(_) | Event::SandboxEnded(_) => None,
        Event::FileStarted(_) | Event::FileDelta(_) | Event::FileCompleted(_) | Event::FileEdited(_) => None,
        Event::FileDeleted(_) | Event::FileRenamed(_) | Event::FileRejected(_) | Event::ToolStarted(_) => None,
        // A version's row holds hashes that its event does not: it comes with the report of who published it.
        Event::PreviewUrl(preview) if preview.kind == PreviewKind::Built => {
            Some(RowChange::BuildShown { url: preview.url.clone() })
        }
        Event::ToolOutput(_)
        | Event::PreviewUrl(_)
        | Event::PreviewProblem(_)
        | Event::VersionCreated(_)
        | Event::Usage(_)
        | Event::RateLimit(_) => None,
        Event::Budget(_) | Event::LoopBroken(_) | Event::Warning(_) | Event::Error(_) => None,
    }
}
