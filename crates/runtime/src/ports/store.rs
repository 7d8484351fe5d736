//! The store: logs of runs and the rows that are drawn from them, changed together in one transaction.
//!
//! An append whose outcome is unknown is resolved by reading, never by guessing. Nothing here decides what an event means.

use async_trait::async_trait;
use bytes::Bytes;
use contract::api::{Accepted, ChatDetail, ChatView, ExecutionState, Page, RunStatus, RunView, VersionView};
pub use contract::event::NewEvent;
use contract::event::{BuildState, Head, PreviewProblem, StopReason, ToolName, ToolStatus};
use contract::{CallId, ChatId, ProjectId, RunId, StepId, UserId, VersionId};
use thiserror::Error;

pub use super::admission::{Admission, Begun, Door, NewChat, run_title};
pub use super::drawn::{BuildRow, CallRow, Drawn};

/// What kind of failure of the store it is; decides what a person can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFault {
    /// There is no room left to write.
    Full,
    /// The disk or the database's server failed or cannot be reached.
    Unavailable,
    /// What is stored is damaged.
    Damaged,
    /// The store has stopped.
    Stopped,
    /// A cursor is not one that a list gave.
    BadCursor,
    /// What was asked contradicts what is stored: a fault of Baton's own.
    Refused,
}

/// The store failed; what was asked may or may not have been done.
#[derive(Debug, Clone, Error)]
#[error("the store failed: {message}")]
pub struct StoreError {
    /// What kind of failure.
    pub fault: StoreFault,
    /// What happened, without data.
    pub message: String,
}

impl StoreError {
    /// An error of a kind.
    pub fn new(fault: StoreFault, message: impl Into<String>) -> Self {
        Self { fault, message: message.into() }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self.fault {
            StoreFault::Full => "store_full",
            StoreFault::Unavailable => "store_unavailable",
            StoreFault::Damaged => "store_damaged",
            StoreFault::Stopped => "store_stopped",
            StoreFault::BadCursor => "bad_cursor",
            StoreFault::Refused => "store_refused",
        }
    }

    /// What the person can do.
    pub fn action(&self) -> &'static str {
        match self.fault {
            StoreFault::Full => "Free space on the disk that holds the data folder; nothing has to be restarted.",
            StoreFault::Unavailable => {
                "The database does not answer: see that its server runs, or that the disk works; then try again."
            }
            StoreFault::Damaged => "Stop Baton and restore the data folder from a backup.",
            StoreFault::Stopped => "Start Baton again; what was accepted goes on by itself.",
            StoreFault::BadCursor => "Begin the list again without a cursor.",
            StoreFault::Refused => "Report this with the log of the server: it is a fault of Baton.",
        }
    }
}

/// Why a message was not admitted. Nothing was stored (promise 1).
#[derive(Debug, Error)]
pub enum AdmitError {
    /// A limit on active runs is reached (E1).
    #[error("{limit} is reached: {value}")]
    Limit {
        /// The limit's name in the limits table.
        limit: &'static str,
        /// Its value.
        value: u64,
    },
    /// The user has no such chat.
    #[error("there is no such chat")]
    NoSuchChat,
    /// Another run has the project, and this one may not wait for it (promise 7).
    #[error("a run has the project: {run}")]
    ProjectBusy {
        /// The run.
        run: RunId,
    },
    /// The run that wanted to start this one has been taken by another worker, has ended or is being stopped.
    #[error("the run that starts it is over")]
    ParentOver,
    /// The idempotency key was used for another request.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an append was refused. All three end the run's task at once.
#[derive(Debug, Error)]
pub enum AppendError {
    /// Another worker has the run: the epoch is not the latest.
    #[error("fenced: another worker has the run")]
    Fenced,
    /// The log is longer or shorter than the writer believes.
    #[error("conflict: the log ends at {at}")]
    Conflict {
        /// Where the log ends.
        at: u64,
    },
    /// The store failed; read the log to know whether the events are there.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An event that is encoded: once, for the log and for its readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When it was made, in milliseconds since the Unix epoch.
    pub at: u64,
    /// The step that it belongs to, with the attempt.
    pub step: Option<(StepId, u32)>,
    /// Its type.
    pub kind: &'static str,
    /// The event as a JSON object.
    pub payload: String,
}

impl Entry {
    /// Encodes an event.
    ///
    /// # Errors
    /// [`StoreFault::Refused`] for a fault of the event's own type.
    pub fn of(new: &NewEvent) -> Result<Self, StoreError> {
        let payload = serde_json::to_string(&new.event)
            .map_err(|error| StoreError::new(StoreFault::Refused, format!("JSON: {error}")))?;
        Ok(Self { at: new.at, step: new.step.clone(), kind: new.event.kind(), payload })
    }
}

/// A run that a worker has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The run.
    pub run_id: RunId,
    /// The fencing epoch: raised by each claim.
    pub epoch: u64,
}

