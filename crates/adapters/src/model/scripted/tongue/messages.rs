//! Anthropic's messages: requests as they are taken, answers as they are given.

use axum::http::HeaderMap;
use contract::event::TokenCount;
use runtime::ports::model::{ModelFinish, PromptMessage, Speaker};
use serde_json::{Value, json};

use super::super::expect::Asked;
use super::super::vendor::{Matter, VendorError};
use super::fields::{Fields, Kind};
use super::{Head, Target, Voice, Whole, image, named};

const READ: &[&str] = &["model", "messages", "system", "max_tokens", "stream"];
/// Fields that the vendor knows and that make no difference to a script.
const OTHER_FIELDS: &[(&str, Kind)] = &[
    ("cache_control", Kind::Object),
    ("metadata", Kind::Object),
    ("output_config", Kind::Object),
    ("service_tier", Kind::String),
    ("stop_sequences", Kind::Array),
    ("thinking", Kind::Object),
    ("tool_choice", Kind::Object),
    ("tools", Kind::Array),
];
/// Fields that the first version knows and the second does not.
const SAMPLING: &[&str] = &["temperature", "top_k", "top_p"];
const VERSIONS: [&str; 2] = ["2023-06-01", "2026-10-21"];
/// Marks for the cache that a request may have.
const MARKS: usize = 4;

pub(super) fn check_headers(headers: &HeaderMap, has_key: bool) -> Result<(), VendorError> {
    if !has_key {
        let message = "x-api-key header is required".to_owned();
        return Err(VendorError { message, usual: false, ..VendorError::usual(401) });
    }
    match headers.get("anthropic-version").and_then(|value| value.to_str().ok()) {
        Some(version) if VERSIONS.contains(&version) => Ok(()),
        Some(other) => Err(invalid(format!("anthropic-version: {other:?} is not a valid version"))),
        None => Err(invalid("anthropic-version: header is required")),
    }
}

/// Whether the version that is spoken knows a temperature.
pub(super) fn samples(headers: &HeaderMap) -> bool {
    headers.get("anthropic-version").is_some_and(|version| version == VERSIONS[0])
}

fn invalid(message: impl Into<String>) -> VendorError {
    VendorError::bad_request("invalid_request_error", None, message)
}

/// Reads a request; one that counts has no limit of output.
pub(super) fn read(fields: &Fields, target: &Target, counts: bool) -> Result<Asked, VendorError> {
    let field = |name: &str| fields.0.get(name).filter(|value| !value.is_null());
    let required = |name: &str| field(name).ok_or_else(|| invalid(format!("{name}: Field required")));
    let model = required("model")?.as_str().ok_or_else(|| invalid("model: Input should be a valid string"))?;
    if !counts && required("max_tokens")?.as_u64().is_none_or(|most| most == 0) {
        return Err(invalid("max_tokens: Input should be greater than or equal to 1"));
    }
    for (name, value) in &fields.0 {
        let other = OTHER_FIELDS.iter().find(|(known, _)| known == name);
        let sampling = target.samples && SAMPLING.contains(&name.as_str()) && value.is_number();
        if other.is_none() && !sampling && !READ.contains(&name.as_str()) {
            return Err(invalid(format!("{name}: Extra inputs are not permitted")));
        }
        if let Some((_, kind)) = other
            && fields.optional(name, *kind).is_err()
        {
            return Err(invalid(format!("{name}: Input should be another type than {}", Kind::of(value))));
        }
    }
    let mut marks = 0;
    let mut messages = Vec::new();
    if let Some(system) = field("system") {
        // Of several blocks each is a message to a script.
        match system {
            Value::String(text) => messages.push(PromptMessage::new(Speaker::System, text)),
            blocks => {
                for block in blocks.as_array().ok_or_else(|| invalid("system: Input should be a valid list"))? {
                    let mut message = PromptMessage::new(Speaker::System, "");
                    read_block("system", block, &mut message, &mut marks)?;
                    messages.push(message);
                }
            }
        }
    }
    let said = required("messages")?.as_array().ok_or_else(|| invalid("messages: Input should be a valid list"))?;
    if said.is_empty() {
        return Err(invalid("messages: at least one message is required"));
    }
    for (index, message) in said.iter().enumerate() {
        messages.push(read_message(index, message, &mut marks)?);
    }
    if marks > MARKS {
        return Err(invalid(format!("A maximum of {MARKS} blocks with cache_control may be provided. Found {marks}.")));
    }
    Ok(Asked { model: model.to_owned(), stream: !counts && fields.stream()?, include_usage: true, messages })
}

