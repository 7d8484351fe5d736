//! The session family: what a run is about.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::{ChatId, MessageId, ProjectId};

/// What the person wants done (E3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// A new project.
    Generate,
    /// A change to one that exists.
    Edit,
    /// A repair of one that exists.
    Fix,
}

/// How a model is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// Baton's own scripted demo. It is no model and says so.
    Demo,
    /// Any server that speaks OpenAI's chat completions.
    Compatible,
}

/// Which model works, and how honest its name is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelRef {
    /// How it is reached.
    pub provider: Provider,
    /// Its name there.
    pub name: String,
}

/// See [`super::Event::Session`]. The run's sealed envelope (E3): enough for any worker to begin with, whatever became of the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// The chat.
    pub chat_id: ChatId,
    /// The project that the run works on.
    pub project_id: ProjectId,
    /// The message that asked for the run.
    pub user_message_id: MessageId,
    /// The message that the run's answer will be.
    pub assistant_message_id: MessageId,
    /// Whether the chat began with this message.
    pub is_new_chat: bool,
    /// What the person wrote.
    pub request: String,
    /// What they want done.
    pub intent: Intent,
    /// Whether there is an earlier run in the chat (E5).
    pub follow_up: bool,
    /// The template that the project is made from.
    pub template: String,
    /// The model.
    pub model: ModelRef,
}
