//! Previews: a project on a host of its own, as it was built or, before that, as its files are.
//!
//! What is shown is model's work and runs in the person's browser. So this host shows nothing but that: no route of the API, no
//! cookie, and a policy that keeps the page to its own origin. Paths are looked up in a manifest or in the log's files; no file
//! system is behind them.

mod built;
mod instant;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use axum::response::{Html, IntoResponse, Response};
use runtime::RuntimeError;

use crate::asset;
use crate::guard::Hosts;
use crate::observe::Route;
use crate::serve::App;

/// Serves one request to a preview's host.
pub async fn serve(app: &App, slug: &str, parts: &Parts) -> Response {
    let (mut response, scripts) = match answer(app, slug, parts).await {
        Ok(Answered { response, scripts }) => (response, scripts),
        Err(error) => (failed(&error), vec![]),
    };
    protect(response.headers_mut(), &app.hosts, &scripts);
    response.extensions_mut().insert(Route::named("preview"));
    response
}

/// An answer, and what its policy has to allow.
struct Answered {
    response: Response,
    /// Hashes of the inline scripts that the page needs, as sources of a policy.
    scripts: Vec<String>,
}

impl From<Response> for Answered {
    fn from(response: Response) -> Self {
        Self { response, scripts: vec![] }
    }
}

/// In this order: what Baton itself brings; what a page names by a hash; a page that is asked for by a revision; what the latest
/// page has as it is; the build; and the page that there is before anything was built.
async fn answer(app: &App, slug: &str, parts: &Parts) -> Result<Answered, RuntimeError> {
    if parts.method != Method::GET && parts.method != Method::HEAD {
        let refused = page(StatusCode::METHOD_NOT_ALLOWED, "A preview can only be read", "");
        return Ok(([(header::ALLOW, "GET, HEAD")], refused).into_response().into());
    }
    let Some(path) = asset::decoded(parts.uri.path()) else {
        return Ok(missing().into());
    };
    let opens_page = wants_page(&parts.headers) && asset::extension(&path).is_none_or(|kind| kind == "html");
    if let Some(ours) = path.strip_prefix("@baton/") {
        return Ok(instant::ours(app, ours, parts).unwrap_or_else(missing).into());
    }
    if let Some(module) = instant::module(app, slug, parts).await? {
        return Ok(module.into());
    }
    if opens_page
        && instant::is_asked_for(parts)
        && let Some(shown) = instant::page(app, slug, parts).await?
    {
        return Ok(shown);
    }
    if !opens_page && let Some(asset) = instant::asset(app, slug, parts).await? {
        return Ok(asset.into());
    }
    match app.runtime.published(slug).await? {
        Some((_, manifest)) => match built::find(&manifest, &path, opens_page) {
            Some((path, entry)) => Ok(built::serve(app, path, entry, parts).await?.into()),
            None => Ok(missing().into()),
        },
        None if opens_page => Ok(instant::page(app, slug, parts).await?.unwrap_or_else(|| nothing().into())),
        None => Ok(nothing().into()),
    }
}

/// Whether the client is opening a page. A script that fetches what is not there must get a 404 rather than HTML, although it
/// accepts anything; browsers tell which it is.
fn wants_page(headers: &HeaderMap) -> bool {
    let by_script = headers.get("sec-fetch-mode").is_some_and(|mode| mode != "navigate");
    let mut kinds = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
    let anything = kinds.peek().is_none();
    let html = kinds
        .flat_map(|value| value.split(','))
        .filter_map(|kind| kind.split(';').next())
        .any(|kind| matches!(kind.trim(), "text/html" | "text/*" | "*/*"));
    !by_script && (anything || html)
}

fn missing() -> Response {
    page(StatusCode::NOT_FOUND, "The app has no such file", "")
}

fn nothing() -> Response {
    let hint = "It was never built, or its address is misspelt. Open it from its chat.";
    page(StatusCode::NOT_FOUND, "There is no preview here", hint)
}

fn failed(error: &dyn std::fmt::Display) -> Response {
    tracing::error!(%error, "a preview cannot be served");
    page(StatusCode::SERVICE_UNAVAILABLE, "The preview cannot be read now", "Load the page again in a moment.")
}

/// A plain page of Baton's own, in words only.
fn page(status: StatusCode, title: &str, hint: &str) -> Response {
    let body = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title><h1>{title}</h1><p>{hint}</p></html>"
    );
    (status, [(header::CACHE_CONTROL, "no-store")], Html(body)).into_response()
}

/// Bytes, or only their head if that is what was asked for.
fn body(method: &Method, bytes: bytes::Bytes) -> Body {
    if method == Method::HEAD { Body::empty() } else { Body::from(bytes) }
}

/// What a browser may do with a preview: use its own files, and be framed by the app.
fn protect(headers: &mut HeaderMap, hosts: &Hosts, scripts: &[String]) {
    let framers = hosts.framers();
    let scripts: String = scripts.iter().map(|hash| format!(" {hash}")).collect();
    let policy = format!(
        "default-src 'self'; script-src 'self'{scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; \
         font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; \
         frame-ancestors {framers}"
    );
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
}
