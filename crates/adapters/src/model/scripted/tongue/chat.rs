//! OpenAI's chat completions: requests as they are taken, answers as they are given.

use contract::event::TokenCount;
use runtime::ports::model::{ModelFinish, PromptMessage, Speaker};
use serde_json::{Value, json};

use super::super::expect::Asked;
use super::super::vendor::VendorError;
use super::fields::{Fields, Kind, only, optional, wrong_type};
use super::{Head, Voice, Whole, data, image_of_url};

/// Fields that the vendor knows and that make no difference to a script, with the type that each must have.
const OTHER_FIELDS: &[(&str, Kind)] = &[
    ("temperature", Kind::Number),
    ("top_p", Kind::Number),
    ("n", Kind::Number),
    ("stop", Kind::Any),
    ("max_tokens", Kind::Number),
    ("max_completion_tokens", Kind::Number),
    ("presence_penalty", Kind::Number),
    ("frequency_penalty", Kind::Number),
    ("logit_bias", Kind::Object),
    ("logprobs", Kind::Boolean),
    ("top_logprobs", Kind::Number),
    ("user", Kind::String),
    ("seed", Kind::Number),
    ("tools", Kind::Array),
    ("tool_choice", Kind::Any),
    ("parallel_tool_calls", Kind::Boolean),
    ("response_format", Kind::Object),
    ("reasoning_effort", Kind::String),
    ("verbosity", Kind::String),
    ("store", Kind::Boolean),
    ("metadata", Kind::Object),
    ("modalities", Kind::Array),
    ("prediction", Kind::Object),
    ("service_tier", Kind::String),
    ("safety_identifier", Kind::String),
    ("prompt_cache_key", Kind::String),
];

const READ: &[&str] = &["model", "messages", "stream", "stream_options"];

pub(super) fn read(fields: &Fields) -> Result<Asked, VendorError> {
    let model = fields.model()?;
    let messages = fields.required("messages", Kind::Array)?.as_array().map(Vec::as_slice).unwrap_or_default();
    if messages.is_empty() {
        let message =
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.";
        return Err(VendorError::bad_request("empty_array", Some("messages"), message));
    }
    let messages =
        messages.iter().enumerate().map(|(index, message)| read_message(index, message)).collect::<Result<_, _>>()?;
    let stream = fields.stream()?;
    let include_usage = read_stream_options(fields, stream)?;
    fields.check_others(READ, OTHER_FIELDS)?;
    if fields.0.get("n").is_some_and(|n| !n.is_null() && n.as_u64() != Some(1)) {
        return Err(VendorError::bad_request(
            "unsupported_value",
            Some("n"),
            "A scripted model gives one choice: 'n' must be 1.",
        ));
    }
    Ok(Asked { model, stream, include_usage, messages })
}

fn read_stream_options(fields: &Fields, stream: bool) -> Result<bool, VendorError> {
    let Some(options) = fields.optional("stream_options", Kind::Object)?.and_then(Value::as_object) else {
        return Ok(false);
    };
    if !stream {
        let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return Err(VendorError::bad_request("invalid_value", Some("stream_options"), message));
    }
    only("stream_options", options, &["include_usage", "include_obfuscation"])?;
    Ok(optional(options, "include_usage", Kind::Boolean)?.and_then(Value::as_bool).unwrap_or(false))
}

