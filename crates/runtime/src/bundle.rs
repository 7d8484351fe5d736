//! A run in one file, for a bug report: exporting one without its secrets, and importing one from anywhere.

mod clean;
mod export;
mod import;
mod redact;

use contract::bundle::Content;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

pub use export::ExportError;
pub use import::ImportError;

/// Code of what an imported run says of itself, before anything else.
pub(crate) const IMPORTED: &str = "imported";
/// Code of a file whose contents are not in the bundle that its run was imported from.
pub(crate) const NOT_IN_BUNDLE: &str = "not_in_bundle";

/// Bytes as a bundle holds them.
fn content_of(bytes: &Bytes) -> Content {
    match std::str::from_utf8(bytes) {
        Ok(text) => Content::Text(text.to_owned()),
        Err(_) => Content::Base64(STANDARD.encode(bytes)),
    }
}

/// The bytes that a bundle holds; none if they are no base64.
fn bytes_of(content: Content) -> Option<Bytes> {
    match content {
        Content::Text(text) => Some(text.into()),
        Content::Base64(text) => STANDARD.decode(text).ok().map(Bytes::from),
    }
}