fn read_message(index: usize, message: &Value, marks: &mut usize) -> Result<PromptMessage, VendorError> {
    let place = format!("messages.{index}");
    let speaker = match message.get("role").and_then(Value::as_str) {
        Some("user") => Speaker::User,
        Some("assistant") => Speaker::Assistant,
        _ => return Err(invalid(format!("{place}.role: Input should be 'user' or 'assistant'"))),
    };
    let mut read = PromptMessage::new(speaker, "");
    match message.get("content") {
        Some(Value::String(text)) => read.text.clone_from(text),
        Some(Value::Array(blocks)) => {
            for (at, block) in blocks.iter().enumerate() {
                read_block(&format!("{place}.content.{at}"), block, &mut read, marks)?;
            }
        }
        _ => return Err(invalid(format!("{place}.content: Field required"))),
    }
    let known = ["role", "content"];
    if let Some(other) =
        message.as_object().and_then(|fields| fields.keys().find(|name| !known.contains(&name.as_str())))
    {
        return Err(invalid(format!("{place}.{other}: Extra inputs are not permitted")));
    }
    Ok(read)
}

fn read_block(place: &str, block: &Value, read: &mut PromptMessage, marks: &mut usize) -> Result<(), VendorError> {
    if let Some(mark) = block.get("cache_control").filter(|mark| !mark.is_null()) {
        if mark.get("type").and_then(Value::as_str) != Some("ephemeral") {
            return Err(invalid(format!("{place}.cache_control.type: Input should be 'ephemeral'")));
        }
        *marks += 1;
        read.stable = true;
    }
    let field = |pointer: &str| block.pointer(pointer).and_then(Value::as_str);
    match (field("/type"), field("/text")) {
        (Some("text"), Some("")) => Err(invalid(format!("{place}: text content blocks must be non-empty"))),
        (Some("text"), Some(text)) => {
            read.text += text;
            Ok(())
        }
        (Some("image"), _) if read.speaker == Speaker::User => {
            let media_type = field("/source/media_type").unwrap_or_default();
            let base64 = field("/source/data").filter(|_| field("/source/type") == Some("base64"));
            let image = base64.and_then(|base64| image(media_type, base64));
            read.images.push(image.ok_or_else(|| invalid(format!("{place}.image.source: Could not process image")))?);
            Ok(())
        }
        (kind, _) => {
            let kind = kind.unwrap_or_default();
            Err(invalid(format!(
                "{place}: Input tag '{kind}' does not match any of the expected tags: 'image', 'text'"
            )))
        }
    }
}

/// The status and the body of an error.
pub(super) fn error(error: &VendorError) -> (u16, Value) {
    let (status, kind, own) = match error.matter() {
        Matter::Key => (401, "authentication_error", "invalid x-api-key"),
        Matter::Quota => (402, "billing_error", "Your credit balance is too low to access the Anthropic API."),
        Matter::Permission => (403, "permission_error", ""),
        Matter::Missing => (404, "not_found_error", ""),
        Matter::Large => (413, "request_too_large", "Request exceeds the maximum size"),
        Matter::Rate => (429, "rate_limit_error", "This request would exceed the rate limit of your organization."),
        Matter::Context => (400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
        Matter::Content => (400, "invalid_request_error", "Output blocked by content filtering policy"),
        Matter::Overload => (529, "overloaded_error", "Overloaded"),
        Matter::Broken => (500, "api_error", "Internal server error"),
        Matter::Request => (error.status, "invalid_request_error", ""),
    };
    (status, json!({"type": "error", "error": {"type": kind, "message": error.words(own)}, "request_id": null}))
}

/// Writes a stream: a block at a time, each opened, filled and closed.
pub(super) struct Messages {
    head: Head,
    blocks: u64,
    open: Option<Block>,
}

/// What a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Thinking,
    Text,
}

