//! The names of the protocol's elements, and how a name is recognised. This file must not know what an element means.

use serde::{Deserialize, Serialize};

use super::look::Look;

/// An element of the protocol. Its text form is its plain name, such as `web_search`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Element {
    /// Private reasoning.
    Thinking,
    /// Optional bracket round the others.
    Sandbox,
    /// A whole file.
    File,
    /// Replacements in a file.
    Edit,
    /// A file to delete.
    Delete,
    /// A file to rename.
    Rename,
    /// Packages to add.
    Install,
    /// A command to run.
    Command,
    /// A search of the web.
    WebSearch,
    /// A page to fetch.
    UrlScrape,
    /// A skill to use.
    Skill,
    /// The work is finished.
    Done,
}

macro_rules! names {
    ($($name:literal = $element:ident,)*) => {
        const NAMES: &[&[u8]] = &[$($name),*];

        fn named(name: &[u8]) -> Option<Element> {
            match name {
                $($name => Some(Element::$element),)*
                _ => None,
            }
        }
    };
}

names! {
    b"thinking" = Thinking,
    b"think" = Thinking,
    b"sandbox" = Sandbox,
    b"file" = File,
    b"edit" = Edit,
    b"delete" = Delete,
    b"rename" = Rename,
    b"install" = Install,
    b"command" = Command,
    b"web_search" = WebSearch,
    b"url_scrape" = UrlScrape,
    b"skill" = Skill,
    b"done" = Done,
}

const PREFIXES: [&[u8]; 2] = [b"baton_", b"edward_"];
/// `edward_web_search` and its like.
const MAX_NAME_BYTES: usize = 17;

impl Element {
    /// The plain name, as in the JSON form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Thinking => "thinking",
            Self::Sandbox => "sandbox",
            Self::File => "file",
            Self::Edit => "edit",
            Self::Delete => "delete",
            Self::Rename => "rename",
            Self::Install => "install",
            Self::Command => "command",
            Self::WebSearch => "web_search",
            Self::UrlScrape => "url_scrape",
            Self::Skill => "skill",
            Self::Done => "done",
        }
    }

    /// Whether a body belongs to it that is skipped when the element is refused. What stands in a sandbox speaks for itself.
    pub(super) fn has_body(self) -> bool {
        match self {
            Self::Thinking | Self::File | Self::Edit | Self::Install | Self::Skill => true,
            Self::Sandbox
            | Self::Delete
            | Self::Rename
            | Self::Command
            | Self::WebSearch
            | Self::UrlScrape
            | Self::Done => false,
        }
    }

    /// Whether its closing tag may be part of its body, and counts only where a person would read it as closing.
    pub(super) fn holds_code(self) -> bool {
        matches!(self, Self::File | Self::Edit)
    }

    /// Whether a name of an element that holds text can begin so, prefixes included.
    pub(super) fn may_begin_with(self, initial: u8) -> bool {
        let own = match self {
            Self::File => b'f',
            Self::Install => b'i',
            Self::Edit => b'e',
            Self::Skill | Self::Sandbox => b's',
            Self::Thinking => b't',
            Self::Delete | Self::Rename | Self::Command | Self::WebSearch | Self::UrlScrape | Self::Done => {
                return true;
            }
        };
        let initial = initial.to_ascii_lowercase();
        initial == own || PREFIXES.iter().any(|prefix| prefix.first() == Some(&initial))
    }

    /// The attributes without which it cannot act.
    pub(super) fn needs(self) -> &'static [&'static str] {
        match self {
            Self::File | Self::Edit | Self::Delete => &["path"],
            Self::Rename => &["from", "to"],
            Self::Command => &["command"],
            Self::WebSearch => &["query"],
            Self::UrlScrape => &["url"],
            Self::Skill => &["name"],
            Self::Thinking | Self::Sandbox | Self::Install | Self::Done => &[],
        }
    }
}

/// The beginning of a tag, up to where its name ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lead {
    pub(super) element: Element,
    pub(super) closing: bool,
    /// Bytes of `<`, the slash of a closing tag, and the name.
    pub(super) len: usize,
}

/// Whether a tag of the protocol begins here. `s` begins with `<`.
pub(super) fn lead(s: &[u8], at_end: bool) -> Look<Lead> {
    let closing = s.get(1) == Some(&b'/');
    let before = 1 + usize::from(closing);
    let mut lower = [0; MAX_NAME_BYTES];
    let mut len = 0;
    for byte in &s[before.min(s.len())..] {
        if matches!(byte, b'/' | b'>') || byte.is_ascii_whitespace() {
            return match named(without_prefix(&lower[..len])) {
                Some(element) => Look::Yes(Lead { element, closing, len: before + len }),
                None => Look::No,
            };
        }
        match lower.get_mut(len) {
            Some(slot) => *slot = byte.to_ascii_lowercase(),
            None => return Look::No,
        }
        len += 1;
    }
    if begins_a_name(&lower[..len]) { Look::more(at_end) } else { Look::No }
}

fn without_prefix(name: &[u8]) -> &[u8] {
    PREFIXES.iter().find_map(|prefix| name.strip_prefix(*prefix)).unwrap_or(name)
}

fn begins_a_name(part: &[u8]) -> bool {
    let rest = without_prefix(part);
    PREFIXES.iter().any(|prefix| prefix.starts_with(part)) || NAMES.iter().any(|name| name.starts_with(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_fits_its_window_and_every_beginning_of_a_name_waits() {
        for prefix in ["", "baton_", "EDWARD_"] {
            for name in NAMES {
                let element = named(name).unwrap();
                assert!(*name == element.as_str().as_bytes() || *name == b"think");
                assert_eq!(serde_json::to_value(element).unwrap(), element.as_str());
                let name = format!("{prefix}{}", name.escape_ascii());
                assert!(name.len() <= MAX_NAME_BYTES);
                for cut in 0..=name.len() {
                    assert!(matches!(lead(format!("<{}", &name[..cut]).as_bytes(), false), Look::More), "{name} {cut}");
                    assert!(matches!(lead(format!("</{}", &name[..cut]).as_bytes(), true), Look::No), "{name} {cut}");
                }
                for end in [" ", "\n", "/", ">"] {
                    let found = lead(format!("<{name}{end}").as_bytes(), false);
                    assert!(
                        matches!(found, Look::Yes(l) if l.element == element && !l.closing && l.len == name.len() + 1)
                    );
                }
                assert!(matches!(lead(format!("<{name}name>").as_bytes(), false), Look::No));
            }
        }
    }
}
