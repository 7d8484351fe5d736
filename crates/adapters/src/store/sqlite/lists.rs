//! What lists and pages are drawn from. Every list is bounded, ordered by an index and paged by key.

use contract::api::{ChatDetail, ChatView, MessageView, Page, RunView, VersionView};
use contract::{CallId, ChatId, MessageId, ProjectId, RunId, UserId, VersionId};
use runtime::ports::store::{BuildRow, CallRow, Drawn, ProjectRow, PublishedVersion};
use rusqlite::{Connection, OptionalExtension, Result, Row, ToSql, params};

use super::super::alike::{ChatCursor, page};
use super::column::{bits, count, from_word, int, key, some_bits, some_uint, some_word, uint};

/// Sorts after every id.
const AFTER_EVERY_ID: [u8; 17] = [0xff; 17];
/// Comes after every run.
const AFTER_EVERY_RUN: i64 = i64::MAX;

/// The columns of [`run_view`], from `runs r` and `claims c`.
macro_rules! run_columns {
    () => {
        "r.id, r.chat_id, r.project_id, r.status, r.title, r.stop_reason, r.error, coalesce(c.last_seq, r.last_seq), r.created_at, \
         r.started_at, r.ended_at, r.state, r.turn, r.parent, r.code"
    };
}

/// Where [`run_columns`] come from.
macro_rules! runs_from {
    () => {
        " FROM runs r LEFT JOIN claims c ON c.run_id = r.id "
    };
}

/// A run from 15 columns, the first of them at `at`.
fn run_view(row: &Row<'_>, at: usize) -> Result<RunView> {
    Ok(RunView {
        id: RunId::from_bits(bits(row, at)?),
        chat_id: ChatId::from_bits(bits(row, at + 1)?),
        project_id: ProjectId::from_bits(bits(row, at + 2)?),
        status: from_word(row, at + 3)?,
        title: row.get(at + 4)?,
        stop_reason: some_word(row, at + 5)?,
        error: row.get(at + 6)?,
        last_seq: uint(row, at + 7)?,
        created_at: uint(row, at + 8)?,
        started_at: some_uint(row, at + 9)?,
        ended_at: some_uint(row, at + 10)?,
        state: from_word(row, at + 11)?,
        turn: row.get(at + 12)?,
        parent: some_bits(row, at + 13)?.map(RunId::from_bits),
        code: row.get(at + 14)?,
    })
}

/// A run of the user.
pub(super) fn run(db: &Connection, user: UserId, run: RunId) -> Result<Option<RunView>> {
    db.prepare_cached(concat!("SELECT ", run_columns!(), runs_from!(), "WHERE r.id = ?1 AND r.user_id = ?2"))?
        .query_row([key(run.bits()), key(user.bits())], |row| run_view(row, 0))
        .optional()
}

/// Runs of the user or of one of the user's chats, newest first.
pub(super) fn runs(
    db: &Connection,
    user: UserId,
    chat: Option<ChatId>,
    before: Option<RunId>,
    most: usize,
) -> Result<Page<RunView>> {
    const OF_USER: &str = concat!(
        "SELECT ",
        run_columns!(),
        runs_from!(),
        "WHERE r.user_id = ?1 AND r.n < ?2 ORDER BY r.n DESC LIMIT ?3"
    );
    // `+`: the chat's index, since a user has more runs than a chat.
    const OF_CHAT: &str = concat!(
        "SELECT ",
        run_columns!(),
        runs_from!(),
        "WHERE r.chat_id = ?4 AND +r.user_id = ?1 AND r.n < ?2 ORDER BY r.n DESC LIMIT ?3"
    );
    let before = match before {
        None => AFTER_EVERY_RUN,
        Some(run) => db
            .prepare_cached("SELECT n FROM runs WHERE id = ?1")?
            .query_row([key(run.bits())], |row| row.get(0))
            .optional()?
            .unwrap_or(0),
    };
    let (user, limit) = (key(user.bits()), count(most).saturating_add(1));
    let items = match chat {
        None => rows(db, OF_USER, params![user, before, limit], |row| run_view(row, 0))?,
        Some(chat) => rows(db, OF_CHAT, params![user, before, limit, key(chat.bits())], |row| run_view(row, 0))?,
    };
    Ok(page(items, most, |last| last.id.to_string()))
}

