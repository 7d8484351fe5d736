//! What went wrong, by kind, in words for a person. Servers' words are repeated, shortened and without the key.
//!
//! Kinds come from the error's code first, then from its text where servers have no code for it, then from the status. The one
//! thing that leaves this file is a `ModelError`; whoever builds one elsewhere must not put a server's words into it.

use std::error::Error;

use runtime::ports::model::{ModelError, ModelErrorKind};
use serde_json::Value;

use super::Secret;
use super::rates::{self, Header};
use super::wire::Wire;

/// Characters of a server's words that an error repeats.
const ERROR_TEXT_CHARS: usize = 400;

/// A server's answer that is no success.
#[derive(Clone, Copy)]
pub(super) struct Refusal<'a> {
    /// The format that was spoken.
    pub(super) wire: Wire,
    /// The HTTP status; inside a stream 0, and the one that the error names is used.
    pub(super) status: u16,
    /// The body, or the event of a stream.
    pub(super) body: &'a str,
}

/// The error that a refusal means.
pub(super) fn refused(refusal: Refusal<'_>, header: &Header<'_>, key: Option<&Secret>) -> ModelError {
    let said = Said::read(refusal.body);
    let status = if refusal.status == 0 { said.status } else { refusal.status };
    let kind = kind(refusal.wire, status, &said);
    let mut message = sentence(kind).to_owned();
    if status != 0 {
        message += &format!(" ({status})");
    }
    let words = repeatable(&said.text, key);
    if words.is_empty() {
        message += ".";
    } else {
        message += &format!(". It said: {words}");
    }
    ModelError { kind, message, retry_after_ms: rates::retry_after_ms(header).or(said.retry_after_ms) }
}

/// The error of a refusal inside a stream, where there are no headers.
pub(super) fn refused_within(wire: Wire, body: &str, key: Option<&Secret>) -> ModelError {
    refused(Refusal { wire, status: 0, body }, &|_| None, key)
}

/// The error of a call that got no answer, or half of one.
pub(super) fn network(message: String) -> ModelError {
    ModelError { kind: ModelErrorKind::Network, message, retry_after_ms: None }
}

/// The error of an answer that is not in the format that was asked for.
pub(super) fn protocol(message: impl Into<String>) -> ModelError {
    ModelError { kind: ModelErrorKind::Protocol, message: message.into(), retry_after_ms: None }
}

/// The innermost cause of an error, which names what the outer ones only wrap.
pub(super) fn causes(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}

fn sentence(kind: ModelErrorKind) -> &'static str {
    match kind {
        ModelErrorKind::Auth => "The model's server refuses the key, or there is none",
        ModelErrorKind::Quota => "The account with the model's provider has nothing left",
        ModelErrorKind::Rate => "The model's server gets too many requests",
        ModelErrorKind::Context => "The prompt is too long for the model",
        ModelErrorKind::ContentFilter => "The model's provider refuses the content",
        ModelErrorKind::Overload => "The model's server is overloaded or broken",
        ModelErrorKind::Network => "The model's server could not be reached",
        ModelErrorKind::BadRequest => "The model's server does not accept the request",
        ModelErrorKind::Unknown => "There is no such model",
        ModelErrorKind::Protocol => "The model's server answered what is not its format",
    }
}

/// What an error's body says, of the many shapes that servers use.
#[derive(Debug, Default)]
struct Said {
    text: String,
    /// Codes in lower case, the most exact first.
    codes: Vec<String>,
    /// A status that the body names, or 0.
    status: u16,
    /// A wait that the body asks for.
    retry_after_ms: Option<u64>,
}

impl Said {
    fn read(body: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(body) else {
            // A page is a proxy's or a wrong address'; its markup helps nobody.
            let text = if body.trim_start().starts_with('<') { String::new() } else { body.to_owned() };
            return Self { text, ..Self::default() };
        };
        // Google's servers put their errors into a list; a response that failed holds its own.
        let outer = value.get(0).unwrap_or(&value);
        let held = |place: &str| outer.pointer(place).filter(|error| !error.is_null());
        let inner = held("/error").or_else(|| held("/response/error")).unwrap_or(outer);
        let mut said = Self { text: text_of(inner), ..Self::default() };
        said.details(inner);
        for field in ["code", "type", "status"] {
            match inner.get(field) {
                Some(Value::String(code)) => said.codes.push(code.to_ascii_lowercase()),
                Some(Value::Number(code)) => {
                    let code = code.as_u64().and_then(|code| u16::try_from(code).ok());
                    said.status = code.filter(|code| (400..600).contains(code)).unwrap_or(said.status);
                }
                _ => {}
            }
        }
        // A router's error wraps the provider's, which is the one that helps.
        if let Some(raw) = inner.pointer("/metadata/raw").and_then(Value::as_str) {
            said.text = format!("{} ({})", said.text, raw);
        }
        said
    }

