//! The web UI, embedded: whatever the app's host is asked for that is not a route.
//!
//! A release holds the files; a development build reads them from `web/dist` when asked, and says so where there are none.

#![cfg_attr(
    debug_assertions,
    expect(clippy::disallowed_methods, reason = "without a release, the derive reads the files of the checkout")
)]

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use rust_embed::RustEmbed;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_http::compression::CompressionLayer;

use crate::asset;
use crate::guard::Hosts;
use crate::reply::{Code, Refusal};
use crate::serve::App;

#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/../../web/dist"]
#[allow_missing = true]
struct Dist;

const INDEX: &str = "index.html";
const NOT_BUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Baton</title>\
    <h1>Baton runs, but this build holds no web UI</h1>\
    <p>In a checkout, build it with <code>npm ci &amp;&amp; npm run build</code> in <code>web/</code> and load this page \
    again. The API works meanwhile: see <a href=\"/v1/openapi.json\">/v1/openapi.json</a>.</p></html>";

/// A file of the UI.
struct File {
    sha256: [u8; 32],
    bytes: Bytes,
}

fn embedded(path: &str) -> Option<File> {
    let file = Dist::get(path)?;
    let bytes = match file.data {
        Cow::Borrowed(bytes) => Bytes::from_static(bytes),
        Cow::Owned(bytes) => Bytes::from(bytes),
    };
    Some(File { sha256: file.metadata.sha256_hash(), bytes })
}

/// Serves the UI, packed where the browser can unpack it. Event streams do not come by here.
pub async fn serve(State(app): State<Arc<App>>, request: Request) -> Response {
    let packed = CompressionLayer::new().gzip(true).layer(service_fn(move |request: Request| {
        let response = answer(&app.hosts, request.method(), request.uri().path(), request.headers(), embedded);
        async move { Ok::<_, std::convert::Infallible>(response) }
    }));
    packed.oneshot(request).await.into_response()
}

fn answer(
    hosts: &Hosts,
    method: &Method,
    path: &str,
    asked: &HeaderMap,
    find: impl Fn(&str) -> Option<File>,
) -> Response {
    if path == "/v1" || path.starts_with("/v1/") {
        return Refusal::new(Code::NoSuchRoute, "The API has no such path.").into_response();
    }
    if method != Method::GET && method != Method::HEAD {
        return Refusal::new(Code::MethodNotAllowed, "Pages can only be read.").into_response();
    }
    let Some(path) = asset::decoded(path) else {
        return Refusal::new(Code::NoSuchRoute, "This is not the path of a page.").into_response();
    };
    let mut response = match find(&path) {
        Some(file) => send(&path, file, method, asked),
        None if asset::extension(&path).is_some() => {
            return Refusal::new(Code::NoSuchRoute, "The UI has no such file.").into_response();
        }
        // A page of the UI: the script in the index knows which.
        None => match find(INDEX) {
            Some(index) => send(INDEX, index, method, asked),
            None => (StatusCode::SERVICE_UNAVAILABLE, Html(NOT_BUILT)).into_response(),
        },
    };
    protect(response.headers_mut(), hosts);
    response
}

fn send(path: &str, file: File, method: &Method, asked: &HeaderMap) -> Response {
    let hash = file.sha256.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    // Weak: what is sent may be packed, and is the same file nevertheless.
    let mut response = asset::head(path, &format!("W/\"{hash}\""), file.bytes.len() as u64, asked);
    if response.status() == StatusCode::OK && method != Method::HEAD {
        *response.body_mut() = Body::from(file.bytes);
    }
    response
}

/// What a browser may do with the UI: nothing from elsewhere, except to show previews in frames.
fn protect(headers: &mut HeaderMap, hosts: &Hosts) {
    let policy = format!(
        "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; \
         connect-src 'self'; frame-src http://*.{}:{}; frame-ancestors 'none'; object-src 'none'; base-uri 'none'; \
         form-action 'self'",
        hosts.preview_suffix, hosts.preview_port
    );
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str, asked: &HeaderMap, built: bool) -> Response {
        let hosts = Hosts { port: 7420, preview_suffix: "localhost".into(), preview_port: 7420, among_others: false };
        let find = |path: &str| {
            let bytes: &'static [u8] = match path {
                "index.html" => b"<!doctype html>",
                "assets/index-B7x_9aQ2.js" => b"run()",
                _ => return None,
            };
            built.then(|| File { sha256: [7; 32], bytes: Bytes::from_static(bytes) })
        };
        answer(&hosts, &Method::GET, path, asked, find)
    }

    #[test]
    fn a_page_is_the_index_a_file_is_itself_and_the_api_is_neither() {
        for (path, status, kind, cache) in [
            ("/", 200, "text/html; charset=utf-8", "no-cache"),
            ("/chats/chat_1", 200, "text/html; charset=utf-8", "no-cache"),
            ("/assets/index-B7x_9aQ2.js", 200, "text/javascript; charset=utf-8", "public, max-age=31536000, immutable"),
            ("/assets/gone-B7x_9aQ2.js", 404, "application/problem+json", "no-store"),
            ("/v1", 404, "application/problem+json", "no-store"),
            ("/v1/nothing", 404, "application/problem+json", "no-store"),
            ("/..%2findex.html", 404, "application/problem+json", "no-store"),
        ] {
            let response = get(path, &HeaderMap::new(), true);
            assert_eq!(response.status(), status, "{path}");
            assert_eq!(response.headers()[header::CONTENT_TYPE], kind, "{path}");
            assert_eq!(response.headers()[header::CACHE_CONTROL], cache, "{path}");
            assert_eq!(response.headers().contains_key(header::CONTENT_SECURITY_POLICY), status == 200, "{path}");
        }
        let known = HeaderMap::from_iter([(
            header::IF_NONE_MATCH,
            get("/", &HeaderMap::new(), true).headers()[header::ETAG].clone(),
        )]);
        assert_eq!(get("/", &known, true).status(), StatusCode::NOT_MODIFIED);
    }

    #[test]
    fn without_the_ui_the_page_says_so() {
        let response = get("/", &HeaderMap::new(), false);
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
    }
}
