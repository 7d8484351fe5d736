//! Projects: their files as they are now, and their versions.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use contract::api::{Page, ProjectFiles, VersionView};
use contract::{ProjectId, ProjectPath};

use crate::chats::page_size;
use crate::guard::{Caller, sha256_hex};
use crate::reply::{Answer, Code, Path, Refusal};
use crate::schema::Refusals;
use crate::serve::App;

/// The files of a project, with what the latest run has changed so far.
#[utoipa::path(get, path = "/v1/projects/{id}/files", tag = "projects", operation_id = "list_files",
    params(("id" = ProjectId, Path, description = "The project.")),
    responses((status = 200, description = "The files.", body = ProjectFiles), Refusals))]
pub async fn files(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<ProjectId>,
) -> Answer<Json<ProjectFiles>> {
    app.runtime.files(caller.user, id).await?.map(Json).ok_or_else(unknown)
}

/// A file's bytes. Whatever they are, a browser shows them as text and runs nothing. `ETag` is their SHA-256, for `If-Match`.
#[utoipa::path(get, path = "/v1/projects/{id}/files/{*path}", tag = "projects", operation_id = "get_file",
    params(("id" = ProjectId, Path, description = "The project."),
        ("path" = ProjectPath, Path, description = "The file; its slashes may be encoded or not.")),
    responses((status = 200, description = "The bytes.", body = String, content_type = "text/plain"), Refusals))]
pub async fn file(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((id, path)): Path<(ProjectId, String)>,
) -> Answer<Response> {
    let path = ProjectPath::parse(&path).map_err(|problem| Refusal::new(Code::BadPath, problem.to_string()))?;
    let bytes = app.runtime.file(caller.user, id, &path).await?;
    let bytes =
        bytes.ok_or_else(|| Refusal::new(Code::NoSuchFile, "You have no such project, or it has no such file."))?;
    let tag = HeaderValue::from_str(&format!("\"{}\"", sha256_hex(&bytes)));
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    headers.extend(tag.ok().map(|tag| (header::ETAG, tag)));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    Ok(response)
}

/// The latest published versions of a project, newest first.
#[utoipa::path(get, path = "/v1/projects/{id}/versions", tag = "projects", operation_id = "list_versions",
    params(("id" = ProjectId, Path, description = "The project.")),
    responses((status = 200, description = "The versions.", body = Page<VersionView>), Refusals))]
pub async fn versions(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<ProjectId>,
) -> Answer<Json<Page<VersionView>>> {
    let store = &app.runtime.ports.store;
    let project = store.project(id).await?.filter(|project| project.user == caller.user);
    project.ok_or_else(unknown)?;
    let items = store.versions(id, page_size(&app, None)?).await?;
    Ok(Json(Page { items, next: None }))
}

fn unknown() -> Refusal {
    Refusal::no_such_project()
}
