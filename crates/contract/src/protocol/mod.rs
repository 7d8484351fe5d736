//! The protocol that models speak, read from their bytes as they stream in (E7; contracts.md § 2).
//!
//! A model answers in plain text with elements in it. [`Parser`] turns the bytes of one response into [`Frame`]s:
//!
//! ```text
//! response  = { text | element }
//! element   = <thinking> … </thinking>                        private reasoning
//!           | <sandbox project base> … </sandbox>             optional bracket round the others
//!           | <file path> … </file>                           whole file
//!           | <edit path> block { block } </edit>             block = `<<<<<<< SEARCH` `=======` `>>>>>>> REPLACE`
//!           | <install> … </install>                          `framework:` and `packages:` lines
//!           | <skill name> {json} </skill>
//!           | <delete path> | <rename from to> | <command command args='["…"]'>
//!           | <web_search query max_results> | <url_scrape url> | <done>          act at their `>`, slash or not
//! tag       = `<` name { blank attribute } [ `/` ] `>`        at most 64 KB; no `<` outside quotes
//! name      = [ `baton_` | `edward_` ] word                   any letter case; ends at a blank, `/` or `>`
//! attribute = word `=` ( "…" | '…' | \"…\" | \'…\' | bare )    any letter case; `>` inside quotes is content
//! closing   = `</` name { blank } `>`                         at most 64 blanks
//! [FILE: path] and a fenced block                             only in [`Dialect::Fenced`], beside all of the above
//! ```
//!
//! # What is content
//! Content is exact: every byte, no entity decoded, no blank trimmed. Only this is dropped: one line break (`\n` or `\r\n`) after the
//! opening tag of a file or of thinking and one before its closing tag; and, in a file that is not Markdown, a fence that wraps the
//! whole: an opening fence line at the very start, and then a last line that closes it, with its line break. Bytes that are not UTF-8
//! become U+FFFD, one for each maximal broken sequence, as in [`String::from_utf8_lossy`].
//!
//! # What ends what
//! - `</file>` and `</edit>` close if they are the first thing on their line, or if at most 64 blanks and then a line end, the end of the
//!   response or another tag of the protocol follow; elsewhere they are content. `</thinking>`, `</install>` and `</skill>` close anywhere.
//! - Inside thinking, an opening tag of another element that is the first thing on its line ends it (models forget to close), if the tag
//!   is whole and has the attributes that it needs. Everything else there is thinking.
//! - A fenced block ends at a bare fence at least as long as its opener that is followed, blank lines apart, by `[FILE:`, a tag or the end.
//! - `<done>` closes the sandbox. The end of the response closes everything; a file is then [`Frame::FileEnd`] with `complete: false`.
//! - `<x/>` of an element with a body is `<x></x>`.
//!
//! # What is silent, and why
//! - A closing tag of an element that is not open is swallowed: it asks for nothing, and a person should not see it.
//! - A second `<sandbox>` inside a sandbox is ignored, and so is whitespace alone between the elements of a sandbox (at most 256 bytes).
//! - Unknown tags are text, and so are tags without attribute values that another `<` breaks off: models write about code all the time.
//! - A tag directly behind a letter, digit, `_`, quote or backtick that lacks what it needs is text: `Array<File>`, "the `<file>` tag".
//! - `<think>` is `<thinking>`: that is what reasoning models emit on their own.
//! - Of an attribute that is given twice the first counts, as in HTML; unknown attributes are ignored.
//!
//! # What is an error
//! [`ErrorCode`] lists it. Every error can be told to the model and recovered from; nothing was done for the element, and a body that
//! belongs to it is skipped, never read as text (a sandbox has no body of its own: its elements count). A tag that the end of the
//! response cuts off is never acted on: its bytes are content.
//!
//! # What it costs
//! One pass with `memchr`. Held back is only what cannot be decided yet: a tag, a closing tag and what decides it, a line break that may
//! stand before one, a fence line, the beginning of a character, and the bodies of edit, install and skill ([`MAX_BODY_BYTES`]). All else
//! leaves [`Parser::push`] before it returns, borrowed from the input.
//!
//! The files, from bytes to frames: `look` asks questions of bytes, `element` knows the names, `tag` reads a tag, `action` turns tags and
//! bodies (`edit`, `install`) into frames, `marks` knows what ends what, `parser` holds the place. This room does no I/O and never judges
//! what an action may do.

mod action;
pub mod check;
mod edit;
mod element;
mod frame;
mod install;
mod look;
mod marks;
mod parser;
mod tag;
mod utf8;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use element::Element;
pub use frame::{ErrorCode, Fault, Frame};
pub use parser::Parser;

/// Longest tag, from `<` to `>`, in bytes. A longer one is [`ErrorCode::TagTooLong`].
pub const MAX_TAG_BYTES: usize = 64 * 1024;
/// Longest body of an edit, install or skill element, in bytes. A longer one is [`ErrorCode::BodyTooLong`]. Files have no limit here.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;
/// Most bytes that a parser holds back: a tag with what may stand before it, or a body with what may end it.
pub const MAX_HELD_BYTES: usize = MAX_BODY_BYTES + MAX_SHORT_BYTES;
/// Most bytes held back where neither a tag nor a body is open: a `[FILE: path]` line with the blank lines and the fence behind it.
pub const MAX_SHORT_BYTES: usize = 4 * 1024;

/// Which of the two ways of writing files a model was taught.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Elements in tags.
    #[default]
    Tags,
    /// `[FILE: path]` lines, each with a fenced block; tags are known too.
    Fenced,
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tags => "tags",
            Self::Fenced => "fenced",
        })
    }
}

/// A text that names no dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownDialect;

impl fmt::Display for UnknownDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown dialect: write `tags` or `fenced`")
    }
}

impl std::error::Error for UnknownDialect {}

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(text: &str) -> Result<Self, UnknownDialect> {
        match text {
            "tags" => Ok(Self::Tags),
            "fenced" => Ok(Self::Fenced),
            _ => Err(UnknownDialect),
        }
    }
}
