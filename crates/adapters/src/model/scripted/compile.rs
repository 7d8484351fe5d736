//! From what a script says to what can be performed: patterns compiled, placeholders found, contradictions refused.
//!
//! Everything that can be wrong with a script is found here, when it is read, with its place; answering cannot fail any more.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use contract::event::TokenCount;
use regex::Regex;
use runtime::ports::model::ModelFinish;
use thiserror::Error;

use super::converse::Heard;
use super::expect::Expectation;
use super::format::{Fault, Finish, Pace, Rule, ScriptText, When};
use super::respond::{PartText, Respond};
use super::vendor::VendorError;
use super::words::{Template, Words};

/// Bytes of one script.
pub const SCRIPT_BYTES: usize = 4 * 1024 * 1024;
/// Rules of one script.
pub const SCRIPT_RULES: usize = 1_000;
/// The longest delay or pause that a script can ask for: one hour.
pub const DELAY_MOST_MS: u64 = 3_600_000;
/// Characters of one piece unless the script says otherwise.
pub const CHUNK_CHARS: u32 = 32;

/// A script that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place}: {problem}")]
pub struct ScriptError {
    /// Where: the file, then the rule and the field.
    pub place: String,
    /// What is wrong there.
    pub problem: String,
}

impl ScriptError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        "script_invalid"
    }
}

/// A script that can be performed.
#[derive(Debug)]
pub struct Script {
    pub(super) name: String,
    pub(super) expect: Expectation,
    pub(super) rules: Vec<Play>,
}

/// A rule that can be performed.
#[derive(Debug)]
pub(super) struct Play {
    pub(super) name: String,
    when: Conditions,
    answered: AtomicU32,
    pub(super) expect: Expectation,
    pub(super) parts: Vec<Part>,
    pub(super) chunk_chars: usize,
    pub(super) delay: Duration,
    pub(super) first_delay: Duration,
    pub(super) wire_bytes: Option<usize>,
    pub(super) usage: Reported,
    pub(super) finish: ModelFinish,
    pub(super) trouble: Option<Trouble>,
}

/// A part of an answer.
#[derive(Debug)]
pub(super) enum Part {
    Text(Template),
    Reasoning(Template),
    Pause(Duration),
}

/// What is reported of the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reported {
    Nothing,
    Estimated,
    Exactly(TokenCount),
}

/// What goes wrong.
#[derive(Debug, Clone)]
pub(super) enum Trouble {
    /// An error instead of an answer.
    /// Its body is the error's in each vendor's shape, unless the script says another.
    Status { error: VendorError, retry_after: Option<String>, body: Option<String> },
    /// After so many bytes of text.
    After(usize, Break),
}

/// How a stream goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Break {
    /// An error object of this.
    Error(VendorError),
    /// The connection.
    Off,
    /// Silence.
    Stall,
    /// No JSON.
    Malformed,
}

#[derive(Debug)]
struct Conditions {
    request: Option<Regex>,
    project: Option<Regex>,
    last: Option<Regex>,
    system: Option<Regex>,
    turn: Option<u32>,
    turn_from: Option<u32>,
    times: Option<u32>,
}

