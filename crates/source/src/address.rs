//! Addresses of a project's files: how a path looks in a URL, and what the query of a module's address says.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// What a browser encodes in the path of a URL (the URL standard's path percent-encode set) and `%` itself. Keys of an import map have
/// to look as the browser resolves a specifier, so no more than this is encoded.
const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}')
    .add(b'^')
    .add(b'%');

/// As what a file is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Form {
    /// Itself: a script, JSON, or a style sheet, which is an empty module.
    Module,
    /// Its text.
    Raw,
    /// Its address.
    Url,
}

impl Form {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Module => "module",
            Self::Raw => "raw",
            Self::Url => "url",
        }
    }

    /// The form and the hash that a query says.
    pub(crate) fn parse(query: &str) -> Option<(Self, &str)> {
        let (word, hash) = query.split_once('=')?;
        let form = [Self::Module, Self::Raw, Self::Url].into_iter().find(|form| form.word() == word)?;
        Some((form, hash))
    }
}

/// The path of a URL for a path below the project.
pub(crate) fn url_path(path: &str) -> String {
    format!("/{}", utf8_percent_encode(path, PATH))
}

/// The path below the project that the path of a URL means; none if it is not text.
pub(crate) fn project_path(url_path: &str) -> Option<String> {
    let path = percent_decode_str(url_path.strip_prefix('/')?).decode_utf8().ok()?;
    Some(path.into_owned())
}

/// Whether a text could be a revision or the hash in an address: 16 lower-case hexadecimal digits.
pub fn is_hash(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a query names a file by the hash of what is in it. Queries of an app's own are none of these.
pub fn is_named_by_hash(query: &str) -> bool {
    Form::parse(query).is_some_and(|(_, hash)| is_hash(hash))
}

/// The first digits of a file's hash, which stand in its address.
pub(crate) fn short(sha256: &str) -> &str {
    sha256.get(..16).unwrap_or(sha256)
}

/// The address of a file as a module. What lies in `public/` is at the root.
pub(crate) fn module(path: &str, form: Form, sha256: &str) -> String {
    let path = path.strip_prefix("public/").unwrap_or(path);
    format!("{}?{}={}", url_path(path), form.word(), short(sha256))
}

/// Joins a relative path to the folder of a file, or takes an absolute one from the root; none if it leads outside the project.
pub(crate) fn join(from: &str, path: &str) -> Option<String> {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let (base, path) = match path.strip_prefix('/') {
        Some(absolute) => ("", absolute),
        None => (folder, path),
    };
    let mut names: Vec<&str> = base.split('/').filter(|name| !name.is_empty()).collect();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()?),
            _ => names.push(name),
        }
    }
    Some(names.join("/"))
}

/// Whether a text begins with a scheme such as `https:`, or names another host.
pub(crate) fn is_elsewhere(text: &str) -> bool {
    let scheme = text.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    });
    scheme || text.starts_with("//")
}

/// A path or an address without its query and fragment, and those.
pub(crate) fn split_suffix(text: &str) -> (&str, &str) {
    text.split_at(text.find(['?', '#']).unwrap_or(text.len()))
}
