//! Bodies of the HTTP API (contracts.md § 4). Times are milliseconds since the Unix epoch.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::event::{Author, Intent, ModelRef, StepKind, StepStatus, StopReason};
use crate::id::{ChatId, MessageId, ProjectId, RunId, StepId, VersionId};
use crate::path::ProjectPath;

/// Body of `POST /v1/chats` and `POST /v1/chats/{id}/messages`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMessage {
    /// What the person wrote; at most `message_bytes`.
    pub text: String,
}

/// Answer to an accepted message: 202. The run is durable when this is sent (promise 1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    /// The chat.
    pub chat_id: ChatId,
    /// The message.
    pub message_id: MessageId,
    /// The run that works on it.
    pub run_id: RunId,
    /// The project.
    pub project_id: ProjectId,
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Waits for a worker.
    Queued,
    /// A worker has it, or had it and another will.
    Running,
    /// Waits for a person or a timer.
    Waiting,
    /// Ended; `stop_reason` tells how.
    Completed,
    /// Could not be finished.
    Failed,
    /// Was stopped.
    Cancelled,
}

impl RunStatus {
    /// Whether nothing more will happen.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled => true,
            Self::Queued | Self::Running | Self::Waiting => false,
        }
    }
}

/// What a run is doing, in the words of its playbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ExecutionState {
    /// Nothing yet.
    #[default]
    Init,
    /// A model is being asked.
    LlmStream,
    /// Tools that the model asked for are running.
    ToolExec,
    /// What the run made is checked, built and published.
    Apply,
    /// Another turn will begin.
    NextTurn,
    /// Ended; `stop_reason` tells how.
    Complete,
    /// Could not be finished.
    Failed,
    /// Was stopped.
    Cancelled,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunView {
    /// The run.
    pub id: RunId,
    /// Its chat.
    pub chat_id: ChatId,
    /// Its project.
    pub project_id: ProjectId,
    /// Where it is.
    pub status: RunStatus,
    /// What it is doing.
    pub state: ExecutionState,
    /// Questions to the model so far.
    pub turn: u32,
    /// The run that started it, if another run did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// What the person wrote, shortened.
    pub title: String,
    /// Why it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    /// Stable code of what went wrong, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What went wrong, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The latest event.
    pub last_seq: u64,
    /// When it was accepted.
    pub created_at: u64,
    /// When a worker first took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<u64>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
}

/// A chat in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatView {
    /// The chat.
    pub id: ChatId,
    /// Its project.
    pub project_id: ProjectId,
    /// Its first words.
    pub title: String,
    /// When it was begun.
    pub created_at: u64,
    /// When something last happened.
    pub updated_at: u64,
    /// Its latest run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunView>,
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person.
    User,
    /// The model.
    Assistant,
}

/// A message of a chat. An assistant's message is the projection of its run: the client reads the run's events for the rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MessageView {
    /// The message.
    pub id: MessageId,
    /// Who wrote it.
    pub role: Role,
    /// The text; for an assistant, its prose without files.
    pub text: String,
    /// The run that the message asked for or that wrote it.
    pub run_id: RunId,
    /// When it was written.
    pub created_at: u64,
    /// Tokens that a model wrote for it, once its run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Milliseconds from the request to the end of its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// A chat with its messages and runs, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatDetail {
    /// The chat.
    pub chat: ChatView,
    /// Its messages.
    pub messages: Vec<MessageView>,
    /// Its runs.
    pub runs: Vec<RunView>,
    /// Where the project is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<PreviewView>,
}

/// Where a project is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PreviewView {
    /// The address for a browser on this machine.
    pub url: String,
    /// The `Host` to send to the server's own address.
    pub host: String,
    /// The published version that is there; none until something was built. What the files show before that is said by the runs'
    /// `preview_url` events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionId>,
}

/// Body of `POST /v1/runs/{id}/preview-problems`: what an instant page told the page that embeds it (N7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewReport {
    /// The page, as `preview_url` named it.
    pub revision: String,
    /// Whether nothing is on the screen.
    pub blank: bool,
    /// What was thrown, in the page's words.
    pub message: String,
    /// Where it was thrown, as the browser says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<ScriptPlace>,
}

