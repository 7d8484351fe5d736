//! Gemini's content generation. Each event is a whole response with what is new; the last one has a `finishReason`.

use runtime::ports::model::{Effort, ModelErrorKind, ModelFinish, ModelRequest, PromptMessage, Speaker};
use serde_json::{Value, json};

use super::{Outgoing, Piece, Reader, Remedy, base64_of, count, instructions, text};

/// What stands for a blocked prompt, which has no error of Gemini's.
const BLOCKED: &str = "prompt_blocked";

const REMEDIES: &[Remedy] = &[
    Remedy::drop("thinking", "/generationConfig", "thinkingConfig"),
    Remedy::drop("temperature", "/generationConfig", "temperature"),
];

pub(super) fn ask(request: &ModelRequest) -> Outgoing {
    let (system, said) = instructions(&request.messages);
    let mut body = json!({"contents": said.into_iter().map(content).collect::<Vec<_>>()});
    if !system.is_empty() {
        let parts: Vec<Value> = system.iter().map(|message| json!({"text": message.text})).collect();
        body["systemInstruction"] = json!({"parts": parts});
    }
    if let Some(config) = config(request) {
        body["generationConfig"] = config;
    }
    let path = vec!["models".into(), format!("{}:streamGenerateContent", bare(&request.model.name))];
    Outgoing { path, query: Some(("alt", "sse")), body, remedies: REMEDIES }
}

/// A model's name without the collection that lists show before it.
pub(super) fn bare(model: &str) -> &str {
    model.strip_prefix("models/").unwrap_or(model)
}

fn config(request: &ModelRequest) -> Option<Value> {
    let options = &request.options;
    let mut config = json!({});
    if let Some(most) = options.max_output_tokens {
        config["maxOutputTokens"] = json!(most);
    }
    if let Some(temperature) = options.temperature {
        config["temperature"] = json!(temperature);
    }
    if let Some(effort) = options.effort {
        config["thinkingConfig"] = thinking(bare(&request.model.name), effort);
    }
    if let Some(schema) = &options.schema {
        config["responseMimeType"] = json!("application/json");
        config["responseJsonSchema"] = schema.schema.clone();
    }
    config.as_object().is_some_and(|config| !config.is_empty()).then_some(config)
}

/// Models before the third generation take a number of tokens, later ones a level.
fn thinking(model: &str, effort: Effort) -> Value {
    let (level, tokens) = match effort {
        Effort::Minimal => ("minimal", 512),
        Effort::Low => ("low", 1_024),
        Effort::Medium => ("medium", 8_192),
        Effort::High => ("high", 24_576),
    };
    if model.starts_with("gemini-2") {
        json!({"thinkingBudget": tokens, "includeThoughts": true})
    } else {
        json!({"thinkingLevel": level, "includeThoughts": true})
    }
}

fn content(message: &PromptMessage) -> Value {
    let role = if message.speaker == Speaker::Assistant { "model" } else { "user" };
    let images = message
        .images
        .iter()
        .map(|image| json!({"inlineData": {"mimeType": image.format.media_type(), "data": base64_of(image)}}));
    let parts: Vec<Value> = images.chain([json!({"text": message.text})]).collect();
    json!({"role": role, "parts": parts})
}

/// Codes are the status, the reason of an `ErrorInfo` and the ids of quotas that were exceeded.
pub(super) fn kind(code: &str) -> Option<ModelErrorKind> {
    Some(match code {
        "api_key_invalid" | "api_key_expired" | "unauthenticated" | "permission_denied" | "api_key_service_blocked" => {
            ModelErrorKind::Auth
        }
        "billing_disabled" => ModelErrorKind::Quota,
        BLOCKED => ModelErrorKind::ContentFilter,
        "resource_exhausted" => ModelErrorKind::Rate,
        "not_found" | "failed_precondition" => ModelErrorKind::BadRequest,
        "internal" | "unavailable" | "deadline_exceeded" | "aborted" => ModelErrorKind::Overload,
        // A quota of a day is not back in a minute, whatever delay is named beside it.
        quota if quota.contains("perday") => ModelErrorKind::Quota,
        _ => return None,
    })
}

/// Reads an answer. Each event stands for itself.
pub(super) struct Generate;

impl Reader for Generate {
    fn event(&mut self, _: &str, value: Value, out: &mut Vec<Piece>) {
        read(value, out);
    }

    fn document(&mut self, value: Value, out: &mut Vec<Piece>) {
        match value {
            Value::Array(responses) => responses.into_iter().for_each(|response| read(response, out)),
            response => read(response, out),
        }
    }
}

fn read(mut value: Value, out: &mut Vec<Piece>) {
    if let Some(reason) = value.pointer("/promptFeedback/blockReason").and_then(Value::as_str) {
        return out.push(blocked(&format!("the prompt was blocked: {reason}")));
    }
    if value.get("candidates").is_some() || value.get("usageMetadata").is_some() {
        out.push(Piece::Begun);
    }
    let first = |candidate: &&mut Value| candidate.get("index").and_then(Value::as_u64).unwrap_or(0) == 0;
    let candidate =
        value.get_mut("candidates").and_then(Value::as_array_mut).and_then(|all| all.iter_mut().find(first));
    let mut reason = None;
    if let Some(candidate) = candidate {
        for part in candidate.pointer_mut("/content/parts").and_then(Value::as_array_mut).into_iter().flatten() {
            let thought = part.get("thought").and_then(Value::as_bool).unwrap_or(false);
            let piece: fn(String) -> Piece = if thought { Piece::Reasoning } else { Piece::Text };
            out.extend(part.get_mut("text").and_then(text).map(piece));
        }
        reason = candidate.get("finishReason").and_then(Value::as_str).map(finish);
    }
    out.extend(value.get("usageMetadata").and_then(count::generate).map(Piece::Usage));
    out.extend(reason);
}

fn finish(reason: &str) -> Piece {
    Piece::Finish(match reason {
        "STOP" => ModelFinish::Stop,
        "MAX_TOKENS" | "CONTINUATION" => ModelFinish::Length,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => ModelFinish::ContentFilter,
        // Nothing is whole that ended so: the provider does not say why, or its model wrote what it cannot read.
        other => {
            let message = format!("the answer ended with {other}");
            return Piece::Refused(json!({"error": {"status": "UNAVAILABLE", "message": message}}));
        }
    })
}

/// Not an error to Gemini, which answers 200; to whoever asked it is one.
fn blocked(message: &str) -> Piece {
    Piece::Refused(json!({"error": {"status": BLOCKED, "message": message}}))
}