impl Script {
    /// Reads a script; `place` is what errors call it, such as its file's name. Text that begins with `{` is JSON, other is YAML.
    ///
    /// # Errors
    /// When the text is no script, or one that contradicts itself.
    pub fn read(place: &str, text: &str) -> Result<Self, ScriptError> {
        let wrong = |problem: String| ScriptError { place: place.to_owned(), problem };
        if text.len() > SCRIPT_BYTES {
            return Err(wrong(format!("the script is longer than {SCRIPT_BYTES} bytes")));
        }
        let script: ScriptText = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?
        } else {
            serde_saphyr::from_str(text).map_err(|error| wrong(error.to_string()))?
        };
        compile(script)
            .map_err(|Wrong { place: inner, problem }| ScriptError { place: format!("{place}{inner}"), problem })
    }

    /// Divides every delay and pause by `factor`; 0 takes them away.
    pub(super) fn set_speed(&mut self, factor: f64) {
        let scaled = |delay: Duration| {
            let most = Duration::from_millis(DELAY_MOST_MS);
            // A factor so small that the delay has no end: the longest one instead.
            if factor > 0.0 {
                Duration::try_from_secs_f64(delay.as_secs_f64() / factor).unwrap_or(most).min(most)
            } else {
                Duration::ZERO
            }
        };
        for play in &mut self.rules {
            (play.delay, play.first_delay) = (scaled(play.delay), scaled(play.first_delay));
            for part in &mut play.parts {
                if let Part::Pause(pause) = part {
                    *pause = scaled(*pause);
                }
            }
        }
    }

    /// What the script is called.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Something wrong within a script; the place grows outwards.
pub(super) struct Wrong {
    place: String,
    problem: String,
}

impl Wrong {
    pub(super) fn new(field: &str, problem: impl Into<String>) -> Self {
        Self { place: format!(", {field}"), problem: problem.into() }
    }

    fn within(self, outer: &str) -> Self {
        Self { place: format!(", {outer}{}", self.place), problem: self.problem }
    }
}

fn compile(script: ScriptText) -> Result<Script, Wrong> {
    if script.name.trim().is_empty() {
        return Err(Wrong::new("name", "a script needs a name"));
    }
    if script.rules.is_empty() || script.rules.len() > SCRIPT_RULES {
        return Err(Wrong::new("rules", format!("a script has 1 to {SCRIPT_RULES} rules")));
    }
    let expect = Expectation::compile(script.expect).map_err(|wrong| wrong.within("expect"))?;
    let mut rules = Vec::with_capacity(script.rules.len());
    for (index, rule) in script.rules.into_iter().enumerate() {
        let place = format!("rule {} `{}`", index + 1, rule.name);
        rules.push(Play::compile(rule, script.pace).map_err(|wrong| wrong.within(&place))?);
    }
    Ok(Script { name: script.name, expect, rules })
}

impl Play {
    fn compile(rule: Rule, default: Pace) -> Result<Self, Wrong> {
        let when = Conditions::compile(rule.when).map_err(|wrong| wrong.within("when"))?;
        let groups: Vec<&str> = when.request.iter().flat_map(Regex::capture_names).flatten().collect();
        let parts = parts(&rule.reasoning, &rule.respond, &groups)?;
        let trouble = rule.fault.map(Trouble::compile).transpose().map_err(|wrong| wrong.within("fault"))?;
        if parts.is_empty() && !matches!(trouble, Some(Trouble::Status { .. })) {
            return Err(Wrong::new("respond", "nothing to answer: give `respond`, or a fault with a `status`"));
        }
        let chunk = rule.pace.chunk.or(default.chunk).unwrap_or(CHUNK_CHARS);
        let wire = rule.pace.wire.or(default.wire);
        if chunk == 0 || wire == Some(0) {
            return Err(Wrong::new("pace", "`chunk` and `wire` are at least 1"));
        }
        let usage = match (rule.usage, rule.omit_usage) {
            (Some(_), true) => return Err(Wrong::new("omit_usage", "either `usage` or `omit_usage`")),
            (Some(usage), false) if usage.cached > usage.input || usage.reasoning > usage.output => {
                return Err(Wrong::new("usage", "`cached` is a part of `input`, and `reasoning` a part of `output`"));
            }
            (Some(usage), false) => Reported::Exactly(TokenCount {
                input: usage.input,
                cached: usage.cached,
                output: usage.output,
                reasoning: usage.reasoning,
            }),
            (None, true) => Reported::Nothing,
            (None, false) => Reported::Estimated,
        };
        Ok(Self {
            name: rule.name,
            when,
            answered: AtomicU32::new(0),
            expect: Expectation::compile(rule.expect).map_err(|wrong| wrong.within("expect"))?,
            parts,
            chunk_chars: chunk as usize,
            delay: delay("pace.delay_ms", rule.pace.delay_ms.or(default.delay_ms))?,
            first_delay: delay("pace.first_delay_ms", rule.pace.first_delay_ms.or(default.first_delay_ms))?,
            wire_bytes: wire.map(|bytes| bytes as usize),
            usage,
            finish: match rule.finish {
                Finish::Stop => ModelFinish::Stop,
                Finish::Length => ModelFinish::Length,
                Finish::ContentFilter => ModelFinish::ContentFilter,
            },
            trouble,
        })
    }

