//! The rows that are drawn from logs: status, answer, tool calls, builds, versions (E22), as values of a statement.
//!
//! What a batch changes in the rows of runs and answers is made one change per run here; the rest is drawn by the server in its
//! order (`baton_draw`). A change never judges its event.

use std::borrow::Cow;

use contract::RunId;
use contract::api::RunStatus;
use runtime::ports::store::{PublishedVersion, RowChange, StoreError};
use serde_json::{Value, json};

use super::super::alike::last_state;
use super::column::{Key, escape, int, word};
use super::links::Ask;

/// The changes of a batch, in columns.
#[derive(Default)]
pub(super) struct Rows<'a> {
    runs: Vec<Key>,
    status: Vec<Option<String>>,
    stop_reason: Vec<Option<String>>,
    code: Vec<Option<Cow<'a, str>>>,
    error: Vec<Option<Cow<'a, str>>>,
    began: Vec<Option<i64>>,
    ended: Vec<Option<i64>>,
    touched: Vec<Option<i64>>,
    state: Vec<Option<String>>,
    turn: Vec<Option<i64>>,
    prose_of: Vec<Key>,
    prose_seq: Vec<i64>,
    prose_reset: Vec<bool>,
    prose: Vec<String>,
    others: Vec<Value>,
}

/// What becomes of one run's row.
#[derive(Default)]
struct RunRow<'a> {
    status: Option<String>,
    stop_reason: Option<String>,
    code: Option<Cow<'a, str>>,
    error: Option<Cow<'a, str>>,
    began: Option<i64>,
    ended: Option<i64>,
    touched: Option<i64>,
    state: Option<String>,
    turn: Option<i64>,
}

impl<'a> Rows<'a> {
    /// Adds the changes of one run, of which a batch has each once; `end` is where its log ends with them.
    pub(super) fn add(&mut self, run: RunId, end: i64, changes: &'a [RowChange]) -> Result<(), StoreError> {
        let id = Key(run.bits());
        let mut row = RunRow::default();
        let mut prose: Option<(bool, String)> = None;
        for change in changes {
            match change {
                RowChange::Run { status, stop_reason, code, error, at } => {
                    row.status = Some(word(status)?);
                    row.stop_reason = stop_reason.as_ref().map(word).transpose()?;
                    row.code = code.as_deref().map(escape);
                    row.error = error.as_deref().map(escape);
                    if *status == RunStatus::Running {
                        row.began.get_or_insert(int(*at));
                    }
                    row.ended = status.is_terminal().then_some(int(*at));
                    row.state = last_state(*status).as_ref().map(word).transpose()?.or(row.state);
                    row.touched = row.touched.max(Some(int(*at)));
                }
                RowChange::Progress { state, turn } => {
                    row.state = Some(word(state)?);
                    row.turn = Some(i64::from(*turn));
                }
                RowChange::AssistantText { text } => {
                    prose.get_or_insert_default().1.push_str(text);
                }
                RowChange::AssistantReset { text } => prose = Some((true, text.clone())),
                RowChange::Publish(version) => {
                    row.touched = row.touched.max(Some(int(version.at)));
                    self.others.push(publish(run, version));
                }
                RowChange::Answered { .. }
                | RowChange::ToolRequested { .. }
                | RowChange::ToolFinished { .. }
                | RowChange::Build { .. }
                | RowChange::BuildShown { .. } => self.others.extend(other(run, change)?),
            }
        }
        self.add_run(id, row);
        if let Some((reset, text)) = prose {
            self.prose_of.push(id);
            self.prose_seq.push(end);
            self.prose_reset.push(reset);
            self.prose.push(escape(&text).into_owned());
        }
        Ok(())
    }

    fn add_run(&mut self, id: Key, row: RunRow<'a>) {
        if row.touched.is_none() && row.state.is_none() {
            return;
        }
        self.runs.push(id);
        self.status.push(row.status);
        self.stop_reason.push(row.stop_reason);
        self.code.push(row.code);
        self.error.push(row.error);
        self.began.push(row.began);
        self.ended.push(row.ended);
        self.touched.push(row.touched);
        self.state.push(row.state);
        self.turn.push(row.turn);
    }

    /// The last values of `baton_append` and `baton_admit`.
    pub(super) fn bind(self, ask: Ask<'a>) -> Ask<'a> {
        let others = (!self.others.is_empty()).then(|| Value::Array(self.others).to_string());
        ask.bind(self.runs)
            .bind(self.status)
            .bind(self.stop_reason)
            .bind(self.code)
            .bind(self.error)
            .bind(self.began)
            .bind(self.ended)
            .bind(self.touched)
            .bind(self.state)
            .bind(self.turn)
            .bind(self.prose_of)
            .bind(self.prose_seq)
            .bind(self.prose_reset)
            .bind(self.prose)
            .bind(others)
    }
}

/// An id as PostgreSQL reads it in JSON.
fn uuid(bits: u128) -> String {
    format!("{bits:032x}")
}

fn publish(run: RunId, version: &PublishedVersion) -> Value {
    json!({
        "row": "publish", "run": uuid(run.bits()), "id": uuid(version.id.bits()), "project_id": uuid(version.project_id.bits()),
        "parent": version.parent.map(|parent| uuid(parent.bits())), "summary": escape(&version.summary),
        "files": escape(&version.files), "output": escape(&version.output), "at": int(version.at),
    })
}

/// A change that the server draws.
fn other(run: RunId, change: &RowChange) -> Result<Option<Value>, StoreError> {
    let run = uuid(run.bits());
    let free = |text: &Option<String>| text.as_deref().map(|text| escape(text).into_owned());
    Ok(Some(match change {
        RowChange::Answered { tokens, duration_ms } => {
            json!({"row": "answered", "run": run, "tokens": int(*tokens), "duration_ms": int(*duration_ms)})
        }
        RowChange::ToolRequested { call_id, tool, input, key } => json!({
            "row": "tool_requested", "run": run, "call_id": escape(call_id.as_str()), "tool": word(tool)?,
            "input": escape(input), "key": escape(key),
        }),
        RowChange::ToolFinished { call_id, status, output, error, duration_ms } => json!({
            "row": "tool_finished", "run": run, "call_id": escape(call_id.as_str()), "status": word(status)?,
            "output": escape(output), "error": free(error), "duration_ms": int(*duration_ms),
        }),
        RowChange::Build { build_id, status, duration_ms, error, at } => json!({
            "row": "build", "run": run, "build_id": escape(build_id), "status": word(status)?, "error": free(error),
            "at": int(*at), "duration_ms": duration_ms.map(int),
        }),
        RowChange::BuildShown { url } => json!({"row": "build_shown", "run": run, "url": escape(url)}),
        RowChange::Run { .. }
        | RowChange::Progress { .. }
        | RowChange::AssistantText { .. }
        | RowChange::AssistantReset { .. }
        | RowChange::Publish(_) => return Ok(None),
    }))
}
