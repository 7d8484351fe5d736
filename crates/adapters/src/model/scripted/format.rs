//! The format of a scripted model: what a script says, as YAML or JSON. The types of this file are the format.
//!
//! A script is a list of rules. Rules are tried in order, over all scripts of a list; the first whose `when` fits the
//! conversation answers it. This file knows words and defaults; `compile` checks what types cannot say, `converse` reads
//! conversations, `answer` turns a rule into pieces. Unknown fields are refused with their place.
//!
//! ```yaml
//! name: to-do list                # shown in errors and by GET /v1/models
//! pace: { chunk: 24, delay_ms: 12, first_delay_ms: 250 }   # for all rules; a rule may say otherwise, field by field
//! rules:
//!   - name: dark                  # a follow-up: the project is already there
//!     when: { project: 'data-demo="todo"', request: '(?i)\bdark\b', turn: 1 }
//!     respond: |
//!       <edit path="src/index.css">
//!       …
//!       </edit>
//!   - name: first turn
//!     when: { request: '(?i)\bto-?do\b', turn: 1 }
//!     reasoning: |                # streamed apart from the text, before it
//!       A list, an input, a filter.
//!     respond:                    # one text, or parts that are streamed in order
//!       - text: |
//!           <thinking>Small components.</thinking>
//!       - pause_ms: 400
//!       - file: src/App.tsx       # same as the text `<file path="src/App.tsx">` … `</file>`, each on its own line
//!         content: |
//!           export default function App() { return <h1>{@@title_json@@}</h1>; }
//!       - text: |
//!           <install>packages: clsx</install>
//!   - name: mend what the build found
//!     when: { request: '(?i)\bto-?do\b', turn: 2, last: 'is not exported' }
//!     respond: |
//!       …
//! ```
//!
//! A conversation is read like this. User messages that begin with `# Results` are Baton's own. Of the others, the *request
//! message* is the last with a line `# Request` outside of fenced blocks; without one it is the last. `request`
//! is the text of the fenced block after that line (without a fence: all after it; without the line: the whole message);
//! `project` is what stands before that line, from `# Project files` on; `turn` is 1 plus the number of assistant messages
//! after the request message; `last` is the whole last message; `system` is all system messages, joined by line breaks.
//! The patterns are those of the `regex` crate, matched anywhere; `(?i)` ignores case, `(?s)` lets `.` span lines.
//!
//! Placeholders in `respond`, `reasoning`, `file` contents. All are made of the request's letters, digits and blanks and are
//! short, so that whatever a person typed they can stand in any source file, string or tag:
//! - `@@title@@`: a title, such as `Weather dashboard for sailors` for "please build me a weather dashboard for sailors!";
//! - `@@title_json@@`: the same as a JSON string, quotes included: an expression in JavaScript;
//! - `@@words@@`: the first words of the request as they stand; `@@words_json@@`: the same as a JSON array of strings;
//! - `@@slug@@`: the title in `a-z0-9-`;
//! - `@@request.NAME@@`: what the group `(?P<NAME>…)` of the rule's own `request` pattern captured, as it was typed, at most a
//!   title long; empty when the group took no part or held no letter or digit, so a pattern asks for one;
//!   `@@request.NAME_json@@`: the same as a JSON string.
//!
//! An unknown placeholder, or a group that the pattern has not, is refused when the script is read.

use serde::Deserialize;

use super::respond::Respond;

/// One script.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptText {
    /// What the script is called in errors and logs.
    pub name: String,
    /// What it is for; not used by anything.
    #[serde(default)]
    pub about: String,
    /// How fast its rules answer, unless they say otherwise.
    #[serde(default)]
    pub pace: Pace,
    /// Checked on every request that one of its rules would answer, before the rule's own `expect`.
    #[serde(default)]
    pub expect: Expect,
    /// Its rules; the first that fits answers. At least one.
    pub rules: Vec<Rule>,
}

/// One rule: when it fits and what it answers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What the rule is called in errors and logs.
    pub name: String,
    /// What the conversation must be like. Nothing: any.
    #[serde(default)]
    pub when: When,
    /// The text of the answer. Needed unless the fault is a `status`.
    #[serde(default)]
    pub respond: Respond,
    /// Reasoning that is streamed apart from the text, before it.
    #[serde(default)]
    pub reasoning: String,
    /// How fast the answer comes; what is missing is taken from the script.
    #[serde(default)]
    pub pace: Pace,
    /// Tokens to report, also before a fault. Missing: estimated from the texts, four characters a token, and none before a fault.
    pub usage: Option<UsageText>,
    /// Report no usage at all, as some servers do.
    #[serde(default)]
    pub omit_usage: bool,
    /// How the answer ends.
    #[serde(default)]
    pub finish: Finish,
    /// What goes wrong with the answer.
    pub fault: Option<Fault>,
    /// Checked on every request that this rule would answer. A request that violates it is answered 400 with the reason.
    #[serde(default)]
    pub expect: Expect,
}

