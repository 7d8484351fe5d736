//! OpenAI's responses: requests as they are taken, answers as they are given.

use contract::event::TokenCount;
use runtime::ports::model::{ModelFinish, PromptMessage, Speaker};
use serde_json::{Value, json};

use super::super::expect::Asked;
use super::super::vendor::{Matter, VendorError};
use super::fields::{Fields, Kind, only, wrong_type};
use super::{Head, Voice, Whole, image_of_url, named};

const READ: &[&str] = &["model", "input", "instructions", "stream"];
/// Fields that the vendor knows and that make no difference to a script.
const OTHER_FIELDS: &[(&str, Kind)] = &[
    ("background", Kind::Boolean),
    ("include", Kind::Array),
    ("max_output_tokens", Kind::Number),
    ("max_tool_calls", Kind::Number),
    ("metadata", Kind::Object),
    ("parallel_tool_calls", Kind::Boolean),
    ("prompt_cache_key", Kind::String),
    ("prompt_cache_retention", Kind::String),
    ("reasoning", Kind::Object),
    ("safety_identifier", Kind::String),
    ("service_tier", Kind::String),
    ("store", Kind::Boolean),
    ("stream_options", Kind::Object),
    ("temperature", Kind::Number),
    ("text", Kind::Object),
    ("tool_choice", Kind::Any),
    ("tools", Kind::Array),
    ("top_p", Kind::Number),
    ("truncation", Kind::String),
    ("user", Kind::String),
];

pub(super) fn read(fields: &Fields) -> Result<Asked, VendorError> {
    let model = fields.model()?;
    let mut messages = Vec::new();
    if let Some(instructions) = fields.optional("instructions", Kind::String)?.and_then(Value::as_str) {
        messages.push(PromptMessage::new(Speaker::System, instructions));
    }
    match fields.required("input", Kind::Any)? {
        Value::String(text) => messages.push(PromptMessage::new(Speaker::User, text)),
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                messages.push(read_item(index, item)?);
            }
        }
        Value::Array(_) => {
            let message = "Invalid 'input': empty array. Expected an array with minimum length 1.";
            return Err(VendorError::bad_request("empty_array", Some("input"), message));
        }
        other => return Err(wrong_type("input", Kind::Array, other)),
    }
    let stream = fields.stream()?;
    fields.check_others(READ, OTHER_FIELDS)?;
    let most = fields.0.get("max_output_tokens").and_then(Value::as_u64);
    if most.is_some_and(|most| most < 16) {
        let message = "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16.";
        return Err(VendorError::bad_request("integer_below_min_value", Some("max_output_tokens"), message));
    }
    if let Some(format) = fields.0.get("text").and_then(|text| text.get("format")) {
        let whole = ["name", "schema"].iter().all(|field| format.get(field).is_some());
        if format.get("type").and_then(Value::as_str) == Some("json_schema") && !whole {
            let message = "Missing required parameter: 'text.format.name'.";
            return Err(VendorError::bad_request("missing_required_parameter", Some("text.format.name"), message));
        }
    }
    Ok(Asked { model, stream, include_usage: true, messages })
}

