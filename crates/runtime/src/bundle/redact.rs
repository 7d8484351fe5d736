//! What must not leave the machine with a bug report: keys, tokens, the home folder, the host's name. Each becomes `***`.
//!
//! It is found by its look, so it is a net and no proof: who sends a bundle looks at it before. A text that came in pieces is looked
//! at whole, since a key may be cut anywhere.

use std::ops::Range;

use regex::Regex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What stands for it.
const STARS: &str = "***";
/// Shortest name of a host that is looked for; shorter ones are words of code.
const HOST_BYTES: usize = 4;

/// What secrets look like. What is replaced is the group `s`, or all of it if there is none.
const LOOKS: &[&str] = &[
    r"\bsk-[A-Za-z0-9_-]{8,}",
    r"\bAIza[A-Za-z0-9_-]{10,}",
    r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|npm_|pypi-|xox[abposr]-|AKIA|ASIA|[sr]k_live_|[sr]k_test_)[A-Za-z0-9_-]{10,}",
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+",
    r"(?i)\bbearer\s+(?P<s>[A-Za-z0-9._~+/-]{8,}=*)",
    r#"(?i)\bauthorization["']?\s*[:=]\s*["']?(?:(?:basic|digest|bearer)\s+)?(?P<s>[^\s"',;*]{8,})"#,
    r#"\b[A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)\s*=\s*["'`]?(?P<s>[^\s"'`,;)}<>=*]+)"#,
    r#""[A-Za-z0-9_-]*(?i:key|token|secret|password)"\s*:\s*"(?P<s>[^"*\s]{8,})""#,
    r"://[^/\s:@]+:(?P<s>[^/\s@*]+)@",
    r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
    r"(?:^|[^A-Za-z0-9._~-])(?P<s>/(?:home|Users)/[A-Za-z0-9._-]+)",
];

/// Finds and replaces.
pub(super) struct Redactor {
    looks: Vec<Regex>,
    /// What is known to be private.
    words: Vec<Regex>,
    replaced: u64,
}

