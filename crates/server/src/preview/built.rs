//! The published build: files of a manifest, and its pages with Baton's script in them (E20).

use axum::body::Body;
use axum::http::{StatusCode, request::Parts};
use axum::response::Response;
use contract::ProjectPath;
use runtime::{Manifest, ManifestEntry, RuntimeError};

use super::{body, instant};
use crate::asset;
use crate::serve::App;

const INDEX: &str = "index.html";

/// The file that a path means: that of its name, a folder's index, or the index of an app that routes by itself.
pub fn find<'a>(manifest: &'a Manifest, path: &str, opens_page: bool) -> Option<(&'a ProjectPath, &'a ManifestEntry)> {
    let file = |path: &str| manifest.files.get_key_value(&ProjectPath::parse(path).ok()?);
    let folder = path.strip_suffix('/').unwrap_or(path);
    let found = match path {
        "" => file(INDEX),
        path if path.ends_with('/') => file(&format!("{folder}/{INDEX}")),
        path => file(path),
    };
    let is_page = opens_page && asset::extension(folder).is_none();
    found.or_else(|| is_page.then(|| file(INDEX)).flatten())
}

/// Serves a file of the build.
pub async fn serve(
    app: &App,
    path: &ProjectPath,
    entry: &ManifestEntry,
    parts: &Parts,
) -> Result<Response, RuntimeError> {
    let lost = || RuntimeError::LostObject { path: path.to_string(), sha256: entry.sha256.clone() };
    if asset::extension(path.as_str()) != Some("html") {
        let mut response = asset::head(path.as_str(), &format!("\"{}\"", entry.sha256), entry.bytes, &parts.headers);
        if response.status() == StatusCode::OK && parts.method == axum::http::Method::GET {
            *response.body_mut() = Body::from(app.runtime.ports.objects.get(&entry.sha256).await?.ok_or_else(lost)?);
        }
        return Ok(response);
    }
    let stored = app.runtime.ports.objects.get(&entry.sha256).await?.ok_or_else(lost)?;
    let page = instant::with_script(&stored);
    let etag = format!("\"{}-{}\"", entry.sha256, instant::script_version());
    let mut response = asset::head(path.as_str(), &etag, page.len() as u64, &parts.headers);
    if response.status() == StatusCode::OK {
        *response.body_mut() = body(&parts.method, page);
    }
    Ok(response)
}
