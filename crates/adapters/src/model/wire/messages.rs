//! Anthropic's messages. The ends of stable beginnings are marked, so that they are kept and cost a tenth the next time.
//!
//! A stream ends with `message_stop`, after a `message_delta` that tells the reason; an `error` event can come at any time.

use runtime::ports::model::{Effort, ModelErrorKind, ModelFinish, ModelRequest, PromptMessage, Speaker};
use serde_json::{Value, json};

use super::{Outgoing, Piece, Reader, Remedy, base64_of, count, instructions, text};

/// The version of the interface that is spoken. It has no temperature: the one before is said to go.
pub(super) const VERSION: &str = "2026-10-21";
/// The most tokens of an answer where the question does not say: the interface wants a number, and every present model allows this one.
pub(super) const OUTPUT_TOKENS: u64 = 32_000;
/// Marked ends of one request that the interface allows.
pub(super) const MARKS: usize = 4;

const REMEDIES: &[Remedy] =
    &[Remedy::drop("thinking", "", "thinking"), Remedy::drop("effort", "/output_config", "effort")];

pub(super) fn ask(request: &ModelRequest) -> Outgoing {
    let options = &request.options;
    let (system, said) = instructions(&request.messages);
    // The latest marks are worth the most: each covers all before it.
    let marks = request.messages.iter().filter(|message| message.stable).count();
    let mut spare = marks.saturating_sub(MARKS);
    let mut marked = |message: &PromptMessage| {
        let skipped = message.stable && spare > 0;
        spare -= usize::from(skipped);
        message.stable && !skipped
    };
    let system: Vec<Value> = system.iter().map(|message| text_block(message, marked(message))).collect();
    let messages: Vec<Value> = said.iter().map(|message| said_block(message, marked(message))).collect();
    let mut body = json!({
        "model": request.model.name,
        "max_tokens": options.max_output_tokens.unwrap_or(OUTPUT_TOKENS),
        "messages": messages,
        "stream": true,
    });
    if !system.is_empty() {
        body["system"] = json!(system);
    }
    if let Some(effort) = options.effort {
        body["thinking"] = json!({"type": "adaptive", "display": "summarized"});
        body["output_config"]["effort"] = json!(effort_word(effort));
    }
    if let Some(schema) = &options.schema {
        body["output_config"]["format"] = json!({"type": "json_schema", "schema": schema.schema});
    }
    Outgoing { path: vec!["messages".into()], query: None, body, remedies: REMEDIES }
}

fn effort_word(effort: Effort) -> &'static str {
    match effort {
        Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    }
}

fn text_block(message: &PromptMessage, marked: bool) -> Value {
    let mut block = json!({"type": "text", "text": message.text});
    if marked {
        block["cache_control"] = json!({"type": "ephemeral"});
    }
    block
}

fn said_block(message: &PromptMessage, marked: bool) -> Value {
    let role = if message.speaker == Speaker::Assistant { "assistant" } else { "user" };
    // Images come first: the mark at the text then covers them.
    let images = message.images.iter().map(|image| {
        let source = json!({"type": "base64", "media_type": image.format.media_type(), "data": base64_of(image)});
        json!({"type": "image", "source": source})
    });
    // An empty text beside an image is refused.
    let said = (!message.text.is_empty() || message.images.is_empty()).then(|| text_block(message, marked));
    let content: Vec<Value> = images.chain(said).collect();
    json!({"role": role, "content": content})
}

/// Codes are the type of an error and the `error_code` of its details. A prompt that is too long has none.
pub(super) fn kind(code: &str) -> Option<ModelErrorKind> {
    Some(match code {
        "authentication_error" | "permission_error" => ModelErrorKind::Auth,
        "billing_error"
        | "contract_spend_limit_reached"
        | "enforced_spend_limit_reached"
        | "linked_organization_spend_limit_reached"
        | "linked_organization_billing_unavailable" => ModelErrorKind::Quota,
        "organization_on_hold" => ModelErrorKind::Auth,
        "image_dimensions_too_large" => ModelErrorKind::BadRequest,
        "rate_limit_error" => ModelErrorKind::Rate,
        "request_too_large" => ModelErrorKind::Context,
        "overloaded_error" | "api_error" | "timeout_error" | "conflict_error" => ModelErrorKind::Overload,
        "not_found_error" => ModelErrorKind::BadRequest,
        _ => return None,
    })
}

/// Reads an answer.
#[derive(Default)]
pub(super) struct Messages {
    /// The usage as it is known so far.
    usage: Value,
}

impl Reader for Messages {
    fn event(&mut self, name: &str, mut value: Value, out: &mut Vec<Piece>) {
        let kind = value.get("type").and_then(Value::as_str).unwrap_or(name).to_owned();
        match kind.as_str() {
            "message_start" => {
                out.push(Piece::Begun);
                let usage = value.pointer("/message/usage").cloned().unwrap_or_default();
                self.count(&usage, out);
            }
            "content_block_start" => block(value.get_mut("content_block"), out),
            "content_block_delta" => block(value.get_mut("delta"), out),
            "message_delta" => {
                self.count(&value.get("usage").cloned().unwrap_or_default(), out);
                out.extend(value.pointer("/delta/stop_reason").and_then(Value::as_str).map(finish));
            }
            "message_stop" => out.push(Piece::End),
            "error" => out.push(Piece::Refused(value)),
            _ => {}
        }
    }

    fn document(&mut self, mut value: Value, out: &mut Vec<Piece>) {
        if value.get("type").and_then(Value::as_str) != Some("message") {
            return;
        }
        out.push(Piece::Begun);
        for part in value.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten() {
            block(Some(part), out);
        }
        self.count(&value.get("usage").cloned().unwrap_or_default(), out);
        out.extend(value.get("stop_reason").and_then(Value::as_str).map(finish));
        out.push(Piece::End);
    }
}

impl Messages {
    fn count(&mut self, usage: &Value, out: &mut Vec<Piece>) {
        out.extend(count::messages(usage, &mut self.usage).map(Piece::Usage));
    }
}

/// A block, or what is added to one. Signatures and tools' inputs are nothing to Baton.
fn block(value: Option<&mut Value>, out: &mut Vec<Piece>) {
    let Some(value) = value else { return };
    out.push(Piece::Begun);
    out.extend(value.get_mut("thinking").and_then(text).map(Piece::Reasoning));
    out.extend(value.get_mut("text").and_then(text).map(Piece::Text));
}

fn finish(reason: &str) -> Piece {
    Piece::Finish(match reason {
        "max_tokens" | "model_context_window_exceeded" => ModelFinish::Length,
        "refusal" => ModelFinish::ContentFilter,
        _ => ModelFinish::Stop,
    })
}
