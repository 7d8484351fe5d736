//! The rows that are drawn from a run's log: status, answer, tool calls, builds, versions (E22).
//!
//! A change never judges its event: what a log says is drawn, so that a row can refuse no event. Publishing is the exception,
//! since it reaches beyond the run.

use contract::RunId;
use contract::api::{Role, RunStatus};
use contract::event::BuildState;
use runtime::ports::store::{AppendError, PublishedVersion, RowChange, StoreError, StoreFault};
use rusqlite::{Connection, Result, params};

use super::super::alike::last_state;
use super::column::{int, key, word};
use super::failure::Failure;

/// Makes one change; `end` is where the log ends with the append that it belongs to.
pub(super) fn change(db: &Connection, run: RunId, end: i64, change: &RowChange) -> Result<(), Failure<AppendError>> {
    let id = key(run.bits());
    match change {
        RowChange::Run { status, stop_reason, code, error, at } => {
            let stop_reason = stop_reason.as_ref().map(word).transpose()?;
            let began = (*status == RunStatus::Running).then_some(int(*at));
            let ended = status.is_terminal().then_some(int(*at));
            db.prepare_cached(
                "UPDATE runs SET status = ?2, stop_reason = ?3, error = ?4, started_at = coalesce(started_at, ?5), ended_at = ?6,
                 code = ?7, state = coalesce(?8, state) WHERE id = ?1",
            )?
            .execute(params![id, word(status)?, stop_reason, error, began, ended, code, last_state(*status).as_ref().map(word).transpose()?])?;
            touch_chat(db, id, *at)?;
        }
        RowChange::Progress { state, turn } => {
            db.prepare_cached("UPDATE runs SET state = ?2, turn = ?3 WHERE id = ?1")?.execute(params![
                id,
                word(state)?,
                turn
            ])?;
        }
        RowChange::Answered { tokens, duration_ms } => {
            db.prepare_cached("UPDATE messages SET tokens = ?2, duration_ms = ?3 WHERE run_id = ?1 AND role = ?4")?
                .execute(params![id, int(*tokens), int(*duration_ms), word(&Role::Assistant)?])?;
        }
        RowChange::AssistantText { text } => add_prose(db, id, end, text)?,
        RowChange::AssistantReset { text } => {
            db.prepare_cached("DELETE FROM prose WHERE run_id = ?1")?.execute([id])?;
            add_prose(db, id, end, text)?;
        }
        RowChange::ToolRequested { call_id, tool, input, key } => {
            db.prepare_cached(
                "INSERT INTO tool_calls (run_id, call_id, tool, input, key) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (run_id, call_id) DO UPDATE SET tool = excluded.tool, input = excluded.input, key = excluded.key",
            )?
            .execute(params![id, call_id.as_str(), word(tool)?, input, key])?;
        }
        RowChange::ToolFinished { call_id, status, output, error, duration_ms } => {
            db.prepare_cached(
                "UPDATE tool_calls SET status = ?3, output = ?4, error = ?5, duration_ms = ?6 WHERE run_id = ?1 AND call_id = ?2",
            )?
            .execute(params![id, call_id.as_str(), word(status)?, output, error, int(*duration_ms)])?;
        }
        RowChange::Build { build_id, status, duration_ms, error, at } => {
            db.prepare_cached(
                "INSERT INTO builds (run_id, build_id, status, error, started_at, duration_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (run_id, build_id)
                 DO UPDATE SET status = excluded.status, error = excluded.error, duration_ms = excluded.duration_ms",
            )?
            .execute(params![id, build_id, word(status)?, error, int(*at), duration_ms.map(int)])?;
        }
        RowChange::BuildShown { url } => {
            db.prepare_cached(
                "UPDATE builds SET url = ?2 WHERE n = (SELECT max(n) FROM builds WHERE run_id = ?1 AND status = ?3)",
            )?
            .execute(params![id, url, word(&BuildState::Succeeded)?])?;
        }
        RowChange::Publish(version) => publish(db, id, version)?,
    }
    Ok(())
}

fn touch_chat(db: &Connection, run: [u8; 16], at: u64) -> Result<()> {
    db.prepare_cached(
        "UPDATE chats SET updated_at = max(updated_at, ?2) WHERE id = (SELECT chat_id FROM runs WHERE id = ?1)",
    )?
    .execute(params![run, int(at)])?;
    Ok(())
}

fn add_prose(db: &Connection, run: [u8; 16], end: i64, text: &str) -> Result<()> {
    db.prepare_cached(
        "INSERT INTO prose (run_id, seq, text) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET text = text || excluded.text",
    )?
    .execute(params![run, end, text])?;
    Ok(())
}

/// Makes the answer of a run whole: its pieces become the message's text.
pub(super) fn close_prose(db: &Connection, run: RunId) -> Result<()> {
    let id = key(run.bits());
    db.prepare_cached(
        "UPDATE messages SET text = coalesce((SELECT group_concat(text, '' ORDER BY seq) FROM prose WHERE run_id = ?1), text)
         WHERE run_id = ?1 AND role = ?2",
    )?
    .execute(params![id, word(&Role::Assistant)?])?;
    db.prepare_cached("DELETE FROM prose WHERE run_id = ?1")?.execute([id])?;
    Ok(())
}

/// The one atomic switch of a preview. It is part of an append, so the run's epoch guards it (E20).
fn publish(db: &Connection, run: [u8; 16], version: &PublishedVersion) -> Result<(), Failure<AppendError>> {
    let (id, project) = (key(version.id.bits()), key(version.project_id.bits()));
    let parent = version.parent.map(|parent| key(parent.bits()));
    db.prepare_cached(
        "INSERT INTO versions (id, project_id, run_id, parent, summary, files, output, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        id,
        project,
        run,
        parent,
        version.summary,
        version.files,
        version.output,
        int(version.at)
    ])?;
    let switched = db
        .prepare_cached("UPDATE projects SET current_version = ?2 WHERE id = ?1 AND id = (SELECT project_id FROM runs WHERE id = ?3)")?
        .execute(params![project, id, run])?;
    if switched == 0 {
        let error = StoreError::new(StoreFault::Refused, "a run can publish to its own project alone");
        return Err(Failure::Refused(error.into()));
    }
    touch_chat(db, run, version.at)?;
    Ok(())
}
