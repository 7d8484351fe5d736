//! What lists and pages are drawn from. Every list is bounded, ordered by an index and paged by key.

use contract::api::{ChatDetail, ChatView, MessageView, Page, RunView, VersionView};
use contract::{CallId, ChatId, MessageId, ProjectId, RunId, UserId, VersionId};
use runtime::ports::store::{BuildRow, CallRow, Drawn, ProjectRow, PublishedVersion, StoreError};
use sqlx::postgres::PgRow;

use super::super::alike::{ChatCursor, page};
use super::column::{
    Key, bits, count, escape, from_word, int, small, some_bits, some_text, some_uint, some_word, text, uint,
};
use super::links::Links;

/// Sorts after every id, but for one that is never made.
const AFTER_EVERY_ID: Key = Key(u128::MAX);
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

/// The columns of [`chat_view`] and where they come from.
macro_rules! chat_select {
    () => {
        concat!(
            "SELECT h.id, p.id, h.title, h.created_at, h.updated_at, ",
            run_columns!(),
            " FROM chats h JOIN projects p ON p.chat_id = h.id LEFT JOIN runs r ON r.id = h.latest_run \
             LEFT JOIN claims c ON c.run_id = r.id "
        )
    };
}

/// A run from 15 columns, the first of them at `at`.
fn run_view(row: &PgRow, at: usize) -> Result<RunView, StoreError> {
    Ok(RunView {
        id: RunId::from_bits(bits(row, at)?),
        chat_id: ChatId::from_bits(bits(row, at + 1)?),
        project_id: ProjectId::from_bits(bits(row, at + 2)?),
        status: from_word(row, at + 3)?,
        title: text(row, at + 4)?,
        stop_reason: some_word(row, at + 5)?,
        error: some_text(row, at + 6)?,
        last_seq: uint(row, at + 7)?,
        created_at: uint(row, at + 8)?,
        started_at: some_uint(row, at + 9)?,
        ended_at: some_uint(row, at + 10)?,
        state: from_word(row, at + 11)?,
        turn: small(row, at + 12)?,
        parent: some_bits(row, at + 13)?.map(RunId::from_bits),
        code: some_text(row, at + 14)?,
    })
}

/// A run of the user.
pub(super) async fn run(links: &Links, user: UserId, run: RunId) -> Result<Option<RunView>, StoreError> {
    const SQL: &str = concat!("SELECT ", run_columns!(), runs_from!(), "WHERE r.id = $1 AND r.user_id = $2");
    let ask = || sqlx::query(SQL).bind(Key(run.bits())).bind(Key(user.bits()));
    links.read(ask).await?.first().map(|row| run_view(row, 0)).transpose()
}

/// Runs of the user or of one of the user's chats, newest first.
pub(super) async fn runs(
    links: &Links,
    user: UserId,
    chat: Option<ChatId>,
    before: Option<RunId>,
    most: usize,
) -> Result<Page<RunView>, StoreError> {
    const OF_USER: &str = concat!(
        "SELECT ",
        run_columns!(),
        runs_from!(),
        "WHERE r.user_id = $1 AND r.n < coalesce($2, (SELECT n FROM runs WHERE id = $3), 0) ORDER BY r.n DESC LIMIT $4"
    );
    const OF_CHAT: &str = concat!(
        "SELECT ",
        run_columns!(),
        runs_from!(),
        "WHERE r.chat_id = $5 AND r.user_id = $1 AND r.n < coalesce($2, (SELECT n FROM runs WHERE id = $3), 0) \
         ORDER BY r.n DESC LIMIT $4"
    );
    let ask = || {
        sqlx::query(if chat.is_some() { OF_CHAT } else { OF_USER })
            .bind(Key(user.bits()))
            .bind(before.is_none().then_some(AFTER_EVERY_RUN))
            .bind(before.map(|run| Key(run.bits())))
            .bind(count(most).saturating_add(1))
    };
    let rows = match chat {
        Some(chat) => links.read(|| ask().bind(Key(chat.bits()))).await?,
        None => links.read(ask).await?,
    };
    let items = rows.iter().map(|row| run_view(row, 0)).collect::<Result<_, _>>()?;
    Ok(page(items, most, |last: &RunView| last.id.to_string()))
}

/// Chats of the user, the one last used first.
pub(super) async fn chats(
    links: &Links,
    user: UserId,
    after: Option<ChatCursor>,
    most: usize,
) -> Result<Page<ChatView>, StoreError> {
    const SQL: &str = concat!(
        chat_select!(),
        "WHERE h.user_id = $1 AND (h.updated_at, h.id) < ($2, $3) ORDER BY h.updated_at DESC, h.id DESC LIMIT $4"
    );
    let (time, id) = match after {
        Some(cursor) => (int(cursor.updated_at), Key(cursor.id.bits())),
        None => (i64::MAX, AFTER_EVERY_ID),
    };
    let ask = || sqlx::query(SQL).bind(Key(user.bits())).bind(time).bind(id).bind(count(most).saturating_add(1));
    let rows = links.read(ask).await?;
    let items = rows.iter().map(chat_view).collect::<Result<_, _>>()?;
    Ok(page(items, most, ChatCursor::after))
}

