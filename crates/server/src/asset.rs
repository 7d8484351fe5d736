//! A static file as HTTP sends it: content type, validator, caching, HEAD and 304. Shared by the UI and the previews.
//!
//! It does not know where the bytes come from, and path to file is its callers' matter.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use percent_encoding::percent_decode_str;

/// May be kept for ever: its name changes with its content.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// May be kept, and must be asked about before each use.
const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");

/// The head of the answer that serves `path`: 200, or 304 if the client has these bytes. The body is for the caller to add.
pub fn head(path: &str, etag: &str, bytes: u64, asked: &HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    let fresh = is_fresh(asked, etag);
    if fresh {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    if !fresh {
        headers.insert(header::CONTENT_TYPE, content_type(path));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
    }
    if let Ok(etag) = HeaderValue::from_str(etag) {
        headers.insert(header::ETAG, etag);
    }
    headers.insert(header::CACHE_CONTROL, if is_hashed(path) { IMMUTABLE } else { REVALIDATE });
    response
}

/// Whether `If-None-Match` names the validator (weak comparison, RFC 9110 § 13.1.2).
fn is_fresh(asked: &HeaderMap, etag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let mine = opaque(etag);
    let tags = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    tags.flat_map(|value| value.split(',')).any(|tag| tag.trim() == "*" || opaque(tag) == mine)
}

/// The type that a browser needs to use the file as what it is; with `nosniff`, a wrong one would be a blank page.
fn content_type(path: &str) -> HeaderValue {
    let extension = extension(path).unwrap_or_default().to_ascii_lowercase();
    let text = match extension.as_str() {
        "js" | "mjs" => "text/javascript; charset=utf-8".to_owned(),
        "json" | "map" => "application/json; charset=utf-8".to_owned(),
        "webmanifest" => "application/manifest+json; charset=utf-8".to_owned(),
        "svg" => "image/svg+xml; charset=utf-8".to_owned(),
        other => match mime_guess::from_ext(other).first_raw() {
            Some(kind) if kind.starts_with("text/") => format!("{kind}; charset=utf-8"),
            Some(kind) => kind.to_owned(),
            None => "application/octet-stream".to_owned(),
        },
    };
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("application/octet-stream"))
}

/// What follows the last dot of the last name.
pub fn extension(path: &str) -> Option<&str> {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    name.rsplit_once('.').and_then(|(stem, ext)| (!stem.is_empty() && !ext.is_empty()).then_some(ext))
}

/// Whether a bundler has put the content's hash into the name, as in `assets/index-B7x_9aQ2.js`.
///
/// A hash that looks like a word is not recognised (three in ten lack a digit or a case) and is asked about again each time,
/// which costs a 304. The other error would show old content for a year, so `logo-vertical.svg` and `photo-20260101.png`
/// must not pass.
fn is_hashed(path: &str) -> bool {
    const HASH: usize = 8;
    let Some((stem, _)) = path.strip_prefix("assets/").and_then(|name| name.split_once('.')) else { return false };
    let Some(at) = stem.len().checked_sub(HASH) else { return false };
    let (Some(before), Some(hash)) = (stem.get(..at), stem.get(at..)) else { return false };
    let has = |class: fn(&u8) -> bool| hash.as_bytes().iter().any(class);
    before.ends_with('-')
        && hash.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
}

/// The decoded path of a request without its leading slash; none if it is not UTF-8 or could mean another place than it says.
pub fn decoded(path: &str) -> Option<String> {
    let path = percent_decode_str(path.strip_prefix('/')?).decode_utf8().ok()?;
    let odd = path.chars().any(|c| c == '\\' || c.is_control());
    let astray = path.split('/').any(|name| matches!(name, "." | ".."));
    let hollow = !path.is_empty() && path.strip_suffix('/').unwrap_or(&path).split('/').any(str::is_empty);
    (!odd && !astray && !hollow).then(|| path.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_that_holds_a_hash_is_kept_for_ever() {
        for (path, hashed) in [
            ("assets/index-B7x_9aQ2.js", true),
            ("assets/index-B7x-9aQ2.css", true),
            ("assets/index-B7x_9aQ2.js.map", true),
            ("index.html", false),
            ("assets/logo-vertical.svg", false),
            ("assets/photo-20260101.png", false),
            ("assets/index.js", false),
            ("assets/B7x_9aQ2.js", false),
            ("assets/é-B7x_9aQ.js", false),
            ("img/index-B7x_9aQ2.js", false),
        ] {
            assert_eq!(is_hashed(path), hashed, "{path}");
        }
    }

    #[test]
    fn a_file_has_the_type_that_browsers_need() {
        for (path, kind) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a/b.js", "text/javascript; charset=utf-8"),
            ("b.mjs", "text/javascript; charset=utf-8"),
            ("c.CSS", "text/css; charset=utf-8"),
            ("d.json", "application/json; charset=utf-8"),
            ("e.svg", "image/svg+xml; charset=utf-8"),
            ("f.woff2", "font/woff2"),
            ("g.wasm", "application/wasm"),
            ("h.png", "image/png"),
            ("i.webmanifest", "application/manifest+json; charset=utf-8"),
            ("j.txt", "text/plain; charset=utf-8"),
            ("k", "application/octet-stream"),
            (".env", "application/octet-stream"),
            ("l.unheard-of", "application/octet-stream"),
        ] {
            assert_eq!(content_type(path), kind, "{path}");
        }
    }

    #[test]
    fn a_path_says_one_place_or_is_refused() {
        for (path, decoded_path) in [
            ("/", Some("")),
            ("/a/b.js", Some("a/b.js")),
            ("/a/", Some("a/")),
            ("/caf%C3%A9", Some("café")),
            ("/..", None),
            ("/a/../b", None),
            ("/..%2f..%2fetc/passwd", None),
            ("/%2e%2e/x", None),
            ("/a%00b", None),
            ("/a%0d%0ab", None),
            ("/a\\b", None),
            ("/..%5cb", None),
            ("//", None),
            ("//etc/passwd", None),
            ("/a//b", None),
            ("/%ff", None),
            ("a", None),
        ] {
            assert_eq!(decoded(path).as_deref(), decoded_path, "{path}");
        }
    }
}
