//! The workspace of one claim: a folder for the project, a layer over the dependencies, and the commands that run in them, one at a time.
//!
//! ```text
//! <data>/sandbox/<instance>/<n>/project      mounted at /workspace
//!                               layer/upper  what commands change in node_modules
//!                               layer/lower  empty: where a launcher attaches the template's
//!                               layer/<n>    the overlay's work folder, fresh for each command
//!                               stage        new files, before their rename into the project; no command sees it
//! ```

#![expect(
    clippy::disallowed_methods,
    reason = "files are handled on blocking threads, and a command's task is owned and awaited here"
)]

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use contract::ProjectPath;
use runtime::ports::sandbox::{ExecOutcome, ExecSpec, OutputChunk, SandboxError, Scan, ScanLimits, Workspace};
use rustix::fs::{CWD, Mode, OFlags};
use tokio::sync::{Mutex, RwLock, mpsc};
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::cgroup::Controller;
use super::disk::DiskWatch;
use super::exec::{self, Job};
use super::files::{DEPENDENCIES, ProjectFiles, failed};
use super::spec::{DependencyLayer, FileView, HOME_DIR, LaunchSpec, NODE_DIR, PROJECT_DIR, Payload, ProcessLimits};
use super::tree;

/// The environment of every command. Nothing of Baton's own goes in.
const ENVIRONMENT: &[(&str, &str)] =
    &[("HOME", HOME_DIR), ("LANG", "C.UTF-8"), ("CI", "1"), ("TMPDIR", "/tmp"), ("USER", "user"), ("SHELL", "/bin/sh")];
/// Where programs are looked up, after the project's own and the configured Node.
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Variables that a caller may set.
const ALLOWED_VARIABLES: &[&str] =
    &["NODE_ENV", "NODE_OPTIONS", "TZ", "CI", "FORCE_COLOR", "NO_COLOR", "TERM", "COLUMNS"];
/// Variables of the project's own build, which end up in its output anyway.
const ALLOWED_PREFIX: &str = "VITE_";

const PROJECT: &str = "project";
const LAYER: &str = "layer";
const STAGE: &str = "stage";

/// Implements the port; the last handle's end closes it.
pub(super) struct LocalWorkspace(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    /// Its folder.
    home: PathBuf,
    files: ProjectFiles,
    /// Held while a command runs: two overlays over one layer would not see each other's changes.
    commands: Mutex<()>,
    /// Held for writing once, by closing.
    open: RwLock<bool>,
    closing: CancellationToken,
    next_work: AtomicU64,
}

impl LocalWorkspace {
    /// Makes the folders.
    pub(super) fn create(shared: Arc<Shared>, home: PathBuf) -> Result<Self, SandboxError> {
        let (project, stage) = make_folders(&shared, &home).map_err(|error| failed("making a workspace", error))?;
        let files = ProjectFiles::new(project, stage, shared.host.become_id);
        Ok(Self(Arc::new(Inner {
            shared,
            home,
            files,
            commands: Mutex::new(()),
            open: RwLock::new(true),
            closing: CancellationToken::new(),
            next_work: AtomicU64::new(0),
        })))
    }

    /// The project's folder on the host.
    pub(super) fn project_folder(&self) -> PathBuf {
        self.0.home.join(PROJECT)
    }

    /// Does something with the files on a blocking thread, unless the workspace is closed.
    async fn with_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ProjectFiles) -> Result<T, SandboxError> + Send + 'static,
    ) -> Result<T, SandboxError> {
        let inner = Arc::clone(&self.0);
        let open = inner.open.read().await;
        if !*open {
            return Err(SandboxError::Closed);
        }
        let working = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || work(&working.files))
            .await
            .map_err(|error| failed("handling files", io::Error::other(error)))?
    }
}

fn make_folders(shared: &Shared, home: &Path) -> io::Result<(OwnedFd, OwnedFd)> {
    rustix::fs::mkdir(home, Mode::RWXU)?;
    let make = |path: PathBuf| -> io::Result<OwnedFd> {
        rustix::fs::mkdir(&path, Mode::from_raw_mode(0o755))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
    };
    let own = |folder: OwnedFd| match shared.host.become_id {
        Some(id) => tree::give_to(folder, id),
        None => Ok(()),
    };
    let project = make(home.join(PROJECT))?;
    if shared.host.dependencies.is_some() {
        own(make(home.join(PROJECT).join(DEPENDENCIES))?)?;
        own(make(home.join(LAYER))?)?;
        own(make(home.join(LAYER).join("upper"))?)?;
        // The launcher attaches the template's here, in its own view.
        make(home.join(LAYER).join("lower"))?;
    }
    own(rustix::io::dup(&project)?)?;
    Ok((project, make(home.join(STAGE))?))
}

