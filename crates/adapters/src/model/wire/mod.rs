//! The formats in which models are asked and answer. A wire is pure: a question becomes a path and a body, an event becomes pieces, an
//! error's code becomes a kind. No I/O, no time, no key but in the one header that carries it.
//!
//! A vendor is added by one file here and one arm in each function of [`Wire`]; `call` sends, `answer` reads, and neither knows a vendor.

mod chat;
mod count;
mod generate;
mod messages;
mod responses;

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use contract::event::{Provider, TokenCount};
use runtime::ports::model::{Image, ModelErrorKind, ModelFinish, ModelRequest, PromptMessage, Speaker};
use serde_json::Value;

use super::Secret;

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    /// OpenAI's chat completions, which most servers speak.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Messages,
    /// Gemini's content generation.
    Generate,
}

/// What is sent, apart from the key.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outgoing {
    /// Segments that are added to the base URL's path.
    pub(super) path: Vec<String>,
    /// What is added to its query.
    pub(super) query: Option<(&'static str, &'static str)>,
    /// The body.
    pub(super) body: Value,
    /// What may be left out or named otherwise when a server does not know it.
    pub(super) remedies: &'static [Remedy],
}

/// A field that not every model or server knows. A refusal that names it leads to one more request without it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Remedy {
    /// How refusals name it, in lower case.
    pub(super) named: &'static str,
    /// The object that holds it, as a JSON pointer.
    pub(super) within: &'static str,
    /// The field.
    pub(super) field: &'static str,
    /// What it may be called instead.
    pub(super) instead: Option<&'static str>,
}

impl Remedy {
    const fn drop(named: &'static str, within: &'static str, field: &'static str) -> Self {
        Self { named, within, field, instead: None }
    }

    /// Applies it; false if the body has no such field.
    pub(super) fn apply(&self, body: &mut Value) -> bool {
        let Some(object) = body.pointer_mut(self.within).and_then(Value::as_object_mut) else { return false };
        match (object.remove(self.field), self.instead) {
            (None, _) => false,
            (Some(value), Some(instead)) => {
                object.insert(instead.to_owned(), value);
                true
            }
            (Some(_), None) => true,
        }
    }
}

/// A piece of an answer, as a format tells it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    /// It is an answer; nothing is said yet.
    Begun,
    /// Text, exactly.
    Text(String),
    /// Reasoning.
    Reasoning(String),
    /// Tokens so far.
    Usage(TokenCount),
    /// How it ended; usage may still follow.
    Finish(ModelFinish),
    /// Nothing follows.
    End,
    /// An error in the vendor's shape.
    Refused(Value),
}

/// Reads one answer. Events and fields that it does not know are nothing.
pub(super) trait Reader: Send {
    /// One event of a stream.
    fn event(&mut self, name: &str, value: Value, out: &mut Vec<Piece>);

    /// A whole answer in one document.
    fn document(&mut self, value: Value, out: &mut Vec<Piece>);
}

impl Wire {
    /// The format in which a provider is asked; none for the demo.
    pub(super) fn of(provider: Provider) -> Option<Self> {
        match provider {
            Provider::Demo => None,
            Provider::Openai => Some(Self::Responses),
            Provider::Anthropic => Some(Self::Messages),
            Provider::Gemini => Some(Self::Generate),
            Provider::Compatible => Some(Self::Chat),
        }
    }

    /// A streamed question.
    pub(super) fn ask(self, request: &ModelRequest) -> Outgoing {
        match self {
            Self::Chat => chat::ask(request),
            Self::Responses => responses::ask(request),
            Self::Messages => messages::ask(request),
            Self::Generate => generate::ask(request),
        }
    }

    /// What reads the answer.
    pub(super) fn reader(self) -> Box<dyn Reader> {
        match self {
            Self::Chat => Box::new(chat::Chat),
            Self::Responses => Box::new(responses::Responses::default()),
            Self::Messages => Box::new(messages::Messages::default()),
            Self::Generate => Box::new(generate::Generate),
        }
    }

    /// What a code of the vendor's errors means; codes are in lower case.
    pub(super) fn kind(self, code: &str) -> Option<ModelErrorKind> {
        match self {
            Self::Chat | Self::Responses => responses::kind(code),
            Self::Messages => messages::kind(code),
            Self::Generate => generate::kind(code),
        }
    }

    /// The header with the key.
    pub(super) fn key_header(self, key: &Secret) -> (&'static str, String) {
        match self {
            Self::Chat | Self::Responses => ("authorization", format!("Bearer {}", key.expose())),
            Self::Messages => ("x-api-key", key.expose().to_owned()),
            Self::Generate => ("x-goog-api-key", key.expose().to_owned()),
        }
    }

    /// A header that every call needs.
    pub(super) fn header(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Messages => Some(("anthropic-version", messages::VERSION)),
            Self::Chat | Self::Responses | Self::Generate => None,
        }
    }

    /// Where a server tells about one model, or about all where it may not tell about one. Asking costs nothing.
    pub(super) fn about(self, model: &str) -> Vec<String> {
        match self {
            Self::Chat => vec!["models".to_owned()],
            Self::Responses | Self::Messages => vec!["models".to_owned(), model.to_owned()],
            Self::Generate => vec!["models".to_owned(), generate::bare(model).to_owned()],
        }
    }

    /// Whether a bare `[DONE]` ends an answer that did not say how it ended.
    pub(super) fn ends_with_done(self) -> bool {
        self == Self::Chat
    }
}

/// All system messages as one text, and the messages that follow.
fn instructions(messages: &[PromptMessage]) -> (Vec<&PromptMessage>, Vec<&PromptMessage>) {
    messages.iter().partition(|message| message.speaker == Speaker::System)
}

fn joined(messages: &[&PromptMessage]) -> String {
    messages.iter().map(|message| message.text.as_str()).collect::<Vec<_>>().join("\n\n")
}

fn base64_of(image: &Image) -> String {
    BASE64_STANDARD.encode(&image.bytes)
}

fn data_url(image: &Image) -> String {
    format!("data:{};base64,{}", image.format.media_type(), base64_of(image))
}

/// Takes a text that is not empty out of a value.
fn text(value: &mut Value) -> Option<String> {
    match value.take() {
        Value::String(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}