/// Chats of the user, the one last used first.
pub(super) fn chats(db: &Connection, user: UserId, after: Option<ChatCursor>, most: usize) -> Result<Page<ChatView>> {
    let (time, id) = match after {
        Some(cursor) => (int(cursor.updated_at), key(cursor.id.bits()).to_vec()),
        None => (i64::MAX, AFTER_EVERY_ID.to_vec()),
    };
    let items = rows(
        db,
        concat!(
            "SELECT h.id, p.id, h.title, h.created_at, h.updated_at, ",
            run_columns!(),
            " FROM chats h JOIN projects p ON p.chat_id = h.id LEFT JOIN runs r ON r.id = h.latest_run
             LEFT JOIN claims c ON c.run_id = r.id
             WHERE h.user_id = ?1 AND (h.updated_at, h.id) < (?2, ?3) ORDER BY h.updated_at DESC, h.id DESC LIMIT ?4"
        ),
        params![key(user.bits()), time, id, count(most).saturating_add(1)],
        chat_view,
    )?;
    Ok(page(items, most, ChatCursor::after))
}

fn chat_view(row: &Row<'_>) -> Result<ChatView> {
    Ok(ChatView {
        id: ChatId::from_bits(bits(row, 0)?),
        project_id: ProjectId::from_bits(bits(row, 1)?),
        title: row.get(2)?,
        created_at: uint(row, 3)?,
        updated_at: uint(row, 4)?,
        run: some_bits(row, 5)?.map(|_| run_view(row, 5)).transpose()?,
    })
}

/// A chat of the user with its messages and runs, oldest first.
pub(super) fn chat(db: &Connection, user: UserId, chat: ChatId) -> Result<Option<ChatDetail>> {
    let id = [key(chat.bits())];
    let view = db
        .prepare_cached(concat!(
            "SELECT h.id, p.id, h.title, h.created_at, h.updated_at, ",
            run_columns!(),
            " FROM chats h JOIN projects p ON p.chat_id = h.id LEFT JOIN runs r ON r.id = h.latest_run
             LEFT JOIN claims c ON c.run_id = r.id WHERE h.id = ?1 AND h.user_id = ?2"
        ))?
        .query_row([id[0], key(user.bits())], chat_view)
        .optional()?;
    let Some(chat) = view else { return Ok(None) };
    let messages = rows(
        db,
        "SELECT m.id, m.role, m.run_id, m.created_at,
             coalesce((SELECT group_concat(text, '' ORDER BY seq) FROM prose WHERE run_id = m.run_id AND m.role = 'assistant'), m.text),
             m.tokens, m.duration_ms
         FROM messages m WHERE m.chat_id = ?1 ORDER BY m.n",
        &id,
        |row| {
            Ok(MessageView {
                id: MessageId::from_bits(bits(row, 0)?),
                role: from_word(row, 1)?,
                text: row.get(4)?,
                run_id: RunId::from_bits(bits(row, 2)?),
                created_at: uint(row, 3)?,
                tokens: some_uint(row, 5)?,
                duration_ms: some_uint(row, 6)?,
            })
        },
    )?;
    let runs =
        rows(db, concat!("SELECT ", run_columns!(), runs_from!(), "WHERE r.chat_id = ?1 ORDER BY r.n"), &id, |row| {
            run_view(row, 0)
        })?;
    Ok(Some(ChatDetail { chat, messages, runs, preview: None }))
}

/// The columns of [`project_row`].
macro_rules! project_select {
    () => {
        "SELECT p.id, p.chat_id, p.user_id, p.slug, h.latest_run, v.id, v.parent, v.summary, v.files, v.output, v.created_at, v.run_id
         FROM projects p JOIN chats h ON h.id = p.chat_id LEFT JOIN versions v ON v.id = p.current_version WHERE "
    };
}

fn project_row(row: &Row<'_>) -> Result<ProjectRow> {
    let project = ProjectId::from_bits(bits(row, 0)?);
    let version = |id| -> Result<PublishedVersion> {
        Ok(PublishedVersion {
            id: VersionId::from_bits(id),
            project_id: project,
            run_id: RunId::from_bits(bits(row, 11)?),
            parent: some_bits(row, 6)?.map(VersionId::from_bits),
            summary: row.get(7)?,
            files: row.get(8)?,
            output: row.get(9)?,
            at: uint(row, 10)?,
        })
    };
    Ok(ProjectRow {
        id: project,
        chat_id: ChatId::from_bits(bits(row, 1)?),
        user: UserId::from_bits(bits(row, 2)?),
        slug: row.get(3)?,
        current: some_bits(row, 5)?.map(version).transpose()?,
        latest_run: some_bits(row, 4)?.map(RunId::from_bits),
    })
}