impl Inner {
    /// Everything that a launcher must know about a command.
    fn job(&self, spec: ExecSpec) -> Result<Job, SandboxError> {
        let payload = payload(&spec, self.shared.host.node.is_some())?;
        let dependencies = self.shared.host.dependencies.as_ref().map(|lower| self.fresh_layer(lower)).transpose();
        let dependencies = dependencies.map_err(|error| failed("preparing the dependencies' layer", error))?;
        let watched = [self.home.join(PROJECT), self.home.join(LAYER)];
        let watched = watched.into_iter().take(if dependencies.is_some() { 2 } else { 1 }).collect();
        let launch = LaunchSpec {
            become_id: self.shared.host.become_id,
            view: FileView {
                project: self.home.join(PROJECT),
                dependencies,
                node: self.shared.host.node.clone(),
                tmp_bytes: spec.limits.tmp_bytes,
            },
            limits: self.shared.process_limits(&spec),
            payload,
        };
        Ok(Job {
            spec: launch,
            limits: spec.limits,
            timeout: spec.timeout,
            output: spec.output,
            disk: DiskWatch::new(watched, spec.limits.disk_bytes),
        })
    }

    /// The overlay marks its work folder as used and refuses it the next time, so each command gets a new one.
    fn fresh_layer(&self, lower: &Path) -> io::Result<DependencyLayer> {
        let layer = self.home.join(LAYER);
        let number = self.next_work.fetch_add(1, Ordering::Relaxed);
        let name = |number: u64| format!("work-{number}");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(CWD, &layer, flags, Mode::empty())?;
        if let Some(old) = number.checked_sub(1) {
            tree::remove(&folder, &CString::new(name(old))?)?;
        }
        rustix::fs::mkdirat(&folder, name(number), Mode::RWXU)?;
        if let Some(id) = self.shared.host.become_id {
            tree::give_to(tree::open_folder(&folder, name(number).as_str())?, id)?;
        }
        Ok(DependencyLayer { lower: lower.to_owned(), layer, work: name(number) })
    }

    async fn exec(
        self: Arc<Self>,
        spec: ExecSpec,
        output: mpsc::Sender<OutputChunk>,
        cancel: CancellationToken,
    ) -> Result<ExecOutcome, SandboxError> {
        let _one_at_a_time = tokio::select! {
            biased;
            () = self.closing.cancelled() => return Err(SandboxError::Closed),
            () = cancel.cancelled() => return Ok(never_started()),
            guard = self.commands.lock() => guard,
        };
        let (preparing, wanted) = (Arc::clone(&self), spec);
        let job = tokio::task::spawn_blocking(move || preparing.job(wanted))
            .await
            .map_err(|error| failed("preparing a command", io::Error::other(error)))??;
        // Stops when the caller says so and when the workspace closes.
        let stop = self.closing.child_token();
        let run = exec::run(&self.shared.keepers, &self.shared.host.facts, job, output, stop.clone());
        tokio::pin!(run);
        tokio::select! {
            outcome = &mut run => return outcome,
            () = cancel.cancelled() => stop.cancel(),
        }
        run.await
    }
}

fn never_started() -> ExecOutcome {
    use runtime::ports::sandbox::ExecEnd;
    ExecOutcome { end: ExecEnd::Cancelled, output_capped: false, duration: std::time::Duration::ZERO }
}

fn payload(spec: &ExecSpec, own_node: bool) -> Result<Payload, SandboxError> {
    let bad = |reason: String| Err(SandboxError::BadCommand(reason));
    let variables = spec.env.iter().flat_map(|(name, value)| [name, value]);
    if spec.command.is_empty() {
        return bad("it has no name".into());
    }
    if variables.chain(&spec.args).chain([&spec.command]).any(|text| text.contains('\0')) {
        return bad("it holds a byte 0".into());
    }
    let allowed = |name: &str| ALLOWED_VARIABLES.contains(&name) || name.starts_with(ALLOWED_PREFIX);
    if let Some((name, _)) = spec.env.iter().find(|(name, _)| !allowed(name) || name.contains('=')) {
        return bad(format!("the variable `{name}` may not be set"));
    }
    let named: BTreeSet<_> = spec.env.iter().map(|(name, _)| name.as_str()).collect();
    let node = if own_node { format!("{NODE_DIR}/bin:") } else { String::new() };
    let path = format!("{PROJECT_DIR}/{DEPENDENCIES}/.bin:{node}{SYSTEM_PATH}");
    let own = ENVIRONMENT.iter().filter(|(name, _)| !named.contains(name));
    let env = own.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let env = env.chain([("PATH".to_owned(), path)]).chain(spec.env.iter().cloned()).collect();
    let cwd =
        spec.cwd.as_ref().map_or_else(|| PathBuf::from(PROJECT_DIR), |cwd| Path::new(PROJECT_DIR).join(cwd.as_str()));
    Ok(Payload::Command { command: spec.command.clone(), args: spec.args.clone(), env, cwd })
}

