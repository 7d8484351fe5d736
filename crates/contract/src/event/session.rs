//! The session family: what a run is about.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::{ChatId, MessageId, ProjectId, RunId, StepId, VersionId};
use crate::path::ProjectPath;

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
    /// OpenAI, by its Responses.
    Openai,
    /// Anthropic, by its Messages.
    Anthropic,
    /// Google's Gemini, by its content generation.
    Gemini,
    /// Any server that speaks OpenAI's chat completions.
    Compatible,
}

impl Provider {
    /// The word for it, as in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Demo => "demo",
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Compatible => "compatible",
        }
    }
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
    /// What the run is to do.
    #[serde(default, skip_serializing_if = "Work::is_message")]
    pub work: Work,
    /// Where the run was forked from (N5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Fork>,
}

/// What a run is to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Work {
    /// Answer the message: the app builder.
    #[default]
    Message,
    /// Take in what a person changed, then check, build and publish it. No model is asked.
    Change {
        /// What changed.
        files: Vec<ChangedFile>,
        /// The version that is restored by that, if one is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        restores: Option<VersionId>,
    },
    /// Perform steps that are all known (D2).
    Graph {
        /// The steps.
        steps: Vec<PlannedStep>,
    },
}

impl Work {
    /// Whether it is the usual work, which is not written down.
    pub fn is_message(&self) -> bool {
        *self == Self::Message
    }
}

/// A file that a person changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedFile {
    /// The file.
    pub path: ProjectPath,
    /// SHA-256 of its bytes, which are in the object store, in hexadecimal; none if it is to be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// A step that is known before the run begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PlannedStep {
    /// The step.
    pub id: StepId,
    /// The skill that performs it.
    pub skill: String,
    /// What the skill is given.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    #[schema(value_type = Object)]
    pub inputs: serde_json::Value,
    /// Steps that have to be completed before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<StepId>,
}

/// Where a run was forked from: its log begins with a copy of that run's, up to a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Fork {
    /// The run.
    pub run_id: RunId,
    /// The step at which the copy ends; the fork performs it anew.
    pub step_id: StepId,
    /// What had been said in the chat before that run, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Said>,
}

/// Something that was said in a chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Said {
    /// Who said it.
    pub role: crate::api::Role,
    /// What.
    pub text: String,
}
