//! A sandbox: the one place where generated code runs (E18, N9, D7). A workspace is the sandbox of one claim on a project.
//!
//! The port says what is promised; how it is kept is the adapter's. Nothing here may weaken a promise when the system cannot
//! keep it: an adapter refuses ([`SandboxError::Refused`]) or reports the lower level, and never degrades in silence.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use contract::event::OutputStream;
use contract::{Limits, ProjectId, ProjectPath};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How strong the isolation is that was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationLevel {
    /// Everything that was asked for is in force, limits kept by the kernel included.
    Full,
    /// Nothing reaches outside, but something that adds depth is missing: limits that the kernel keeps, or Landlock.
    Soft,
    /// The sandbox cannot be trusted here and runs nothing.
    Refused,
    /// This process performs no runs: those that do verify theirs.
    Elsewhere,
}

/// One thing that a sandbox claims, and whether it was seen to hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsolationFeature {
    /// What is claimed, such as `no_network`.
    pub feature: String,
    /// Whether it was seen to hold.
    pub in_force: bool,
    /// What was seen, in one phrase.
    pub detail: String,
}

/// The isolation in force: what was verified by running something inside, not what was asked for (N9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsolationReport {
    /// Which adapter answers, such as `local`.
    pub backend: String,
    /// The level.
    pub level: IsolationLevel,
    /// Why the level is not `full`, in one sentence.
    pub reason: Option<String>,
    /// Exact steps that give what is missing.
    pub remedy: Vec<String>,
    /// Each claim.
    pub features: Vec<IsolationFeature>,
}

/// What a command is for. Builds and installs get more memory and processor time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A command that the model asked for.
    Command,
    /// A build of the project.
    Build,
    /// An install of packages.
    Install,
}

/// What one command may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Memory of all its processes together, in bytes.
    pub memory_bytes: u64,
    /// Processor time, in percent of one core.
    pub cpu_percent: u32,
    /// Processes and threads.
    pub pids: u64,
    /// The largest file that a process writes, in bytes.
    pub file_bytes: u64,
    /// What the workspace takes on the disk, in bytes.
    pub disk_bytes: u64,
    /// What the private temporary folder holds, in bytes.
    pub tmp_bytes: u64,
}

impl ResourceLimits {
    /// The configured limits for a purpose.
    pub fn of(limits: &Limits, purpose: Purpose) -> Self {
        let (memory_bytes, cpu_percent) = match purpose {
            Purpose::Command => (limits.sandbox_memory_bytes, limits.sandbox_cpu_percent),
            Purpose::Build | Purpose::Install => (limits.sandbox_build_memory_bytes, limits.sandbox_build_cpu_percent),
        };
        Self {
            memory_bytes,
            cpu_percent: u32::try_from(cpu_percent).unwrap_or(u32::MAX),
            pids: limits.sandbox_pids,
            file_bytes: limits.sandbox_file_bytes,
            disk_bytes: limits.sandbox_disk_bytes,
            tmp_bytes: limits.sandbox_tmp_bytes,
        }
    }
}

/// Which workspace to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkspaceSpec {
    /// The project.
    pub project: ProjectId,
    /// The epoch of the claim that opens it.
    pub epoch: u64,
}

/// How much of a command's output is passed on; all of it is read, so that the command never waits for a full pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimits {
    /// First bytes of each stream, passed on as they come.
    pub head_bytes: usize,
    /// Last bytes of each stream, passed on at its end when there was more.
    pub tail_bytes: usize,
}

impl OutputLimits {
    /// Head and tail of both streams together make up `total` bytes.
    pub fn total(total: u64) -> Self {
        let each = usize::try_from(total / 4).unwrap_or(usize::MAX);
        Self { head_bytes: each, tail_bytes: each }
    }
}

