//! The hands of one run: what performs effects, and how what came of them is reported back.
//!
//! Whatever runs here reports to the run's task through one bounded channel, and stops when its token is cancelled. Nothing
//! here decides what a report means.

mod build;
mod check;
mod join;
mod publish;
mod tool;
mod turn;
mod workspace;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use contract::event::{Event, Finish, TokenCount, ToolInput};
use contract::protocol::Frame;
use contract::{CallId, ProjectId, ProjectPath, StepId};
use futures::FutureExt as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Runtime;
use crate::ports::model::ModelRequest;
use crate::ports::store::{Claim, RowChange};

pub(crate) use check::Examination;
pub(crate) use publish::Edition;
pub(crate) use workspace::FileOp;

/// A step with its attempt.
pub(crate) type StepRef = (StepId, u32);

/// What came of an effect.
pub(crate) enum Report {
    /// The model said something.
    Said(StepRef, Vec<Frame<'static>>),
    /// The model's stream ended.
    TurnEnded {
        /// The turn's step.
        step: StepRef,
        /// Why.
        finish: Finish,
        /// Bytes of the response.
        bytes: u64,
        /// Tokens, if told.
        usage: Option<TokenCount>,
    },
    /// Events as they are, with a row that changes with them.
    Events(StepRef, Vec<Event>, Option<RowChange>),
    /// A command changed files: what each is now, none if it is gone.
    Changed(StepRef, Vec<(ProjectPath, Option<Bytes>)>),
    /// The effect was stopped, and nothing of it is left.
    Stopped(StepRef),
    /// Something panicked. The run cannot go on here.
    Broken,
}

/// The hands of a run.
pub(crate) struct Hands {
    runtime: Arc<Runtime>,
    reports: mpsc::Sender<Report>,
    all: CancellationToken,
    turns: HashMap<StepId, CancellationToken>,
    jobs: Arc<workspace::Jobs>,
    tracker: TaskTracker,
}

impl Hands {
    /// Hands with a workspace that holds `files`, opened when it is first needed.
    pub(crate) fn new(
        runtime: Arc<Runtime>,
        claim: Claim,
        project: ProjectId,
        files: Vec<(ProjectPath, Bytes)>,
        reports: mpsc::Sender<Report>,
    ) -> Self {
        let all = CancellationToken::new();
        let tracker = TaskTracker::new();
        let jobs = Arc::new(workspace::Jobs::default());
        let actor = workspace::Actor::new(runtime.clone(), claim, project, files, reports.clone(), all.clone());
        let hands = Self { runtime, reports, all, turns: HashMap::new(), jobs: jobs.clone(), tracker };
        hands.start(actor.run(jobs));
        hands
    }

    /// Starts something that works for the run. If it panics the run is told, instead of waiting for it for ever.
    fn start(&self, work: impl Future<Output = ()> + Send + 'static) {
        let reports = self.reports.clone();
        self.tracker.spawn(async move {
            if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                report(&reports, Report::Broken).await;
            }
        });
    }

    /// Changes files in the workspace, before anything that is asked of it later.
    pub(crate) fn write(&self, ops: Vec<FileOp>) {
        self.jobs.push(workspace::Job::Files(ops));
    }

    /// Asks the model.
    pub(crate) fn turn(&mut self, step: StepRef, question: ModelRequest) {
        let enough = CancellationToken::new();
        self.turns.insert(step.0.clone(), enough.clone());
        let asked = turn::Asked { step, question, enough, stop: self.all.clone() };
        self.start(turn::perform(self.runtime.clone(), asked, self.reports.clone()));
    }

    /// Stops asking: the turn has what it may have.
    pub(crate) fn stop_turn(&mut self, step: &StepId) {
        if let Some(enough) = self.turns.remove(step) {
            enough.cancel();
        }
    }

    /// Performs a call of a tool, after the files and calls before it.
    pub(crate) fn tool(&self, step: StepRef, call: CallId, input: ToolInput) {
        self.jobs.push(workspace::Job::Tool { step, call, input });
    }

    /// Builds what the workspace holds.
    pub(crate) fn build(&self, step: StepRef) {
        self.jobs.push(workspace::Job::Build { step });
    }

    /// Looks a project over.
    pub(crate) fn check(&self, step: StepRef, what: Examination) {
        self.start(check::perform(self.runtime.clone(), step, what, self.reports.clone()));
    }

    /// Publishes a version.
    pub(crate) fn publish(&self, step: StepRef, what: Edition) {
        self.start(publish::perform(self.runtime.clone(), step, what, self.reports.clone()));
    }

    /// Does something beside the run that reports nothing.
    pub(crate) fn aside(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.start(work);
    }

    /// Stops everything; each effect in hand reports how it ended.
    pub(crate) fn stop_all(&self) {
        self.all.cancel();
    }

    /// Stops everything and waits until nothing is left.
    pub(crate) async fn close(self) {
        let tracker = self.tracker.clone();
        drop(self);
        tracker.close();
        tracker.wait().await;
    }
}

impl Drop for Hands {
    /// Also when a run's task breaks down: nothing that it started outlives it for long.
    fn drop(&mut self) {
        self.all.cancel();
        self.jobs.close();
    }
}

/// Reports, waiting for room. Gives false once nobody listens.
pub(crate) async fn report(reports: &mpsc::Sender<Report>, what: Report) -> bool {
    reports.send(what).await.is_ok()
}