/// A change of a row that is drawn from the log. Made from events by `runtime`, so that every store draws the same rows.
#[derive(Debug, Clone, PartialEq)]
pub enum RowChange {
    /// The run's status; sets `started_at` or `ended_at` by the event's time, and of a terminal one the state.
    Run {
        /// Where it is.
        status: RunStatus,
        /// Why it stopped.
        stop_reason: Option<StopReason>,
        /// Stable code of what went wrong.
        code: Option<String>,
        /// What went wrong.
        error: Option<String>,
        /// When, in milliseconds since the Unix epoch.
        at: u64,
    },
    /// What the run is doing changed.
    Progress {
        /// What it is doing.
        state: ExecutionState,
        /// Questions to the model so far.
        turn: u32,
    },
    /// The assistant's message is whole.
    Answered {
        /// Tokens that a model wrote for it.
        tokens: u64,
        /// Milliseconds since the request.
        duration_ms: u64,
    },
    /// The assistant's prose grew.
    AssistantText {
        /// The piece.
        text: String,
    },
    /// A turn began again: its prose so far is replaced by that of the turns before.
    AssistantReset {
        /// The prose without the abandoned turn.
        text: String,
    },
    /// A tool was asked for.
    ToolRequested {
        /// The call.
        call_id: CallId,
        /// The tool.
        tool: ToolName,
        /// What it was asked, as JSON.
        input: String,
        /// Its idempotency key: step, tool, hash of the input, and which of the step's calls with that input it is (E11).
        key: String,
    },
    /// A tool's result.
    ToolFinished {
        /// The call.
        call_id: CallId,
        /// How it ended.
        status: ToolStatus,
        /// What it printed.
        output: String,
        /// Why it did not succeed.
        error: Option<String>,
        /// Milliseconds.
        duration_ms: u64,
    },
    /// A build changed its state.
    Build {
        /// The build.
        build_id: String,
        /// Where it is.
        status: BuildState,
        /// Milliseconds, once it has ended.
        duration_ms: Option<u64>,
        /// The error as JSON.
        error: Option<String>,
        /// When, in milliseconds since the Unix epoch.
        at: u64,
    },
    /// The latest build that succeeded can be opened.
    BuildShown {
        /// Where.
        url: String,
    },
    /// A version is published: the one atomic switch of the project's preview (E20).
    Publish(PublishedVersion),
}

/// A version as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedVersion {
    /// The version.
    pub id: VersionId,
    /// Its project.
    pub project_id: ProjectId,
    /// The run that made it.
    pub run_id: RunId,
    /// The one before.
    pub parent: Option<VersionId>,
    /// What it is about.
    pub summary: String,
    /// SHA-256 of the manifest of its files.
    pub files: String,
    /// SHA-256 of the manifest of its build's output.
    pub output: String,
    /// When, in milliseconds since the Unix epoch.
    pub at: u64,
}

/// One append: events and row changes in one transaction, or nothing.
#[derive(Debug, Clone)]
pub struct Append {
    /// The claim under which it is made.
    pub claim: Claim,
    /// The last event that the writer knows of.
    pub after: u64,
    /// The events, in order.
    pub events: Vec<Entry>,
    /// The rows that change with them.
    pub rows: Vec<RowChange>,
    /// Inbox rows that these events answer; deleted with the append.
    pub consumed: Vec<u64>,
    /// Whether the run ends here and its claim with it.
    pub ends: bool,
}

