//! The stage: whole Batons on stand-ins and paused clocks, with a person at their doors, whose processes can be killed, stopped and
//! set wrong at any call of a port (E15, N1).
//!
//! What survives a process is what survives one in the real world: the store, the objects and the model. Everything else is dropped
//! with the process, which is a tokio runtime of its own. Where there are several, each works for a few milliseconds at a time, in
//! turn, so a rehearsal with the same plan is the same rehearsal.

mod admission;
mod bus;
mod case;
mod corpus;
mod director;
mod doors;
mod gate;
mod house;
mod model;
mod oracle;
mod person;
mod plan;
mod process;
mod sandbox;
mod verdict;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use adapters::model::scripted::{ScriptedModel, Scripts};
use bytes::Bytes;
use contract::event::{ModelRef, Provider};
use contract::{Limits, ProjectPath};
use runtime::{Ports, PreviewAddress, Runtime, Template};
use tokio::task::JoinHandle;

pub use case::{Act, Case, Deed, During, Message, Strict};
pub use corpus::CORPUS;
pub use house::{House, InMemory, InPostgres, InSqlite};
pub use oracle::Outcome;
pub use plan::{CALLS, Plan, Strike, Trouble, Weather};
pub use sandbox::{Executed, StageSandbox};
pub use verdict::{judge, plan_of_seed};
pub use world::{Dice, SeededWorld};

use bus::Network;
use director::Director;
use gate::Fate;
use person::Person;
use process::Process;
use sandbox::Grounds;

use crate::memory::MemoryObjects;

/// A rehearsal's report.
#[derive(Debug)]
pub struct Report {
    /// What must be the same.
    pub outcome: Outcome,
    /// How often each call was made.
    pub calls: BTreeMap<&'static str, u32>,
    /// What never may be, and was seen all the same.
    pub faults: Vec<String>,
    /// Whether a model was told that a call was interrupted or failed for no fault of its own.
    pub told: bool,
    /// Whether a command changed files that could not be taken into the project, and the log says so.
    pub unrecorded: bool,
    /// Commands and builds that ran, in order.
    pub executed: Vec<Executed>,
    /// All events as readers got them, as JSON, run after run.
    pub log: Vec<String>,
    /// Milliseconds that passed on the stage.
    pub took_ms: u64,
}

/// A place for processes.
pub(crate) struct Machine {
    number: usize,
    /// By how much its clock is wrong, in milliseconds.
    clock: Arc<AtomicI64>,
    process: Option<Process>,
    /// When it starts again, or goes on.
    back_at: u64,
}

impl Machine {
    fn is_stopped(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_stopped)
    }
}

/// How far a rehearsal is.
struct Stand {
    /// Milliseconds.
    now: u64,
    /// How long the next turn is.
    turn: u64,
    deaths: usize,
    /// The machine whose door the person uses, and their visit there.
    visit: Option<(usize, JoinHandle<()>)>,
}

/// Everything that survives a kill, and what it is started with.
pub(crate) struct Stage {
    case: Case,
    plan: Plan,
    house: Box<dyn House>,
    objects: MemoryObjects,
    /// Another process, which lives on.
    model: ScriptedModel,
    grounds: Grounds,
    director: Arc<Director>,
    epoch_ms: u64,
}

