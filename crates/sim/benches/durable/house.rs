//! A Baton in this process: the real runtime, worker, task and store, without doors and without a sandbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use adapters::bus::{LocalBus, RedisBus};
use adapters::objects::AddressedObjects;
use adapters::sandbox::AbsentSandbox;
use adapters::store::postgres::{Postgres, PostgresOptions};
use adapters::store::sqlite::{Options, Sqlite};
use adapters::world::SystemWorld;
use contract::event::{Intent, PlannedStep, Session, Work};
use contract::{Limits, ProjectPath, RunId, StepId, UserId};
use runtime::ports::store::{Admission, Begun, Door, NewChat};
use runtime::ports::world::new_id;
use runtime::ports::{Bus, Listener, Model, Store, Wake, World as _};
use runtime::{Packages, Ports, PreviewAddress, Runtime, Template, Worker};
use sim::servers;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long is waited for a wake-up before looking all the same.
const LOOK: Duration = Duration::from_secs(1);

/// Where stores are made, and with which settings.
pub struct Site {
    /// The setting that figures are told with.
    pub setting: String,
    /// The servers, if the store needs them.
    pub servers: Option<(servers::Postgres, servers::Redis)>,
    folder: tempfile::TempDir,
}

/// One store.
#[derive(Debug, Clone)]
pub struct Place {
    /// The folder of SQLite's file and of the objects.
    pub folder: PathBuf,
    /// The database and the Redis, if that is where the store is.
    pub shared: Option<(String, String)>,
}

impl Site {
    /// The site of `sqlite` or `postgres`.
    pub fn of(store: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("bench-durable-").tempdir_in(env!("CARGO_TARGET_TMPDIR"));
        let folder = folder.expect("a folder");
        if store == "sqlite" {
            let setting = "SQLite, WAL, synchronous=FULL, fdatasync".into();
            return Self { setting, servers: None, folder };
        }
        let (postgres, redis) = (servers::Postgres::start(), servers::Redis::start());
        let version = postgres.ask(&postgres.url(), "SHOW server_version");
        let version = version.split(' ').next().unwrap_or_default();
        let setting = format!("PostgreSQL {version} on this machine, fsync=on, synchronous_commit=on");
        Self { setting, servers: Some((postgres, redis)), folder }
    }

    /// An empty store.
    pub fn place(&self, name: &str) -> Place {
        let shared = self.servers.as_ref().map(|(postgres, redis)| (postgres.new_database(), redis.url()));
        Place { folder: self.folder.path().join(name), shared }
    }
}

/// The limits of the table, but for those that keep a bench from loading the house.
pub fn limits() -> Limits {
    let most = 1_000_000;
    Limits {
        active_runs_per_chat: most,
        active_runs_per_user: most,
        active_runs_global: most,
        runs_per_worker: 2_000,
        model_operations: 2_000,
        response_bytes: 1 << 30,
        ..Limits::default()
    }
}

/// Everything in one process.
pub struct House {
    /// What doors and workers share.
    pub runtime: Arc<Runtime>,
    user: UserId,
    stop: CancellationToken,
    worker: Option<JoinHandle<()>>,
}

/// A run that somebody waits for.
#[derive(Debug, Clone, Copy)]
pub struct Admitted {
    /// Whose it is.
    pub user: UserId,
    /// The run.
    pub run: RunId,
}

impl House {
    /// Opens a store, and a worker of that name if there is one.
    pub async fn open(place: &Place, model: Arc<dyn Model>, limits: Limits, worker: Option<&str>) -> Self {
        let (store, bus) = store(place).await;
        let world = Arc::new(SystemWorld::new());
        let user = store.owner(new_id(world.as_ref()), world.now_ms()).await.expect("an owner");
        let objects = AddressedObjects::local(&place.folder.join("objects")).expect("objects");
        let ports =
            Ports { store, bus, objects: Arc::new(objects), model, sandbox: Arc::new(AbsentSandbox::new()), world };
        let template = Template {
            name: "bench".into(),
            files: vec![],
            packages: BTreeMap::new(),
            instant: Packages::default(),
            output_dir: ProjectPath::parse("dist").expect("a path"),
        };
        let preview = PreviewAddress { host_suffix: "localhost".into(), port: 7420 };
        let runtime = Runtime::new(ports, limits, preview, template);
        let stop = CancellationToken::new();
        let worker = worker.map(|name| tokio::spawn(Worker::new(runtime.clone(), name.into()).run(stop.clone())));
        Self { runtime, user, stop, worker }
    }

