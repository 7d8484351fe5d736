//! Bundles: a run in one file, to be attached to a bug report, and read by whoever gets it.

use std::sync::Arc;

use axum::Json;
use axum::body::Body as Stream;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use contract::RunId;
use contract::api::RunView;
use contract::bundle::Bundle;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::chats::idempotency_key;
use crate::guard::Caller;
use crate::reply::{Answer, Path, Query, whole};
use crate::schema::Refusals;
use crate::serve::App;

/// What is exported.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BundleQuery {
    /// `false`: without the contents of files, whose hashes stay. They are in it if this is left out.
    files: Option<bool>,
}

/// A run in one file: its log and the files that it names, without what looks like a secret. Of an active run it is what has been
/// stored so far.
#[utoipa::path(get, path = "/v1/runs/{id}/bundle", tag = "runs", operation_id = "export_run",
    params(("id" = RunId, Path, description = "The run."), BundleQuery),
    responses((status = 200, description = "The bundle.", body = Bundle), Refusals))]
pub async fn export(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<RunId>,
    Query(query): Query<BundleQuery>,
) -> Answer<Response> {
    let bundle = app.runtime.export(caller.user, id, query.files.unwrap_or(true)).await?;
    let mut response = bundle.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(name) = HeaderValue::from_str(&format!("attachment; filename=\"{id}.baton.json\"")) {
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

/// Takes a bundle in as a run of the caller that has ended, in a chat of its own. Nothing of it is performed.
#[utoipa::path(post, path = "/v1/bundles", tag = "runs", operation_id = "import_run",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request give the first answer.")),
    request_body = Bundle,
    responses(
        (status = 201, description = "The run.", body = RunView, headers(("Location" = String, description = "The run."))),
        Refusals))]
pub async fn import(State(app): State<Arc<App>>, caller: Caller, headers: HeaderMap, body: Stream) -> Answer<Response> {
    let key = idempotency_key(&headers)?;
    let bundle = whole(body, "bundle_bytes", app.runtime.limits.bundle_bytes).await?;
    let run = app.runtime.import(caller.user, bundle, key).await?;
    let mut headers = HeaderMap::new();
    headers.extend(HeaderValue::from_str(&format!("/v1/runs/{}", run.id)).ok().map(|run| (header::LOCATION, run)));
    Ok((StatusCode::CREATED, headers, Json(run)).into_response())
}