fn read_item(index: usize, item: &Value) -> Result<PromptMessage, VendorError> {
    let place = format!("input[{index}]");
    let Some(fields) = item.as_object() else { return Err(wrong_type(&place, Kind::Object, item)) };
    let wrong = |field: &str, message: String| {
        Err(VendorError::bad_request("invalid_value", Some(&format!("{place}.{field}")), message))
    };
    if fields.get("type").is_some_and(|kind| kind.as_str() != Some("message")) {
        return wrong("type", "A scripted model reads messages.".into());
    }
    only(&place, fields, &["type", "role", "content", "id", "status", "phase"])?;
    let role = fields.get("role").and_then(Value::as_str).unwrap_or_default();
    let speaker = match role {
        "system" | "developer" => Speaker::System,
        "user" => Speaker::User,
        "assistant" => Speaker::Assistant,
        _ => {
            let supported = "Supported values are: 'assistant', 'system', 'developer', and 'user'.";
            return wrong("role", format!("Invalid value: '{role}'. {supported}"));
        }
    };
    match fields.get("content") {
        Some(Value::String(text)) => Ok(PromptMessage::new(speaker, text)),
        Some(Value::Array(parts)) => {
            let mut message = PromptMessage::new(speaker, "");
            let said = if speaker == Speaker::Assistant { "output_text" } else { "input_text" };
            for part in parts {
                let field = |name: &str| part.get(name).and_then(Value::as_str);
                let image = field("image_url").and_then(image_of_url);
                match (field("type"), field("text"), image) {
                    (Some(kind), Some(text), _) if kind == said => message.text += text,
                    (Some("input_image"), _, Some(image)) if speaker == Speaker::User => message.images.push(image),
                    (kind, ..) => {
                        let kind = kind.unwrap_or_default();
                        return wrong("content", format!("Invalid part '{kind}': expected '{said}' or 'input_image'."));
                    }
                }
            }
            Ok(message)
        }
        other => Err(wrong_type(&format!("{place}.content"), Kind::String, other.unwrap_or(&Value::Null))),
    }
}

/// Writes a stream: an item at a time, each opened, filled and closed, and the whole response at both ends.
pub(super) struct Responses {
    head: Head,
    events: u64,
    /// The items so far, the last of which may be open.
    output: Vec<Value>,
    open: Option<Item>,
}

/// What an item of the output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Reasoning,
    Message,
}

impl Item {
    fn empty(self, n: u64, index: usize) -> Value {
        match self {
            Self::Reasoning => json!({"id": format!("rs_{n}_{index}"), "type": "reasoning", "summary": []}),
            Self::Message => {
                json!({"id": format!("msg_{n}_{index}"), "type": "message", "role": "assistant", "status": "in_progress",
                    "content": []})
            }
        }
    }

    /// The field with its parts, and the beginnings of the names of events about a part and its text.
    fn names(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::Reasoning => {
                ("summary", "summary_index", "response.reasoning_summary_part", "response.reasoning_summary_text")
            }
            Self::Message => ("content", "content_index", "response.content_part", "response.output_text"),
        }
    }

    fn part(self, text: &str) -> Value {
        match self {
            Self::Reasoning => json!({"type": "summary_text", "text": text}),
            Self::Message => json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}),
        }
    }
}

impl Responses {
    pub(super) fn new(head: Head) -> Self {
        Self { head, events: 0, output: Vec::new(), open: None }
    }

    fn event(&mut self, mut event: Value, out: &mut String) {
        event["sequence_number"] = json!(self.events);
        self.events += 1;
        named(&event, out);
    }

    fn open(&mut self, item: Item, out: &mut String) {
        if self.open == Some(item) {
            return;
        }
        self.close(out);
        let index = self.output.len();
        let empty = item.empty(self.head.n, index);
        let (field, at, part, _) = item.names();
        self.event(json!({"type": "response.output_item.added", "output_index": index, "item": empty}), out);
        let added = json!({"type": format!("{part}.added"), "item_id": empty["id"], "output_index": index, at: 0, "part": item.part("")});
        self.event(added, out);
        let mut filled = empty;
        filled[field] = json!([item.part("")]);
        self.output.push(filled);
        self.open = Some(item);
    }

    fn say(&mut self, item: Item, said: &str, out: &mut String) {
        self.open(item, out);
        let index = self.output.len() - 1;
        let (field, at, _, text) = item.names();
        let so_far = self.output[index][field][0]["text"].as_str().unwrap_or_default();
        self.output[index][field][0]["text"] = json!(format!("{so_far}{said}"));
        let id = self.output[index]["id"].clone();
        let mut delta =
            json!({"type": format!("{text}.delta"), "item_id": id, "output_index": index, at: 0, "delta": said});
        if item == Item::Message {
            delta["logprobs"] = json!([]);
        }
        self.event(delta, out);
    }

