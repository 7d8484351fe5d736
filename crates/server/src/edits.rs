//! What a person changes by hand: edits, deletions, uploads and restores. Each is admitted as a run of its own, which takes the change
//! in, checks, builds and publishes it; a project that another run has is not waited for (promise 7).

use std::sync::Arc;

use axum::body::Body as Stream;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use contract::api::{Accepted, Upload};
use contract::{Envelope, ProjectId, ProjectPath, VersionId};
use runtime::{Edit, Guard};

use crate::chats::{accepted, idempotency_key};
use crate::guard::Caller;
use crate::reply::{Answer, Code, Path, Refusal, whole};
use crate::schema::Refusals;
use crate::serve::App;

/// Puts a file: the body is its bytes. The answer is the run that builds and publishes the project with it.
///
/// With `Accept: text/event-stream` the answer is the run's events.
#[utoipa::path(put, path = "/v1/projects/{id}/files/{*path}", tag = "projects", operation_id = "put_file",
    params(("id" = ProjectId, Path, description = "The project."),
        ("path" = ProjectPath, Path, description = "The file; its slashes may be encoded or not."),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the file that is meant, or `*` for any: 412 if it is another one by now."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request give the first answer.")),
    request_body(content = String, content_type = "application/octet-stream", description = "The bytes; at most `project_file_bytes`."),
    responses(
        (status = 202, description = "The run is durable.", body = Accepted, headers(("Location" = String, description = "The run."))),
        (status = 200, description = "The run's events.", body = Envelope, content_type = "text/event-stream"),
        Refusals))]
pub async fn put(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((id, path)): Path<(ProjectId, String)>,
    headers: HeaderMap,
    body: Stream,
) -> Answer<Response> {
    let path = parse(&path)?;
    let guard = if_match(&headers)?;
    let content = whole(body, "project_file_bytes", app.runtime.limits.project_file_bytes).await?;
    change(&app, caller, id, &headers, vec![(path, Some(content))], guard).await
}

/// Deletes a file. The answer is the run that builds and publishes the project without it.
///
/// With `Accept: text/event-stream` the answer is the run's events.
#[utoipa::path(delete, path = "/v1/projects/{id}/files/{*path}", tag = "projects", operation_id = "delete_file",
    params(("id" = ProjectId, Path, description = "The project."),
        ("path" = ProjectPath, Path, description = "The file; its slashes may be encoded or not."),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the file that is meant: 412 if it is another one by now."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request give the first answer.")),
    responses(
        (status = 202, description = "The run is durable.", body = Accepted, headers(("Location" = String, description = "The run."))),
        (status = 200, description = "The run's events.", body = Envelope, content_type = "text/event-stream"),
        Refusals))]
pub async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((id, path)): Path<(ProjectId, String)>,
    headers: HeaderMap,
) -> Answer<Response> {
    let guard = if_match(&headers)?;
    change(&app, caller, id, &headers, vec![(parse(&path)?, None)], guard).await
}

/// Puts several files in one change. The answer is the run that builds and publishes the project with them.
///
/// With `Accept: text/event-stream` the answer is the run's events.
#[utoipa::path(post, path = "/v1/projects/{id}/uploads", tag = "projects", operation_id = "upload_files",
    params(("id" = ProjectId, Path, description = "The project."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request give the first answer.")),
    request_body = Upload,
    responses(
        (status = 202, description = "The run is durable.", body = Accepted, headers(("Location" = String, description = "The run."))),
        (status = 200, description = "The run's events.", body = Envelope, content_type = "text/event-stream"),
        Refusals))]
pub async fn upload(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<ProjectId>,
    headers: HeaderMap,
    body: Stream,
) -> Answer<Response> {
    let body = whole(body, "upload_bytes", app.runtime.limits.upload_bytes).await?;
    let upload: Upload =
        serde_json::from_slice(&body).map_err(|error| Refusal::new(Code::BadBody, error.to_string()))?;
    let bytes = |base64: &str| {
        let bytes = STANDARD.decode(base64).map(Bytes::from);
        bytes.map_err(|error| Refusal::new(Code::BadBody, format!("A file is no base64: {error}.")))
    };
    let edit = |file: contract::api::UploadedFile| Ok((file.path, Some(bytes(&file.base64)?)));
    let edits = upload.files.into_iter().map(edit).collect::<Answer<Vec<Edit>>>()?;
    change(&app, caller, id, &headers, edits, None).await
}

/// Makes a project's files what they were in a version. The answer is the run that builds and publishes them.
///
/// With `Accept: text/event-stream` the answer is the run's events.
#[utoipa::path(post, path = "/v1/projects/{id}/versions/{version}/restore", tag = "projects", operation_id = "restore_version",
    params(("id" = ProjectId, Path, description = "The project."),
        ("version" = VersionId, Path, description = "The version."),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request give the first answer.")),
    responses(
        (status = 202, description = "The run is durable.", body = Accepted, headers(("Location" = String, description = "The run."))),
        (status = 200, description = "The run's events.", body = Envelope, content_type = "text/event-stream"),
        Refusals))]
pub async fn restore(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((id, version)): Path<(ProjectId, VersionId)>,
    headers: HeaderMap,
) -> Answer<Response> {
    let key = idempotency_key(&headers)?;
    let run = app.runtime.restore(caller.user, id, version, key).await?;
    Ok(accepted(&app, &headers, &run))
}

async fn change(
    app: &App,
    caller: Caller,
    id: ProjectId,
    headers: &HeaderMap,
    edits: Vec<Edit>,
    guard: Option<Guard>,
) -> Answer<Response> {
    let key = idempotency_key(headers)?;
    let run = app.runtime.edit(caller.user, id, edits, guard, key).await?;
    Ok(accepted(app, headers, &run))
}

fn parse(path: &str) -> Answer<ProjectPath> {
    ProjectPath::parse(path).map_err(|problem| Refusal::new(Code::BadPath, problem.to_string()))
}

/// What `If-Match` says: one hash in quotes, or `*`.
fn if_match(headers: &HeaderMap) -> Answer<Option<Guard>> {
    let mut values = headers.get_all(header::IF_MATCH).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let guard = value.to_str().ok().filter(|_| values.next().is_none()).and_then(Guard::parse);
    let bad = || Refusal::new(Code::BadIfMatch, "If-Match is neither one hash in quotes nor `*`.");
    guard.map(Some).ok_or_else(bad)
}
