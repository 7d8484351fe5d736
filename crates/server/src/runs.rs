//! Runs: what became of a message, as a row, as events and as a graph.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use contract::api::{Accepted, GraphView, NewFork, Page, PreviewReport, RunView, Verification};
use contract::{ChatId, Envelope, RunId};
use runtime::Reported;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::chats::{self, page_size};
use crate::guard::Caller;
use crate::reply::{Answer, Body, Code, Path, Query, Refusal};
use crate::schema::Refusals;
use crate::serve::App;
use crate::{sse, stream};

/// Which runs.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunsQuery {
    /// Only those of this chat.
    chat: Option<ChatId>,
    /// `next` of the page before.
    cursor: Option<String>,
    /// How many items at the most; `page_items` of the limits table if left out, and never more.
    limit: Option<u64>,
}

/// Where to go on.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AfterQuery {
    /// The last event that the client has. `Last-Event-ID` stands above it.
    after: Option<u64>,
}

/// Lists runs, newest first.
#[utoipa::path(get, path = "/v1/runs", tag = "runs", operation_id = "list_runs", params(RunsQuery),
    responses((status = 200, description = "A page of runs.", body = Page<RunView>), Refusals))]
pub async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(query): Query<RunsQuery>,
) -> Answer<Json<Page<RunView>>> {
    let most = page_size(&app, query.limit)?;
    let before = query.cursor.map(|cursor| cursor.parse::<RunId>()).transpose();
    let before = before.map_err(|_| Refusal::new(Code::BadCursor, "This cursor is not one that the list gave."))?;
    if let Some(chat) = query.chat
        && app.runtime.ports.store.project_of(caller.user, chat).await?.is_none()
    {
        return Err(Refusal::no_such_chat());
    }
    Ok(Json(app.runtime.ports.store.runs(caller.user, query.chat, before, most).await?))
}

/// A run.
#[utoipa::path(get, path = "/v1/runs/{id}", tag = "runs", operation_id = "get_run",
    params(("id" = RunId, Path, description = "The run.")),
    responses((status = 200, description = "The run.", body = RunView), Refusals))]
pub async fn show(State(app): State<Arc<App>>, caller: Caller, Path(id): Path<RunId>) -> Answer<Json<RunView>> {
    Ok(Json(find(&app, caller, id).await?))
}

/// A run's events: what is stored after the cursor, then each new one as it happens. The stream ends after the run's last event.
///
/// Each event is `id: <run>:<seq>`, `event: <type>`, `data: <Envelope>`.
#[utoipa::path(get, path = "/v1/runs/{id}/events", tag = "runs", operation_id = "get_run_events",
    params(("id" = RunId, Path, description = "The run."), AfterQuery,
        ("Last-Event-ID" = Option<String>, Header, description = "`<run>:<seq>` of the last event that the client has.")),
    responses(
        (status = 200, description = "Events.", body = Envelope, content_type = "text/event-stream"),
        (status = 204, description = "The run has ended and there is nothing after the cursor."),
        Refusals))]
pub async fn events(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<RunId>,
    Query(query): Query<AfterQuery>,
    headers: HeaderMap,
) -> Answer<Response> {
    let after = match sse::last_event_id(&headers)? {
        Some((stream, _)) if stream != id => {
            return Err(Refusal::new(Code::BadCursor, "This cursor belongs to another stream."));
        }
        Some((_, seq)) => seq,
        None => query.after.unwrap_or(0),
    };
    let run = stream::check(&app, caller, id, after).await?;
    if run.status.is_terminal() && after == run.last_seq {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(sse::one(&app, id, after))
}

/// The steps of a run as they are now.
#[utoipa::path(get, path = "/v1/runs/{id}/graph", tag = "runs", operation_id = "get_run_graph",
    params(("id" = RunId, Path, description = "The run.")),
    responses((status = 200, description = "The graph.", body = GraphView), Refusals))]
pub async fn graph(State(app): State<Arc<App>>, caller: Caller, Path(id): Path<RunId>) -> Answer<Json<GraphView>> {
    app.runtime.graph(caller.user, id).await?.map(Json).ok_or_else(unknown)
}

/// Asks for a run to stop. The answer is the run as it is now; it has stopped when its events say so.
#[utoipa::path(post, path = "/v1/runs/{id}/cancel", tag = "runs", operation_id = "cancel_run",
    params(("id" = RunId, Path, description = "The run.")),
    responses((status = 200, description = "The run as it is now.", body = RunView), Refusals))]
