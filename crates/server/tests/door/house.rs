//! A server as it is, on a port of its own: the real routes, the real store in a temporary folder, and a log that a test writes.

#![expect(clippy::disallowed_methods, reason = "the house starts its server")]

pub mod wire;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use adapters::bus::LocalBus;
use adapters::store::sqlite::{Options, Sqlite};
use async_trait::async_trait;
use bytes::Bytes;
use contract::api::{Accepted, RunStatus};
use contract::event::{
    Author, FileCompleted, FileDelta, FileStarted, ModelRef, NewEvent, PreviewKind, PreviewUrl, Provider, RunCompleted,
    StopReason, TextDelta,
};
use contract::{Event, Limits, ProjectPath, RunId, UserId, VersionId};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use runtime::ports::objects::ObjectsError;
use runtime::ports::sandbox::{IsolationLevel, IsolationReport, SandboxError, WorkspaceSpec};
use runtime::ports::store::{Append, Claim, Entry, PublishedVersion, RowChange};
use runtime::ports::world::new_id;
use runtime::ports::{Model, ModelError, ModelRequest, Objects, Sandbox, Wake, Workspace, World};
use runtime::{Manifest, Ports, PreviewAddress, Runtime, Template};
use server::{OwnerToken, Server, ServerConfig};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use wire::{Answer, Ask, Connection, Events};

pub const TOKEN: &str = "6f776e65722773746f6b656e6f776e65722773746f6b656e6f776e6572277374";
/// No wait of a test is longer.
pub const PATIENCE: Duration = Duration::from_secs(30);

static METRICS: LazyLock<PrometheusHandle> = LazyLock::new(|| PrometheusBuilder::new().install_recorder().unwrap());

/// A clock that a test moves, and dice that always fall alike.
pub struct TestWorld {
    ms: AtomicU64,
    thrown: AtomicU64,
}