    /// The owner, whose all runs are that were not admitted for somebody else.
    pub fn user(&self) -> UserId {
        self.user
    }

    /// Admits a run of the owner in a chat of its own.
    pub async fn admit(&self, work: Work) -> Admitted {
        self.admit_for(self.user, work).await
    }

    /// Somebody else.
    pub fn stranger(&self) -> UserId {
        new_id(self.runtime.ports.world.as_ref())
    }

    /// Admits a run in a chat of its own.
    pub async fn admit_for(&self, user: UserId, work: Work) -> Admitted {
        let world = self.runtime.ports.world.as_ref();
        let run_id: RunId = new_id(world);
        let session = Session {
            chat_id: new_id(world),
            project_id: new_id(world),
            user_message_id: new_id(world),
            assistant_message_id: new_id(world),
            is_new_chat: true,
            request: "do what the bench wants".into(),
            intent: Intent::Generate,
            follow_up: false,
            template: self.runtime.template.name.clone(),
            model: self.runtime.model(),
            work,
            fork: None,
        };
        let admission = Admission {
            user,
            run_id,
            session,
            new_chat: Some(NewChat { title: "bench".into(), slug: run_id.to_string().replace('_', "-") }),
            idempotency_key: None,
            at: world.now_ms(),
            most_active: ["chat", "user", "global"].map(|scope| (scope, u64::MAX)),
            parent: None,
            most_depth: ("child_run_depth", 0),
            alone: false,
            log: Begun::default(),
            door: Door::Message,
        };
        let run = self.runtime.admit(admission).await.expect("admitted").run_id;
        Admitted { user, run }
    }

    /// Listens for the ends of runs.
    pub fn ends(&self) -> Listener {
        self.runtime.ports.bus.listen(Wake::Claimable)
    }

    /// Waits until a run has ended, and gives when that was. Looks at most every `calm`, since looking costs the store something.
    pub async fn ended(&self, of: Admitted, ends: &mut Listener, calm: Duration) -> u64 {
        loop {
            let view = self.runtime.ports.store.run(of.user, of.run).await.expect("the store answers");
            let view = view.expect("the run is there");
            if let Some(ended) = view.ended_at {
                assert_eq!(view.error, None, "the run went well");
                return ended;
            }
            let _elapsed = tokio::time::timeout(LOOK, ends.heard()).await;
            if !calm.is_zero() {
                tokio::time::sleep(calm).await;
            }
        }
    }

    /// Milliseconds since the Unix epoch, by the clock that runs are dated with.
    pub fn now_ms(&self) -> u64 {
        self.runtime.ports.world.now_ms()
    }

    /// Lets the worker hand its runs back, and closes.
    pub async fn close(mut self) {
        self.stop.cancel();
        if let Some(worker) = self.worker.take() {
            worker.await.expect("the worker");
        }
    }
}

async fn store(place: &Place) -> (Arc<dyn Store>, Arc<dyn Bus>) {
    match &place.shared {
        None => {
            let store = Sqlite::open(&place.folder, &Options::default()).expect("a store");
            (Arc::new(store), Arc::new(LocalBus::new()))
        }
        Some((database, redis)) => {
            let lanes = std::env::var("BENCH_LANES").ok().and_then(|l| l.parse().ok()).unwrap_or(2);
            let store = Postgres::open(database, &PostgresOptions { lanes, ..PostgresOptions::default() })
                .await
                .expect("a store");
            (Arc::new(store), Arc::new(RedisBus::open(redis).expect("an address")))
        }
    }
}

/// Bytes of SQLite's file, once it is closed.
pub fn file_bytes(folder: &Path) -> u64 {
    std::fs::metadata(folder.join("baton.db")).map_or(0, |file| file.len())
}

/// Steps that do nothing, each with the steps before it.
pub fn echo(id: String, depends_on: &[String]) -> PlannedStep {
    PlannedStep {
        id: StepId::new(id),
        skill: "echo".into(),
        inputs: serde_json::json!({ "ok": true }),
        depends_on: depends_on.iter().map(StepId::new).collect(),
    }
}

/// A chain of such steps.
pub fn chain(length: usize) -> Work {
    let name = |n: usize| format!("step-{n}");
    let before = |n: usize| if n == 0 { vec![] } else { vec![name(n - 1)] };
    Work::Graph { steps: (0..length).map(|n| echo(name(n), &before(n))).collect() }
}

/// A runtime of its own for a case.
pub fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime")
}