    /// The person's words, with what the rule's pattern captured of them.
    pub(super) fn words(&self, heard: &Heard<'_>) -> Words {
        Words::of(heard.request, self.when.request.as_ref())
    }

    /// Whether the rule answers this conversation. With `times`, saying so counts.
    pub(super) fn takes(&self, heard: &Heard<'_>) -> bool {
        if !self.when.fits(heard) {
            return false;
        }
        let Some(times) = self.when.times else { return true };
        let once_more = |answered: u32| (answered < times).then_some(answered + 1);
        self.answered.fetch_update(Ordering::Relaxed, Ordering::Relaxed, once_more).is_ok()
    }
}

fn delay(field: &str, ms: Option<u64>) -> Result<Duration, Wrong> {
    match ms.unwrap_or(0) {
        ms if ms > DELAY_MOST_MS => Err(Wrong::new(field, format!("at most {DELAY_MOST_MS} ms"))),
        ms => Ok(Duration::from_millis(ms)),
    }
}

fn parts(reasoning: &str, respond: &Respond, groups: &[&str]) -> Result<Vec<Part>, Wrong> {
    let mut parts = Vec::new();
    if !reasoning.is_empty() {
        parts.push(Part::Reasoning(template("reasoning", reasoning, groups)?));
    }
    for (index, part) in respond.parts.iter().enumerate() {
        let place = format!("respond, part {}", index + 1);
        parts.push(Part::compile(part, groups).map_err(|wrong| wrong.within(&place))?);
    }
    Ok(parts)
}

impl Part {
    fn compile(part: &PartText, groups: &[&str]) -> Result<Self, Wrong> {
        match part {
            PartText { text: Some(text), reasoning: None, file: None, content: None, pause_ms: None } => {
                Ok(Self::Text(template("text", text, groups)?))
            }
            PartText { text: None, reasoning: Some(text), file: None, content: None, pause_ms: None } => {
                Ok(Self::Reasoning(template("reasoning", text, groups)?))
            }
            PartText { text: None, reasoning: None, file: Some(path), content: Some(content), pause_ms: None } => {
                if path.is_empty() || path.contains(['"', '\\', '\n', '<', '>']) {
                    return Err(Wrong::new("file", "a path without quotes, backslashes, angle brackets and line ends"));
                }
                if content.to_ascii_lowercase().contains("</file") {
                    return Err(Wrong::new(
                        "content",
                        "a file that contains `</file` cannot be written by a `file` part",
                    ));
                }
                Ok(Self::Text(template("content", &format!("<file path=\"{path}\">\n{content}\n</file>\n"), groups)?))
            }
            PartText { text: None, reasoning: None, file: None, content: None, pause_ms: Some(ms) } => {
                Ok(Self::Pause(delay("pause_ms", Some(*ms))?))
            }
            _ => Err(Wrong::new("part", "exactly one of `text`, `reasoning`, `pause_ms`, or `file` with `content`")),
        }
    }
}

fn template(field: &str, text: &str, groups: &[&str]) -> Result<Template, Wrong> {
    Template::parse(text, groups).map_err(|name| {
        let others = "request.NAME and request.NAME_json for a named group of the rule's `request` pattern";
        Wrong::new(
            field,
            format!(
                "`@@{name}@@` is no placeholder: there are title, title_json, words, words_json, slug, and {others}"
            ),
        )
    })
}