impl Shared {
    /// What each process of a command may use.
    pub(super) fn process_limits(&self, spec: &ExecSpec) -> ProcessLimits {
        let limits = &spec.limits;
        // As much work as the command could do in its time at its share; the share itself is the control group's matter.
        let cpu_seconds = spec.timeout.as_secs().saturating_add(1).saturating_mul(u64::from(limits.cpu_percent)) / 100;
        let counted_here = !self.keepers.groups().has(Controller::Memory);
        ProcessLimits {
            file_bytes: limits.file_bytes,
            pids: limits.pids,
            cpu_seconds: cpu_seconds + 1,
            watched_memory_bytes: counted_here.then_some(limits.memory_bytes),
        }
    }
}

#[async_trait]
impl Workspace for LocalWorkspace {
    async fn write(&self, files: &[(ProjectPath, Bytes)]) -> Result<(), SandboxError> {
        // Bytes are shared, not copied.
        let files = files.to_vec();
        self.with_files(move |project| project.write(&files)).await
    }

    async fn remove(&self, path: &ProjectPath) -> Result<bool, SandboxError> {
        let path = path.clone();
        self.with_files(move |project| project.remove(&path)).await
    }

    async fn rename(&self, from: &ProjectPath, to: &ProjectPath) -> Result<(), SandboxError> {
        let (from, to) = (from.clone(), to.clone());
        self.with_files(move |project| project.rename(&from, &to)).await
    }

    async fn read(&self, path: &ProjectPath, max_bytes: u64) -> Result<Option<Bytes>, SandboxError> {
        let path = path.clone();
        self.with_files(move |project| project.read(&path, max_bytes)).await
    }

    async fn scan(&self, limits: ScanLimits) -> Result<Scan, SandboxError> {
        self.with_files(move |project| project.scan(limits)).await
    }

    async fn exec(
        &self,
        spec: ExecSpec,
        output: mpsc::Sender<OutputChunk>,
        cancel: CancellationToken,
    ) -> Result<ExecOutcome, SandboxError> {
        // A task of its own: a caller that stops waiting cancels the command, but cannot leave its processes without a watcher.
        let stop = cancel.child_token();
        let _stopped_with_this_future = stop.clone().drop_guard();
        tokio::spawn(Arc::clone(&self.0).exec(spec, output, stop))
            .await
            .map_err(|error| failed("watching a command", io::Error::other(error)))?
    }

    async fn collect(&self, dir: &ProjectPath, limits: ScanLimits) -> Result<Vec<(ProjectPath, Bytes)>, SandboxError> {
        let dir = dir.clone();
        self.with_files(move |project| project.collect(&dir, limits)).await
    }

    async fn close(&self) -> Result<(), SandboxError> {
        self.0.closing.cancel();
        let _no_command = self.0.commands.lock().await;
        let mut open = self.0.open.write().await;
        if !*open {
            return Ok(());
        }
        let inner = Arc::clone(&self.0);
        let removed = tokio::task::spawn_blocking(move || remove_home(&inner.home)).await;
        removed
            .map_err(io::Error::other)
            .and_then(|removed| removed)
            .map_err(|error| failed("removing a workspace", error))?;
        *open = false;
        Ok(())
    }
}

fn remove_home(home: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (home.parent(), home.file_name()) else { return Ok(()) };
    let parent = rustix::fs::openat(CWD, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    tree::remove(parent, &CString::new(name.as_encoded_bytes())?)
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !*self.open.get_mut() {
            return;
        }
        let (home, keep) = (std::mem::take(&mut self.home), Arc::clone(&self.shared));
        let remove = move || {
            if let Err(error) = remove_home(&home) {
                tracing::warn!(%error, "a workspace could not be removed; the next start does it");
            }
            drop(keep);
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}