/// Conditions on a conversation; all that are given must hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// A pattern for the person's request.
    pub request: Option<String>,
    /// A pattern for the project files that the request message shows. It never fits when the message shows none.
    pub project: Option<String>,
    /// A pattern for the last message as a whole, such as the errors of a build.
    pub last: Option<String>,
    /// A pattern for the system messages.
    pub system: Option<String>,
    /// The turn of this request, exactly; the first is 1.
    pub turn: Option<u32>,
    /// This turn of the request, or a later one.
    pub turn_from: Option<u32>,
    /// The rule answers at most so often, over all conversations and until the process ends. For tests ("429 twice, then well").
    pub times: Option<u32>,
}

/// How the pieces of an answer come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// Characters of one piece, at least 1. Default 32.
    pub chunk: Option<u32>,
    /// Milliseconds between two pieces. Default 0.
    pub delay_ms: Option<u64>,
    /// Milliseconds before anything is answered, the response's headers included. Default 0.
    pub first_delay_ms: Option<u64>,
    /// Over HTTP: bytes of one write, so that frames and characters arrive in fragments. Default: a frame a write.
    pub wire: Option<u32>,
}

/// Tokens that an answer reports, in the words of [`contract::event::TokenCount`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsageText {
    /// Tokens of the prompt, those from the cache included.
    pub input: u64,
    /// Of these, how many came from the cache.
    #[serde(default)]
    pub cached: u64,
    /// Tokens of the answer, reasoning included.
    pub output: u64,
    /// Of these, how many were reasoning.
    #[serde(default)]
    pub reasoning: u64,
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// All is said.
    #[default]
    Stop,
    /// The output limit was reached.
    Length,
    /// The filter stopped it.
    ContentFilter,
}

/// What goes wrong. Exactly one of `status`, `error_after`, `break_after`, `stall_after`, `malformed_after` is given.
///
/// The numbers count bytes of the answer's text (reasoning not counted, placeholders filled in): so much is streamed
/// exactly, back to the nearest character, and then it happens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Answers with this HTTP status (400 to 599) and an error in the vendor's shape instead of a stream.
    pub status: Option<u16>,
    /// Sends an error object inside the stream, whose status was 200.
    pub error_after: Option<u64>,
    /// Breaks the connection off.
    pub break_after: Option<u64>,
    /// Falls silent and stays so until the client leaves.
    pub stall_after: Option<u64>,
    /// Sends a frame that is no JSON.
    pub malformed_after: Option<u64>,
    /// With `status`: the `Retry-After` header, as seconds or as an HTTP date.
    pub retry_after: Option<String>,
    /// With `status` and `error_after`: the error's code in OpenAI's words, such as `rate_limit_exceeded`, `insufficient_quota`,
    /// `context_length_exceeded`, `content_filter`. Missing: the status' usual one. Other formats say the same in theirs.
    pub code: Option<String>,
    /// With `status` and `error_after`: the error's message. Missing: a plain one.
    pub message: Option<String>,
    /// With `status`: the body as it is sent, instead of one in the vendor's shape.
    pub body: Option<String>,
}

/// What must hold for a request; what is missing is not checked.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The model that is asked for, exactly.
    pub model: Option<String>,
    /// Whether the answer is to be streamed.
    pub stream: Option<bool>,
    /// Whether usage is asked for in the stream. Other formats than chat completions always tell it.
    pub include_usage: Option<bool>,
    /// Whether the first message is the system's.
    pub system: Option<bool>,
    /// The fewest messages.
    pub messages_at_least: Option<u64>,
    /// The most messages.
    pub messages_at_most: Option<u64>,
    /// The most bytes of all messages' texts together.
    pub prompt_bytes_at_most: Option<u64>,
    /// How many images the messages show, exactly.
    pub images: Option<u64>,
    /// Patterns of which each must occur somewhere in the messages.
    #[serde(default)]
    pub contains: Vec<String>,
    /// Patterns of which none may occur anywhere in the messages.
    #[serde(default)]
    pub lacks: Vec<String>,
}