fn chat_view(row: &PgRow) -> Result<ChatView, StoreError> {
    Ok(ChatView {
        id: ChatId::from_bits(bits(row, 0)?),
        project_id: ProjectId::from_bits(bits(row, 1)?),
        title: text(row, 2)?,
        created_at: uint(row, 3)?,
        updated_at: uint(row, 4)?,
        run: some_bits(row, 5)?.map(|_| run_view(row, 5)).transpose()?,
    })
}

/// The project of a chat of the user.
pub(super) async fn project_of(links: &Links, user: UserId, chat: ChatId) -> Result<Option<ProjectId>, StoreError> {
    let ask = || {
        sqlx::query("SELECT id FROM projects WHERE chat_id = $1 AND user_id = $2")
            .bind(Key(chat.bits()))
            .bind(Key(user.bits()))
    };
    links.read(ask).await?.first().map(|row| bits(row, 0).map(ProjectId::from_bits)).transpose()
}

/// A chat of the user with its messages and runs, oldest first, all of one moment.
pub(super) async fn chat(links: &Links, user: UserId, chat: ChatId) -> Result<Option<ChatDetail>, StoreError> {
    const CHAT: &str = concat!(chat_select!(), "WHERE h.id = $1 AND h.user_id = $2");
    const MESSAGES: &str = "SELECT m.id, m.role, m.run_id, m.created_at,
             coalesce((SELECT string_agg(p.text, '' ORDER BY p.seq) FROM prose p WHERE p.run_id = m.run_id AND m.role = 'assistant'), m.text),
             m.tokens, m.duration_ms
         FROM messages m WHERE m.chat_id = $1 ORDER BY m.n";
    const RUNS: &str = concat!("SELECT ", run_columns!(), runs_from!(), "WHERE r.chat_id = $1 ORDER BY r.n");
    let id = Key(chat.bits());
    let mut moment = links.moment().await?;
    let found = moment.rows(sqlx::query(CHAT).bind(id).bind(Key(user.bits()))).await?;
    let Some(chat) = found.first().map(chat_view).transpose()? else {
        moment.end().await?;
        return Ok(None);
    };
    let messages = moment.rows(sqlx::query(MESSAGES).bind(id)).await?;
    let runs = moment.rows(sqlx::query(RUNS).bind(id)).await?;
    moment.end().await?;
    Ok(Some(ChatDetail {
        chat,
        messages: messages.iter().map(message_view).collect::<Result<_, _>>()?,
        runs: runs.iter().map(|row| run_view(row, 0)).collect::<Result<_, _>>()?,
        preview: None,
    }))
}

fn message_view(row: &PgRow) -> Result<MessageView, StoreError> {
    Ok(MessageView {
        id: MessageId::from_bits(bits(row, 0)?),
        role: from_word(row, 1)?,
        text: text(row, 4)?,
        run_id: RunId::from_bits(bits(row, 2)?),
        created_at: uint(row, 3)?,
        tokens: some_uint(row, 5)?,
        duration_ms: some_uint(row, 6)?,
    })
}

/// The columns of [`project_row`].
macro_rules! project_select {
    () => {
        "SELECT p.id, p.chat_id, p.user_id, p.slug, h.latest_run, v.id, v.parent, v.summary, v.files, v.output, v.created_at, v.run_id \
         FROM projects p JOIN chats h ON h.id = p.chat_id LEFT JOIN versions v ON v.id = p.current_version WHERE "
    };
}

fn project_row(row: &PgRow) -> Result<ProjectRow, StoreError> {
    let project = ProjectId::from_bits(bits(row, 0)?);
    let version = |id| -> Result<PublishedVersion, StoreError> {
        Ok(PublishedVersion {
            id: VersionId::from_bits(id),
            project_id: project,
            run_id: RunId::from_bits(bits(row, 11)?),
            parent: some_bits(row, 6)?.map(VersionId::from_bits),
            summary: text(row, 7)?,
            files: text(row, 8)?,
            output: text(row, 9)?,
            at: uint(row, 10)?,
        })
    };
    Ok(ProjectRow {
        id: project,
        chat_id: ChatId::from_bits(bits(row, 1)?),
        user: UserId::from_bits(bits(row, 2)?),
        slug: text(row, 3)?,
        current: some_bits(row, 5)?.map(version).transpose()?,
        latest_run: some_bits(row, 4)?.map(RunId::from_bits),
    })
}

/// A project.
pub(super) async fn project(links: &Links, project: ProjectId) -> Result<Option<ProjectRow>, StoreError> {
    let ask = || sqlx::query(concat!(project_select!(), "p.id = $1")).bind(Key(project.bits()));
    links.read(ask).await?.first().map(project_row).transpose()
}

