//! A model: a prompt goes in, a stream of pieces comes out. Dropping the stream stops the call.

use async_trait::async_trait;
use contract::event::{ModelRef, TokenCount};
use futures::stream::BoxStream;
use thiserror::Error;

pub use engine::prompt::{PromptMessage, Speaker};

/// One question to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRequest {
    /// Who is asked: the one that the run's sealed envelope names.
    pub model: ModelRef,
    /// The conversation, system first.
    pub messages: Vec<PromptMessage>,
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
    /// Tokens so far.
    Usage(TokenCount),
    /// The response is whole. A stream that ends without this was cut off.
    Finish(ModelFinish),
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
