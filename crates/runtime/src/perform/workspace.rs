//! The workspace of a claim, as one queue: file changes, commands and builds happen in the order in which they were asked for.
//!
//! So a command sees every file that was closed before it (E9), installs and commands are serial (E10), and a write that failed
//! is repeated before anything depends on it. The workspace is a projection: it is filled from the project when first needed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use contract::event::ToolInput;
use contract::{CallId, ProjectId, ProjectPath};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::{Report, StepRef, build, report, tool};
use crate::Runtime;
use crate::ports::Workspace;
use crate::ports::sandbox::{SandboxError, ScanLimits, WorkspaceSpec};
use crate::ports::store::Claim;

/// A change of a file: its bytes, or none if it is gone.
pub(crate) type FileOp = (ProjectPath, Option<Bytes>);

/// Something that the workspace is asked for.
pub(super) enum Job {
    /// Files changed.
    Files(Vec<FileOp>),
    /// A tool is to be performed.
    Tool {
        /// The step that asked.
        step: StepRef,
        /// The call.
        call: CallId,
        /// What was asked.
        input: ToolInput,
    },
    /// The project is to be built.
    Build {
        /// The step.
        step: StepRef,
    },
}

/// Jobs that wait, in order. Pushing never waits, since the actor may be waiting for the one who pushes; and it needs no bound of
/// its own: adjacent file changes are one job, and calls and builds are bounded by `tools_per_run` and `turns_per_run`.
#[derive(Default)]
pub(super) struct Jobs {
    waiting: Mutex<(VecDeque<Job>, bool)>,
    pushed: Notify,
}

impl Jobs {
    fn waiting(&self) -> std::sync::MutexGuard<'_, (VecDeque<Job>, bool)> {
        // The queue is whole between its calls, so a panic elsewhere leaves it usable.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job.
    pub(super) fn push(&self, job: Job) {
        let mut waiting = self.waiting();
        match (waiting.0.back_mut(), job) {
            (Some(Job::Files(ops)), Job::Files(more)) => ops.extend(more),
            (_, job) => waiting.0.push_back(job),
        }
        drop(waiting);
        self.pushed.notify_one();
    }

    /// Says that nothing more will come. What waits is dropped: the run goes on elsewhere or is over.
    pub(super) fn close(&self) {
        *self.waiting() = (VecDeque::new(), true);
        self.pushed.notify_one();
    }

    async fn next(&self) -> Option<Job> {
        loop {
            {
                let mut waiting = self.waiting();
                if let Some(job) = waiting.0.pop_front() {
                    return Some(job);
                }
                if waiting.1 {
                    return None;
                }
            }
            self.pushed.notified().await;
        }
    }
}

/// Owns the workspace.
pub(super) struct Actor {
    pub(super) runtime: Arc<Runtime>,
    spec: WorkspaceSpec,
    workspace: Option<Arc<dyn Workspace>>,
    /// The project's files as they should be there.
    pub(super) files: BTreeMap<ProjectPath, Bytes>,
    /// Changes that are not in the workspace yet.
    unwritten: BTreeMap<ProjectPath, Option<Bytes>>,
    /// Whether a command has run here: a refusal after that is the workspace's fault and not the system's.
    pub(super) worked: bool,
    pub(super) reports: mpsc::Sender<Report>,
    pub(super) stop: CancellationToken,
}

impl Actor {
    pub(super) fn new(
        runtime: Arc<Runtime>,
        claim: Claim,
        project: ProjectId,
        files: Vec<(ProjectPath, Bytes)>,
        reports: mpsc::Sender<Report>,
        stop: CancellationToken,
    ) -> Self {
        let spec = WorkspaceSpec { project, epoch: claim.epoch };
        let files: BTreeMap<_, _> = files.into_iter().collect();
        let unwritten = files.iter().map(|(path, content)| (path.clone(), Some(content.clone()))).collect();
        Self { runtime, spec, workspace: None, files, unwritten, worked: false, reports, stop }
    }

    /// Does one job after the other until nobody can ask for more; then closes the workspace.
    pub(super) async fn run(mut self, jobs: Arc<Jobs>) {
        while let Some(job) = jobs.next().await {
            match job {
                Job::Files(ops) => {
                    for (path, content) in ops {
                        self.note(&path, content.as_ref());
                        self.unwritten.insert(path, content);
                    }
                    // What cannot be written now is kept and tried again before a command or build, which then says so.
                    if !self.stop.is_cancelled()
                        && let Err(error) = self.ready().await
                    {
                        tracing::warn!(%error, "files could not be written into the workspace yet");
                    }
                }
                Job::Tool { step, call, input } => tool::perform(&mut self, step, call, input).await,
                Job::Build { step } => build::perform(&mut self, step).await,
            }
        }
        if let Some(workspace) = self.workspace.take()
            && let Err(error) = workspace.close().await
        {
            tracing::warn!(%error, "a workspace could not be closed");
        }
    }

    /// Notes how a file should be from now on.
    pub(super) fn note(&mut self, path: &ProjectPath, content: Option<&Bytes>) {
        match content {
            Some(content) => drop(self.files.insert(path.clone(), content.clone())),
            None => drop(self.files.remove(path)),
        }
    }

    /// The workspace, with every change in it. One in which a command has put something in the way of a file is made anew: it is
    /// only a projection.
    pub(super) async fn ready(&mut self) -> Result<Arc<dyn Workspace>, SandboxError> {
        match self.written().await {
            Err(SandboxError::BadPath { .. }) if self.worked => {
                self.renew().await;
                self.written().await
            }
            other => other,
        }
    }

    /// Throws the workspace away; the next one is filled from the project.
    pub(super) async fn renew(&mut self) {
        if let Some(spoilt) = self.workspace.take()
            && let Err(error) = spoilt.close().await
        {
            tracing::warn!(%error, "a workspace could not be closed");
        }
        self.worked = false;
        self.unwritten = self.files.iter().map(|(path, content)| (path.clone(), Some(content.clone()))).collect();
    }

    async fn written(&mut self) -> Result<Arc<dyn Workspace>, SandboxError> {
        let workspace = match &self.workspace {
            Some(open) => open.clone(),
            None => {
                let opened = self.runtime.ports.sandbox.open(self.spec).await?;
                self.workspace.insert(opened).clone()
            }
        };
        for path in self.unwritten.iter().filter(|(_, content)| content.is_none()).map(|(path, _)| path) {
            workspace.remove(path).await?;
        }
        let files: Vec<(ProjectPath, Bytes)> =
            self.unwritten.iter().filter_map(|(path, content)| Some((path.clone(), content.clone()?))).collect();
        workspace.write(&files).await?;
        self.unwritten.clear();
        Ok(workspace)
    }

    /// How much of the project is looked at.
    pub(super) fn scan_limits(&self) -> ScanLimits {
        let limits = &self.runtime.limits;
        ScanLimits { files: limits.project_files, bytes: limits.project_bytes, file_bytes: limits.project_file_bytes }
    }

    /// Reports; a run that is over needs no answer.
    pub(super) async fn report(&self, what: Report) {
        report(&self.reports, what).await;
    }
}
