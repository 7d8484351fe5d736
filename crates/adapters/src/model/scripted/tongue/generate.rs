//! Gemini's content generation: requests as they are taken, answers as they are given.

use contract::event::TokenCount;
use runtime::ports::model::{ModelFinish, PromptMessage, Speaker};
use serde_json::{Value, json};

use super::super::expect::Asked;
use super::super::vendor::{Matter, VendorError};
use super::fields::Fields;
use super::{Head, Refusal, Target, Voice, Whole, data, image};

const KNOWN: &[&str] = &[
    "contents",
    "systemInstruction",
    "system_instruction",
    "generationConfig",
    "safetySettings",
    "tools",
    "toolConfig",
    "cachedContent",
    "generateContentRequest",
];
const KNOWN_CONFIG: &[&str] = &[
    "candidateCount",
    "maxOutputTokens",
    "responseJsonSchema",
    "responseMimeType",
    "responseSchema",
    "seed",
    "stopSequences",
    "temperature",
    "thinkingConfig",
    "topK",
    "topP",
];

fn invalid(message: impl Into<String>) -> VendorError {
    VendorError::bad_request("INVALID_ARGUMENT", None, message)
}

fn check_known(fields: Option<&Value>, place: &str, known: &[&str]) -> Result<(), VendorError> {
    let mut names = fields.and_then(Value::as_object).into_iter().flat_map(|fields| fields.keys());
    match names.find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            Err(invalid(format!("Invalid JSON payload received. Unknown name \"{name}\"{place}: Cannot find field.")))
        }
        None => Ok(()),
    }
}

pub(super) fn read(fields: &Fields, target: &Target) -> Result<Asked, VendorError> {
    let body = Value::Object(fields.0.clone());
    check_known(Some(&body), "", KNOWN)?;
    check_known(body.get("generationConfig"), " at 'generation_config'", KNOWN_CONFIG)?;
    let mut messages = Vec::new();
    if let Some(system) = body.get("systemInstruction").or_else(|| body.get("system_instruction")) {
        messages.push(read_content(system, Speaker::System)?);
    }
    let contents = body.get("contents").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if contents.is_empty() {
        return Err(invalid("* GenerateContentRequest.contents: contents is not specified\n"));
    }
    for content in contents {
        let speaker = match content.get("role").and_then(Value::as_str) {
            Some("user") | None => Speaker::User,
            Some("model") => Speaker::Assistant,
            Some(_) => return Err(invalid("Please use a valid role: user, model.")),
        };
        messages.push(read_content(content, speaker)?);
    }
    let model = target.model.clone().unwrap_or_default();
    Ok(Asked { model, stream: target.stream, include_usage: true, messages })
}

fn read_content(content: &Value, speaker: Speaker) -> Result<PromptMessage, VendorError> {
    let mut message = PromptMessage::new(speaker, "");
    let parts = content.get("parts").and_then(Value::as_array).filter(|parts| !parts.is_empty());
    for part in parts
        .ok_or_else(|| invalid("* GenerateContentRequest.contents[0].parts: contents.parts must not be empty.\n"))?
    {
        check_known(Some(part), " at 'contents.parts'", &["text", "inlineData", "thought", "thoughtSignature"])?;
        let field = |pointer: &str| part.pointer(pointer).and_then(Value::as_str);
        if let Some(text) = field("/text") {
            message.text += text;
        } else {
            let media_type = field("/inlineData/mimeType").unwrap_or_default();
            let image = image(media_type, field("/inlineData/data").unwrap_or_default());
            message.images.push(image.ok_or_else(|| invalid("Provided image is not valid."))?);
        }
    }
    Ok(message)
}

/// An error as it is sent. A blocked prompt is none to Gemini: its answer says so, and has no candidate.
pub(super) fn refusal(error: &VendorError, wait: Option<&str>, streamed: bool) -> Refusal {
    if error.matter() == Matter::Content {
        let feedback = json!({"promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": "scripted"});
        let mut body = String::new();
        if streamed {
            data(&feedback, &mut body);
        } else {
            body = feedback.to_string();
        }
        return Refusal { status: 200, body, names_wait: false };
    }
    let wait = wait.filter(|wait| wait.parse::<f64>().is_ok());
    let (status, body) = error_body(error, wait);
    Refusal { status, body: body.to_string(), names_wait: wait.is_some() }
}

