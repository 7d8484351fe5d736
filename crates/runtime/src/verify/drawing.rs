//! The rows of one run as its log draws them, and how they differ from those that are stored (E22).

use contract::RunId;
use contract::api::{ExecutionState, MessageView, Role, RunStatus, RunView};
use contract::event::{Event, NewEvent, StopReason, VersionCreated};
use engine::RunState;
use serde::Serialize;
use serde_json::Value;

use crate::ports::store::{Drawn, RowChange, run_title};

/// What a log draws.
#[derive(Default)]
pub(super) struct Drawing {
    status: Option<RunStatus>,
    stop_reason: Option<StopReason>,
    code: Option<String>,
    error: Option<String>,
    doing: ExecutionState,
    turn: u32,
    created_at: u64,
    started_at: Option<u64>,
    ended_at: Option<u64>,
    parent: Option<RunId>,
    answer: String,
    answered: Option<(u64, u64)>,
    drawn: Drawn,
    versions: Vec<VersionCreated>,
}

impl Drawing {
    /// Makes a change of a row.
    pub(super) fn take(&mut self, change: &RowChange) {
        match change {
            RowChange::Run { status, stop_reason, code, error, at } => {
                self.status = Some(*status);
                self.stop_reason = *stop_reason;
                self.code.clone_from(code);
                self.error.clone_from(error);
                self.doing = match status {
                    RunStatus::Queued | RunStatus::Running | RunStatus::Waiting => self.doing,
                    RunStatus::Completed => ExecutionState::Complete,
                    RunStatus::Failed => ExecutionState::Failed,
                    RunStatus::Cancelled => ExecutionState::Cancelled,
                };
                if *status == RunStatus::Running {
                    self.started_at.get_or_insert(*at);
                }
                self.ended_at = status.is_terminal().then_some(*at);
            }
            RowChange::Progress { state, turn } => (self.doing, self.turn) = (*state, *turn),
            RowChange::Answered { tokens, duration_ms } => self.answered = Some((*tokens, *duration_ms)),
            RowChange::AssistantText { text } => self.answer.push_str(text),
            RowChange::AssistantReset { text } => self.answer.clone_from(text),
            RowChange::ToolRequested { .. }
            | RowChange::ToolFinished { .. }
            | RowChange::Build { .. }
            | RowChange::BuildShown { .. }
            | RowChange::Publish(_) => self.drawn.take(change),
        }
    }

    /// Notes what rows hold beside what changes them.
    pub(super) fn note(&mut self, entry: &NewEvent) {
        if let Event::RunQueued(queued) = &entry.event {
            self.created_at = entry.at;
            self.parent = queued.parent.map(|parent| parent.run_id);
        } else if let Event::VersionCreated(created) = &entry.event {
            self.versions.push(created.clone());
        }
    }

    /// Where the stored rows are others.
    pub(super) fn differences(
        &self,
        view: &RunView,
        state: &RunState,
        messages: &[MessageView],
        drawn: &Drawn,
    ) -> Vec<String> {
        let mut found = Found::default();
        found.compare("status", &self.status, &Some(view.status));
        found.compare("stop reason", &self.stop_reason, &view.stop_reason);
        found.compare("code", &self.code, &view.code);
        found.compare("error", &self.error, &view.error);
        found.compare("state", &self.doing, &view.state);
        found.compare("turn", &self.turn, &view.turn);
        found.compare("parent", &self.parent, &view.parent);
        found.compare("time of admission", &self.created_at, &view.created_at);
        found.compare("time of its start", &self.started_at, &view.started_at);
        found.compare("time of its end", &self.ended_at, &view.ended_at);
        let request = state.session.as_ref().map_or("", |session| session.request.as_str());
        found.compare("title", &run_title(request), &view.title);
        let message = |role| messages.iter().find(|message| message.run_id == view.id && message.role == role);
        found.compare_text("request", request, message(Role::User).map(|message| message.text.as_str()));
        let answer = message(Role::Assistant);
        found.compare_text("answer", &self.answer, answer.map(|message| message.text.as_str()));
        let answered = answer.and_then(|message| message.tokens.zip(message.duration_ms));
        found.compare(
            "tokens of the answer",
            &self.answered.map(|(tokens, _)| tokens),
            &answered.map(|(tokens, _)| tokens),
        );
        found.compare("duration of the answer", &self.answered.map(|(_, ms)| ms), &answered.map(|(_, ms)| ms));
        found.compare_list("call", &self.drawn.calls, &drawn.calls);
        found.compare_list("build", &self.drawn.builds, &drawn.builds);
        let versions: Vec<_> = drawn.versions.iter().map(|version| version.id).collect();
        let published: Vec<_> = self.versions.iter().map(|created| created.version).collect();
        found.compare("versions", &published, &versions);
        found.0
    }
}

/// A value as a person reads it.
fn words(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        Ok(Value::Null) | Err(_) => "nothing".to_owned(),
        Ok(Value::Array(items)) if items.is_empty() => "none".to_owned(),
        Ok(Value::Array(items)) => items.iter().map(words).collect::<Vec<_>>().join(", "),
        Ok(value @ (Value::Bool(_) | Value::Number(_) | Value::Object(_))) => value.to_string(),
    }
}

#[derive(Default)]
struct Found(Vec<String>);

impl Found {
    fn compare<T: PartialEq + Serialize>(&mut self, what: &str, log: &T, row: &T) {
        if log != row {
            self.0.push(format!("{what}: the log says {}, the row {}", words(log), words(row)));
        }
    }

    /// Texts may be long and are not repeated.
    fn compare_text(&mut self, what: &str, log: &str, row: Option<&str>) {
        let Some(row) = row else { return self.0.push(format!("{what}: there is no row")) };
        if log != row {
            let same = log.bytes().zip(row.bytes()).take_while(|(a, b)| a == b).count();
            let (log, row) = (log.len(), row.len());
            self.0.push(format!("{what}: the log has {log} bytes, the row {row}, and they differ from byte {same} on"));
        }
    }

    fn compare_list<T: PartialEq>(&mut self, what: &str, log: &[T], row: &[T]) {
        if log.len() != row.len() {
            self.0.push(format!("{what}s: the log has {}, the rows {}", log.len(), row.len()));
        }
        for (n, _) in log.iter().zip(row).enumerate().filter(|(_, (log, row))| log != row) {
            self.0.push(format!("{what} {}: the row is another than the log draws", n + 1));
        }
    }
}