/// A project.
pub(super) fn project(db: &Connection, project: ProjectId) -> Result<Option<ProjectRow>> {
    db.prepare_cached(concat!(project_select!(), "p.id = ?1"))?.query_row([key(project.bits())], project_row).optional()
}

/// The project whose preview has this slug.
pub(super) fn project_by_slug(db: &Connection, slug: &str) -> Result<Option<ProjectRow>> {
    db.prepare_cached(concat!(project_select!(), "p.slug = ?1"))?.query_row([slug], project_row).optional()
}

/// Runs of a project since the one that made its published version, oldest first.
pub(super) fn unpublished_runs(db: &Connection, project: ProjectId) -> Result<Vec<RunId>> {
    rows(
        db,
        "SELECT r.id FROM projects p JOIN runs r ON r.chat_id = p.chat_id
         WHERE p.id = ?1 AND r.n > coalesce(
             (SELECT made.n FROM versions v JOIN runs made ON made.id = v.run_id WHERE v.id = p.current_version), 0)
         ORDER BY r.n",
        &[key(project.bits())],
        |row| bits(row, 0).map(RunId::from_bits),
    )
}

/// Versions of a project, newest first.
pub(super) fn versions(db: &Connection, project: ProjectId, most: usize) -> Result<Vec<VersionView>> {
    rows(
        db,
        "SELECT id, parent, run_id, summary, created_at FROM versions WHERE project_id = ?1 ORDER BY n DESC LIMIT ?2",
        params![key(project.bits()), count(most)],
        |row| {
            Ok(VersionView {
                id: VersionId::from_bits(bits(row, 0)?),
                parent: some_bits(row, 1)?.map(VersionId::from_bits),
                run_id: RunId::from_bits(bits(row, 2)?),
                summary: row.get(3)?,
                created_at: uint(row, 4)?,
            })
        },
    )
}

/// The columns of [`published`], from `versions`.
macro_rules! version_select {
    () => {
        "SELECT id, project_id, run_id, parent, summary, files, output, created_at FROM versions WHERE "
    };
}

fn published(row: &Row<'_>) -> Result<PublishedVersion> {
    Ok(PublishedVersion {
        id: VersionId::from_bits(bits(row, 0)?),
        project_id: ProjectId::from_bits(bits(row, 1)?),
        run_id: RunId::from_bits(bits(row, 2)?),
        parent: some_bits(row, 3)?.map(VersionId::from_bits),
        summary: row.get(4)?,
        files: row.get(5)?,
        output: row.get(6)?,
        at: uint(row, 7)?,
    })
}

/// A version of a project.
pub(super) fn version(db: &Connection, project: ProjectId, version: VersionId) -> Result<Option<PublishedVersion>> {
    db.prepare_cached(concat!(version_select!(), "id = ?1 AND project_id = ?2"))?
        .query_row([key(version.bits()), key(project.bits())], published)
        .optional()
}

/// Calls, builds and versions of a run.
pub(super) fn drawn(db: &Connection, run: RunId) -> Result<Drawn> {
    let id = [key(run.bits())];
    let calls = rows(
        db,
        "SELECT call_id, tool, input, key, status, output, error, duration_ms FROM tool_calls WHERE run_id = ?1 ORDER BY n",
        &id,
        |row| {
            Ok(CallRow {
                call_id: CallId::new(row.get::<_, String>(0)?),
                tool: from_word(row, 1)?,
                input: row.get(2)?,
                key: row.get(3)?,
                status: some_word(row, 4)?,
                output: row.get(5)?,
                error: row.get(6)?,
                duration_ms: some_uint(row, 7)?,
            })
        },
    )?;
    let builds = rows(
        db,
        "SELECT build_id, status, url, error, started_at, duration_ms FROM builds WHERE run_id = ?1 ORDER BY n",
        &id,
        |row| {
            Ok(BuildRow {
                build_id: row.get(0)?,
                status: from_word(row, 1)?,
                url: row.get(2)?,
                error: row.get(3)?,
                started_at: uint(row, 4)?,
                duration_ms: some_uint(row, 5)?,
            })
        },
    )?;
    // Every version of the run is one of its project's, which has an index.
    let versions = rows(
        db,
        concat!(
            version_select!(),
            "project_id = (SELECT project_id FROM runs WHERE id = ?1) AND run_id = ?1 ORDER BY n"
        ),
        &id,
        published,
    )?;
    Ok(Drawn { calls, builds, versions })
}

fn rows<T>(
    db: &Connection,
    sql: &str,
    params: &[impl ToSql],
    read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    db.prepare_cached(sql)?.query_map(rusqlite::params_from_iter(params), read)?.collect()
}
