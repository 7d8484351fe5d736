//! The embedded sandbox: Linux namespaces, a read-only system, system call filter, Landlock and limits, with nothing to install.
//!
//! | file | holds |
//! |---|---|
//! | [`launcher`] | the process that isolates itself and starts one command; read its order of operations first |
//! | `spec` | what host and launcher say to each other |
//! | `launch`, `cgroup` | the processes that start commands, and the control groups that they join |
//! | `exec`, `output`, `disk` | one command: its end, its output, its use of the disk |
//! | `workspace`, `files`, `tree`, `instance` | the files, and whose they are |
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
mod spec;
mod tree;
mod workspace;

use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use runtime::ports::sandbox::{IsolationLevel, IsolationReport, Sandbox, SandboxError, Workspace, WorkspaceSpec};
use rustix::fs::{CWD, Mode, OFlags};

use self::cgroup::ControlGroups;
use self::files::{DEPENDENCIES, failed};
use self::instance::Instance;
use self::launch::Keepers;
pub use self::launcher::launcher_entry;
use self::refusal::HostFacts;
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
    facts: HostFacts,
    /// The host user to become, if we are root.
    become_id: Option<u32>,
    data: PathBuf,
    /// The template's `node_modules`.
    dependencies: Option<PathBuf>,
    node: Option<PathBuf>,
    /// Declared last: removed after the keepers are gone.
    instance: Instance,
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
        let shared = Arc::new(blocking("setting up the sandbox", move || prepare(config)).await?);
        let mut sandbox =
            Self { shared, report: probe::refused(&SandboxError::Closed), next_workspace: AtomicU64::new(0) };
        sandbox.report = sandbox.probe().await;
        Ok(sandbox)
    }

    /// Looks again what is in force, by running something inside and trying each claim.
    pub async fn probe(&self) -> IsolationReport {
        if let Some(refusal) = self.shared.facts.too_old() {
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
        self.shared.instance.folder().join(name)
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

#[expect(clippy::disallowed_methods, reason = "resolves the folders of the sandbox's configuration")]
fn prepare(config: LocalSandboxConfig) -> Result<Shared, SandboxError> {
    let found = |path: &Path| {
        path.canonicalize()
            .map_err(|error| failed(&format!("looking for the sandbox's folder {}", path.display()), error))
    };
    let become_id = sandbox_user(config.user);
    let dependencies = config.template_dir.map(|template| found(&template.join(DEPENDENCIES))).transpose()?;
    if let (Some(dependencies), Some(id)) = (&dependencies, become_id) {
        own(dependencies, id)
            .map_err(|error| failed("giving the template's dependencies to the sandbox's user", error))?;
    }
    let node = config.node_dir.map(|node| found(&node)).transpose()?;
    let starting = |error| failed("making the sandbox's folder", error);
    let instance = Instance::start(&config.data_dir.join("sandbox")).map_err(starting)?;
    let data = found(&config.data_dir)?;
    let groups = if config.control_groups {
        ControlGroups::find(Path::new("/"), Path::new("/proc/self"), std::process::id())
    } else {
        ControlGroups::none()
    };
    let facts = HostFacts::read(&config.launcher);
    let keepers = Keepers::new(config.launcher, groups, config.idle_keepers);
    let keepers = keepers.map_err(|error| failed("starting the thread that starts keepers", error))?;
    // A system's Node is seen anyway.
    let node = node.filter(|node| !node.starts_with("/usr"));
    Ok(Shared { keepers, facts, become_id, data, dependencies, node, instance })
}

/// The user to become: only root can, and only if its user namespace knows that user.
#[expect(clippy::disallowed_methods, reason = "reads this process's own user map")]
fn sandbox_user(user: u32) -> Option<u32> {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let known = map.lines().any(|line| {
        let mut numbers = line.split_whitespace().filter_map(|number| number.parse::<u64>().ok());
        let (Some(first), _, Some(count)) = (numbers.next(), numbers.next(), numbers.next()) else { return false };
        (first..first.saturating_add(count)).contains(&u64::from(user))
    });
    (known && rustix::process::geteuid().is_root()).then_some(user)
}

/// Gives the dependencies to the sandbox's user, once: the folder itself is given last and tells that it was done.
fn own(dependencies: &Path, id: u32) -> io::Result<()> {
    let path = CString::new(dependencies.as_os_str().as_encoded_bytes())?;
    let folder = rustix::fs::openat(CWD, &path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    if rustix::fs::fstat(&folder)?.st_uid == id {
        return Ok(());
    }
    tree::give_to(folder, id)
}
