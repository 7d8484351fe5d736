//! OpenAI's chat completions, as OpenAI, LM Studio, Ollama, vLLM, OpenRouter and many others speak them.
//!
//! What servers do differently is dealt with here, and only here: reasoning as `reasoning_content` or `reasoning`, content in parts,
//! empty deltas, usage missing, early or in every frame, errors of many shapes inside a stream.

use runtime::ports::model::{Effort, ModelFinish, ModelRequest, PromptMessage, Speaker};
use serde_json::{Value, json};

use super::{Outgoing, Piece, Reader, Remedy, count, data_url, text};

const REMEDIES: &[Remedy] = &[
    Remedy::drop("stream_options", "", "stream_options"),
    Remedy::drop("include_usage", "", "stream_options"),
    Remedy { named: "max_completion_tokens", within: "", field: "max_tokens", instead: Some("max_completion_tokens") },
    Remedy::drop("temperature", "", "temperature"),
    Remedy::drop("reasoning_effort", "", "reasoning_effort"),
];

pub(super) fn ask(request: &ModelRequest) -> Outgoing {
    let options = &request.options;
    let mut body = json!({
        "model": request.model.name,
        "messages": request.messages.iter().map(message).collect::<Vec<_>>(),
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    if let Some(most) = options.max_output_tokens {
        body["max_tokens"] = json!(most);
    }
    if let Some(temperature) = options.temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(effort) = options.effort {
        body["reasoning_effort"] = json!(effort_word(effort));
    }
    if let Some(schema) = &options.schema {
        let format = json!({"name": schema.name, "schema": schema.schema, "strict": true});
        body["response_format"] = json!({"type": "json_schema", "json_schema": format});
    }
    Outgoing { path: vec!["chat".into(), "completions".into()], query: None, body, remedies: REMEDIES }
}

pub(super) fn effort_word(effort: Effort) -> &'static str {
    match effort {
        Effort::Minimal => "minimal",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    }
}

fn message(message: &PromptMessage) -> Value {
    let role = match message.speaker {
        Speaker::System => "system",
        Speaker::User => "user",
        Speaker::Assistant => "assistant",
    };
    if message.images.is_empty() {
        return json!({"role": role, "content": message.text});
    }
    let images = message.images.iter().map(|image| json!({"type": "image_url", "image_url": {"url": data_url(image)}}));
    let parts: Vec<Value> = [json!({"type": "text", "text": message.text})].into_iter().chain(images).collect();
    json!({"role": role, "content": parts})
}

/// Reads an answer. Each frame stands for itself.
pub(super) struct Chat;

impl Reader for Chat {
    fn event(&mut self, _: &str, value: Value, out: &mut Vec<Piece>) {
        read(value, "delta", out);
    }

    fn document(&mut self, value: Value, out: &mut Vec<Piece>) {
        read(value, "message", out);
        if out.contains(&Piece::Begun) {
            out.push(Piece::End);
        }
    }
}

fn read(mut value: Value, holder: &str, out: &mut Vec<Piece>) {
    if is_error(&value) {
        return out.push(Piece::Refused(value));
    }
    choice(&mut value, holder, out);
    out.extend(value.get("usage").and_then(count::chat).map(Piece::Usage));
}

/// Reads the first choice; `holder` is the field that its text is in.
fn choice(value: &mut Value, holder: &str, out: &mut Vec<Piece>) {
    let Some(choices) = value.get_mut("choices").and_then(Value::as_array_mut) else { return };
    out.push(Piece::Begun);
    let first = |choice: &&mut Value| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0;
    let Some(choice) = choices.iter_mut().find(first) else { return };
    if let Some(said) = choice.get_mut(holder) {
        let reasoning = ["reasoning_content", "reasoning"].into_iter().find_map(|field| text(said.get_mut(field)?));
        out.extend(reasoning.map(Piece::Reasoning));
        match said.get_mut("content").map(Value::take) {
            Some(Value::String(content)) if !content.is_empty() => out.push(Piece::Text(content)),
            Some(Value::Array(parts)) => parts.into_iter().for_each(|part| content_part(part, out)),
            _ => {}
        }
        out.extend(said.get_mut("refusal").and_then(text).map(Piece::Text));
    }
    match choice.get("finish_reason").and_then(Value::as_str) {
        None | Some("") => {}
        Some("error") => {
            out.push(Piece::Refused(json!({"error": {"message": "the model's answer ended with an error"}})));
        }
        Some(reason) => out.push(Piece::Finish(match reason {
            "length" | "max_tokens" => ModelFinish::Length,
            "content_filter" => ModelFinish::ContentFilter,
            _ => ModelFinish::Stop,
        })),
    }
}

/// Content in parts, as some servers send it: text, and thinking that holds text.
fn content_part(mut part: Value, out: &mut Vec<Piece>) {
    if let Some(content) = part.get_mut("text").and_then(text) {
        return out.push(Piece::Text(content));
    }
    match part.get_mut("thinking").map(Value::take) {
        Some(Value::String(thinking)) if !thinking.is_empty() => out.push(Piece::Reasoning(thinking)),
        Some(Value::Array(thinking)) => {
            let pieces = thinking.into_iter().filter_map(|mut piece| piece.get_mut("text").and_then(text));
            out.extend(pieces.map(Piece::Reasoning));
        }
        _ => {}
    }
}

/// Whether a frame or document is an error: by `object: error`, or by a message where choices should be.
fn is_error(value: &Value) -> bool {
    value.get("object").and_then(Value::as_str) == Some("error")
        || (value.get("choices").is_none()
            && value.get("usage").is_none()
            && ["message", "detail"].iter().any(|field| value.get(field).is_some()))
}
