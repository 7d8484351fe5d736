//! The graph family: the steps of a run and their states.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::StepId;

/// What a step does. The kinds are closed: each is known to one playbook and performed by one file of the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Ask the model once and act on what it says.
    Turn,
    /// Look over the project without running it.
    Check,
    /// Build the project in the sandbox.
    Build,
    /// Store the build and switch the preview to it.
    Publish,
    /// Perform a skill (D1).
    Skill,
}

/// See [`super::Event::StepAdded`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StepAdded {
    /// The step.
    pub id: StepId,
    /// What it does.
    pub kind: StepKind,
    /// The same for a person.
    pub title: String,
    /// Steps that have to be completed before.
    pub depends_on: Vec<StepId>,
    /// Whether the run fails with it.
    pub critical: bool,
}

/// Where a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Waits for steps that it depends on.
    Pending,
    /// Could start.
    Ready,
    /// Is being performed.
    Running,
    /// Waits for a person or a timer.
    Waiting,
    /// Failed and will be tried again after a delay.
    Retrying,
    /// Did what it should.
    Completed,
    /// Did not.
    Failed,
    /// Is not needed, or cannot be done since another failed.
    Skipped,
    /// Failed for good and can be looked at and revived.
    DeadLettered,
}

/// See [`super::Event::StepState`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StepState {
    /// The step; the envelope's `step_id` says the same.
    pub id: StepId,
    /// Its new state.
    pub state: StepStatus,
    /// The attempt that this is about, from 1; the envelope's `attempt` says the same, so the key is another. A reader that sees
    /// `running` with a higher attempt forgets what the former one streamed.
    #[serde(rename = "of_attempt")]
    pub attempt: u32,
    /// Why, where that is not plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What a completed skill gives to the steps that depend on it (D3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output: Option<serde_json::Value>,
}

/// See [`super::Event::StepRetry`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StepRetry {
    /// The step.
    pub id: StepId,
    /// The attempt that will come; the envelope's `attempt` is the one that failed.
    #[serde(rename = "next_attempt")]
    pub attempt: u32,
    /// How long it waits, in milliseconds.
    pub delay_ms: u64,
    /// What went wrong.
    pub error: String,
}