/// Files that every project on the stage begins with.
const TEMPLATE: [(&str, &str); 4] = [
    ("package.json", r#"{"scripts":{"build":"vite build"}}"#),
    ("index.html", r#"<script type="module" src="/src/main.tsx"></script>"#),
    ("src/main.tsx", "import './App'\n"),
    ("src/App.tsx", "export default () => <p>Your app will appear here</p>;\n"),
];

/// Its packages as modules for instant pages. No page of the stage is ever opened, so their code does not matter.
const PACKAGES: &str = r#"{"format": 1, "imports": {},
    "packages": {"react": {"module": "r.js"}, "react/jsx-runtime": {"module": "r.js"}, "react-dom/client": {"module": "r.js"},
        "lucide-react": {"module": "r.js"}},
    "modules": {"r.js": "export const jsx = 1, jsxs = 1, Fragment = 1, StrictMode = 1, createRoot = 1, useEffect = 1, useLayoutEffect = 1, useRef = 1, useState = 1, Check = 1, CircleCheckBig = 1, ListTodo = 1, Moon = 1, Plus = 1, Search = 1, SearchX = 1, Sun = 1, Sunrise = 1, Trash2 = 1;"}}"#;

/// When the stage's time begins, in milliseconds since the Unix epoch.
const EPOCH_MS: u64 = 1_700_000_000_000;
/// How long a machine needs to start a process again.
const REBIRTH_MS: u64 = 300;
/// How long processes work in turn where there are several: as long as nothing happens, longer and longer.
const TURN_MS: std::ops::RangeInclusive<u64> = 4..=250;
/// How long one process works at once if it is alone.
const ALONE_MS: u64 = 1_000;
/// How long a rehearsal may take on its own clock: longer than any run may.
const MOST_MS: u64 = 3 * 3_600_000;
/// How long the processes go on after the person has seen the end of everything: longer than a lease.
const AFTERMATH_MS: u64 = 20_000;
/// Deaths in one rehearsal at the most; more means that something kills whatever it meets.
const MOST_DEATHS: usize = 50;

/// Rehearses a case under a plan, with a store in memory.
///
/// # Errors
/// It does not come to an end, or what is stored cannot be read.
pub fn rehearse(case: &Case, plan: &Plan) -> Result<Report, String> {
    rehearse_in(case, plan, Box::new(InMemory::new()))
}

/// Rehearses a case under a plan, with a given store.
///
/// # Errors
/// It does not come to an end, or what is stored cannot be read.
pub fn rehearse_in(case: &Case, plan: &Plan, house: Box<dyn House>) -> Result<Report, String> {
    let scripts = Scripts::read([(case.name, case.script)]).map_err(|error| error.to_string())?;
    let model = ScriptedModel::new(scripts, ModelRef { provider: Provider::Demo, name: "stage".into() });
    let mut stage = Stage {
        case: *case,
        plan: plan.clone(),
        house,
        objects: MemoryObjects::default(),
        model,
        grounds: Grounds::default(),
        director: Arc::new(Director::new(plan.strikes.clone())),
        epoch_ms: EPOCH_MS,
    };
    let person = Arc::new(Person::new(*case, stage.director.clone(), plan.seed));
    let (took_ms, died) = stage.play(&person)?;
    let calls = stage.director.census();
    let executed = stage.grounds.all();
    let faults = stage.director.faults();
    // Nothing goes wrong any more.
    stage.director = Arc::new(Director::new(vec![]));
    let found = stage.inspect(&person, &executed, died, took_ms)?;
    let faults = [faults, found.faults.clone(), stage.house.faults()?].concat();
    let oracle::Found { outcome, log, told, unrecorded, .. } = found;
    Ok(Report { outcome, calls, faults, told, unrecorded, executed, log, took_ms })
}

impl Stage {
    /// Lets the processes work until the person has seen the end of everything. Gives how long it took and whether a process died.
    fn play(&mut self, person: &Arc<Person>) -> Result<(u64, bool), String> {
        let network = Arc::new(Network::new(self.plan.bus, self.plan.seed, self.plan.machines));
        let machine =
            |number| Machine { number, clock: Arc::default(), process: None, back_at: number as u64 * REBIRTH_MS };
        let mut machines: Vec<Machine> = (0..self.plan.machines).map(machine).collect();
        let mut stand = Stand { now: 0, turn: *TURN_MS.start(), deaths: 0, visit: None };
        while person.outcome().is_none() {
            self.all(&mut machines, &network, &mut stand)?;
            if stand.visit.as_ref().is_some_and(|(_, visit)| visit.is_finished()) && person.outcome().is_none() {
                return Err("the person broke down".into());
            }
            if stand.visit.is_none() {
                stand.visit = self.visit(person, &machines, stand.now);
            }
        }
        person.outcome().unwrap_or(Ok(()))?;
        let took = stand.now;
        // Whoever was stopped goes on, and does what it still believes it has to do.
        while stand.now < took + AFTERMATH_MS || machines.iter().any(Machine::is_stopped) {
            self.all(&mut machines, &network, &mut stand)?;
        }
        Ok((took, stand.deaths > 0))
    }

    /// All machines' turns.
    fn all(&mut self, machines: &mut [Machine], network: &Arc<Network>, stand: &mut Stand) -> Result<(), String> {
        let Stand { now, turn, deaths, visit } = stand;
        if *now > MOST_MS || *deaths > MOST_DEATHS {
            return Err(format!("the runs did not end: {now} ms, {deaths} deaths"));
        }
        let before = self.director.total();
        network.deliver(*now);
        let alone = machines.len() == 1;
        let until = *now + if alone { ALONE_MS } else { *turn };
        for machine in machines {
            let fate = self.turn(machine, network, *now, until)?;
            if fate != Fate::Lives && visit.as_ref().is_some_and(|(at, _)| *at == machine.number) {
                // The connection is gone with the process, or says nothing any more: the person tries another door.
                visit.take().into_iter().for_each(|(_, visit)| visit.abort());
            }
            *deaths += usize::from(fate == Fate::Dead);
            if alone {
                *now = machine.process.as_ref().map_or(machine.back_at, |process| process.now).max(*now);
                *now += if let Fate::Stopped(ms) = fate { ms } else { 0 };
            }
        }
        if !alone {
            *now = until;
        }
        let idle = self.director.total() == before && network.next().is_none();
        *turn = if idle { (*turn * 2).min(*TURN_MS.end()) } else { *TURN_MS.start() };
        Ok(())
    }

    /// One machine's turn.
    fn turn(&mut self, machine: &mut Machine, network: &Arc<Network>, now: u64, until: u64) -> Result<Fate, String> {
        if machine.process.is_none() {
            if now < machine.back_at {
                return Ok(Fate::Lives);
            }
            if self.plan.machines == 1 && now > 0 {
                self.house.reopen()?;
            }
            machine.process = Some(Process::start(self, machine, network, now)?);
        }
        let Some(process) = &mut machine.process else { return Ok(Fate::Lives) };
        if process.is_stopped() {
            if now < machine.back_at {
                return Ok(Fate::Lives);
            }
            process.go_on(now);
        }
        let fate = process.drive(until);
        match fate {
            Fate::Lives => {}
            Fate::Stopped(ms) => machine.back_at = process.now + ms,
            Fate::Ended if !process.was_asked() => return Err("a worker stopped by itself".into()),
            Fate::Dead | Fate::Ended => {
                machine.back_at = process.now + REBIRTH_MS;
                machine.process = None;
            }
        }
        Ok(fate)
    }

    /// The person goes to a process that works.
    fn visit(&self, person: &Arc<Person>, machines: &[Machine], now: u64) -> Option<(usize, JoinHandle<()>)> {
        let open: Vec<&Machine> =
            machines.iter().filter(|machine| machine.process.is_some() && !machine.is_stopped()).collect();
        let mut dice = Dice::new(self.plan.seed ^ now);
        let machine = dice.one_of(&open)?;
        let process = machine.process.as_ref()?;
        let live = person.clone().live(process.runtime.clone());
        Some((machine.number, process.host(live)))
    }

    fn inspect(
        &mut self,
        person: &Arc<Person>,
        executed: &[Executed],
        died: bool,
        now: u64,
    ) -> Result<oracle::Found, String> {
        if self.plan.machines == 1 {
            self.house.reopen()?;
        }
        process::look_on(self, now + MOST_MS, async |runtime| {
            oracle::inspect(&runtime, &person.told(), executed, died).await
        })
    }

    fn runtime(&self, ports: Ports) -> Result<Arc<Runtime>, String> {
        let path = |p: &str| ProjectPath::parse(p).map_err(|problem| problem.to_string());
        let mut files = vec![];
        for (name, text) in TEMPLATE {
            files.push((path(name)?, Bytes::from_static(text.as_bytes())));
        }
        let template = Template {
            name: "stage".into(),
            files,
            packages: BTreeMap::from([("lucide-react".to_owned(), "1.0.0".to_owned())]),
            instant: runtime::Packages::read(PACKAGES.as_bytes()).map_err(|error| error.to_string())?,
            output_dir: path("dist")?,
        };
        let preview = PreviewAddress { host_suffix: "localhost".into(), port: 7420 };
        let mut limits = Limits { snapshot_events: self.plan.snapshots, ..Limits::default() };
        (self.case.limits)(&mut limits);
        Ok(Runtime::new(ports, limits, preview, template))
    }
}