/// The project whose preview has this slug.
pub(super) async fn project_by_slug(links: &Links, slug: &str) -> Result<Option<ProjectRow>, StoreError> {
    let slug = escape(slug);
    let ask = || sqlx::query(concat!(project_select!(), "p.slug = $1")).bind(&*slug);
    links.read(ask).await?.first().map(project_row).transpose()
}

/// Runs of a project since the one that made its published version, oldest first.
pub(super) async fn unpublished_runs(links: &Links, project: ProjectId) -> Result<Vec<RunId>, StoreError> {
    let ask = || {
        sqlx::query(
            "SELECT r.id FROM projects p JOIN runs r ON r.chat_id = p.chat_id
             WHERE p.id = $1 AND r.n > coalesce(
                 (SELECT made.n FROM versions v JOIN runs made ON made.id = v.run_id WHERE v.id = p.current_version), 0)
             ORDER BY r.n",
        )
        .bind(Key(project.bits()))
    };
    links.read(ask).await?.iter().map(|row| bits(row, 0).map(RunId::from_bits)).collect()
}

/// Versions of a project, newest first.
pub(super) async fn versions(links: &Links, project: ProjectId, most: usize) -> Result<Vec<VersionView>, StoreError> {
    let ask = || {
        sqlx::query(
            "SELECT id, parent, run_id, summary, created_at FROM versions WHERE project_id = $1 ORDER BY n DESC LIMIT $2",
        )
        .bind(Key(project.bits()))
        .bind(count(most))
    };
    let view = |row: &PgRow| {
        Ok(VersionView {
            id: VersionId::from_bits(bits(row, 0)?),
            parent: some_bits(row, 1)?.map(VersionId::from_bits),
            run_id: RunId::from_bits(bits(row, 2)?),
            summary: text(row, 3)?,
            created_at: uint(row, 4)?,
        })
    };
    links.read(ask).await?.iter().map(view).collect()
}

/// The columns of [`published`], from `versions`.
macro_rules! version_select {
    () => {
        "SELECT id, project_id, run_id, parent, summary, files, output, created_at FROM versions WHERE "
    };
}

fn published(row: &PgRow) -> Result<PublishedVersion, StoreError> {
    Ok(PublishedVersion {
        id: VersionId::from_bits(bits(row, 0)?),
        project_id: ProjectId::from_bits(bits(row, 1)?),
        run_id: RunId::from_bits(bits(row, 2)?),
        parent: some_bits(row, 3)?.map(VersionId::from_bits),
        summary: text(row, 4)?,
        files: text(row, 5)?,
        output: text(row, 6)?,
        at: uint(row, 7)?,
    })
}

/// A version of a project.
pub(super) async fn version(
    links: &Links,
    project: ProjectId,
    version: VersionId,
) -> Result<Option<PublishedVersion>, StoreError> {
    let ask = || {
        sqlx::query(concat!(version_select!(), "id = $1 AND project_id = $2"))
            .bind(Key(version.bits()))
            .bind(Key(project.bits()))
    };
    links.read(ask).await?.first().map(published).transpose()
}

/// Calls, builds and versions of a run, all of one moment.
pub(super) async fn drawn(links: &Links, run: RunId) -> Result<Drawn, StoreError> {
    const CALLS: &str = "SELECT call_id, tool, input, key, status, output, error, duration_ms FROM tool_calls WHERE run_id = $1 ORDER BY n";
    const BUILDS: &str =
        "SELECT build_id, status, url, error, started_at, duration_ms FROM builds WHERE run_id = $1 ORDER BY n";
    // Every version of the run is one of its project's, which has an index.
    const VERSIONS: &str = concat!(
        version_select!(),
        "project_id = (SELECT project_id FROM runs WHERE id = $1) AND run_id = $1 ORDER BY n"
    );
    let call = |row: &PgRow| {
        Ok(CallRow {
            call_id: CallId::new(text(row, 0)?),
            tool: from_word(row, 1)?,
            input: text(row, 2)?,
            key: some_text(row, 3)?,
            status: some_word(row, 4)?,
            output: some_text(row, 5)?,
            error: some_text(row, 6)?,
            duration_ms: some_uint(row, 7)?,
        })
    };
    let build = |row: &PgRow| {
        Ok(BuildRow {
            build_id: text(row, 0)?,
            status: from_word(row, 1)?,
            url: some_text(row, 2)?,
            error: some_text(row, 3)?,
            started_at: uint(row, 4)?,
            duration_ms: some_uint(row, 5)?,
        })
    };
    let id = Key(run.bits());
    let mut moment = links.moment().await?;
    let calls = moment.rows(sqlx::query(CALLS).bind(id)).await?;
    let builds = moment.rows(sqlx::query(BUILDS).bind(id)).await?;
    let versions = moment.rows(sqlx::query(VERSIONS).bind(id)).await?;
    moment.end().await?;
    Ok(Drawn {
        calls: calls.iter().map(call).collect::<Result<_, StoreError>>()?,
        builds: builds.iter().map(build).collect::<Result<_, StoreError>>()?,
        versions: versions.iter().map(published).collect::<Result<_, _>>()?,
    })
}
