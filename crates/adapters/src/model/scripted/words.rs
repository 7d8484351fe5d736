//! Placeholders: the person's words, made harmless, for use in an answer.
//!
//! What goes into an answer is written into source files, strings, tags and pages of languages that this file does not know. So
//! nothing is escaped; instead nothing that would need it is let through: letters, digits and single blanks are left, and few.

use std::collections::BTreeMap;

use regex::Regex;

/// Characters of a title, and of what a group of the request's pattern captured.
pub const TITLE_CHARS: usize = 40;
/// Words of `@@words@@`.
pub const WORDS: usize = 12;
/// Characters of one word.
pub const WORD_CHARS: usize = 24;

/// What a title is when the request holds no word of its own.
const UNTITLED: &str = "My app";
/// How a placeholder begins that stands for a named group of the request's pattern.
const GROUP_PREFIX: &str = "request.";

/// How a request politely begins; a title begins after it.
const PREAMBLE: &[&str] = &[
    "please", "hi", "hello", "hey", "can", "could", "would", "will", "you", "i", "we", "want", "need", "like", "id",
    "to", "have", "lets", "let", "us", "help", "me", "build", "make", "create", "write", "design", "develop",
    "generate", "code", "give", "show", "a", "an", "the", "my", "new", "simple", "small", "some",
];

/// The harmless words of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    title: String,
    words: Vec<String>,
    /// What the named groups of the rule's `request` pattern captured.
    captured: BTreeMap<String, String>,
}

impl Words {
    /// Takes the words out of whatever a person typed. `pattern` is the rule's for requests.
    pub(super) fn of(request: &str, pattern: Option<&Regex>) -> Self {
        let mut clean = request.split_whitespace().map(clean_words).filter(|words| !words.is_empty());
        let words = clean.clone().flatten().take(WORDS).collect();
        // Skipped by the word as it was typed: the `to` of `to-do` is no preamble.
        let first = clean.find(|words| words.len() > 1 || !words.iter().all(|word| is_preamble(word)));
        let title = first.into_iter().chain(clean).flatten();
        Self { title: title_of(title), words, captured: pattern.map_or_else(BTreeMap::new, |p| captured(p, request)) }
    }

    fn fill(&self, placeholder: &Placeholder) -> String {
        let group = |name: &str| self.captured.get(name).cloned().unwrap_or_default();
        match placeholder {
            Placeholder::Title => self.title.clone(),
            Placeholder::TitleJson => quoted(&self.title),
            Placeholder::Words => self.words.join(" "),
            Placeholder::WordsJson => {
                let words: Vec<String> = self.words.iter().map(|word| quoted(word)).collect();
                format!("[{}]", words.join(", "))
            }
            Placeholder::Slug => slug_of(&self.title),
            Placeholder::Group(name) => group(name),
            Placeholder::GroupJson(name) => quoted(&group(name)),
        }
    }
}

/// What each named group captured, cleaned and shortened. A group that took no part has no entry.
fn captured(pattern: &Regex, request: &str) -> BTreeMap<String, String> {
    let Some(captures) = pattern.captures(request) else { return BTreeMap::new() };
    let clean = |text: &str| fitting(text.split_whitespace().flat_map(clean_words));
    let groups = pattern.capture_names().flatten();
    groups.filter_map(|name| Some((name.to_owned(), clean(captures.name(name)?.as_str())))).collect()
}

/// The words within one stretch without blanks. An apostrophe joins, everything else that is no letter or digit parts.
fn clean_words(typed: &str) -> Vec<String> {
    let joined = typed.replace(['\'', '’'], "");
    let parts = joined.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty());
    parts.map(|word| word.chars().take(WORD_CHARS).collect()).collect()
}

fn is_preamble(word: &str) -> bool {
    PREAMBLE.contains(&word.to_lowercase().as_str())
}

