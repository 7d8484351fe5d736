//! The turn family: one question to a model and what it says.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::meters::TokenCount;
use super::session::ModelRef;

/// See [`super::Event::TurnStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TurnStarted {
    /// Which turn of the run, from 1.
    pub turn: u32,
    /// The model that is asked.
    pub model: ModelRef,
}

/// See [`super::Event::TextDelta`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TextDelta {
    /// The piece.
    pub text: String,
}

/// See [`super::Event::ThinkingStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ThinkingStarted {}

/// See [`super::Event::ThinkingDelta`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ThinkingDelta {
    /// The piece.
    pub text: String,
}

/// See [`super::Event::ThinkingEnded`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ThinkingEnded {}

/// Why a model's stream ended, in its own terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It had said all.
    Stop,
    /// It ran into its output limit.
    Length,
    /// The provider refused to go on.
    ContentFilter,
    /// Baton stopped it at a limit of its own: a response too large, or too many tools.
    Limit,
    /// The connection ended early.
    Broken,
}

/// See [`super::Event::TurnCompleted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TurnCompleted {
    /// Which turn of the run.
    pub turn: u32,
    /// Why the stream ended.
    pub finish: Finish,
    /// Whether the model said `<done/>`.
    pub done: bool,
    /// Bytes of the response.
    pub bytes: u64,
    /// Tokens, if the provider told them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenCount>,
}

/// See [`super::Event::ElementRejected`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ElementRejected {
    /// The element, such as `command`.
    pub element: String,
    /// Stable code, such as `bad_args_json`.
    pub code: String,
    /// What the model is told.
    pub reason: String,
}