fn error_body(error: &VendorError, wait: Option<&str>) -> (u16, Value) {
    const QUOTA: &str = "You exceeded your current quota, please check your plan and billing details.";
    let (code, status, own) = match error.matter() {
        Matter::Key => (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
        Matter::Quota | Matter::Rate => (429, "RESOURCE_EXHAUSTED", QUOTA),
        Matter::Permission => (403, "PERMISSION_DENIED", "Method doesn't allow unregistered callers."),
        Matter::Missing => (404, "NOT_FOUND", ""),
        Matter::Context => {
            let own = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).";
            (400, "INVALID_ARGUMENT", own)
        }
        Matter::Overload => (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
        Matter::Broken => (500, "INTERNAL", "An internal error has occurred."),
        Matter::Large | Matter::Content | Matter::Request => (error.status, "INVALID_ARGUMENT", ""),
    };
    let kind = |name: &str| format!("type.googleapis.com/google.rpc.{name}");
    let mut details = match error.matter() {
        Matter::Key => {
            vec![json!({"@type": kind("ErrorInfo"), "reason": "API_KEY_INVALID", "domain": "googleapis.com"})]
        }
        Matter::Quota => vec![
            json!({"@type": kind("QuotaFailure"), "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]}),
        ],
        Matter::Rate => vec![
            json!({"@type": kind("QuotaFailure"), "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}]}),
        ],
        _ => vec![],
    };
    details.extend(wait.map(|wait| json!({"@type": kind("RetryInfo"), "retryDelay": format!("{wait}s")})));
    (code, json!({"error": {"code": code, "message": error.words(own), "status": status, "details": details}}))
}

/// Writes a stream: each event is a whole response with what is new.
pub(super) struct Generate(pub(super) Head);

impl Voice for Generate {
    fn begin(&mut self, _: Option<TokenCount>, _: &mut String) {}

    fn text(&mut self, text: &str, out: &mut String) {
        data(&response(&self.0, &json!([{"text": text}]), None, None), out);
    }

    fn reasoning(&mut self, text: &str, out: &mut String) {
        data(&response(&self.0, &json!([{"text": text, "thought": true}]), None, None), out);
    }

    fn end(&mut self, finish: ModelFinish, tokens: Option<TokenCount>, out: &mut String) {
        data(&response(&self.0, &json!([{"text": ""}]), Some(finish), tokens), out);
    }

    fn error(&mut self, error: &VendorError, out: &mut String) {
        data(&error_body(error, None).1, out);
    }

    fn malformed(&self) -> &'static str {
        "data: {\"candidates\": [{\"content\": \n\n"
    }
}

/// A whole answer.
pub(super) fn document(head: &Head, said: &Whole) -> Value {
    let mut parts = Vec::new();
    if !said.reasoning.is_empty() {
        parts.push(json!({"text": said.reasoning, "thought": true}));
    }
    parts.push(json!({"text": said.text}));
    response(head, &json!(parts), Some(said.finish()), said.tokens)
}

fn response(head: &Head, parts: &Value, finish: Option<ModelFinish>, tokens: Option<TokenCount>) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(match finish {
            ModelFinish::Stop => "STOP",
            ModelFinish::Length => "MAX_TOKENS",
            ModelFinish::ContentFilter => "SAFETY",
        });
    }
    let mut response =
        json!({"candidates": [candidate], "modelVersion": head.model, "responseId": format!("response-{}", head.n)});
    if let Some(tokens) = tokens {
        response["usageMetadata"] = json!({
            "promptTokenCount": tokens.input,
            "cachedContentTokenCount": tokens.cached,
            "candidatesTokenCount": tokens.output - tokens.reasoning,
            "thoughtsTokenCount": tokens.reasoning,
            "totalTokenCount": tokens.input + tokens.output,
        });
    }
    response
}