    /// The details of Anthropic's errors, a code; and of Google's, a reason, the quotas that were exceeded, a wait.
    fn details(&mut self, error: &Value) {
        let code = error.pointer("/details/error_code").and_then(Value::as_str);
        self.codes.extend(code.map(str::to_ascii_lowercase));
        for detail in error.get("details").and_then(Value::as_array).into_iter().flatten() {
            let violations = detail.get("violations").and_then(Value::as_array).into_iter().flatten();
            let quotas = violations.filter_map(|violation| violation.get("quotaId"));
            let codes = detail.get("reason").into_iter().chain(quotas).filter_map(Value::as_str);
            self.codes.extend(codes.map(str::to_ascii_lowercase));
            let delay = detail.get("retryDelay").and_then(Value::as_str).and_then(rates::span_ms);
            self.retry_after_ms = self.retry_after_ms.or(delay);
        }
    }

    fn speaks_of(&self, phrases: &[&str]) -> bool {
        let text = self.text.to_lowercase();
        phrases.iter().any(|phrase| text.contains(phrase))
    }
}

fn text_of(error: &Value) -> String {
    if let Value::String(text) = error {
        return text.clone();
    }
    for field in ["message", "detail", "msg", "error_message"] {
        match error.get(field) {
            Some(Value::String(text)) => return text.clone(),
            Some(Value::Array(list)) => {
                // A list of what is wrong with the fields of a request, as Python's servers write it.
                let all: Vec<&str> = list.iter().filter_map(|item| item.get("msg")?.as_str()).collect();
                return all.join("; ");
            }
            Some(inner @ Value::Object(_)) => return text_of(inner),
            _ => {}
        }
    }
    String::new()
}

/// What servers say whose errors have no code for it: a vendor that has one is understood by that.
const PHRASES: &[(ModelErrorKind, &[&str])] = &[
    (
        ModelErrorKind::Context,
        &[
            "context length",
            "context window",
            "context size",
            "maximum context",
            "prompt is too long",
            "input is too long",
            "prompt too long",
            "too many tokens",
            "max_model_len",
            "reduce the length",
            "input token count",
        ],
    ),
    (ModelErrorKind::Quota, &["credit balance is too low", "specified api usage limits"]),
    (ModelErrorKind::ContentFilter, &["content filtering policy"]),
];

fn kind(wire: Wire, status: u16, said: &Said) -> ModelErrorKind {
    if let Some(kind) = said.codes.iter().find_map(|code| wire.kind(code)) {
        return kind;
    }
    if matches!(status, 0 | 400 | 413 | 422 | 500)
        && let Some((kind, _)) = PHRASES.iter().find(|(_, phrases)| said.speaks_of(phrases))
    {
        return *kind;
    }
    match status {
        401 | 407 => ModelErrorKind::Auth,
        402 => ModelErrorKind::Quota,
        403 if said.speaks_of(&["moderation", "flagged", "content policy"]) => ModelErrorKind::ContentFilter,
        403 => ModelErrorKind::Auth,
        408 | 409 | 425 => ModelErrorKind::Overload,
        413 => ModelErrorKind::Context,
        429 => ModelErrorKind::Rate,
        300..=499 => ModelErrorKind::BadRequest,
        0 | 500..=599 => ModelErrorKind::Overload,
        _ => ModelErrorKind::Protocol,
    }
}

/// A server's words as they may be shown: one line, without the key, not endless. The key goes before the end is cut, so that no
/// half of it stays, and after control characters, so that none of them hides it.
fn repeatable(text: &str, key: Option<&Secret>) -> String {
    let visible: String = text
        .chars()
        .map(|char| if char.is_whitespace() { ' ' } else { char })
        .filter(|char| !char.is_control())
        .collect();
    let line = visible.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let clean = key.map_or_else(|| line.clone(), |key| key.redact(&line));
    match clean.char_indices().nth(ERROR_TEXT_CHARS) {
        Some((end, _)) => format!("{}…", &clean[..end]),
        None => clean,
    }
}

#[cfg(test)]
mod tests;