/// One command. There is no shell in between, and standard input is empty.
#[derive(Debug, Clone)]
pub struct ExecSpec {
    /// The program: a name that is looked up inside, or a path inside.
    pub command: String,
    /// Its arguments, each passed as it is.
    pub args: Vec<String>,
    /// Variables on top of the sandbox's own few; others than the allowed ones are refused.
    pub env: Vec<(String, String)>,
    /// The folder that it starts in; without it the project's root.
    pub cwd: Option<ProjectPath>,
    /// Its whole time; then its processes are killed.
    pub timeout: Duration,
    /// What it may use.
    pub limits: ResourceLimits,
    /// What it is for.
    pub purpose: Purpose,
    /// How much output is passed on.
    pub output: OutputLimits,
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// Where it came from.
    pub stream: OutputStream,
    /// Bytes of this stream that were left out just before this piece.
    pub skipped: u64,
    /// The bytes as they came; a character may be split between pieces.
    pub bytes: Bytes,
}

/// How a command ended. In every case none of its processes is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecEnd {
    /// The program ended by itself with this code.
    Exited(i32),
    /// A signal ended it.
    Signalled(i32),
    /// Its time was up.
    TimedOut,
    /// The caller cancelled it, or stopped waiting for it.
    Cancelled,
    /// Its processes together needed more memory than allowed, and it did not succeed without.
    OutOfMemory,
    /// The workspace grew over what it may take on the disk, or so wide and deep that this cannot be told.
    OutOfDisk,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecOutcome {
    /// How it ended.
    pub end: ExecEnd,
    /// Whether output was left out.
    pub output_capped: bool,
    /// From the request until the last process was gone, waiting for an earlier command not counted.
    pub duration: Duration,
}

impl ExecOutcome {
    /// Whether the program ended by itself with code 0.
    pub fn succeeded(&self) -> bool {
        self.end == ExecEnd::Exited(0)
    }
}

/// What a look at the project's files may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanLimits {
    /// Files.
    pub files: u64,
    /// All files together, in bytes.
    pub bytes: u64,
    /// One file, in bytes.
    pub file_bytes: u64,
}

/// Tells whether a file changed, without reading it. Only equality means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    /// Its size in bytes.
    pub bytes: u64,
    /// Inode and times of the last change, which a program inside cannot set back.
    pub fingerprint: [u64; 3],
}

/// The project's own files, dependencies, repositories, caches and build output not counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scan {
    /// Each regular file.
    pub files: BTreeMap<ProjectPath, FileStamp>,
    /// Entries that are not counted as files although they lie among them: links, pipes, names that no project may have,
    /// files over the limit for one, and what lies too deep.
    pub skipped: u64,
    /// Whether a limit ended the look before everything was seen.
    pub truncated: bool,
}

/// Why the sandbox did not do it.
#[derive(Debug, Clone, Error)]
pub enum SandboxError {
    /// The system does not give what isolation needs, so nothing is run.
    #[error("the sandbox is refused here: {reason}")]
    Refused {
        /// What was refused, and by whom.
        reason: String,
        /// Exact steps that give it.
        remedy: Vec<String>,
    },
    /// The path is not one that the project may use.
    #[error("`{path}` cannot be used: {reason}")]
    BadPath {
        /// The path, from the project's root.
        path: String,
        /// Why not.
        reason: String,
    },
    /// There is no such file.
    #[error("there is no file `{0}`")]
    NotFound(ProjectPath),
    /// More than allowed.
    #[error("{what} is over the limit of {most} {unit}")]
    TooLarge {
        /// What was measured.
        what: String,
        /// The limit.
        most: u64,
        /// Its unit.
        unit: &'static str,
    },
    /// There is no such program inside.
    #[error("there is no program `{0}` in the sandbox")]
    CommandNotFound(String),
    /// The command is not one that can be started: a variable that is not allowed, a byte 0, a missing folder.
    #[error("the command cannot be started: {0}")]
    BadCommand(String),
    /// The workspace was closed.
    #[error("the workspace is closed")]
    Closed,
    /// The sandbox itself failed; trying again may help.
    #[error("the sandbox failed while {doing}: {cause}")]
    Failed {
        /// What it was doing.
        doing: String,
        /// What the system said.
        cause: String,
    },
}

