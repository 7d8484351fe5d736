//! Identifiers. Each is 128 bits, sorts by creation time (the layout of UUID version 7, RFC 9562) and reads as `run_…`.
//!
//! This file must not make ids: time and randomness belong to the `World` port of `runtime`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Crockford's base 32, in lower case: no `i`, `l`, `o` or `u`, so that an id survives being read aloud.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 26 digits of five bits hold 130 bits; the first digit is at most `7`.
const DIGITS: usize = 26;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadId {
    /// The prefix that was expected, such as `run_`.
    pub expected: &'static str,
}

impl fmt::Display for BadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an id: expected `{}` and {DIGITS} characters of 0-9a-z without i, l, o, u", self.expected)
    }
}

impl std::error::Error for BadId {}

fn encode(value: u128, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = [0u8; DIGITS];
    let mut rest = value;
    for digit in text.iter_mut().rev() {
        *digit = ALPHABET[(rest & 31) as usize];
        rest >>= 5;
    }
    // Every byte comes from ALPHABET, so the text is ASCII.
    text.iter().try_for_each(|b| fmt::Write::write_char(out, char::from(*b)))
}

fn decode(text: &str) -> Option<u128> {
    if text.len() != DIGITS || text.as_bytes().first().is_some_and(|b| *b > b'7') {
        return None;
    }
    text.bytes().try_fold(0u128, |value, byte| {
        let digit = ALPHABET.iter().position(|a| *a == byte)?;
        Some((value << 5) | digit as u128)
    })
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// The text that every id of this kind begins with.
            pub const PREFIX: &'static str = $prefix;

            /// Takes 128 bits as they are stored.
            pub const fn from_bits(bits: u128) -> Self {
                Self(bits)
            }

            /// The 128 bits, as they are stored.
            pub const fn bits(self) -> u128 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($prefix)?;
                encode(self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                text.strip_prefix($prefix).and_then(decode).map(Self).ok_or(BadId { expected: $prefix })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(D::Error::custom)
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .pattern(Some(concat!("^", $prefix, "[0-7][0-9a-hjkmnp-tv-z]{25}$")))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    )*};
}

ids! {
    /// One accepted request, and the log that tells what became of it.
    RunId = "run_";
    /// A conversation. It owns one project.
    ChatId = "chat_";
    /// One message of a chat.
    MessageId = "msg_";
    /// The files that a chat works on, with their versions.
    ProjectId = "prj_";
    /// One published state of a project: a manifest of path to content hash (N4).
    VersionId = "ver_";
    /// The owner of chats, runs and projects.
    UserId = "usr_";
}

/// A stream of events: today that of a run; its id is the run's.
pub type StreamId = RunId;

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema)]
        #[serde(transparent)]
        #[schema(value_type = String)]
        pub struct $name(String);

        impl $name {
            /// Wraps a name that Baton made itself.
            pub fn new(name: impl Into<String>) -> Self {
                Self(name.into())
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

names! {
    /// A node of a run's graph, unique in the run and chosen by its playbook, such as `turn-2`.
    StepId;
    /// One call of a tool, unique in the run: step, attempt and ordinal, such as `turn-2.1.3`.
    CallId;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_text_and_nothing_else_is_one() {
        for bits in [0, 1, 31, 32, u128::MAX, 0x0192_7b3c_dead_beef_0123_4567_89ab_cdef] {
            let id = RunId::from_bits(bits);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        let good = RunId::from_bits(7).to_string();
        for bad in
            ["", "run_", &good[1..], &good.replace("run_", "chat_"), &good.replace('7', "u"), &format!("{good}0")]
        {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
        assert!("run_80000000000000000000000000".parse::<RunId>().is_err(), "more than 128 bits");
    }

    #[test]
    fn ids_sort_as_their_texts_do() {
        let (a, b) = (RunId::from_bits(1 << 100), RunId::from_bits((1 << 100) + 5));
        assert!(a < b && a.to_string() < b.to_string());
    }
}
