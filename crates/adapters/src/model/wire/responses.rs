//! OpenAI's responses. Nothing is kept there (`store: false`): a conversation is sent whole each time, as everywhere.
//!
//! A stream ends with `response.completed`, `response.incomplete` or `response.failed`; there is no other end.

use runtime::ports::model::{ModelErrorKind, ModelFinish, ModelRequest, PromptMessage, Speaker};
use serde_json::{Value, json};

use super::chat::effort_word;
use super::{Outgoing, Piece, Reader, Remedy, count, data_url, instructions, joined, text};

const REMEDIES: &[Remedy] = &[
    // Not every organisation may see summaries.
    Remedy::drop("reasoning.summary", "/reasoning", "summary"),
    Remedy::drop("reasoning", "", "reasoning"),
    Remedy::drop("temperature", "", "temperature"),
];

pub(super) fn ask(request: &ModelRequest) -> Outgoing {
    let options = &request.options;
    let (system, said) = instructions(&request.messages);
    let mut body = json!({
        "model": request.model.name,
        "input": said.into_iter().map(message).collect::<Vec<_>>(),
        "stream": true,
        "store": false,
    });
    if !system.is_empty() {
        body["instructions"] = json!(joined(&system));
    }
    if let Some(most) = options.max_output_tokens {
        body["max_output_tokens"] = json!(most);
    }
    if let Some(temperature) = options.temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(effort) = options.effort {
        body["reasoning"] = json!({"effort": effort_word(effort), "summary": "auto"});
    }
    if let Some(schema) = &options.schema {
        let format = json!({"type": "json_schema", "name": schema.name, "schema": schema.schema, "strict": true});
        body["text"] = json!({"format": format});
    }
    Outgoing { path: vec!["responses".into()], query: None, body, remedies: REMEDIES }
}

fn message(message: &PromptMessage) -> Value {
    let role = if message.speaker == Speaker::Assistant { "assistant" } else { "user" };
    if message.images.is_empty() {
        return json!({"role": role, "content": message.text});
    }
    let images = message.images.iter().map(|image| json!({"type": "input_image", "image_url": data_url(image)}));
    let parts: Vec<Value> = [json!({"type": "input_text", "text": message.text})].into_iter().chain(images).collect();
    json!({"role": role, "content": parts})
}

/// What OpenAI's codes mean, which the servers that speak chat completions use too.
pub(super) fn kind(code: &str) -> Option<ModelErrorKind> {
    Some(match code {
        "insufficient_quota"
        | "billing_not_active"
        | "billing_hard_limit_reached"
        | "insufficient_balance"
        | "credit_balance_too_low" => ModelErrorKind::Quota,
        "context_length_exceeded" | "string_above_max_length" | "exceed_context_size_error" => ModelErrorKind::Context,
        "content_filter"
        | "content_policy_violation"
        | "responsibleaipolicyviolation"
        | "moderation_blocked"
        | "invalid_prompt"
        | "bio_policy"
        | "misalignment_policy_violation"
        | "image_content_policy_violation" => ModelErrorKind::ContentFilter,
        "rate_limit_exceeded" | "rate_limit_error" | "resource_exhausted" | "too_many_requests" => ModelErrorKind::Rate,
        "invalid_api_key" | "authentication_error" => ModelErrorKind::Auth,
        "model_not_found"
        | "data_residency_mismatch"
        | "invalid_image"
        | "invalid_image_format"
        | "invalid_base64_image"
        | "invalid_image_url"
        | "image_too_large"
        | "image_too_small"
        | "image_parse_error"
        | "invalid_image_mode"
        | "image_file_too_large"
        | "unsupported_image_media_type"
        | "empty_image_file" => ModelErrorKind::BadRequest,
        _ => return None,
    })
}

/// Reads an answer.
#[derive(Default)]
pub(super) struct Responses {
    /// A part of the reasoning has been read, so the next begins a paragraph.
    reasoned: bool,
}

impl Reader for Responses {
    fn event(&mut self, name: &str, mut value: Value, out: &mut Vec<Piece>) {
        let kind = value.get("type").and_then(Value::as_str).unwrap_or(name).to_owned();
        let delta = value.get_mut("delta").and_then(text);
        match kind.as_str() {
            "response.output_text.delta" | "response.refusal.delta" => out.extend(delta.map(Piece::Text)),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.reasoned = true;
                out.extend(delta.map(Piece::Reasoning));
            }
            // A summary has parts, each of them a paragraph without a line end of its own.
            "response.reasoning_summary_part.added" if self.reasoned => out.push(Piece::Reasoning("\n\n".to_owned())),
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                let status = kind.trim_start_matches("response.");
                ended(value.get_mut("response").map(Value::take).unwrap_or_default(), status, out);
            }
            "error" => out.push(Piece::Refused(value)),
            _ if kind.starts_with("response.") => out.push(Piece::Begun),
            _ => {}
        }
    }

    fn document(&mut self, mut value: Value, out: &mut Vec<Piece>) {
        let Some(status) = value.get("status").and_then(Value::as_str).map(str::to_owned) else { return };
        for item in value.get_mut("output").and_then(Value::as_array_mut).into_iter().flatten() {
            for (field, piece) in [("summary", Piece::Reasoning as fn(String) -> Piece), ("content", Piece::Text)] {
                for part in item.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
                    let said = ["text", "refusal"].into_iter().find_map(|name| text(part.get_mut(name)?));
                    out.extend(said.map(piece));
                }
            }
        }
        ended(value, &status, out);
    }
}

/// The end of a response.
fn ended(response: Value, status: &str, out: &mut Vec<Piece>) {
    let finish = match (status, reason(&response)) {
        ("completed", _) => ModelFinish::Stop,
        ("incomplete", Some("content_filter")) => ModelFinish::ContentFilter,
        ("incomplete", _) => ModelFinish::Length,
        _ => return out.push(Piece::Refused(response)),
    };
    out.extend(response.get("usage").and_then(count::responses).map(Piece::Usage));
    out.extend([Piece::Finish(finish), Piece::End]);
}

fn reason(response: &Value) -> Option<&str> {
    response.pointer("/incomplete_details/reason")?.as_str()
}