/// A place in a script as browsers name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptPlace {
    /// The script's address.
    pub url: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

/// A page of a list. `next` is the cursor of the page after, and absent on the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Pass it as `cursor` to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A file of a project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileView {
    /// Where it is.
    pub path: ProjectPath,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Who wrote it last.
    pub by: Author,
}

/// The files of a project as they are now: the latest version with what the latest run has changed since.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProjectFiles {
    /// The project.
    pub project_id: ProjectId,
    /// The published version that this builds on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionId>,
    /// The files, sorted by path.
    pub files: Vec<FileView>,
}

/// A published version of a project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VersionView {
    /// The version.
    pub id: VersionId,
    /// The one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<VersionId>,
    /// The run that made it.
    pub run_id: RunId,
    /// What it is about.
    pub summary: String,
    /// When it was published.
    pub created_at: u64,
}

/// A step of a run's graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StepView {
    /// The step.
    pub id: StepId,
    /// What it does.
    pub kind: StepKind,
    /// The same for a person.
    pub title: String,
    /// What it waits for.
    pub depends_on: Vec<StepId>,
    /// Where it is.
    pub state: StepStatus,
    /// Its latest attempt, from 1; 0 if it has not started.
    pub attempt: u32,
}

/// Answer of `GET /v1/runs/{id}/graph`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GraphView {
    /// The run.
    pub run_id: RunId,
    /// What the person wants done.
    pub intent: Intent,
    /// Its steps, in the order in which they were added.
    pub steps: Vec<StepView>,
}

/// Answer of `GET /v1/runs/{id}/verify`: whether what is stored of a run is what its log says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Verification {
    /// The run.
    pub run_id: RunId,
    /// Events of its log that were read.
    pub events: u64,
    /// The place of its snapshot, if it has one that was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<u64>,
    /// Everything that is other than it should be, a sentence each; nothing if all is well.
    pub differences: Vec<String>,
}

/// Body of `POST /v1/runs/{id}/fork` (N5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewFork {
    /// The step that is performed anew, with all that follows: one of `GET /v1/runs/{id}/graph` that has begun.
    pub at: StepId,
    /// Name of the model that is asked from there on; if left out the same as before, or the usual one if that is out of reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// Body of `POST /v1/projects/{id}/uploads`: files that are put in one change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Upload {
    /// The files, each once.
    pub files: Vec<UploadedFile>,
}

/// A file of an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UploadedFile {
    /// Where it is put.
    pub path: ProjectPath,
    /// Its bytes in base64 (RFC 4648 § 4).
    pub base64: String,
}

/// Body of `POST /v1/session`: a one-use code from a printed link, exchanged for a cookie.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionCode {
    /// The code.
    pub code: String,
}

/// Answer of `POST /v1/session/codes` (owner's token only): a link that signs a browser in, once, within a minute.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SessionLink {
    /// The link; the code stands behind `#`, so that no log or Referer holds it.
    pub url: String,
}

/// Answer of `GET /v1/system`: what this server is and can do, for the UI and `baton doctor`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SystemView {
    /// Baton's version.
    pub version: String,
    /// The model that runs use.
    pub model: ModelRef,
    /// Whether that is the built-in demo, which follows a script and is no model.
    pub demo: bool,
    /// How runs are isolated.
    pub sandbox: SandboxView,
    /// The template that projects are made from.
    pub template: String,
}

/// How far the sandbox isolates, as it was verified (N9).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SandboxView {
    /// `full`, `soft` (some limits are only watched over), `refused`, or `elsewhere`: workers of their own verify theirs.
    pub level: String,
    /// What is in force and what is not.
    pub features: Vec<SandboxFeature>,
    /// How to get what is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// One property of the sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SandboxFeature {
    /// Such as `network` or `memory`.
    pub name: String,
    /// Whether it is in force.
    pub in_force: bool,
    /// How, or why not.
    pub detail: String,
}