/// As many words as fit into a title.
fn fitting(words: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    let mut chars = 0;
    for word in words {
        chars += word.chars().count() + usize::from(!text.is_empty());
        if chars > TITLE_CHARS {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&word);
    }
    text
}

fn title_of(words: impl Iterator<Item = String>) -> String {
    let title = fitting(words);
    let mut rest = title.chars();
    match rest.next() {
        Some(first) => first.to_uppercase().filter(|char| char.is_alphanumeric()).chain(rest).collect(),
        None => UNTITLED.to_owned(),
    }
}

fn slug_of(title: &str) -> String {
    let ascii: String =
        title.to_lowercase().chars().filter(|char| char.is_ascii_alphanumeric() || *char == ' ').collect();
    let slug = ascii.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
    if slug.is_empty() { "my-app".to_owned() } else { slug }
}

/// Letters, digits and blanks need no escape.
fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Placeholder {
    Title,
    TitleJson,
    Words,
    WordsJson,
    Slug,
    Group(String),
    GroupJson(String),
}

impl Placeholder {
    fn named(name: &str, groups: &[&str]) -> Option<Self> {
        if let Some(group) = name.strip_prefix(GROUP_PREFIX) {
            let known = |group: &str| groups.contains(&group).then(|| group.to_owned());
            let as_json = || group.strip_suffix("_json").and_then(known).map(Self::GroupJson);
            return known(group).map(Self::Group).or_else(as_json);
        }
        Some(match name {
            "title" => Self::Title,
            "title_json" => Self::TitleJson,
            "words" => Self::Words,
            "words_json" => Self::WordsJson,
            "slug" => Self::Slug,
            _ => return None,
        })
    }
}

/// A text with placeholders in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Template {
    /// A literal text, and the placeholder after it.
    filled: Vec<(String, Placeholder)>,
    /// The literal text after the last placeholder.
    rest: String,
}

impl Template {
    /// Finds the placeholders; the error names one that is none. `groups` are those of the rule's pattern for requests.
    pub(super) fn parse(text: &str, groups: &[&str]) -> Result<Self, String> {
        let mut template = Self::default();
        let mut rest = text;
        while let Some(at) = rest.find("@@") {
            let after = &rest[at + 2..];
            let in_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
            let (name, tail) = after.split_at(after.bytes().take_while(in_name).count());
            match tail.strip_prefix("@@") {
                Some(tail) if name.starts_with(|first: char| first.is_ascii_lowercase()) => {
                    let placeholder = Placeholder::named(name, groups).ok_or_else(|| name.to_owned())?;
                    template.rest.push_str(&rest[..at]);
                    template.filled.push((std::mem::take(&mut template.rest), placeholder));
                    rest = tail;
                }
                _ => {
                    template.rest.push_str(&rest[..at + 2]);
                    rest = after;
                }
            }
        }
        template.rest.push_str(rest);
        Ok(template)
    }

