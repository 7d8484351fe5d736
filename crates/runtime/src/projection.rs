//! Rows that are drawn from events, the same for every store (E22).

use contract::api::RunStatus;
use contract::event::{Event, NewEvent, StepKind, StepStatus, StopReason};
use engine::RunState;

use crate::ports::store::RowChange;

/// The rows that change with an event that was just folded into `state`.
pub fn rows(state: &RunState, entry: &NewEvent) -> Option<RowChange> {
    let at = entry.at;
    match &entry.event {
        Event::RunStarted(_) => Some(RowChange::Run { status: RunStatus::Running, stop_reason: None, error: None, at }),
        Event::RunCompleted(done) => {
            Some(RowChange::Run { status: RunStatus::Completed, stop_reason: Some(done.stop_reason), error: None, at })
        }
        Event::RunFailed(failed) => Some(RowChange::Run {
            status: RunStatus::Failed,
            stop_reason: Some(StopReason::Failed),
            error: Some(failed.message.clone()),
            at,
        }),
        Event::RunCancelled(_) => Some(RowChange::Run {
            status: RunStatus::Cancelled,
            stop_reason: Some(StopReason::Cancelled),
            error: None,
            at,
        }),
        Event::TextDelta(delta) => Some(RowChange::AssistantText { text: delta.text.clone() }),
        Event::StepState(step) if step.state == StepStatus::Running && step.attempt > 1 => {
            let is_turn = state.step(&step.id).is_some_and(|s| s.kind == StepKind::Turn);
            is_turn.then(|| RowChange::AssistantReset { text: state.prose() })
        }
        Event::ToolRequested(request) => Some(RowChange::ToolRequested {
            call_id: request.call_id.clone(),
            tool: request.input.tool(),
            input: serde_json::to_string(&request.input).unwrap_or_default(),
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
        Event::ToolOutput(_)
        | Event::PreviewUrl(_)
        | Event::PreviewProblem(_)
        | Event::VersionCreated(_)
        | Event::Usage(_) => None,
        Event::Budget(_) | Event::Warning(_) | Event::Error(_) => None,
    }
}