    fn close(&mut self, out: &mut String) {
        let Some(item) = self.open.take() else { return };
        let index = self.output.len() - 1;
        let (field, at, part, text) = item.names();
        if item == Item::Message {
            self.output[index]["status"] = json!("completed");
        }
        let whole = self.output[index].clone();
        let said = whole[field][0].clone();
        let mut done = json!({"type": format!("{text}.done"), "item_id": whole["id"], "output_index": index, at: 0, "text": said["text"]});
        if item == Item::Message {
            done["logprobs"] = json!([]);
        }
        self.event(done, out);
        let closed =
            json!({"type": format!("{part}.done"), "item_id": whole["id"], "output_index": index, at: 0, "part": said});
        self.event(closed, out);
        self.event(json!({"type": "response.output_item.done", "output_index": index, "item": whole}), out);
    }

    fn lifecycle(&mut self, name: &str, response: Value, out: &mut String) {
        self.event(json!({"type": format!("response.{name}"), "response": response}), out);
    }
}

impl Voice for Responses {
    fn begin(&mut self, _: Option<TokenCount>, out: &mut String) {
        for name in ["created", "in_progress"] {
            self.lifecycle(name, response(&self.head, "in_progress", vec![]), out);
        }
    }

    fn text(&mut self, text: &str, out: &mut String) {
        self.say(Item::Message, text, out);
    }

    fn reasoning(&mut self, text: &str, out: &mut String) {
        self.say(Item::Reasoning, text, out);
    }

    fn end(&mut self, finish: ModelFinish, tokens: Option<TokenCount>, out: &mut String) {
        self.close(out);
        let whole = ended(&self.head, std::mem::take(&mut self.output), finish, tokens);
        let name = whole["status"].as_str().unwrap_or_default().to_owned();
        self.lifecycle(&name, whole, out);
    }

    fn error(&mut self, error: &VendorError, out: &mut String) {
        let code = match error.matter() {
            Matter::Broken | Matter::Overload => "server_error",
            _ => error.code.as_deref().unwrap_or("server_error"),
        };
        let mut failed = response(&self.head, "failed", std::mem::take(&mut self.output));
        failed["error"] = json!({"code": code, "message": error.message});
        self.lifecycle("failed", failed, out);
    }

    fn malformed(&self) -> &'static str {
        "event: response.output_text.delta\ndata: {\"type\": \n\n"
    }
}

/// A whole answer.
pub(super) fn document(head: &Head, said: &Whole) -> Value {
    let mut output = Vec::new();
    for (item, text) in [(Item::Reasoning, &said.reasoning), (Item::Message, &said.text)] {
        if !text.is_empty() {
            let mut whole = item.empty(head.n, output.len());
            whole[item.names().0] = json!([item.part(text)]);
            if item == Item::Message {
                whole["status"] = json!("completed");
            }
            output.push(whole);
        }
    }
    ended(head, output, said.finish(), said.tokens)
}

fn ended(head: &Head, output: Vec<Value>, finish: ModelFinish, tokens: Option<TokenCount>) -> Value {
    let (status, reason) = match finish {
        ModelFinish::Stop => ("completed", None),
        ModelFinish::Length => ("incomplete", Some("max_output_tokens")),
        ModelFinish::ContentFilter => ("incomplete", Some("content_filter")),
    };
    let mut whole = response(head, status, output);
    if let Some(reason) = reason {
        whole["incomplete_details"] = json!({"reason": reason});
    }
    if let Some(tokens) = tokens {
        whole["usage"] = json!({
            "input_tokens": tokens.input,
            "input_tokens_details": {"cached_tokens": tokens.cached},
            "output_tokens": tokens.output,
            "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
            "total_tokens": tokens.input + tokens.output,
        });
    }
    whole
}

fn response(head: &Head, status: &str, output: Vec<Value>) -> Value {
    json!({"id": format!("resp_{}", head.n), "object": "response", "created_at": 0, "status": status, "error": null,
        "incomplete_details": null, "instructions": null, "metadata": {}, "model": head.model, "output": output,
        "parallel_tool_calls": true, "temperature": null, "tool_choice": "auto", "tools": [], "top_p": null, "usage": null})
}