impl TestWorld {
    pub fn pass(&self, ms: u64) {
        self.ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl World for TestWorld {
    fn now_ms(&self) -> u64 {
        self.ms.load(Ordering::SeqCst)
    }

    fn random(&self) -> u128 {
        let thrown = self.thrown.fetch_add(1, Ordering::SeqCst);
        let hash: [u8; 32] = Sha256::digest(thrown.to_le_bytes()).into();
        u128::from_le_bytes(hash[..16].try_into().unwrap())
    }

    fn monotonic_ms(&self) -> u64 {
        self.now_ms()
    }
}

#[derive(Default)]
struct TestObjects(Mutex<HashMap<String, Bytes>>);

#[async_trait]
impl Objects for TestObjects {
    async fn put(&self, bytes: Bytes) -> Result<String, ObjectsError> {
        let hash: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        self.0.lock().unwrap().insert(hash.clone(), bytes);
        Ok(hash)
    }

    async fn get(&self, sha256: &str) -> Result<Option<Bytes>, ObjectsError> {
        Ok(self.0.lock().unwrap().get(sha256).cloned())
    }
}

struct NoModel;

#[async_trait]
impl Model for NoModel {
    fn reference(&self) -> ModelRef {
        ModelRef { provider: Provider::Demo, name: "demo".into() }
    }

    fn named(&self, name: &str) -> Option<ModelRef> {
        ["demo", "other"].contains(&name).then(|| ModelRef { provider: Provider::Demo, name: name.into() })
    }

    async fn stream(&self, _: ModelRequest) -> Result<runtime::ports::model::ModelStream, ModelError> {
        unreachable!("no worker runs here")
    }
}

struct NoSandbox(IsolationReport);

#[async_trait]
impl Sandbox for NoSandbox {
    fn report(&self) -> &IsolationReport {
        &self.0
    }

    async fn open(&self, _: WorkspaceSpec) -> Result<Arc<dyn Workspace>, SandboxError> {
        unreachable!("no worker runs here")
    }
}

/// The server, and everything round it that a test touches.
pub struct House {
    pub port: u16,
    pub runtime: Arc<Runtime>,
    pub world: Arc<TestWorld>,
    pub owner: UserId,
    pub stop: CancellationToken,
    pub served: JoinHandle<std::io::Result<()>>,
    _data: tempfile::TempDir,
}

impl House {
    pub async fn open() -> Self {
        Self::with(Limits { active_runs_per_user: 10_000, active_runs_global: 10_000, ..Limits::default() }).await
    }

    pub async fn with(limits: Limits) -> Self {
        let data = tempfile::tempdir().unwrap();
        let world = Arc::new(TestWorld { ms: AtomicU64::new(1_700_000_000_000), thrown: AtomicU64::new(0) });
        let report = IsolationReport {
            backend: "none".into(),
            level: IsolationLevel::Refused,
            reason: None,
            remedy: vec!["Ask for one.".into()],
            features: Vec::new(),
        };
        let ports = Ports {
            store: Arc::new(Sqlite::open(data.path(), &Options::default()).unwrap()),
            bus: Arc::new(LocalBus::new()),
            objects: Arc::new(TestObjects::default()),
            model: Arc::new(NoModel),
            sandbox: Arc::new(NoSandbox(report)),
            world: world.clone(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let template = Template {
            name: "none".into(),
            files: Vec::new(),
            packages: std::collections::BTreeMap::new(),
            instant: runtime::Packages::default(),
            output_dir: path("dist"),
        };
        let preview = PreviewAddress { host_suffix: "localhost".into(), port };
        let runtime = Runtime::new(ports, limits, preview, template);
        let owner = runtime.ports.store.owner(new_id(&*world), world.now_ms()).await.unwrap();
        let stop = CancellationToken::new();
        let config = ServerConfig {
            runtime: runtime.clone(),
            port,
            owner_token: OwnerToken::new(TOKEN),
            metrics: METRICS.clone(),
        };
        let served = Box::pin(Server::new(config).serve(listener, stop.clone()));
        let served = tokio::task::spawn(served as Pin<Box<dyn Future<Output = _> + Send>>);
        Self { port, runtime, world, owner, stop, served, _data: data }
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Sends exactly this.
    pub async fn raw(&self, ask: &Ask<'_>) -> Answer {
        let whole = async {
            let mut connection = Connection::open(self.port).await;
            connection.send(&ask.bytes()).await;
            match ask.method {
                "HEAD" => connection.head().await,
                _ => connection.whole().await,
            }
        };
        tokio::time::timeout(PATIENCE, whole).await.expect("an answer in time")
    }

    /// Asks as the owner's programs do.
    pub async fn ask(&self, method: &str, target: &str, body: Option<serde_json::Value>) -> Answer {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let mut headers = vec![("Host", self.host()), ("Authorization", format!("Bearer {TOKEN}"))];
        if !body.is_empty() {
            headers.push(("Content-Type", "application/json".into()));
        }
        self.raw(&Ask { method, target, headers, body: body.as_bytes() }).await
    }

    /// Opens a stream of events as the owner.
    pub async fn events(&self, target: &str, last_event_id: Option<&str>) -> (Answer, Events) {
        let mut headers = vec![("Host", self.host()), ("Authorization", format!("Bearer {TOKEN}"))];
        headers.extend(last_event_id.map(|id| ("Last-Event-ID", id.to_owned())));
        let mut connection = Connection::open(self.port).await;
        connection.send(&Ask { method: "GET", target, headers, body: &[] }.bytes()).await;
        (connection.head().await, Events::new(connection))
    }

    /// A run of the owner's, in the test's hands.
    pub async fn log(&self) -> Log {
        self.log_of(self.owner).await
    }

    pub async fn log_of(&self, user: UserId) -> Log {
        let accepted = self.runtime.send(user, None, "a to-do list", None).await.unwrap();
        let claims = self.runtime.ports.store.claim("test", 64, self.world.now_ms(), u64::MAX / 4).await.unwrap();
        let claim = claims.into_iter().find(|claim| claim.run_id == accepted.run_id).unwrap();
        Log { runtime: self.runtime.clone(), accepted, claim, end: 2 }
    }
}

/// A run that a test writes.
pub struct Log {
    runtime: Arc<Runtime>,
    pub accepted: Accepted,
    claim: Claim,
    pub end: u64,
}

impl Log {
    pub fn run(&self) -> RunId {
        self.accepted.run_id
    }

    pub async fn append(&mut self, events: Vec<Event>, rows: Vec<RowChange>, ends: bool) {
        let events =
            events.into_iter().map(|event| Entry::of(&NewEvent { at: 1, step: None, event }).unwrap()).collect();
        let append = Append { claim: self.claim, after: self.end, events, rows, consumed: Vec::new(), ends };
        self.end = self.runtime.ports.store.append(append).await.unwrap();
        self.runtime.ports.bus.send(Wake::Appended(self.run()));
    }

    /// Prose, one event for each text.
    pub async fn write(&mut self, texts: impl IntoIterator<Item = String>) {
        let events = texts.into_iter().map(|text| TextDelta { text }.into()).collect();
        self.append(events, Vec::new(), false).await;
    }

    pub async fn finish(&mut self) {
        let done = RunCompleted { stop_reason: StopReason::Done, result: "done".into() };
        let (status, stop_reason) = (RunStatus::Completed, Some(StopReason::Done));
        let row = RowChange::Run { status, stop_reason, code: None, error: None, at: 1 };
        self.append(vec![done.into()], vec![row], true).await;
    }

    /// Files of the model, each written and closed.
    pub async fn files(&mut self, files: &[(&str, &str)]) {
        let write = |(name, text): &(&str, &str)| {
            let (path, bytes) = (path(name), text.len() as u64);
            let sha256 = sha256(text);
            [
                FileStarted { path: path.clone() }.into(),
                FileDelta { path: path.clone(), offset: 0, text: (*text).to_owned() }.into(),
                FileCompleted { path, bytes, sha256, by: Author::Model }.into(),
            ]
        };
        self.append(files.iter().flat_map(write).collect(), Vec::new(), false).await;
    }

    /// Says that the files as they are make a page.
    pub async fn shows_instantly(&mut self) {
        let (url, host, kind) = (String::new(), String::new(), PreviewKind::Instant);
        let shown = PreviewUrl { url, host, kind, version: None, revision: Some("0".into()) };
        self.append(vec![shown.into()], Vec::new(), false).await;
    }

    /// First label of the preview's host.
    pub async fn slug(&self) -> String {
        self.runtime.ports.store.project(self.accepted.project_id).await.unwrap().unwrap().slug
    }

    /// Publishes a build with these files; gives the preview's slug.
    pub async fn publish(&mut self, files: &[(&str, &'static [u8])]) -> String {
        let ports = &self.runtime.ports;
        let files = files.iter().map(|(name, bytes)| (path(name), Bytes::from_static(bytes)));
        let output = Manifest::store(ports.objects.as_ref(), files).await.unwrap();
        let id: VersionId = new_id(ports.world.as_ref());
        let version = PublishedVersion {
            id,
            project_id: self.accepted.project_id,
            parent: None,
            run_id: self.run(),
            summary: "first".into(),
            files: output.clone(),
            output,
            at: 1,
        };
        self.append(vec![TextDelta { text: "published".into() }.into()], vec![RowChange::Publish(version)], false)
            .await;
        self.slug().await
    }
}

fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn path(text: &str) -> ProjectPath {
    ProjectPath::parse(text).unwrap()
}