fn read_message(index: usize, message: &Value) -> Result<PromptMessage, VendorError> {
    let place = format!("messages[{index}]");
    let Some(fields) = message.as_object() else { return Err(wrong_type(&place, Kind::Object, message)) };
    let role = fields.get("role").and_then(Value::as_str).unwrap_or_default();
    let speaker = match role {
        "system" | "developer" => Speaker::System,
        "user" => Speaker::User,
        "assistant" => Speaker::Assistant,
        _ => {
            let message = format!(
                "Invalid value: '{role}'. Supported values are: 'system', 'developer', 'assistant', and 'user'."
            );
            return Err(VendorError::bad_request("invalid_value", Some(&format!("{place}.role")), message));
        }
    };
    only(&place, fields, &["role", "content", "name", "refusal"])?;
    let content = fields.get("content").unwrap_or(&Value::Null);
    match content {
        Value::String(text) => Ok(PromptMessage::new(speaker, text)),
        Value::Array(parts) => {
            let mut message = PromptMessage::new(speaker, "");
            for part in parts {
                let wrong = || {
                    let message =
                        "Each part must be {\"type\": \"text\", \"text\": …}, or an image_url with a data: address.";
                    VendorError::bad_request("invalid_value", Some(&format!("{place}.content")), message)
                };
                match part.get("type").and_then(Value::as_str) {
                    Some("text") => message.text += part.get("text").and_then(Value::as_str).ok_or_else(wrong)?,
                    Some("image_url") => {
                        let url = part.pointer("/image_url/url").and_then(Value::as_str);
                        message.images.push(url.and_then(image_of_url).ok_or_else(wrong)?);
                    }
                    _ => return Err(wrong()),
                }
            }
            Ok(message)
        }
        other => {
            let name = format!("{place}.content");
            let message = format!("Invalid value for '{name}': expected a string, got {}.", Kind::of(other));
            Err(VendorError::bad_request("invalid_type", Some(&name), message))
        }
    }
}

/// `{"error": {message, type, param, code}}`.
pub(super) fn error_body(error: &VendorError) -> Value {
    let kind = match error.status {
        429 => "requests",
        500..=599 => "server_error",
        _ => "invalid_request_error",
    };
    json!({"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}})
}

/// Writes a stream.
pub(super) struct Chat(pub(super) Head);

impl Voice for Chat {
    /// The vendor names the role first, in a frame of its own.
    fn begin(&mut self, _: Option<TokenCount>, out: &mut String) {
        self.delta(&json!({"role": "assistant", "content": "", "refusal": null}), None, out);
    }

    fn text(&mut self, text: &str, out: &mut String) {
        self.delta(&json!({"content": text}), None, out);
    }

    fn reasoning(&mut self, text: &str, out: &mut String) {
        self.delta(&json!({"reasoning_content": text}), None, out);
    }

    /// The vendor tells the end before the usage, which stands in a frame without choices.
    fn end(&mut self, finish: ModelFinish, tokens: Option<TokenCount>, out: &mut String) {
        self.delta(&json!({}), Some(finish), out);
        if let Some(tokens) = tokens.filter(|_| self.0.include_usage) {
            data(&self.frame(json!([]), usage(tokens)), out);
        }
        *out += "data: [DONE]\n\n";
    }

    fn error(&mut self, error: &VendorError, out: &mut String) {
        data(&error_body(error), out);
    }

    fn malformed(&self) -> &'static str {
        "data: {\"choices\": [{\"delta\": {\"content\": \n\n"
    }
}

impl Chat {
    fn delta(&self, delta: &Value, finish: Option<ModelFinish>, out: &mut String) {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish.map(finish_reason)});
        data(&self.frame(json!([choice]), Value::Null), out);
    }

    fn frame(&self, choices: Value, usage: Value) -> Value {
        let mut frame = object(&self.0, "chat.completion.chunk", choices);
        if self.0.include_usage {
            frame["usage"] = usage;
        }
        frame
    }
}

/// A whole answer.
pub(super) fn document(head: &Head, said: &Whole) -> Value {
    let mut message = json!({"role": "assistant", "content": said.text, "refusal": null});
    if !said.reasoning.is_empty() {
        message["reasoning_content"] = json!(said.reasoning);
    }
    let finish = finish_reason(said.finish());
    let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish});
    let mut document = object(head, "chat.completion", json!([choice]));
    if let Some(tokens) = said.tokens {
        document["usage"] = usage(tokens);
    }
    document
}

/// `created` is the epoch: a script answers the same whenever it is asked.
fn object(head: &Head, object: &str, choices: Value) -> Value {
    json!({"id": format!("chatcmpl-{}", head.n), "object": object, "created": 0, "model": head.model,
        "system_fingerprint": "scripted", "choices": choices})
}

fn finish_reason(finish: ModelFinish) -> &'static str {
    match finish {
        ModelFinish::Stop => "stop",
        ModelFinish::Length => "length",
        ModelFinish::ContentFilter => "content_filter",
    }
}

fn usage(tokens: TokenCount) -> Value {
    json!({
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    })
}