impl Append {
    /// Whether the rows agree with the rest; every store refuses what this refuses. A run ends exactly when its status becomes
    /// terminal, so that none is left that nobody can claim and that counts as active for ever; and it publishes as itself.
    ///
    /// # Errors
    /// [`StoreFault::Refused`].
    pub fn check(&self) -> Result<(), StoreError> {
        let mut ends = false;
        for row in &self.rows {
            match row {
                RowChange::Run { status, .. } => ends = status.is_terminal(),
                RowChange::Publish(version) if version.run_id != self.claim.run_id => {
                    return Err(StoreError::new(StoreFault::Refused, "a run publishes as itself"));
                }
                RowChange::Publish(_)
                | RowChange::Progress { .. }
                | RowChange::Answered { .. }
                | RowChange::BuildShown { .. }
                | RowChange::AssistantText { .. }
                | RowChange::AssistantReset { .. }
                | RowChange::ToolRequested { .. }
                | RowChange::ToolFinished { .. }
                | RowChange::Build { .. } => {}
            }
        }
        match ends == self.ends {
            true => Ok(()),
            false => {
                Err(StoreError::new(StoreFault::Refused, "a run ends with the append that makes its status terminal"))
            }
        }
    }
}

/// An event as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its place and time.
    pub head: Head,
    /// Its type.
    pub kind: String,
    /// The event as JSON.
    pub payload: Bytes,
}

/// What a door asks of a run; the run's owner turns it into an event.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum InboxItem {
    /// Stop.
    Cancel {
        /// Who asks.
        by: String,
    },
    /// A browser saw an instant page fail.
    PreviewProblem(PreviewProblem),
}

impl InboxItem {
    /// What a run is told when the run that started it has ended: its slot was that run's.
    pub fn parent_ended() -> Self {
        Self::Cancel { by: "parent".into() }
    }
}

/// A run's state as it was at a place of its log, so that a long log need not be folded from its beginning. The log is enough without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The last event that is in it.
    pub seq: u64,
    /// The state, in a form that `runtime` knows and may fail to know.
    pub body: Bytes,
}

/// Who owns a project, where its preview is and what it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectRow {
    /// The project.
    pub id: ProjectId,
    /// Its chat.
    pub chat_id: ChatId,
    /// Its owner.
    pub user: UserId,
    /// First label of the preview's host.
    pub slug: String,
    /// The published version.
    pub current: Option<PublishedVersion>,
    /// The latest run of the chat.
    pub latest_run: Option<RunId>,
}

/// Where logs and rows are kept.
///
/// Dropping a future of a writing method after it was polled does not undo the request: its outcome is then unknown, as after
/// a [`StoreError`]. Leases end by the caller's clock (`now_ms`), so that a rehearsal can turn it; a store that workers on several
/// machines share takes its own instead, since theirs differ.
#[async_trait]
pub trait Store: Send + Sync {
    /// Stores message, run and first events and makes the run claimable, in one transaction; or refuses and stores nothing (E1).
    /// A key that the user has used for the same request gives the first answer again, whatever the limits say now.
    ///
    /// Unrelated users do not wait for one another, and no table is searched.
    async fn admit(&self, admission: Admission) -> Result<Accepted, AdmitError>;

    /// Takes up to `most` runs that are claimable or whose lease has ended, oldest first, for `lease_ms`. Of a project's runs the
    /// oldest goes first, with the runs that it started; the others wait until it has ended (promise 7).
    async fn claim(&self, worker: &str, most: usize, now_ms: u64, lease_ms: u64) -> Result<Vec<Claim>, StoreError>;

    /// The same of runs alone that were told to stop: they end at once, so a worker without room takes them too, and a person who has
    /// stopped a run does not wait for those of others.
    async fn claim_stopped(
        &self,
        worker: &str,
        most: usize,
        now_ms: u64,
        lease_ms: u64,
    ) -> Result<Vec<Claim>, StoreError>;

    /// Lengthens leases and gives the claims that are lost: taken by another worker, given back or ended.
    async fn renew(&self, claims: &[Claim], now_ms: u64, lease_ms: u64) -> Result<Vec<Claim>, StoreError>;

    /// Gives a run back at once, for any worker to claim; one that is `waiting` stays unclaimed until its inbox has a row.
    /// Does nothing if the claim is lost.
    async fn release(&self, claim: Claim) -> Result<(), StoreError>;

