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

const NAMES: [(&str, Element); 13] = [
    ("thinking", Element::Thinking),
    ("think", Element::Thinking),
    ("sandbox", Element::Sandbox),
    ("file", Element::File),
    ("edit", Element::Edit),
    ("delete", Element::Delete),
    ("rename", Element::Rename),
    ("install", Element::Install),
    ("command", Element::Command),
    ("web_search", Element::WebSearch),
    ("url_scrape", Element::UrlScrape),
    ("skill", Element::Skill),
    ("done", Element::Done),
];
const PREFIXES: [&str; 2] = ["baton_", "edward_"];
/// `edward_web_search` and its like.
const MAX_NAME_BYTES: usize = 17;

impl Element {
    /// Whether a body and a closing tag belong to it, so that both are skipped when the element is refused.
    pub(super) fn has_body(self) -> bool {
        match self {
            Self::Thinking | Self::Sandbox | Self::File | Self::Edit | Self::Install | Self::Skill => true,
            Self::Delete | Self::Rename | Self::Command | Self::WebSearch | Self::UrlScrape | Self::Done => false,
        }
    }

    /// Whether its closing tag may be part of its body, and counts only where a person would read it as closing.
    pub(super) fn holds_code(self) -> bool {
        matches!(self, Self::File | Self::Edit)
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

    fn named(name: &[u8]) -> Option<Self> {
        let bare = PREFIXES.iter().find_map(|prefix| {
            let (head, rest) = name.split_at_checked(prefix.len())?;
            head.eq_ignore_ascii_case(prefix.as_bytes()).then_some(rest)
        });
        let bare = bare.unwrap_or(name);
        NAMES.iter().find_map(|(known, element)| bare.eq_ignore_ascii_case(known.as_bytes()).then_some(*element))
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
    let name = s.get(before..).unwrap_or_default();
    let name = &name[..name.len().min(MAX_NAME_BYTES + 1)];
    match name.iter().position(|b| matches!(b, b'/' | b'>') || b.is_ascii_whitespace()) {
        Some(len) => match Element::named(&name[..len]) {
            Some(element) => Look::Yes(Lead { element, closing, len: before + len }),
            None => Look::No,
        },
        None if begins_a_name(name) => Look::more(at_end),
        None => Look::No,
    }
}

fn begins_a_name(part: &[u8]) -> bool {
    let begins = |whole: &str, part: &[u8]| {
        whole.as_bytes().get(..part.len()).is_some_and(|head| head.eq_ignore_ascii_case(part))
    };
    let rest = PREFIXES.iter().find_map(|prefix| {
        let (head, rest) = part.split_at_checked(prefix.len())?;
        head.eq_ignore_ascii_case(prefix.as_bytes()).then_some(rest)
    });
    match rest {
        Some(rest) => NAMES.iter().any(|(name, _)| begins(name, rest)),
        None => PREFIXES.iter().any(|p| begins(p, part)) || NAMES.iter().any(|(name, _)| begins(name, part)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_fits_its_window_and_every_beginning_of_a_name_waits() {
        for prefix in ["", "baton_", "EDWARD_"] {
            for (name, element) in NAMES {
                let name = format!("{prefix}{name}");
                assert!(name.len() <= MAX_NAME_BYTES);
                for cut in 0..=name.len() {
                    assert!(matches!(lead(format!("<{}", &name[..cut]).as_bytes(), false), Look::More), "{name} {cut}");
                    assert!(matches!(lead(format!("</{}", &name[..cut]).as_bytes(), true), Look::No), "{name} {cut}");
                }
                for end in [" ", "\n", "/", ">"] {
                    let found = lead(format!("<{name}{end}").as_bytes(), false);
                    assert!(matches!(found, Look::Yes(l) if l.element == element && !l.closing && l.len == name.len() + 1));
                }
                assert!(matches!(lead(format!("<{name}name>").as_bytes(), false), Look::No));
            }
        }
    }
}
