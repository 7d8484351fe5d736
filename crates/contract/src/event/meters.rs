//! The meters family: tokens, money and rates (E23, N6).

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

impl std::ops::AddAssign for TokenCount {
    /// The tokens of both; what a count cannot hold is left out.
    fn add_assign(&mut self, more: Self) {
        self.input = self.input.saturating_add(more.input);
        self.cached = self.cached.saturating_add(more.cached);
        self.output = self.output.saturating_add(more.output);
        self.reasoning = self.reasoning.saturating_add(more.reasoning);
    }
}

/// See [`super::Event::Usage`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// The model's name.
    pub model: String,
    /// What it used.
    pub tokens: TokenCount,
    /// What that costs by the catalogue, in nanodollars; none if the model's price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<u64>,
    /// What it was spent on.
    #[serde(default)]
    pub spent: Spent,
}

/// What a call to a model was spent on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Spent {
    /// An answer that was taken in.
    #[default]
    Useful,
    /// An answer that had been asked for before, and was lost.
    Retry,
    /// An answer that came to nothing: the provider failed, or it was stopped.
    Lost,
}

/// See [`super::Event::RateLimit`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RateLimit {
    /// What is limited: `requests`, `tokens`, `input_tokens` or `output_tokens`.
    pub scope: RateScope,
    /// How much of it in the provider's span of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// How much is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
    /// When it is whole again, in milliseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_at: Option<u64>,
}

/// What a rate limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateScope {
    /// Calls.
    Requests,
    /// Tokens of any kind.
    Tokens,
    /// Tokens of prompts.
    InputTokens,
    /// Tokens of answers.
    OutputTokens,
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