impl SandboxError {
    /// The stable code of an error event.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "sandbox_refused",
            Self::BadPath { .. } => "sandbox_bad_path",
            Self::NotFound(_) => "sandbox_file_not_found",
            Self::TooLarge { .. } => "sandbox_limit_exceeded",
            Self::CommandNotFound(_) => "sandbox_command_not_found",
            Self::BadCommand(_) => "sandbox_bad_command",
            Self::Closed => "sandbox_closed",
            Self::Failed { .. } => "sandbox_failed",
        }
    }

    /// Whether the same request may succeed later.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Closed | Self::Failed { .. } => true,
            Self::Refused { .. }
            | Self::BadPath { .. }
            | Self::NotFound(_)
            | Self::TooLarge { .. }
            | Self::CommandNotFound(_)
            | Self::BadCommand(_) => false,
        }
    }

    /// What the person can do.
    pub fn action(&self) -> String {
        match self {
            Self::Refused { remedy, .. } if !remedy.is_empty() => remedy.join(" "),
            Self::Refused { .. } => "`baton doctor` shows what is missing.".into(),
            Self::BadPath { .. } => "Use a plain relative path of the project.".into(),
            Self::NotFound(_) => "Check the name.".into(),
            Self::TooLarge { .. } => "Make it smaller, or raise the limit in the configuration.".into(),
            Self::CommandNotFound(_) => "Use a program of the template or the system.".into(),
            Self::BadCommand(_) => "Change the command.".into(),
            Self::Closed => "Nothing: the run goes on in another workspace.".into(),
            Self::Failed { .. } => "Try again; `baton doctor` checks the sandbox.".into(),
        }
    }
}

/// Where workspaces come from.
#[async_trait]
pub trait Sandbox: Send + Sync {
    /// The isolation in force, for doctor, the UI and events (N9).
    fn report(&self) -> &IsolationReport;

    /// Opens an empty workspace for a claim. It shares nothing with another: not with an earlier epoch of the same project,
    /// and not with one that was opened twice. When the last handle is dropped, it is closed.
    async fn open(&self, spec: WorkspaceSpec) -> Result<Arc<dyn Workspace>, SandboxError>;
}

/// The sandbox of one claim. Its files are a projection of the log: losing them costs time and nothing else.
///
/// No method follows a symbolic link, opens anything but a regular file, or leaves the project's folder, whatever a program
/// inside has planted there.
#[async_trait]
pub trait Workspace: Send + Sync {
    /// Writes whole files; each appears at once or not at all, and folders on the way are made. The first one that fails ends the
    /// batch: those before it are written, and writing the batch again is harmless.
    async fn write(&self, files: &[(ProjectPath, Bytes)]) -> Result<(), SandboxError>;

    /// Removes a file and tells whether it was there.
    async fn remove(&self, path: &ProjectPath) -> Result<bool, SandboxError>;

    /// Renames a file or folder; what had the new name before is replaced if it is a file.
    async fn rename(&self, from: &ProjectPath, to: &ProjectPath) -> Result<(), SandboxError>;

    /// A file's bytes, or none if there is no such file.
    async fn read(&self, path: &ProjectPath, max_bytes: u64) -> Result<Option<Bytes>, SandboxError>;

    /// The project's files with their stamps, so that a caller sees what a command changed.
    async fn scan(&self, limits: ScanLimits) -> Result<Scan, SandboxError>;

    /// Runs a command. Commands of one workspace run one after another. When this returns, every process that the command
    /// started is gone; dropping the future cancels the command.
    async fn exec(
        &self,
        spec: ExecSpec,
        output: mpsc::Sender<OutputChunk>,
        cancel: CancellationToken,
    ) -> Result<ExecOutcome, SandboxError>;

    /// All regular files below a folder, with paths from that folder, such as a build's output. More than allowed is an error.
    async fn collect(&self, dir: &ProjectPath, limits: ScanLimits) -> Result<Vec<(ProjectPath, Bytes)>, SandboxError>;

    /// Kills what runs and removes the files. Anything that is asked of the workspace afterwards is [`SandboxError::Closed`].
    async fn close(&self) -> Result<(), SandboxError>;
}
