//! A model: a prompt goes in, a stream of pieces comes out. Dropping the stream stops the call.

use async_trait::async_trait;
pub use contract::event::RateScope;
use contract::event::{ModelRef, TokenCount};
use futures::stream::BoxStream;
use thiserror::Error;

pub use engine::prompt::{Image, ImageFormat, PromptMessage, Speaker};
use serde_json::Value;

/// One question to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// Who is asked: the one that the run's sealed envelope names.
    pub model: ModelRef,
    /// The conversation, system first.
    pub messages: Vec<PromptMessage>,
    /// How it is to be answered.
    pub options: ModelOptions,
}

impl ModelRequest {
    /// A question that is answered as the provider usually does.
    pub fn new(model: ModelRef, messages: Vec<PromptMessage>) -> Self {
        Self { model, messages, options: ModelOptions::default() }
    }
}

/// How a question is to be answered. What is none is the provider's to choose; what a model does not know, it is asked without,
/// except for the schema.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelOptions {
    /// The most tokens of an answer, reasoning included.
    pub max_output_tokens: Option<u64>,
    /// From 0, nearly the same each time, upwards.
    pub temperature: Option<f64>,
    /// The answer is one JSON document of this form.
    pub schema: Option<Schema>,
    /// How much the model is to think before it answers.
    pub effort: Option<Effort>,
}

/// The form of a structured answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// What it is called: letters, digits, `_` and `-`.
    pub name: String,
    /// The JSON schema, in the subset that providers enforce: objects with all fields required and no others.
    pub schema: Value,
}

/// How much a model is to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// As little as it can.
    Minimal,
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

/// How a response ended, as the provider told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelFinish {
    /// The model had said all.
    Stop,
    /// The output limit was reached.
    Length,
    /// The provider's filter stopped it.
    ContentFilter,
}

/// A piece of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelEvent {
    /// Text as it came: whitespace alone is text too.
    Text(String),
    /// Reasoning that the provider sends apart from the text.
    Reasoning(String),
    /// Tokens so far. It may come early and again: a call that is given up has been paid for up to there.
    Usage(TokenCount),
    /// What the provider still allows, as it told when it accepted the call. It comes before anything else.
    RateLimit(RateLimit),
    /// The response is whole. A stream that ends without this was cut off.
    Finish(ModelFinish),
}

/// What a provider allows of one thing in one span of time, and what is left of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// Of what.
    pub scope: RateScope,
    /// How much of it in the span.
    pub limit: Option<u64>,
    /// How much of it is left.
    pub remaining: Option<u64>,
    /// When it is whole again, in milliseconds from now.
    pub reset_ms: Option<u64>,
}

/// What kind of failure it is; decides whether trying again can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// The key is missing or wrong.
    Auth,
    /// The account has nothing left.
    Quota,
    /// Too many requests.
    Rate,
    /// The prompt is too long for the model.
    Context,
    /// The provider refuses the content.
    ContentFilter,
    /// The provider is overloaded or broken.
    Overload,
    /// The connection failed, was cut off or fell silent.
    Network,
    /// The server does not accept the request.
    BadRequest,
    /// This Baton reaches no such model.
    Unknown,
    /// The provider answered something that is not its protocol.
    Protocol,
}

/// A failed call. Its texts never hold a key or a header.
#[derive(Debug, Clone, Error)]
#[error("{message}")]
pub struct ModelError {
    /// What kind of failure.
    pub kind: ModelErrorKind,
    /// What happened, for a person.
    pub message: String,
    /// How long the provider asks to wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

impl ModelErrorKind {
    /// Whether trying again can help.
    pub fn retryable(self) -> bool {
        match self {
            Self::Rate | Self::Overload | Self::Network | Self::Protocol => true,
            Self::Auth | Self::Quota | Self::Context | Self::ContentFilter | Self::BadRequest | Self::Unknown => false,
        }
    }

    /// The stable code of an error event.
    pub fn code(self) -> &'static str {
        match self {
            Self::Auth => "model_auth",
            Self::Quota => "model_quota",
            Self::Rate => "model_rate_limited",
            Self::Context => "model_context_exceeded",
            Self::ContentFilter => "model_content_filtered",
            Self::Overload => "model_overloaded",
            Self::Network => "model_unreachable",
            Self::BadRequest => "model_bad_request",
            Self::Unknown => "unknown_model",
            Self::Protocol => "model_protocol",
        }
    }
}

/// The pieces of a response. After an error nothing more comes.
pub type ModelStream = BoxStream<'static, Result<ModelEvent, ModelError>>;

/// Models that can be asked.
#[async_trait]
pub trait Model: Send + Sync {
    /// The one that runs ask unless they say otherwise: its provider and name, as events and the UI show them.
    fn reference(&self) -> ModelRef;

    /// The model of that name, if it can be asked here. Nobody is asked for that: a server may still not know it.
    fn named(&self, name: &str) -> Option<ModelRef>;

    /// Whether that model can be asked here.
    fn knows(&self, model: &ModelRef) -> bool {
        self.named(&model.name).as_ref() == Some(model)
    }

    /// Asks. Connecting, the first byte and silence each have their own limit.
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError>;
}
