//! The run family: a run's life from admission to its end.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::RunId;

/// See [`super::Event::RunQueued`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunQueued {
    /// Runs that were waiting or running before this one.
    pub position: u32,
    /// The run that started this one, if another run did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
}

/// What a run has of the one that started it: the root's slot, deadline and cancel (E1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Parent {
    /// The run that started this one.
    pub run_id: RunId,
    /// The one that a person started.
    pub root_id: RunId,
    /// Runs between it and the root, this one counted.
    pub depth: u32,
    /// When the root was accepted, in milliseconds since the Unix epoch: its time is this run's time.
    pub since: u64,
}

/// See [`super::Event::RunStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunStarted {
    /// The worker's name.
    pub worker: String,
    /// The fencing epoch of its claim: every append of the worker carries it.
    pub epoch: u64,
}

/// See [`super::Event::CancelRequested`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CancelRequested {
    /// Who asked: `user`, or the limit that did.
    pub by: String,
}

/// See [`super::Event::TimerFired`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TimerFired {
    /// The token that the timer was set with.
    pub token: String,
}

/// A phase of a run that a person can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The model writes.
    Generating,
    /// The project is looked over.
    Checking,
    /// The project is built.
    Building,
    /// The build is put where it can be opened.
    Publishing,
}

/// See [`super::Event::PhaseChange`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PhaseChange {
    /// The phase.
    pub phase: Phase,
    /// The same as a sentence.
    pub message: String,
}

/// See [`super::Event::Status`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// One sentence.
    pub message: String,
}

/// Why a run stopped (E13, E14). A limit is told as that limit and never shown as success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The work is done.
    Done,
    /// The model did nothing, even after a nudge.
    NoToolResults,
    /// The turns were used up.
    MaxTurnsReached,
    /// One turn asked for too many tools.
    TurnToolBudgetExceeded,
    /// The run asked for too many tools.
    RunToolBudgetExceeded,
    /// The prompt would not fit the model's window.
    ContextLimitExceeded,
    /// The tools' results were too large.
    ToolPayloadBudgetExceeded,
    /// What had to be carried to the next turn was too large.
    ContinuationBudgetExceeded,
    /// A response was too large.
    ResponseSizeExceeded,
    /// The money was used up.
    CostBudgetExceeded,
    /// The same call gave the same result again and again.
    LoopDetected,
    /// Somebody stopped it.
    Cancelled,
    /// Its time was up.
    TimedOut,
    /// It could not be finished.
    Failed,
}

/// See [`super::Event::RunCompleted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunCompleted {
    /// Why it stopped; [`StopReason::Done`] alone means that the work is done.
    pub stop_reason: StopReason,
    /// What came of it, as a sentence.
    pub result: String,
}

/// See [`super::Event::RunFailed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunFailed {
    /// Stable code.
    pub code: String,
    /// What happened.
    pub message: String,
    /// What the person can do.
    pub action: String,
}

/// See [`super::Event::RunCancelled`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunCancelled {
    /// Who asked.
    pub by: String,
}
