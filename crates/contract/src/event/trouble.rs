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
