//! The embedded sandbox: Linux namespaces, a read-only system, system call filter, Landlock and limits, with nothing to install.
//!
//! | file | holds |
//! |---|---|
//! | [`launcher`] | the process that isolates itself and starts one command; read its order of operations first |
//! | `spec` | what host and launcher say to each other |
//! | `launch`, `cgroup` | the processes that start commands, and the control groups that they join |
//! | `exec`, `output`, `disk` | one command: its end, its output, its use of the disk |
//! | `workspace`, `files`, `tree` | the files |
//! | `setup`, `instance` | folders of the host, and whose they are |
//! | `probe`, `refusal` | what is in force, and how to get what is not |
//!
//! It works as root (then everything inside is a dedicated user) and as an ordinary user (then it is that user, seen from the host, in
//! a user namespace). Either way the command is user 1000 inside, sees the system read-only, and the project as the only place that lasts.

#![cfg(target_os = "linux")]

mod cgroup;
mod disk;
mod exec;
mod files;
mod instance;
mod launch;
mod launcher;
mod output;
mod probe;
mod refusal;
mod setup;
mod spec;
mod tree;
mod workspace;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use runtime::ports::sandbox::{IsolationLevel, IsolationReport, Sandbox, SandboxError, Workspace, WorkspaceSpec};

use self::files::failed;
use self::launch::Keepers;
pub use self::launcher::launcher_entry;
use self::setup::Host;
use self::workspace::LocalWorkspace;

/// Name of this adapter in reports.
const BACKEND: &str = "local";
/// The host user that commands become when Baton runs as root: in the range that systemd leaves unused, below its dynamic users.
pub const DEFAULT_USER: u32 = 61_183;

/// How the embedded sandbox is set up.
#[derive(Debug, Clone)]
pub struct LocalSandboxConfig {
    /// The data folder; workspaces are kept in `sandbox` below it.
    pub data_dir: PathBuf,
    /// A folder whose `node_modules` every workspace sees as its dependencies, without a copy. When Baton runs as root, they are given to
    /// [`Self::user`], because the kernel does not let a command change what belongs to nobody inside.
    pub template_dir: Option<PathBuf>,
    /// A Node installation (a folder with `bin/node`) outside `/usr`.
    pub node_dir: Option<PathBuf>,
    /// The program that is executed as launcher: `/proc/self/exe` if its `main` begins with [`launcher_entry`].
    pub launcher: PathBuf,
    /// The host user and group that commands become when Baton runs as root.
    pub user: u32,
    /// Whether to use control groups where they can be written.
    pub control_groups: bool,
    /// Processes that wait for the next command when there is none. Each holds about 1 MB.
    pub idle_keepers: usize,
}

impl LocalSandboxConfig {
    /// The usual set-up below a data folder.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            template_dir: None,
            node_dir: None,
            launcher: PathBuf::from("/proc/self/exe"),
            user: DEFAULT_USER,
            control_groups: true,
            idle_keepers: 4,
        }
    }
}

/// What all workspaces of one sandbox need.
struct Shared {
    keepers: Keepers,
    /// Declared last: its folder is removed after the keepers are gone.
    host: Host,
}

/// The embedded sandbox.
pub struct LocalSandbox {
    shared: Arc<Shared>,
    report: IsolationReport,
    next_workspace: AtomicU64,
}

impl LocalSandbox {
    /// Sets the sandbox up and looks what is in force. Where the system refuses, this still succeeds: the report says so, and
    /// [`Sandbox::open`] refuses.
    ///
    /// # Errors
    /// A folder of the configuration is missing or cannot be used.
    pub async fn new(config: LocalSandboxConfig) -> Result<Self, SandboxError> {
        let keepers = setup::keepers(&config).await.map_err(|error| failed("starting a thread", error))?;
        let host = blocking("setting up the sandbox", move || Host::prepare(&config)).await?;
        let shared = Arc::new(Shared { keepers, host });
        let mut sandbox =
            Self { shared, report: probe::refused(&SandboxError::Closed), next_workspace: AtomicU64::new(0) };
        sandbox.report = sandbox.probe().await;
        Ok(sandbox)
    }

    /// Looks again what is in force, by running something inside and trying each claim.
    pub async fn probe(&self) -> IsolationReport {
        if let Some(refusal) = self.shared.host.facts.too_old() {
            return probe::refused(&refusal);
        }
        let home = self.home(&format!("probe-{}", self.next_workspace.fetch_add(1, Ordering::Relaxed)));
        match self.create(home.clone()).await {
            Ok(workspace) => {
                let report = probe::report(&self.shared, &workspace.project_folder()).await;
                if let Err(error) = workspace.close().await {
                    tracing::warn!(%error, "the probe's workspace could not be removed");
                }
                report
            }
            Err(error) => probe::refused(&error),
        }
    }

    fn home(&self, name: &str) -> PathBuf {
        self.shared.host.instance.folder().join(name)
    }

    async fn create(&self, home: PathBuf) -> Result<LocalWorkspace, SandboxError> {
        let shared = Arc::clone(&self.shared);
        blocking("making a workspace", move || LocalWorkspace::create(shared, home)).await
    }
}

#[async_trait]
impl Sandbox for LocalSandbox {
    fn report(&self) -> &IsolationReport {
        &self.report
    }

    async fn open(&self, spec: WorkspaceSpec) -> Result<Arc<dyn Workspace>, SandboxError> {
        if self.report.level == IsolationLevel::Refused {
            let reason = self.report.reason.clone().unwrap_or_default();
            return Err(SandboxError::Refused { reason, remedy: self.report.remedy.clone() });
        }
        // The number makes each opening a new place, whatever was opened before.
        let number = self.next_workspace.fetch_add(1, Ordering::Relaxed);
        let home = self.home(&format!("{}-{}-{number}", spec.project, spec.epoch));
        Ok(Arc::new(self.create(home).await?))
    }
}

#[expect(clippy::disallowed_methods, reason = "files are handled on blocking threads")]
async fn blocking<T: Send + 'static>(
    doing: &'static str,
    work: impl FnOnce() -> Result<T, SandboxError> + Send + 'static,
) -> Result<T, SandboxError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| failed(doing, io::Error::other(error)))?
}