/// Compiles a pattern; the error is the pattern's own, which points at the place in it.
pub(super) fn pattern(field: &str, pattern: Option<&str>) -> Result<Option<Regex>, Wrong> {
    pattern.map(|pattern| Regex::new(pattern).map_err(|error| Wrong::new(field, error.to_string()))).transpose()
}

impl Conditions {
    fn compile(when: When) -> Result<Self, Wrong> {
        if when.turn == Some(0) || when.turn_from == Some(0) {
            return Err(Wrong::new("turn", "the first turn is 1"));
        }
        if when.turn.is_some() && when.turn_from.is_some() {
            return Err(Wrong::new("turn", "either `turn` or `turn_from`"));
        }
        if when.times == Some(0) {
            return Err(Wrong::new("times", "a rule that never answers"));
        }
        Ok(Self {
            request: pattern("request", when.request.as_deref())?,
            project: pattern("project", when.project.as_deref())?,
            last: pattern("last", when.last.as_deref())?,
            system: pattern("system", when.system.as_deref())?,
            turn: when.turn,
            turn_from: when.turn_from,
            times: when.times,
        })
    }

    fn fits(&self, heard: &Heard<'_>) -> bool {
        let fits = |pattern: &Option<Regex>, text: Option<&str>| {
            pattern.as_ref().is_none_or(|pattern| text.is_some_and(|text| pattern.is_match(text)))
        };
        self.turn.is_none_or(|turn| turn == heard.turn)
            && self.turn_from.is_none_or(|from| from <= heard.turn)
            && fits(&self.request, Some(heard.request))
            && fits(&self.project, heard.project)
            && fits(&self.last, Some(heard.last))
            && fits(&self.system, Some(&heard.system))
    }
}

impl Trouble {
    fn compile(fault: Fault) -> Result<Self, Wrong> {
        let error = |status: u16| {
            let mut error = VendorError::usual(status);
            error.code = fault.code.clone().or(error.code);
            error.usual = fault.message.is_none();
            error.message = fault.message.clone().unwrap_or(error.message);
            error
        };
        let after = |bytes: u64, how: Break| {
            if fault.retry_after.is_some() || fault.body.is_some() {
                return Err(Wrong::new("retry_after, body", "these go with `status`"));
            }
            if !matches!(how, Break::Error(_)) && (fault.code.is_some() || fault.message.is_some()) {
                return Err(Wrong::new("code, message", "these go with `status` and `error_after`"));
            }
            Ok(Self::After(usize::try_from(bytes).unwrap_or(usize::MAX), how))
        };
        match (fault.status, fault.error_after, fault.break_after, fault.stall_after, fault.malformed_after) {
            (Some(status), None, None, None, None) => {
                if !(400..600).contains(&status) {
                    return Err(Wrong::new("status", "a status from 400 to 599"));
                }
                let header = |char: char| char.is_ascii_graphic() || char == ' ';
                if !fault.retry_after.as_deref().unwrap_or_default().chars().all(header) {
                    return Err(Wrong::new("retry_after", "seconds or an HTTP date"));
                }
                Ok(Self::Status {
                    error: error(status),
                    retry_after: fault.retry_after.clone(),
                    body: fault.body.clone(),
                })
            }
            (None, Some(bytes), None, None, None) => after(bytes, Break::Error(error(500))),
            (None, None, Some(bytes), None, None) => after(bytes, Break::Off),
            (None, None, None, Some(bytes), None) => after(bytes, Break::Stall),
            (None, None, None, None, Some(bytes)) => after(bytes, Break::Malformed),
            _ => Err(Wrong::new(
                "fault",
                "exactly one of `status`, `error_after`, `break_after`, `stall_after`, `malformed_after`",
            )),
        }
    }
}