pub async fn cancel(State(app): State<Arc<App>>, caller: Caller, Path(id): Path<RunId>) -> Answer<Json<RunView>> {
    app.runtime.cancel(caller.user, id).await?.map(Json).ok_or_else(unknown)
}

/// Tries again: the same request in the same chat, as a new run. What the former run left stays as it is, also if this is refused.
///
/// With `Accept: text/event-stream` the answer is the new run's events.
#[utoipa::path(post, path = "/v1/runs/{id}/retry", tag = "runs", operation_id = "retry_run",
    params(("id" = RunId, Path, description = "A run that has ended."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request give the first answer.")),
    responses(
        (status = 202, description = "The new run is durable.", body = Accepted, headers(("Location" = String, description = "The run."))),
        (status = 200, description = "The new run's events.", body = Envelope, content_type = "text/event-stream"),
        Refusals))]
pub async fn retry(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<RunId>,
    headers: HeaderMap,
) -> Answer<Response> {
    let key = chats::idempotency_key(&headers)?;
    let accepted = app.runtime.retry(caller.user, id, key).await?;
    Ok(chats::accepted(&app, &headers, &accepted))
}

/// Forks a run at a step: a new chat and project begin with a copy of what came before the step, and it and what follows is performed
/// anew, by another model if one is named. The run itself stays as it is, and may still be active.
///
/// With `Accept: text/event-stream` the answer is the fork's events.
#[utoipa::path(post, path = "/v1/runs/{id}/fork", tag = "runs", operation_id = "fork_run",
    params(("id" = RunId, Path, description = "The run."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request give the first answer.")),
    request_body = NewFork,
    responses(
        (status = 202, description = "The fork is durable.", body = Accepted, headers(("Location" = String, description = "The run."))),
        (status = 200, description = "The fork's events.", body = Envelope, content_type = "text/event-stream"),
        Refusals))]
pub async fn fork(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<RunId>,
    headers: HeaderMap,
    Body(fork): Body<NewFork>,
) -> Answer<Response> {
    let key = chats::idempotency_key(&headers)?;
    let accepted = app.runtime.fork(caller.user, id, &fork.at, fork.model.as_deref(), key).await?;
    Ok(chats::accepted(&app, &headers, &accepted))
}

/// Reads the log of a run that has ended once more, draws everything from it again, and tells what is stored otherwise.
#[utoipa::path(get, path = "/v1/runs/{id}/verify", tag = "runs", operation_id = "verify_run",
    params(("id" = RunId, Path, description = "A run that has ended.")),
    responses((status = 200, description = "What was found.", body = Verification), Refusals))]
pub async fn verify(State(app): State<Arc<App>>, caller: Caller, Path(id): Path<RunId>) -> Answer<Json<Verification>> {
    Ok(Json(app.runtime.verify(caller.user, id).await?))
}

/// Tells a run that its instant preview failed in a browser. It becomes a `preview_problem` of the run; if nothing is left on the
/// screen, the run's check fails with it and the model is asked to mend it.
#[utoipa::path(post, path = "/v1/runs/{id}/preview-problems", tag = "runs", operation_id = "report_preview_problem",
    params(("id" = RunId, Path, description = "The run.")), request_body = PreviewReport,
    responses((status = 204, description = "The run will read it."), Refusals))]
pub async fn report(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<RunId>,
    Body(report): Body<PreviewReport>,
) -> Answer<StatusCode> {
    match app.runtime.report(caller.user, id, report).await? {
        Reported::Taken => Ok(StatusCode::NO_CONTENT),
        Reported::NoSuchRun => Err(unknown()),
        Reported::Ended => Err(Refusal::new(Code::RunIsOver, "The run has ended.")),
        Reported::NoSuchPage => Err(Refusal::new(Code::NoSuchPage, "No page has this revision.")),
        Reported::TooMany => {
            let most = app.runtime.limits.preview_reports;
            Err(Refusal::at_limit(Code::TooManyReports, "Enough reports wait for the run.", "preview_reports", most))
        }
    }
}

/// A run of the caller.
pub async fn find(app: &App, caller: Caller, id: RunId) -> Answer<RunView> {
    app.runtime.ports.store.run(caller.user, id).await?.ok_or_else(unknown)
}

fn unknown() -> Refusal {
    Refusal::no_such_run()
}