impl Messages {
    pub(super) fn new(head: Head) -> Self {
        Self { head, blocks: 0, open: None }
    }

    fn open(&mut self, block: Block, out: &mut String) {
        if self.open == Some(block) {
            return;
        }
        self.close(out);
        let empty = match block {
            Block::Thinking => json!({"type": "thinking", "thinking": "", "signature": ""}),
            Block::Text => json!({"type": "text", "text": "", "citations": null}),
        };
        named(&json!({"type": "content_block_start", "index": self.blocks, "content_block": empty}), out);
        self.open = Some(block);
    }

    fn delta(&self, delta: &Value, out: &mut String) {
        named(&json!({"type": "content_block_delta", "index": self.blocks, "delta": delta}), out);
    }

    fn close(&mut self, out: &mut String) {
        let Some(block) = self.open.take() else { return };
        if block == Block::Thinking {
            self.delta(&json!({"type": "signature_delta", "signature": "c2NyaXB0ZWQ="}), out);
        }
        named(&json!({"type": "content_block_stop", "index": self.blocks}), out);
        self.blocks += 1;
    }
}

impl Voice for Messages {
    fn begin(&mut self, tokens: Option<TokenCount>, out: &mut String) {
        let begun = tokens.map(|tokens| TokenCount { output: 1.min(tokens.output), reasoning: 0, ..tokens });
        named(&json!({"type": "message_start", "message": message(&self.head, &[], None, begun)}), out);
        named(&json!({"type": "ping"}), out);
    }

    fn text(&mut self, text: &str, out: &mut String) {
        self.open(Block::Text, out);
        self.delta(&json!({"type": "text_delta", "text": text}), out);
    }

    fn reasoning(&mut self, text: &str, out: &mut String) {
        self.open(Block::Thinking, out);
        self.delta(&json!({"type": "thinking_delta", "thinking": text}), out);
    }

    fn end(&mut self, finish: ModelFinish, tokens: Option<TokenCount>, out: &mut String) {
        self.close(out);
        // What the beginning told is not told again.
        let usage = tokens.map(|tokens| {
            json!({"output_tokens": tokens.output, "output_tokens_details": {"thinking_tokens": tokens.reasoning}})
        });
        let delta = json!({"stop_reason": stop_reason(finish), "stop_sequence": null});
        named(&json!({"type": "message_delta", "delta": delta, "usage": usage.unwrap_or_else(|| json!({}))}), out);
        named(&json!({"type": "message_stop"}), out);
    }

    fn error(&mut self, problem: &VendorError, out: &mut String) {
        named(&error(problem).1, out);
    }

    fn malformed(&self) -> &'static str {
        "event: content_block_delta\ndata: {\"type\": \n\n"
    }
}

/// A whole answer.
pub(super) fn document(head: &Head, said: &Whole) -> Value {
    let mut content = Vec::new();
    if !said.reasoning.is_empty() {
        content.push(json!({"type": "thinking", "thinking": said.reasoning, "signature": "c2NyaXB0ZWQ="}));
    }
    if !said.text.is_empty() {
        content.push(json!({"type": "text", "text": said.text, "citations": null}));
    }
    message(head, &content, Some(said.finish()), said.tokens)
}

fn message(head: &Head, content: &[Value], finish: Option<ModelFinish>, tokens: Option<TokenCount>) -> Value {
    let usage = tokens.map(|tokens| {
        json!({
            "input_tokens": tokens.input - tokens.cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": tokens.cached,
            "output_tokens": tokens.output,
            "output_tokens_details": {"thinking_tokens": tokens.reasoning},
        })
    });
    json!({"id": format!("msg_{}", head.n), "type": "message", "role": "assistant", "model": head.model, "content": content,
        "stop_reason": finish.map(stop_reason), "stop_sequence": null, "usage": usage.unwrap_or_else(|| json!({}))})
}

fn stop_reason(finish: ModelFinish) -> &'static str {
    match finish {
        ModelFinish::Stop => "end_turn",
        ModelFinish::Length => "max_tokens",
        ModelFinish::ContentFilter => "refusal",
    }
}