    /// Appends if the claim is the latest and the log ends at `after`. Gives the new end of the log. Durable when it returns.
    /// A claim whose lease has ended can append as long as nobody else has the run. `ends` has to agree with the status that
    /// the rows give the run. The runs that it has started are told to stop when it ends ([`InboxItem::parent_ended`]).
    async fn append(&self, append: Append) -> Result<u64, AppendError>;

    /// Keeps a run's newest snapshot instead of the former one. Does nothing if the claim is lost.
    async fn put_snapshot(&self, claim: Claim, snapshot: Snapshot) -> Result<(), StoreError>;

    /// A run's newest snapshot.
    async fn snapshot(&self, run: RunId) -> Result<Option<Snapshot>, StoreError>;

    /// Events of a run after a place, in order: at least one if there is one, at most `most`, fewer if they are large.
    async fn read_after(&self, run: RunId, after: u64, most: usize) -> Result<Vec<StoredEvent>, StoreError>;

    /// Puts a row into a run's inbox, which makes an unowned run claimable. Does nothing if the run has ended or the same item
    /// is already there, so that an inbox is bounded. A cancel is also put into the inboxes of all runs that the run started.
    /// Gives the runs that have something new in their inbox.
    async fn put_inbox(&self, run: RunId, item: InboxItem, at: u64) -> Result<Vec<RunId>, StoreError>;

    /// The rows of a run's inbox, oldest first, with their numbers. A number is never used again.
    async fn inbox(&self, run: RunId) -> Result<Vec<(u64, InboxItem)>, StoreError>;

    /// The one user of an embedded server, made at the first call.
    async fn owner(&self, fresh: UserId, at: u64) -> Result<UserId, StoreError>;

    /// A run of the user.
    async fn run(&self, user: UserId, run: RunId) -> Result<Option<RunView>, StoreError>;

    /// Runs of the user in the order of their admission, newest first; of one chat if asked. The cursor is the last id of the page
    /// before; after one that no page gave there is nothing.
    async fn runs(
        &self,
        user: UserId,
        chat: Option<ChatId>,
        before: Option<RunId>,
        most: usize,
    ) -> Result<Page<RunView>, StoreError>;

    /// Chats of the user, the one last used first. The cursor is opaque; one that no page gave is [`StoreFault::BadCursor`].
    async fn chats(&self, user: UserId, cursor: Option<&str>, most: usize) -> Result<Page<ChatView>, StoreError>;

    /// The project of a chat of the user.
    async fn project_of(&self, user: UserId, chat: ChatId) -> Result<Option<ProjectId>, StoreError>;

    /// A chat of the user with its messages and runs; `preview` is left empty (its address is not the store's to know).
    async fn chat(&self, user: UserId, chat: ChatId) -> Result<Option<ChatDetail>, StoreError>;

    /// A project.
    async fn project(&self, project: ProjectId) -> Result<Option<ProjectRow>, StoreError>;

    /// The project whose preview has this slug.
    async fn project_by_slug(&self, slug: &str) -> Result<Option<ProjectRow>, StoreError>;

    /// Runs of a project that were admitted after the run that made its published version, oldest first: what they changed is not
    /// in that version. All runs, if nothing is published.
    async fn unpublished_runs(&self, project: ProjectId) -> Result<Vec<RunId>, StoreError>;

    /// Versions of a project, newest first.
    async fn versions(&self, project: ProjectId, most: usize) -> Result<Vec<VersionView>, StoreError>;

    /// A version of a project.
    async fn version(&self, project: ProjectId, version: VersionId) -> Result<Option<PublishedVersion>, StoreError>;

    /// The calls, builds and versions of a run, as its rows say; nothing of a run that there is not.
    async fn drawn(&self, run: RunId) -> Result<Drawn, StoreError>;

    /// Stores the SHA-256 of a browser session's token until a time. Storing it again replaces the time; 0 ends the session.
    /// A user's sessions are bounded: the ones that end first make room.
    async fn put_session(&self, token_sha256: &str, user: UserId, until: u64) -> Result<(), StoreError>;

    /// The user of a session that has not ended.
    async fn session(&self, token_sha256: &str, now_ms: u64) -> Result<Option<UserId>, StoreError>;
}
