//! What went wrong, by kind, in words for a person. Servers' words are repeated, shortened and without the key.
//!
//! Kinds come from the error's code first, then from its text where servers have no code for it, then from the status. The one
//! thing that leaves this file is a `ModelError`; whoever builds one elsewhere must not put a server's words into it.

use std::error::Error;
use std::time::Duration;

use runtime::ports::model::{ModelError, ModelErrorKind};
use serde_json::Value;

use super::super::Secret;
use super::ERROR_TEXT_CHARS;

/// The longest wait that a server can ask for.
const RETRY_AFTER_MOST: Duration = Duration::from_secs(24 * 3600);

/// A server's answer that is no success.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Refusal<'a> {
    /// The HTTP status; inside a stream the one that the error names, or 0.
    pub(crate) status: u16,
    /// The header `Retry-After`: seconds or an HTTP date.
    pub(crate) retry_after: Option<&'a str>,
    /// The header `retry-after-ms`, which some send beside it.
    pub(crate) retry_after_ms: Option<&'a str>,
    /// The header `Date`, against which a date in `Retry-After` is read: the server's own clock, so that ours does not matter.
    pub(crate) date: Option<&'a str>,
    /// The body, or the frame of a stream.
    pub(crate) body: &'a str,
}

/// The error that a refusal means.
pub(crate) fn refused(refusal: Refusal<'_>, key: Option<&Secret>) -> ModelError {
    let said = Said::read(refusal.body);
    let status = if refusal.status == 0 { said.status } else { refusal.status };
    let kind = kind(status, &said);
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
    ModelError { kind, message, retry_after_ms: retry_after_ms(refusal) }
}

/// The error of a call that got no answer, or half of one.
pub(crate) fn network(message: String) -> ModelError {
    ModelError { kind: ModelErrorKind::Network, message, retry_after_ms: None }
}

/// The error of an answer that is not chat completions.
pub(crate) fn protocol(message: impl Into<String>) -> ModelError {
    ModelError { kind: ModelErrorKind::Protocol, message: message.into(), retry_after_ms: None }
}

/// The innermost cause of an error, which names what the outer ones only wrap.
pub(crate) fn causes(error: &dyn Error) -> String {
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
        ModelErrorKind::Protocol => "The model's server answered what is not chat completions",
    }
}

/// What an error's body says, of the many shapes that servers use.
#[derive(Debug, Default)]
struct Said {
    text: String,
    /// Code and type, in lower case.
    codes: Vec<String>,
    /// A status that the body names, or 0.
    status: u16,
}

impl Said {
    fn read(body: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(body) else {
            // A page is a proxy's or a wrong address'; its markup helps nobody.
            let text = if body.trim_start().starts_with('<') { String::new() } else { body.to_owned() };
            return Self { text, ..Self::default() };
        };
        // Google's servers put their errors into a list.
        let outer = value.get(0).unwrap_or(&value);
        let inner = outer.get("error").filter(|error| !error.is_null()).unwrap_or(outer);
        let mut said = Self { text: text_of(inner), ..Self::default() };
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

    fn has_code(&self, codes: &[&str]) -> bool {
        self.codes.iter().any(|code| codes.contains(&code.as_str()))
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

const CONTEXT_PHRASES: &[&str] = &[
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
];

fn kind(status: u16, said: &Said) -> ModelErrorKind {
    let quota = [
        "insufficient_quota",
        "billing_not_active",
        "billing_hard_limit_reached",
        "insufficient_balance",
        "credit_balance_too_low",
    ];
    let content = ["content_filter", "content_policy_violation", "responsibleaipolicyviolation", "moderation_blocked"];
    if said.has_code(&quota) {
        return ModelErrorKind::Quota;
    }
    if said.has_code(&["context_length_exceeded", "string_above_max_length", "exceed_context_size_error"]) {
        return ModelErrorKind::Context;
    }
    if said.has_code(&content) {
        return ModelErrorKind::ContentFilter;
    }
    if said.has_code(&["rate_limit_exceeded", "rate_limit_error", "resource_exhausted", "too_many_requests"]) {
        return ModelErrorKind::Rate;
    }
    if said.has_code(&["invalid_api_key", "authentication_error"]) {
        return ModelErrorKind::Auth;
    }
    // Many servers have no code for a long prompt; some call it an error of their own.
    if matches!(status, 0 | 400 | 413 | 422 | 500) && said.speaks_of(CONTEXT_PHRASES) {
        return ModelErrorKind::Context;
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

fn retry_after_ms(refusal: Refusal<'_>) -> Option<u64> {
    let exact = refusal.retry_after_ms.and_then(|ms| ms.trim().parse::<f64>().ok()).map(|ms| ms / 1000.0);
    let seconds = || refusal.retry_after?.trim().parse::<f64>().ok();
    let date = || {
        let until = httpdate::parse_http_date(refusal.retry_after?.trim()).ok()?;
        let now = httpdate::parse_http_date(refusal.date?.trim()).ok()?;
        Some(until.duration_since(now).unwrap_or_default().as_secs_f64())
    };
    let wait = exact.or_else(seconds).or_else(date).filter(|wait| !wait.is_nan())?;
    let wait = Duration::from_secs_f64(wait.clamp(0.0, RETRY_AFTER_MOST.as_secs_f64()));
    u64::try_from(wait.as_millis()).ok()
}

#[cfg(test)]
mod tests;