    /// The text for one request.
    pub(super) fn fill(&self, words: &Words) -> String {
        let mut text = String::with_capacity(self.rest.len());
        for (literal, placeholder) in &self.filled {
            text.push_str(literal);
            text.push_str(&words.fill(placeholder));
        }
        text.push_str(&self.rest);
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fill(template: &str, request: &str) -> String {
        Template::parse(template, &[]).unwrap().fill(&Words::of(request, None))
    }

    fn fill_captured(template: &str, pattern: &str, request: &str) -> String {
        let pattern = Regex::new(pattern).unwrap();
        let groups: Vec<&str> = pattern.capture_names().flatten().collect();
        Template::parse(template, &groups).unwrap().fill(&Words::of(request, Some(&pattern)))
    }

    #[test]
    fn titles_say_what_was_asked_for() {
        let table = [
            ("please build me a weather dashboard for sailors!", "Weather dashboard for sailors"),
            ("I'd like a to-do list", "To do list"),
            (
                "Can you make an app that tracks the moods of my seventeen cats, daily?",
                "App that tracks the moods of my",
            ),
            ("Погода в Москве", "Погода в Москве"),
            ("make it", "It"),
            ("please", "My app"),
            ("</script><script>alert(1)</script>", "Script script alert 1 script"),
            ("```\n# Request\n```", "Request"),
            ("\u{202e}\u{0}{}`\"'\\", "My app"),
        ];
        for (request, title) in table {
            assert_eq!(fill("@@title@@", request), title, "{request:?}");
        }
        assert_eq!(
            fill("@@slug@@ @@words_json@@", "make a Größe-Rechner"),
            "gre-rechner [\"make\", \"a\", \"Größe\", \"Rechner\"]"
        );
        assert_eq!(fill("<@@words@@>", ""), "<>");
    }

    #[test]
    fn what_is_no_placeholder_stays_and_an_unknown_one_is_named() {
        for text in ["a@@b", "@@", "@@@@", "@@Title@@", "@ @title@@", "user@@host"] {
            assert_eq!(fill(text, "x"), text);
        }
        assert_eq!(fill("@@@@title@@@@", "x"), "@@X@@");
        for unknown in ["titel", "request.name", "request.", "request.Name", "request"] {
            assert_eq!(Template::parse(&format!("@@{unknown}@@"), &["other"]), Err(unknown.to_owned()));
        }
    }

    #[test]
    fn a_group_gives_what_it_captured_and_is_empty_when_it_took_no_part() {
        let pattern = r"(?i)rename it(?: to (?P<name>[^.!?\n]+))?";
        let table = [
            ("rename it to Groceries!", "Groceries"),
            ("Rename it to  Anna’s \"weekly\"\tshop. Thanks", "Annas weekly shop"),
            ("rename it to `${x}` </file>", "x file"),
            ("rename it to @@title@@", "title"),
            (
                "rename it to one two three four five six seven eight nine ten",
                "one two three four five six seven eight",
            ),
            ("rename it", ""),
            ("something else", ""),
        ];
        for (request, name) in table {
            let want = format!("<{name}> {}", serde_json::to_string(name).unwrap());
            assert_eq!(
                fill_captured("<@@request.name@@> @@request.name_json@@", pattern, request),
                want,
                "{request:?}"
            );
        }
        assert_eq!(fill_captured("@@request.a_json@@", "(?P<a_json>x)(?P<a>y)", "xy"), "x");
    }

    proptest! {
        /// Whatever was typed can stand in a string, tag, comment or page of any language (lessons.md, "Output").
        #[test]
        fn hostile_requests_are_reduced_to_few_letters_digits_and_blanks(request in "(\\PC|[\\x00-\\x7f]|@@title@@|</file>|\u{2028}){0,300}") {
            let harmless = |text: &str| text.chars().all(|char| char.is_alphanumeric() || char == ' ');
            let title = fill("@@title@@", &request);
            prop_assert!(harmless(&title) && !title.is_empty() && title.chars().count() <= TITLE_CHARS + 2, "{title:?}");
            let words = fill("@@words@@", &request);
            prop_assert!(harmless(&words) && words.chars().count() <= WORDS * (WORD_CHARS + 1), "{words:?}");
            let slug = fill("@@slug@@", &request);
            prop_assert!(slug.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') && !slug.is_empty(), "{slug:?}");
            let json: String = serde_json::from_str(&fill("@@title_json@@", &request)).unwrap();
            prop_assert_eq!(json, title);
            let json: Vec<String> = serde_json::from_str(&fill("@@words_json@@", &request)).unwrap();
            prop_assert_eq!(json.join(" "), words);
            let group = fill_captured("@@request.all@@", "(?s)(?P<all>.*)", &request);
            prop_assert!(harmless(&group) && group.chars().count() <= TITLE_CHARS, "{group:?}");
            let json: String = serde_json::from_str(&fill_captured("@@request.all_json@@", "(?s)(?P<all>.*)", &request)).unwrap();
            prop_assert_eq!(json, group);
        }
    }
}
