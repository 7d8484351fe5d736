//! The formats that the scripted server speaks: requests as each vendor takes them, answers and errors as each gives them.
//!
//! Requests are read strictly, field by field, because clients are tested against this; the shape of the answers is held against the
//! vendors' own clients (tests/js). Nothing here is shared with `model::wire`: what a client does wrong must not be understood here by
//! the same mistake.

mod chat;
mod fields;
mod generate;
mod messages;
mod responses;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use contract::event::TokenCount;
use runtime::ports::model::{Image, ImageFormat, ModelFinish};
use serde_json::Value;

use super::expect::Asked;
use super::vendor::VendorError;

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tongue {
    /// OpenAI's chat completions.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Messages,
    /// Gemini's content generation.
    Generate,
}

/// What a request's path and headers say.
#[derive(Debug, Clone, Default)]
pub(super) struct Target {
    /// The model, where the path names it.
    pub(super) model: Option<String>,
    /// Whether the path asks for a stream.
    pub(super) stream: bool,
    /// Whether the version of the interface knows a temperature, where versions differ in that.
    pub(super) samples: bool,
}

/// What all events of one answer share.
#[derive(Debug, Clone)]
pub(super) struct Head {
    /// The answer's number, from which ids are made.
    pub(super) n: u64,
    /// The model's name, as it was asked for.
    pub(super) model: String,
    /// Whether a stream speaks of usage.
    pub(super) include_usage: bool,
}

/// An error as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) body: String,
    /// Whether the wait is named in the body, and so not in a header.
    pub(super) names_wait: bool,
}

/// Writes one stream, event by event, at the end of `out`.
pub(super) trait Voice: Send {
    /// What comes before anything is said. `tokens` are those that the answer will report.
    fn begin(&mut self, tokens: Option<TokenCount>, out: &mut String);
    /// A piece of text.
    fn text(&mut self, text: &str, out: &mut String);
    /// A piece of reasoning.
    fn reasoning(&mut self, text: &str, out: &mut String);
    /// The end.
    fn end(&mut self, finish: ModelFinish, tokens: Option<TokenCount>, out: &mut String);
    /// An error in the middle.
    fn error(&mut self, error: &VendorError, out: &mut String);
    /// An event that is no JSON.
    fn malformed(&self) -> &'static str;
}

impl Tongue {
    /// What the ledger calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat_completions",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Generate => "generate_content",
        }
    }

    /// Reads a request's body.
    pub(super) fn read(self, target: &Target, body: &[u8]) -> Result<Asked, VendorError> {
        let fields = fields::Fields::parse(body)?;
        match self {
            Self::Chat => chat::read(&fields),
            Self::Responses => responses::read(&fields),
            Self::Messages => messages::read(&fields, target, false),
            Self::Generate => generate::read(&fields, target),
        }
    }

    /// Reads a request that asks only how many tokens it has.
    pub(super) fn read_count(self, target: &Target, body: &[u8]) -> Result<Asked, VendorError> {
        match self {
            Self::Messages => messages::read(&fields::Fields::parse(body)?, target, true),
            Self::Chat | Self::Responses | Self::Generate => self.read(target, body),
        }
    }

    /// How many tokens a request has.
    pub(super) fn count(self, tokens: u64) -> Value {
        match self {
            Self::Generate => serde_json::json!({"totalTokens": tokens}),
            Self::Chat | Self::Responses | Self::Messages => serde_json::json!({"input_tokens": tokens}),
        }
    }

    /// The key that came with a request, where this format has it. `query` is the address's.
    pub(super) fn key<'a>(self, headers: &'a HeaderMap, query: &'a str) -> Option<&'a str> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = || header(AUTHORIZATION.as_str())?.strip_prefix("Bearer ");
        match self {
            Self::Chat | Self::Responses => bearer(),
            // The documents name the first, the vendor's client sends the second.
            Self::Messages => header("x-api-key").or_else(bearer),
            Self::Generate => {
                header("x-goog-api-key").or_else(|| query.split('&').find_map(|pair| pair.strip_prefix("key=")))
            }
        }
    }

    /// What the version in a request's headers changes.
    pub(super) fn samples(self, headers: &HeaderMap) -> bool {
        self != Self::Messages || messages::samples(headers)
    }

    /// What is wrong with a request's headers.
    pub(super) fn check_headers(self, headers: &HeaderMap, has_key: bool) -> Result<(), VendorError> {
        match self {
            Self::Chat | Self::Responses => Ok(()),
            Self::Messages => messages::check_headers(headers, has_key),
            Self::Generate if has_key => Ok(()),
            Self::Generate => Err(VendorError::usual(403)),
        }
    }

    /// An error as the vendor sends it. `wait` is what a script says about waiting.
    pub(super) fn refusal(self, error: &VendorError, wait: Option<&str>, streamed: bool) -> Refusal {
        let plain = |(status, body): (u16, Value)| Refusal { status, body: body.to_string(), names_wait: false };
        match self {
            Self::Chat | Self::Responses => plain((error.status, chat::error_body(error))),
            Self::Messages => plain(messages::error(error)),
            Self::Generate => generate::refusal(error, wait, streamed),
        }
    }

    /// What writes a stream.
    pub(super) fn voice(self, head: Head) -> Box<dyn Voice> {
        match self {
            Self::Chat => Box::new(chat::Chat(head)),
            Self::Responses => Box::new(responses::Responses::new(head)),
            Self::Messages => Box::new(messages::Messages::new(head)),
            Self::Generate => Box::new(generate::Generate(head)),
        }
    }

    /// A whole answer.
    pub(super) fn document(self, head: &Head, said: &Whole) -> Value {
        match self {
            Self::Chat => chat::document(head, said),
            Self::Responses => responses::document(head, said),
            Self::Messages => messages::document(head, said),
            Self::Generate => generate::document(head, said),
        }
    }
}

/// All that an answer says.
#[derive(Debug, Default)]
pub(super) struct Whole {
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) finish: Option<ModelFinish>,
    pub(super) tokens: Option<TokenCount>,
}

impl Whole {
    fn finish(&self) -> ModelFinish {
        self.finish.unwrap_or(ModelFinish::Stop)
    }
}

/// A nameless event.
fn data(value: &Value, out: &mut String) {
    *out += &format!("data: {value}\n\n");
}

/// An event with the name that its `type` says.
fn named(value: &Value, out: &mut String) {
    let name = value.get("type").and_then(Value::as_str).unwrap_or_default();
    *out += &format!("event: {name}\ndata: {value}\n\n");
}

/// An image whose base64 or type is wrong is none.
fn image(media_type: &str, base64: &str) -> Option<Image> {
    let format = ImageFormat::of_media_type(media_type)?;
    let bytes = BASE64_STANDARD.decode(base64).ok().filter(|bytes| !bytes.is_empty())?;
    Some(Image { format, bytes: bytes.into() })
}

/// The image of a `data:` address.
fn image_of_url(url: &str) -> Option<Image> {
    let (media_type, base64) = url.strip_prefix("data:")?.split_once(";base64,")?;
    image(media_type, base64)
}
