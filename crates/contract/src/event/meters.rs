//! The meters family: tokens and, later, money and rates (E23, N6).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::run::StopReason;

/// Tokens of one call to a model, as the provider told them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenCount {
    /// Tokens of the prompt, those from the cache included.
    pub input: u64,
    /// Of these, how many came from the provider's cache.
    pub cached: u64,
    /// Tokens of the answer, reasoning included.
    pub output: u64,
    /// Of these, how many were reasoning.
    pub reasoning: u64,
}

/// See [`super::Event::Usage`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// The model's name.
    pub model: String,
    /// What it used.
    pub tokens: TokenCount,
}

/// See [`super::Event::Budget`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Budget {
    /// How the run will be said to have stopped.
    pub stop: StopReason,
    /// The limit's name in the limits table.
    pub limit: String,
    /// What was used.
    pub used: u64,
    /// The limit's value.
    pub value: u64,
}
