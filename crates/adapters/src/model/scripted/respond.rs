//! The text of an answer in a script: one text, or parts in order. Part of the format; see `format`.
//!
//! Its own reader exists for its errors: serde's untagged enums answer every mistake with "did not match any variant".

use std::fmt;

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, SeqAccess, Visitor};

/// What a rule streams: `respond: |` and a text, or a list of parts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Respond {
    /// The parts in order. One text is one part.
    pub parts: Vec<PartText>,
}

/// One part as it is written. Exactly one of `text`, `reasoning`, `file`, `pause_ms` is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartText {
    /// Text, streamed as it stands.
    pub text: Option<String>,
    /// Reasoning, streamed apart from the text.
    pub reasoning: Option<String>,
    /// The path of a file; `content` is its text. Streamed as the `<file>` element of contracts.md § 2.
    pub file: Option<String>,
    /// With `file`: what the file holds, to the byte. It may not contain `</file`.
    pub content: Option<String>,
    /// Milliseconds in which nothing comes.
    pub pause_ms: Option<u64>,
}

impl<'de> Deserialize<'de> for Respond {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrParts)
    }
}

struct TextOrParts;

impl<'de> Visitor<'de> for TextOrParts {
    type Value = Respond;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a text, or a list of parts such as `- text: |` or `- file: src/App.tsx` with `content: |`")
    }

    fn visit_str<E>(self, text: &str) -> Result<Respond, E> {
        Ok(Respond { parts: vec![PartText { text: Some(text.to_owned()), ..PartText::default() }] })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<Respond, A::Error> {
        Ok(Respond { parts: Vec::deserialize(SeqAccessDeserializer::new(parts))? })
    }
}
