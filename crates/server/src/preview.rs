//! Previews: the published build of a project, on a host of its own.
//!
//! The files are model's work and run in the person's browser. So this host shows nothing but them: no route of the API, no cookie,
//! and a policy that keeps the page to its own origin. Paths are looked up in a manifest; no file system is behind them.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use axum::response::{Html, IntoResponse, Response};
use contract::ProjectPath;
use runtime::{Manifest, ManifestEntry};

use crate::asset;
use crate::guard::Hosts;
use crate::observe::Route;
use crate::serve::App;

const INDEX: &str = "index.html";

/// Serves one request to a preview's host.
pub async fn serve(app: &App, slug: &str, parts: &Parts) -> Response {
    let mut response = answer(app, slug, parts).await;
    protect(response.headers_mut(), &app.hosts);
    response.extensions_mut().insert(Route::named("preview"));
    response
}

async fn answer(app: &App, slug: &str, parts: &Parts) -> Response {
    if parts.method != Method::GET && parts.method != Method::HEAD {
        let refused = page(StatusCode::METHOD_NOT_ALLOWED, "A preview can only be read", "");
        return ([(header::ALLOW, "GET, HEAD")], refused).into_response();
    }
    let manifest = match app.runtime.published(slug).await {
        Ok(Some((_, manifest))) => manifest,
        Ok(None) => {
            let hint = "It was never built, or its address is misspelt. Open it from its chat.";
            return page(StatusCode::NOT_FOUND, "There is no preview here", hint);
        }
        Err(error) => return failed(&error),
    };
    let Some((path, entry)) = find(&manifest, parts) else {
        return page(StatusCode::NOT_FOUND, "The app has no such file", "");
    };
    let mut response = asset::head(path.as_str(), &format!("\"{}\"", entry.sha256), entry.bytes, &parts.headers);
    if response.status() == StatusCode::OK && parts.method == Method::GET {
        match app.runtime.ports.objects.get(&entry.sha256).await {
            Ok(Some(bytes)) => *response.body_mut() = Body::from(bytes),
            Ok(None) => return failed(&"an object of a published build is missing"),
            Err(error) => return failed(&error),
        }
    }
    response
}

/// The file that a request means: that of its path, a folder's index, or the index of an app that routes by itself.
fn find<'a>(manifest: &'a Manifest, parts: &Parts) -> Option<(&'a ProjectPath, &'a ManifestEntry)> {
    let file = |path: &str| manifest.files.get_key_value(&ProjectPath::parse(path).ok()?);
    let path = asset::decoded(parts.uri.path())?;
    let folder = path.strip_suffix('/').unwrap_or(&path);
    let found = match path.as_str() {
        "" => file(INDEX),
        path if path.ends_with('/') => file(&format!("{folder}/{INDEX}")),
        path => file(path),
    };
    let is_page = asset::extension(folder).is_none() && wants_page(&parts.headers);
    found.or_else(|| is_page.then(|| file(INDEX)).flatten())
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

/// What a browser may do with a preview: use its own files, and be framed by the app.
fn protect(headers: &mut HeaderMap, hosts: &Hosts) {
    // The grammar of policies has no IPv6 addresses; browsers complain of one and ignore it.
    let [ip, name, _] = hosts.origins();
    let policy = format!(
        "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; \
         font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'self'; form-action 'self'; \
         frame-ancestors {ip} {name}"
    );
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
}
