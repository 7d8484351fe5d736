//! Chats and the messages that begin runs.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contract::api::{Accepted, ChatDetail, ChatView, NewMessage, Page, PreviewView};
use contract::{ChatId, Envelope};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::guard::Caller;
use crate::reply::{Answer, Body, Code, Path, Query, Refusal};
use crate::schema::Refusals;
use crate::serve::App;
use crate::{bounds, sse};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Which page of a list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// `next` of the page before.
    pub cursor: Option<String>,
    /// How many items at the most; `page_items` of the limits table if left out, and never more.
    pub limit: Option<u64>,
}

/// The size of a page.
pub fn page_size(app: &App, limit: Option<u64>) -> Answer<usize> {
    let most = app.runtime.limits.page_items;
    let size = limit.unwrap_or(most);
    if size == 0 || size > most {
        let detail = format!("A page holds 1 to {most} items.");
        return Err(Refusal::at_limit(Code::BadLimit, detail, "page_items", most));
    }
    Ok(usize::try_from(size).unwrap_or(usize::MAX))
}

/// Lists chats, the one last used first.
#[utoipa::path(get, path = "/v1/chats", tag = "chats", operation_id = "list_chats", params(PageQuery),
    responses((status = 200, description = "A page of chats.", body = Page<ChatView>), Refusals))]
pub async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    Query(page): Query<PageQuery>,
) -> Answer<Json<Page<ChatView>>> {
    let most = page_size(&app, page.limit)?;
    Ok(Json(app.runtime.ports.store.chats(caller.user, page.cursor.as_deref(), most).await?))
}

/// Begins a chat, and a project, with its first message.
///
/// With `Accept: text/event-stream` the answer is the run's events.
#[utoipa::path(post, path = "/v1/chats", tag = "chats", operation_id = "create_chat",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request give the first answer.")),
    request_body = NewMessage,
    responses(
        (status = 202, description = "The run is durable.", body = Accepted, headers(("Location" = String, description = "The run."))),
        (status = 200, description = "The run's events.", body = Envelope, content_type = "text/event-stream"),
        Refusals))]
pub async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    headers: HeaderMap,
    Body(message): Body<NewMessage>,
) -> Answer<Response> {
    accept(&app, caller, None, &headers, &message).await
}

/// A chat with its messages and runs.
#[utoipa::path(get, path = "/v1/chats/{id}", tag = "chats", operation_id = "get_chat",
    params(("id" = ChatId, Path, description = "The chat.")),
    responses((status = 200, description = "The chat.", body = ChatDetail), Refusals))]
pub async fn show(State(app): State<Arc<App>>, caller: Caller, Path(id): Path<ChatId>) -> Answer<Json<ChatDetail>> {
    let store = &app.runtime.ports.store;
    let chat = store.chat(caller.user, id).await?;
    let mut detail = chat.ok_or_else(|| Refusal::new(Code::NoSuchChat, "You have no chat with this id."))?;
    detail.preview = store.project(detail.chat.project_id).await?.map(|project| {
        let (preview, version) = (&app.runtime.preview, project.current.map(|version| version.id));
        PreviewView { url: preview.url(&project.slug), host: preview.host(&project.slug), version }
    });
    Ok(Json(detail))
}

/// Sends a message to a chat, which begins a run.
///
/// With `Accept: text/event-stream` the answer is the run's events.
#[utoipa::path(post, path = "/v1/chats/{id}/messages", tag = "chats", operation_id = "send_message",
    params(("id" = ChatId, Path, description = "The chat."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request give the first answer.")),
    request_body = NewMessage,
    responses(
        (status = 202, description = "The run is durable.", body = Accepted, headers(("Location" = String, description = "The run."))),
        (status = 200, description = "The run's events.", body = Envelope, content_type = "text/event-stream"),
        Refusals))]
pub async fn send(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<ChatId>,
    headers: HeaderMap,
    Body(message): Body<NewMessage>,
) -> Answer<Response> {
    accept(&app, caller, Some(id), &headers, &message).await
}

/// Admits a message and answers with the run, or with its events.
async fn accept(
    app: &App,
    caller: Caller,
    chat: Option<ChatId>,
    headers: &HeaderMap,
    message: &NewMessage,
) -> Answer<Response> {
    let key = idempotency_key(headers)?;
    let admitted = app.runtime.send(caller.user, chat, &message.text, key).await?;
    Ok(accepted(app, headers, &admitted))
}

/// The answer to what became a run: the run, or its events if these are asked for.
pub fn accepted(app: &App, headers: &HeaderMap, run: &Accepted) -> Response {
    let mut response = if sse::is_wanted(headers) {
        sse::one(app, run.run_id, 0)
    } else {
        (StatusCode::ACCEPTED, Json(run)).into_response()
    };
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/runs/{}", run.run_id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// The key that makes a repeated request give the first answer, if there is one.
pub fn idempotency_key(headers: &HeaderMap) -> Answer<Option<&str>> {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = keys.next() else { return Ok(None) };
    let text = key.to_str().ok().filter(|text| (1..=bounds::IDEMPOTENCY_KEY_BYTES).contains(&text.len()));
    match (text, keys.next()) {
        (Some(text), None) => Ok(Some(text)),
        _ => {
            Err(Refusal::new(Code::BadIdempotencyKey, "The Idempotency-Key is empty, too long, doubled or not ASCII."))
        }
    }
}
