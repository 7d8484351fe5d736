//! The trouble family: what went wrong, said so that a person can act on it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// See [`super::Event::Warning`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Warning {
    /// Stable code.
    pub code: String,
    /// One sentence.
    pub message: String,
}

/// What went round in circles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Circle {
    /// The same call of a tool, with the same result.
    Call,
    /// The same error of a check or build, after repairs.
    Error,
}

/// See [`super::Event::LoopBroken`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LoopBroken {
    /// What went round.
    pub circle: Circle,
    /// How often it came.
    pub times: u64,
    /// The call, or the error's first line.
    pub what: String,
}

/// See [`super::Event::Error`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Error {
    /// Stable code.
    pub code: String,
    /// What happened.
    pub message: String,
    /// Whether trying again can help.
    pub retryable: bool,
    /// What the person can do.
    pub action: String,
    /// How long the other side asks to wait before another try, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}
