//! The scribe: writes a run's log by hand, as the run's task would, where readers are what is looked at and no run has to be performed.

use std::collections::BTreeMap;
use std::sync::Arc;

use adapters::model::scripted::{ScriptedModel, Scripts};
use async_trait::async_trait;
use contract::api::RunStatus;
use contract::event::{Head, ModelRef, NewEvent, Provider, RunCompleted, StopReason};
use contract::{Event, Limits, ProjectPath};
use runtime::ports::sandbox::{IsolationLevel, IsolationReport, SandboxError, WorkspaceSpec};
use runtime::ports::store::{Append, AppendError, Claim, Entry, RowChange};
use runtime::ports::{Bus, Sandbox, Store, Wake, Workspace, World};
use runtime::{Frame, Packages, Ports, PreviewAddress, Runtime, Template};

use crate::memory::MemoryObjects;

/// A process that only reads and writes logs: its model knows no answer and it has no sandbox.
///
/// # Errors
/// Never, but for a fault of this file.
pub fn desk(
    store: Arc<dyn Store>,
    bus: Arc<dyn Bus>,
    world: Arc<dyn World>,
    limits: Limits,
) -> Result<Arc<Runtime>, String> {
    let reference = ModelRef { provider: Provider::Demo, name: "none".into() };
    let report = IsolationReport {
        backend: "none".into(),
        level: IsolationLevel::Refused,
        reason: None,
        remedy: vec![],
        features: vec![],
    };
    let scripts = Scripts::read([]).map_err(|error| error.to_string())?;
    let ports = Ports {
        store,
        bus,
        objects: Arc::new(MemoryObjects::default()),
        model: Arc::new(ScriptedModel::new(scripts, reference)),
        sandbox: Arc::new(NoSandbox(report)),
        world,
    };
    let template = Template {
        name: "none".into(),
        files: vec![],
        packages: BTreeMap::new(),
        instant: Packages::default(),
        output_dir: ProjectPath::parse("dist").map_err(|problem| problem.to_string())?,
    };
    let preview = PreviewAddress { host_suffix: "localhost".into(), port: 7420 };
    Ok(Runtime::new(ports, limits, preview, template))
}

struct NoSandbox(IsolationReport);

#[async_trait]
impl Sandbox for NoSandbox {
    fn report(&self) -> &IsolationReport {
        &self.0
    }

    async fn open(&self, _: WorkspaceSpec) -> Result<Arc<dyn Workspace>, SandboxError> {
        Err(SandboxError::Refused { reason: "there is none".into(), remedy: vec![] })
    }
}

/// Who writes a run's log.
#[derive(Debug)]
pub struct Scribe {
    /// Under which claim.
    pub claim: Claim,
    /// Where the log ends.
    pub end: u64,
}

impl Scribe {
    /// Appends and lets the readers of this process have it; whoever is elsewhere is woken.
    ///
    /// # Errors
    /// What the store says.
    pub async fn write(&mut self, desk: &Runtime, events: &[NewEvent]) -> Result<(), AppendError> {
        let frames = self.append(desk, events).await?;
        desk.live.publish(self.claim.run_id, frames);
        desk.ports.bus.send(Wake::Appended(self.claim.run_id));
        Ok(())
    }

    /// Appends and says nothing, as a process does that dies at once.
    ///
    /// # Errors
    /// What the store says.
    pub async fn append(&mut self, desk: &Runtime, events: &[NewEvent]) -> Result<Vec<Frame>, AppendError> {
        let entries = events.iter().map(Entry::of).collect::<Result<Vec<_>, _>>()?;
        let read = desk.live.is_read(self.claim.run_id);
        let numbered = (self.end + 1..).zip(entries.iter().filter(|_| read));
        let frames = numbered.map(|(seq, entry)| Frame::committed(&self.head(seq, entry), entry)).collect();
        let ended = events.last().filter(|last| last.event.is_terminal());
        let row = ended.map(|last| RowChange::Run {
            status: RunStatus::Completed,
            stop_reason: Some(StopReason::Done),
            code: None,
            error: None,
            at: last.at,
        });
        let append = Append {
            claim: self.claim,
            after: self.end,
            events: entries,
            rows: row.into_iter().collect(),
            consumed: vec![],
            ends: ended.is_some(),
        };
        self.end = desk.ports.store.append(append).await?;
        Ok(frames)
    }

    fn head(&self, seq: u64, entry: &Entry) -> Head {
        let (step_id, attempt) = entry.step.clone().unzip();
        Head { run_id: self.claim.run_id, seq, from_seq: None, at: entry.at, step_id, attempt }
    }

    /// The event with which a log ends.
    pub fn last(at: u64) -> NewEvent {
        let event = Event::from(RunCompleted { stop_reason: StopReason::Done, result: "done".into() });
        NewEvent { at, step: None, event }
    }
}
