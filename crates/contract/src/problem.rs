//! Errors as clients see them: problem details (RFC 9457) with a stable `code` and an `action`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::RunId;

/// The body of every answer that is not a success, sent as `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `about:blank#<code>`: the code is the type.
    pub r#type: String,
    /// The HTTP status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// Stable code for programs, such as `chat_busy`.
    pub code: String,
    /// What happened, in plain language.
    pub detail: String,
    /// What the person can do.
    pub action: String,
    /// The limit that refused the request, by its name in the limits table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// That limit's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// The run that is in the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
}
