//! Requests as the vendor's API takes them, and answers as it gives them. Requests are read strictly, field by field, because a
//! client is tested against this; the shape of the answers is held against the vendor's own client (tests/js).

use contract::event::TokenCount;
use runtime::ports::model::{ModelFinish, PromptMessage, Speaker};
use serde_json::{Map, Value, json};

use super::expect::Asked;
use super::vendor::VendorError;

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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Any,
    Array,
    Boolean,
    Number,
    Object,
    String,
}

impl Kind {
    fn of(value: &Value) -> &'static str {
        match value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        }
    }

    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Array => value.is_array(),
            Self::Boolean => value.is_boolean(),
            Self::Number => value.is_number(),
            Self::Object => value.is_object(),
            Self::String => value.is_string(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Any => "anything",
            Self::Array => "an array",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::Object => "an object",
            Self::String => "a string",
        }
    }
}

/// Reads the body of `POST /v1/chat/completions`.
pub(super) fn read(body: &[u8]) -> Result<Asked, VendorError> {
    let value: Value = serde_json::from_slice(body).map_err(|_| VendorError {
        code: None,
        ..VendorError::bad_request(
            "",
            None,
            "We could not parse the JSON body of your request: a JSON object is expected.",
        )
    })?;
    let Value::Object(fields) = value else {
        return Err(wrong_type("body", Kind::Object, &value));
    };
    let model = required(&fields, "model", Kind::String)?.as_str().unwrap_or_default().to_owned();
    if model.is_empty() {
        return Err(VendorError::bad_request("invalid_value", Some("model"), "you must provide a model parameter"));
    }
    let messages = required(&fields, "messages", Kind::Array)?.as_array().map(Vec::as_slice).unwrap_or_default();
    if messages.is_empty() {
        let message =
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.";
        return Err(VendorError::bad_request("empty_array", Some("messages"), message));
    }
    let messages =
        messages.iter().enumerate().map(|(index, message)| read_message(index, message)).collect::<Result<_, _>>()?;
    let stream = optional(&fields, "stream", Kind::Boolean)?.and_then(Value::as_bool).unwrap_or(false);
    let include_usage = read_stream_options(&fields, stream)?;
    for (name, value) in &fields {
        if ["model", "messages", "stream", "stream_options"].contains(&name.as_str()) {
            continue;
        }
        let Some((_, kind)) = OTHER_FIELDS.iter().find(|(known, _)| known == name) else {
            let message = format!("Unknown parameter: '{name}'.");
            return Err(VendorError::bad_request("unknown_parameter", Some(name), message));
        };
        if !value.is_null() && !kind.fits(value) {
            return Err(wrong_type(name, *kind, value));
        }
    }
    if fields.get("n").is_some_and(|n| !n.is_null() && n.as_u64() != Some(1)) {
        return Err(VendorError::bad_request(
            "unsupported_value",
            Some("n"),
            "A scripted model gives one choice: 'n' must be 1.",
        ));
    }
    Ok(Asked { model, stream, include_usage, messages })
}

fn read_stream_options(fields: &Map<String, Value>, stream: bool) -> Result<bool, VendorError> {
    let Some(options) = optional(fields, "stream_options", Kind::Object)?.and_then(Value::as_object) else {
        return Ok(false);
    };
    if !stream {
        let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return Err(VendorError::bad_request("invalid_value", Some("stream_options"), message));
    }
    for name in options.keys() {
        if name != "include_usage" && name != "include_obfuscation" {
            let name = format!("stream_options.{name}");
            return Err(VendorError::bad_request(
                "unknown_parameter",
                Some(&name),
                format!("Unknown parameter: '{name}'."),
            ));
        }
    }
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
    if let Some(name) = fields.keys().find(|name| !["role", "content", "name", "refusal"].contains(&name.as_str())) {
        let name = format!("{place}.{name}");
        return Err(VendorError::bad_request(
            "unknown_parameter",
            Some(&name),
            format!("Unknown parameter: '{name}'."),
        ));
    }
    let text = match fields.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().map(|part| {
                let is_text = part.get("type").and_then(Value::as_str) == Some("text");
                part.get("text").and_then(Value::as_str).filter(|_| is_text).ok_or_else(|| {
                    let message = "A scripted model reads text: each part must be {\"type\": \"text\", \"text\": …}.";
                    VendorError::bad_request("invalid_value", Some(&format!("{place}.content")), message)
                })
            });
            texts.collect::<Result<Vec<_>, _>>()?.concat()
        }
        other => {
            let name = format!("{place}.content");
            let got = Kind::of(other.unwrap_or(&Value::Null));
            let message = format!("Invalid value for '{name}': expected a string, got {got}.");
            return Err(VendorError::bad_request("invalid_type", Some(&name), message));
        }
    };
    Ok(PromptMessage { speaker, text })
}

fn required<'a>(fields: &'a Map<String, Value>, name: &str, kind: Kind) -> Result<&'a Value, VendorError> {
    optional(fields, name, kind)?.ok_or_else(|| {
        VendorError::bad_request(
            "missing_required_parameter",
            Some(name),
            format!("Missing required parameter: '{name}'."),
        )
    })
}

fn optional<'a>(fields: &'a Map<String, Value>, name: &str, kind: Kind) -> Result<Option<&'a Value>, VendorError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) if kind.fits(value) => Ok(Some(value)),
        Some(value) => Err(wrong_type(name, kind, value)),
    }
}

fn wrong_type(name: &str, kind: Kind, value: &Value) -> VendorError {
    let (expected, got) = (kind.name(), Kind::of(value));
    let message = format!("Invalid type for '{name}': expected {expected}, but got {got} instead.");
    VendorError::bad_request("invalid_type", Some(name), message)
}

/// What every frame of one answer shares.
#[derive(Debug, Clone)]
pub(super) struct Head {
    /// Such as `chatcmpl-7`.
    pub(super) id: String,
    /// The model's name, as it was asked for.
    pub(super) model: String,
    /// Whether frames speak of usage.
    pub(super) include_usage: bool,
}

impl Head {
    /// A frame with a delta, such as `{"content": "…"}`.
    pub(super) fn chunk(&self, delta: &Value, finish: Option<ModelFinish>) -> Value {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish.map(finish_reason)});
        self.frame(json!([choice]), Value::Null)
    }

    /// The frame after the last choice: no choices, usage.
    pub(super) fn usage(&self, tokens: TokenCount) -> Value {
        self.frame(json!([]), usage(tokens))
    }

    fn frame(&self, choices: Value, usage: Value) -> Value {
        let mut frame = self.object("chat.completion.chunk", choices);
        if self.include_usage {
            frame["usage"] = usage;
        }
        frame
    }

    /// A whole answer.
    pub(super) fn document(
        &self,
        text: &str,
        reasoning: &str,
        finish: ModelFinish,
        tokens: Option<TokenCount>,
    ) -> Value {
        let mut message = json!({"role": "assistant", "content": text, "refusal": null});
        if !reasoning.is_empty() {
            message["reasoning_content"] = json!(reasoning);
        }
        let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(finish)});
        let mut document = self.object("chat.completion", json!([choice]));
        if let Some(tokens) = tokens {
            document["usage"] = usage(tokens);
        }
        document
    }

    /// `created` is the epoch: a script answers the same whenever it is asked.
    fn object(&self, object: &str, choices: Value) -> Value {
        json!({"id": self.id, "object": object, "created": 0, "model": self.model, "system_fingerprint": "scripted", "choices": choices})
    }
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
