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

/// Where addresses say what they mean, and so never change: names with a hash.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// Whether the query names a file of a page by its hash.
pub fn is_named_by_hash(query: &str) -> bool {
    ["module=", "url=", "raw="].iter().any(|kind| query.starts_with(kind))
}

/// Whether the query asks for the files as they are rather than for their build.
pub fn is_asked_for(query: &str) -> bool {
    query.split('&').any(|part| part == "instant" || part.starts_with("instant="))
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

/// A file of the project that a page asks for.
pub async fn file(app: &App, slug: &str, parts: &Parts) -> Result<Option<Response>, RuntimeError> {
    let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
    Ok(app.runtime.instant_file(slug, path, query).await?.map(|served| respond(served, parts)))
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
    Some(respond(served, parts))
}

fn respond(served: Served, parts: &Parts) -> Response {
    let mut response = Response::new(body(&parts.method, served.body));
    let headers = response.headers_mut();
    if let Ok(kind) = HeaderValue::from_str(&served.content_type) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    let keep = if served.immutable { IMMUTABLE } else { "no-cache" };
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
