//! Instant previews (N7): the page of a project's files, the modules that it names by their hash, and what Baton brings to both
//! kinds of preview: its script and the template's packages.

use std::sync::LazyLock;

use axum::http::{HeaderValue, StatusCode, header, request::Parts};
use axum::response::Response;
use bytes::Bytes;
use runtime::RuntimeError;
use source::Served;

use super::{Answered, body};
use crate::asset;
use crate::guard::sha256_hex;
use crate::serve::App;

/// The script that runs in every preview. Its address is `/@baton/page.js`.
const SCRIPT: &str = include_str!("page.js");
const SCRIPT_NAME: &str = "page.js";

/// The template's packages: what their address holds is the hash of all of them.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";
/// Modules of a project: their address holds the hash of their source, and how that is transformed may change with an upgrade.
const KEPT: &str = "public, max-age=600";
/// Asked about before each use.
const REVALIDATE: &str = "no-cache";

/// Whether the query asks for the files as they are rather than for their build: `instant=` and a revision. Which one does not
/// matter, since the latest is what there is.
pub fn is_asked_for(parts: &Parts) -> bool {
    parts.uri.query().and_then(|query| query.strip_prefix("instant=")).is_some_and(source::is_hash)
}

/// The latest page of the project's files, if nothing newer is built.
pub async fn page(app: &App, slug: &str, parts: &Parts) -> Result<Option<Answered>, RuntimeError> {
    let Some(shown) = app.runtime.instant_page(slug).await? else { return Ok(None) };
    let page = &shown.page;
    let mut response = Response::new(body(&parts.method, page.html.clone().into()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(Some(Answered { response, scripts: page.script_hashes.clone() }))
}

/// A file of the project that a page names by a hash of what is in it. Queries of the app's own are none of these.
pub async fn module(app: &App, slug: &str, parts: &Parts) -> Result<Option<Response>, RuntimeError> {
    let query = parts.uri.query().unwrap_or_default();
    if !source::is_named_by_hash(query) {
        return Ok(None);
    }
    let served = app.runtime.instant_module(slug, parts.uri.path(), query).await?;
    Ok(served.map(|served| respond(served, KEPT, parts)))
}

/// A file of the project as it is, such as a picture, for the latest page.
pub async fn asset(app: &App, slug: &str, parts: &Parts) -> Result<Option<Response>, RuntimeError> {
    let served = app.runtime.instant_asset(slug, parts.uri.path()).await?;
    Ok(served.map(|served| respond(served, REVALIDATE, parts)))
}

/// What Baton brings: its script, and the template's packages as modules below the packages' own hash.
pub fn ours(app: &App, path: &str, parts: &Parts) -> Option<Response> {
    if path == SCRIPT_NAME {
        let etag = format!("\"{}\"", script_version());
        let mut response = asset::head(path, &etag, SCRIPT.len() as u64, &parts.headers);
        if response.status() == StatusCode::OK {
            *response.body_mut() = body(&parts.method, Bytes::from_static(SCRIPT.as_bytes()));
        }
        return Some(response);
    }
    let (pack, _) = path.split_once('/')?;
    let packages = &app.runtime.template.instant;
    let within = parts.uri.path().strip_prefix("/@baton/")?.split_once('/')?.1;
    let served = packages.serve(within, parts.uri.query().unwrap_or_default()).filter(|_| pack == packages.id())?;
    Some(respond(served, IMMUTABLE, parts))
}

fn respond(served: Served, keep: &'static str, parts: &Parts) -> Response {
    let mut response = Response::new(body(&parts.method, served.body));
    let headers = response.headers_mut();
    if let Ok(kind) = HeaderValue::from_str(&served.content_type) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(keep));
    response
}

/// A built page with Baton's script before everything else.
pub fn with_script(html: &[u8]) -> Bytes {
    source::with_script(html, &format!("/@baton/{SCRIPT_NAME}")).into()
}

/// Changes when the script does.
pub fn script_version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| sha256_hex(SCRIPT)[..16].to_owned());
    &VERSION
}
