//! One process of a stage: a door and a worker on a runtime of their own with a clock of their own, which stand still unless they are
//! driven. So it can be killed, stopped and let go on at any call.

use std::sync::Arc;
use std::time::Duration;

use adapters::bus::LocalBus;
use runtime::ports::{Bus, Store};
use runtime::{Ports, Runtime, Worker};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::bus::Network;
use super::doors::{StagedObjects, StagedStore};
use super::gate::{Fate, Gate};
use super::model::StagedModel;
use super::sandbox::StageSandbox;
use super::world::SeededWorld;
use super::{Machine, Stage};

/// A process.
pub(super) struct Process {
    // Fields are dropped in this order: the tasks first.
    tokio: tokio::runtime::Runtime,
    pub(super) runtime: Arc<Runtime>,
    gate: Arc<Gate>,
    worker: JoinHandle<()>,
    begun: Instant,
    /// Where the stage's clock was when it began, in milliseconds.
    since: u64,
    /// Where its own is, on the stage's.
    pub(super) now: u64,
    stopped: bool,
}

impl Process {
    /// Starts a process on a machine.
    pub(super) fn start(stage: &Stage, machine: &Machine, network: &Arc<Network>, now: u64) -> Result<Self, String> {
        let tokio = paused()?;
        let bus = Arc::new(network.connect(machine.number));
        let store = stage.house.store()?;
        let enter = tokio.enter();
        let begun = Instant::now();
        let (runtime, gate) = assemble(stage, machine, store, bus, now)?;
        let worker = Worker::new(runtime.clone(), format!("machine {}", machine.number + 1));
        let worker = tokio.spawn(worker.run(gate.end.clone()));
        drop(enter);
        Ok(Self { tokio, runtime, gate, worker, begun, since: now, now, stopped: false })
    }

    /// Lets it work until its clock shows that time, or until something strikes it.
    pub(super) fn drive(&mut self, until: u64) -> Fate {
        let (gate, begun, worker) = (&self.gate, self.begun, &mut self.worker);
        let target = begun + Duration::from_millis(until.saturating_sub(self.since));
        let (fate, passed) = self.tokio.block_on(async {
            let fate = tokio::select! {
                biased;
                fate = gate.struck() => fate,
                // It was asked to end; if it was not, that is seen by who drives it.
                _ = worker => Fate::Ended,
                () = tokio::time::sleep_until(target) => Fate::Lives,
            };
            (fate, begun.elapsed())
        });
        self.now = self.since + u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        self.stopped = matches!(fate, Fate::Stopped(_));
        fate
    }

    /// Whether it is stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether it was asked to end.
    pub(super) fn was_asked(&self) -> bool {
        self.gate.end.is_cancelled()
    }

    /// Goes on after it was stopped: its clock jumps, as every clock does for who was stopped.
    pub(super) fn go_on(&mut self, now: u64) {
        let missed = Duration::from_millis(now.saturating_sub(self.now));
        self.stopped = false;
        self.gate.go_on();
        self.tokio.block_on(tokio::time::advance(missed));
        self.now = now;
    }

    /// Starts something in it that ends with it.
    pub(super) fn host(&self, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.tokio.spawn(work)
    }
}

fn paused() -> Result<tokio::runtime::Runtime, String> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    tokio.map_err(|error| error.to_string())
}

/// A Baton whose every way to the outside passes one gate.
fn assemble(
    stage: &Stage,
    machine: &Machine,
    store: Arc<dyn Store>,
    bus: Arc<dyn Bus>,
    now: u64,
) -> Result<(Arc<Runtime>, Arc<Gate>), String> {
    let world = SeededWorld::new(stage.plan.seed ^ machine.number as u64, stage.epoch_ms + now);
    let world = Arc::new(world.on(machine.clock.clone()));
    let gate = Arc::new(Gate::new(stage.director.clone(), world.clone(), stage.house.real()));
    let objects = Arc::new(stage.objects.clone());
    let ports = Ports {
        store: Arc::new(StagedStore { store, objects: objects.clone(), gate: gate.clone() }),
        bus,
        objects: Arc::new(StagedObjects { objects, gate: gate.clone() }),
        model: Arc::new(StagedModel { model: Arc::new(stage.model.clone()), gate: gate.clone() }),
        sandbox: Arc::new(StageSandbox::new(stage.grounds.clone(), gate.clone())),
        world,
    };
    Ok((stage.runtime(ports)?, gate))
}

/// Lets somebody look on through a process without a worker.
pub(super) fn look_on<T>(
    stage: &Stage,
    now: u64,
    look: impl AsyncFnOnce(Arc<Runtime>) -> Result<T, String>,
) -> Result<T, String> {
    let tokio = paused()?;
    let store = stage.house.store()?;
    tokio.block_on(async {
        let machine = Machine { number: 99, clock: Arc::default(), process: None, back_at: 0 };
        let (runtime, _gate) = assemble(stage, &machine, store, Arc::new(LocalBus::new()), now)?;
        look(runtime).await
    })
}