impl Redactor {
    /// One that also looks for these words: what is known to be private.
    pub(super) fn new<'a>(private: impl IntoIterator<Item = &'a str>) -> Self {
        let words = private.into_iter().filter(|word| word.trim().len() >= HOST_BYTES && *word != "localhost");
        let words = words.map(|word| {
            // A word that stands for itself: `vm-7` is not a part of `vm-71`.
            let edge = |c: Option<char>| if c.is_some_and(|c| c.is_ascii_alphanumeric()) { r"\b" } else { "" };
            format!("{}{}{}", edge(word.chars().next()), regex::escape(word), edge(word.chars().last()))
        });
        // The looks are tried by a test, and an escaped word is always a pattern unless it is beyond any size.
        Self {
            looks: LOOKS.iter().filter_map(|look| Regex::new(look).ok()).collect(),
            words: words.filter_map(|word| Regex::new(&word).ok()).collect(),
            replaced: 0,
        }
    }

    /// How much was replaced so far.
    pub(super) fn replaced(&self) -> u64 {
        self.replaced
    }

    /// A text without secrets.
    pub(super) fn text(&mut self, text: &str) -> String {
        self.pieces(&[text]).pop().unwrap_or_default()
    }

    /// The pieces of one text without its secrets: the stars stand where each began.
    pub(super) fn pieces(&mut self, pieces: &[&str]) -> Vec<String> {
        let whole = pieces.concat();
        let secrets = find(&whole, self.looks.iter().chain(&self.words));
        self.replace(pieces, &whole, &secrets)
    }

    fn replace(&mut self, pieces: &[&str], whole: &str, secrets: &[Range<usize>]) -> Vec<String> {
        self.replaced += secrets.len() as u64;
        let mut at = 0;
        let cut = |piece: &&str| {
            let (from, to) = (at, at + piece.len());
            at = to;
            let (mut kept, mut text) = (from, String::with_capacity(piece.len()));
            for secret in secrets.iter().filter(|secret| secret.start < to && from < secret.end) {
                text.push_str(&whole[kept..secret.start.max(from)]);
                if from <= secret.start {
                    text.push_str(STARS);
                }
                kept = secret.end.min(to);
            }
            text.push_str(&whole[kept..to]);
            text
        };
        pieces.iter().map(cut).collect()
    }

    /// A value without secrets in its texts, but for those under `keep`. A private word that is also a word of the value's own type,
    /// such as a host called `demo`, is left there; none if even so it is no such value any more.
    pub(super) fn value<T: Serialize + DeserializeOwned>(&mut self, value: &T, keep: &[&str]) -> Option<T> {
        let before = self.replaced;
        for with_words in [true, false] {
            self.replaced = before;
            let mut json = serde_json::to_value(value).ok()?;
            self.json(&mut json, keep, with_words);
            if let Ok(value) = serde_json::from_value(json) {
                return Some(value);
            }
        }
        None
    }

    fn json(&mut self, value: &mut Value, keep: &[&str], with_words: bool) {
        match value {
            Value::String(text) => {
                let words = if with_words { &self.words[..] } else { &[] };
                let secrets = find(text, self.looks.iter().chain(words));
                if !secrets.is_empty() {
                    *text = self.replace(&[text], text, &secrets).concat();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.json(item, keep, with_words)),
            Value::Object(fields) => {
                for (_, value) in fields.iter_mut().filter(|(name, _)| !keep.contains(&name.as_str())) {
                    self.json(value, keep, with_words);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Where secrets are, in order and apart from one another.
fn find<'a>(text: &str, looks: impl Iterator<Item = &'a Regex>) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = vec![];
    for look in looks {
        if look.capture_names().any(|name| name == Some("s")) {
            found.extend(look.captures_iter(text).filter_map(|seen| seen.name("s")).map(|secret| secret.range()));
        } else {
            found.extend(look.find_iter(text).map(|secret| secret.range()));
        }
    }
    found.sort_by_key(|secret| (secret.start, secret.end));
    found.dedup_by(|next, kept| {
        let overlap = next.start < kept.end;
        if overlap {
            kept.end = kept.end.max(next.end);
        }
        overlap
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_look_is_a_pattern() {
        let redactor = Redactor::new(["vm-7.example", "", "a", "localhost"]);
        assert_eq!((redactor.looks.len(), redactor.words.len()), (LOOKS.len(), 1));
    }

    #[test]
    fn what_looks_like_a_secret_becomes_stars_and_nothing_else_does() {
        let table = [
            ("key sk-proj-abcdef0123456789 end", "key *** end"),
            ("AIzaSyA1234567890abcdefg", "***"),
            ("Authorization: Bearer abc.def-123_456", "Authorization: Bearer ***"),
            ("authorization: Basic dXNlcjpwYXNz", "authorization: Basic ***"),
            ("OPENAI_API_KEY=abc123 next", "OPENAI_API_KEY=*** next"),
            ("export GITHUB_TOKEN='xyz'", "export GITHUB_TOKEN='***'"),
            ("CLIENT_SECRET = \"a b\"", "CLIENT_SECRET = \"*** b\""),
            ("{\"apiKey\": \"0123456789\"}", "{\"apiKey\": \"***\"}"),
            ("https://me:pass@example.org/x", "https://me:***@example.org/x"),
            ("ghp_0123456789abcdef and hf_0123456789abc", "*** and ***"),
            ("at /home/ada/site/app.ts:3", "at ***/site/app.ts:3"),
            ("/Users/ada/Library", "***/Library"),
            ("from vm-7 and vm-71", "from *** and vm-71"),
            ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\n", "***\n"),
            ("-----BEGIN PRIVATE KEY-----\nMII cut", "***"),
            // Code and prose that only look a little like it.
            ("items.map(item => <li key={item.id}>)", "items.map(item => <li key={item.id}>)"),
            ("if (event.key === 'Enter') task-list", "if (event.key === 'Enter') task-list"),
            ("KEY === 'Enter'", "KEY === 'Enter'"),
            ("a risk-averse desk-bound bearer of news", "a risk-averse desk-bound bearer of news"),
            ("src/home/page.tsx", "src/home/page.tsx"),
            ("", ""),
        ];
        for (text, expected) in table {
            let mut redactor = Redactor::new(["vm-7"]);
            assert_eq!(redactor.text(text), expected);
            let count = redactor.replaced();
            assert_eq!(count > 0, text != expected, "{text}");
            assert_eq!((redactor.text(expected).as_str(), redactor.replaced()), (expected, count), "once is enough");
        }
    }

    #[test]
    fn a_secret_that_came_in_pieces_is_one() {
        let whole = "say sk-0123456789abcdef now, TOKEN=x and sk-9876543210fedcba";
        for cut in 0..whole.len() {
            for second in [cut, (cut + 3).min(whole.len()), whole.len()] {
                let mut redactor = Redactor::new([]);
                let pieces = redactor.pieces(&[&whole[..cut], &whole[cut..second], &whole[second..]]);
                assert_eq!(pieces.concat(), "say *** now, TOKEN=*** and ***", "cut at {cut} and {second}");
                assert_eq!((pieces.len(), redactor.replaced()), (3, 3));
            }
        }
    }

    #[test]
    fn a_value_stays_what_it_is() {
        let mut redactor = Redactor::new(["demo-host", "demo"]);
        let model =
            contract::event::ModelRef { provider: contract::event::Provider::Demo, name: "sk-0123456789 demo".into() };
        let clean = redactor.value(&model, &[]).unwrap();
        assert_eq!(
            (clean.provider, clean.name.as_str()),
            (model.provider, "*** demo"),
            "a host called as a provider is"
        );
        let said = redactor.value(&vec!["on demo-host".to_owned()], &[]).unwrap();
        assert_eq!((said, redactor.replaced()), (vec!["on ***".to_owned()], 2));
    }
}
