//! The one place where adapters are chosen: settings in, the parts of a role out (N3, E25).
//!
//! `baton up` is server and worker in one process; each of the two alone is the same code with the other left out. Everything below
//! knows ports alone. It starts nothing but what an adapter needs to be ready, until [`House::open`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use adapters::bus::{LocalBus, RedisBus};
use adapters::model::scripted::demo_scripts;
use adapters::model::{Remote, RemoteConfig, ScriptedModel};
use adapters::objects::AddressedObjects;
use adapters::sandbox::AbsentSandbox;
use adapters::sandbox::local::{LocalSandbox, LocalSandboxConfig};
use adapters::store::postgres::{Postgres, PostgresOptions};
use adapters::store::sqlite::{Options, Sqlite};
use adapters::world::SystemWorld;
use bytes::Bytes;
use contract::Limits;
use contract::event::{ModelRef, Provider};
use metrics_exporter_prometheus::PrometheusBuilder;
use runtime::ports::sandbox::{IsolationLevel, IsolationReport};
use runtime::ports::world::new_id;
use runtime::ports::{Bus, Model, Objects as _, Sandbox, Store, World as _};
use runtime::{Ports, PreviewAddress, Runtime, Worker, sha256};
use server::{OwnerToken, Server, ServerConfig};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::config::{self, ModelSetting, OWNER_TOKEN, Role, Settings, Shared};
use crate::data::{self, DataDir};
use crate::exit::Refusal;
use crate::node;
use crate::template::{self, Prepared};

/// The name of the built-in demo.
const DEMO: &str = "demo";
/// How long the last wake-ups of a process may take to leave it. Whoever misses them polls.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long the goodbye to a database may take. Whoever is not told finds out.
const GOODBYE: Duration = Duration::from_secs(5);

/// The parts of a process, ready to run.
pub struct House {
    server: Option<Server>,
    worker: Option<Worker>,
    kept: Kept,
    bus: Option<Arc<RedisBus>>,
    /// The name by which events know this worker.
    pub name: String,
    /// How generated code is isolated.
    pub isolation: IsolationReport,
}

/// Puts together what a role needs on a data folder. `port` is the server's.
///
/// # Errors
/// What is missing or in the way, with what to do about it.
pub async fn house(
    role: Role,
    settings: &Settings,
    data: &DataDir,
    port: u16,
    demo_speed: f64,
) -> anyhow::Result<House> {
    let (limits, shared) = (settings.limits.clone(), &settings.shared);
    let prepared = template::find(settings.templates.as_deref(), data, &limits)?;
    // First, since SQLite's locks the folder: from then on it is ours alone.
    let kept = store(shared, data, &limits).await?;
    let redis = redis(role, shared)?;
    let folder = objects(shared, data);
    let objects =
        AddressedObjects::local(&folder).map_err(|error| Refusal::failed(error.to_string(), error.action()))?;
    let world = SystemWorld::new();
    if shared.database.is_some() {
        belongs_together(kept.store.as_ref(), &objects, &world, &folder).await?;
    }
    let token = match role {
        Role::Up | Role::Server => Some(token(shared, data, &world)?),
        Role::Worker => None,
    };
    if let Some(token) = token.as_deref().filter(|_| shared.database.is_some()) {
        one_token(token, &folder, &world);
    }
    let (sandbox, isolation) = hands(role, data, &prepared).await?;
    // Processes in containers often have the same number, and the same name.
    let name = format!("{}-{}-{:08x}", node::host_name(), std::process::id(), world.random() >> 96);
    let bus: Arc<dyn Bus> = match &redis {
        Some(redis) => redis.clone(),
        None => Arc::new(LocalBus::new()),
    };
    let ports = Ports {
        store: kept.store.clone(),
        bus,
        objects: Arc::new(objects),
        model: model(&settings.model, &limits, demo_speed)?,
        sandbox,
        world: Arc::new(world),
    };
    let (host_suffix, preview_port) = shared.previews(port);
    let preview = PreviewAddress { host_suffix, port: preview_port };
    let runtime = Runtime::new(ports, limits, preview, prepared.template);
    runtime.keep_private(private(settings, data));
    let server = token.map(|token| server(role, &runtime, port, &OwnerToken::new(&token))).transpose()?;
    let worker = match role {
        Role::Up | Role::Worker => Some(Worker::new(runtime, name.clone())),
        // What was stopped before it began ends also where no worker is.
        Role::Server => Some(Worker::ending(runtime, name.clone())),
    };
    Ok(House { server, worker, kept, bus: redis, name, isolation })
}

/// What no run that is exported may hold, as far as it is known: keys, folders and the name of this machine.
fn private(settings: &Settings, data: &DataDir) -> Vec<String> {
    let key = match &settings.model {
        ModelSetting::Remote { key: Some(key), .. } => Some(key.expose().to_owned()),
        ModelSetting::Remote { key: None, .. } | ModelSetting::Demo => None,
    };
    let token = settings.shared.owner_token.as_ref().map(|token| token.expose().to_owned());
    let services = [&settings.shared.database, &settings.shared.redis];
    let services = services.into_iter().flatten().filter_map(|url| url.password());
    let folders = [data.path().to_str().map(str::to_owned), config::environment("HOME")];
    folders.into_iter().chain([key, token, Some(node::host_name())]).flatten().chain(services).collect()
}

fn server(role: Role, runtime: &Arc<Runtime>, port: u16, owner_token: &OwnerToken) -> anyhow::Result<Server> {
    let metrics = PrometheusBuilder::new().install_recorder().map_err(|error| {
        Refusal::failed(format!("metrics cannot be recorded: {error}"), "this is a fault of Baton: report it")
    })?;
    let server = Server::new(ServerConfig { runtime: runtime.clone(), port, owner_token: *owner_token, metrics });
    Ok(match role {
        Role::Up => server,
        Role::Server | Role::Worker => server.among_others(),
    })
}

/// The owner's token: of the environment, or else the one that all servers of the data folder share.
fn token(shared: &Shared, data: &DataDir, world: &SystemWorld) -> anyhow::Result<String> {
    match &shared.owner_token {
        Some(token) => Ok(token.expose().to_owned()),
        None => data.token_or(&|| world.random()),
    }
}

/// Says so if the servers that started before have another owner's token: whoever signed in there is nobody here.
fn one_token(token: &str, objects: &Path, world: &SystemWorld) {
    let path = objects.join("owner-token.sha256");
    match data::agrees(&path, &sha256(token.as_bytes()), &|| world.random()) {
        Ok(true) => {}
        Ok(false) => tracing::warn!(
            "the owner's token of this server is not that of the servers that started before: give all of them the same with \
             {OWNER_TOKEN} (`baton token` prints it), or one data folder. If it was changed on purpose, delete {}",
            path.display()
        ),
        Err(error) => tracing::warn!(%error, "whether all servers have one owner's token cannot be told"),
    }
}

impl House {
    /// Begins: takes connections if it has a server, and runs if it has a worker, until `stop`.
    pub fn open(self, listener: Option<TcpListener>, stop: &CancellationToken) -> Open {
        let mut parts = JoinSet::new();
        if let Some(worker) = self.worker {
            let stop = stop.clone();
            parts.spawn(async move {
                worker.run(stop).await;
                Ok(())
            });
        }
        if let Some((server, listener)) = self.server.zip(listener) {
            parts.spawn(server.serve(listener, stop.clone()));
        }
        Open { parts, kept: self.kept, bus: self.bus, stop: stop.clone() }
    }
}

/// A house at work.
pub struct Open {
    parts: JoinSet<std::io::Result<()>>,
    kept: Kept,
    bus: Option<Arc<RedisBus>>,
    stop: CancellationToken,
}

impl Open {
    /// Waits for the end of all parts: runs are handed back, and others are told so.
    ///
    /// # Errors
    /// If a part failed. Then none goes on: messages that nobody works on, or work that nobody can see.
    pub async fn end(mut self) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        while let Some(ended) = self.parts.join_next().await {
            self.stop.cancel();
            let ended = ended.map_err(anyhow::Error::from).and_then(|ended| ended.map_err(anyhow::Error::from));
            outcome = outcome.and(ended);
        }
        if let Some(bus) = &self.bus {
            bus.flush(LAST_WORDS).await;
        }
        self.kept.close().await;
        outcome
    }
}

/// A store that is open.
pub struct Kept {
    store: Arc<dyn Store>,
    /// The same where others share it.
    postgres: Option<Arc<Postgres>>,
}

impl Kept {
    /// Says goodbye to those who share it, so that they need not find out what became of this process. Within `GOODBYE`.
    pub async fn close(self) {
        if let Some(postgres) = &self.postgres
            && timeout(GOODBYE, postgres.close()).await.is_err()
        {
            tracing::warn!("the database was not told goodbye: it does not answer");
        }
    }
}

/// The store: PostgreSQL where a database is named, else SQLite in the data folder.
///
/// # Errors
/// If it cannot be used: it does not answer, is newer than this program, or belongs to another process.
pub async fn store(shared: &Shared, data: &DataDir, limits: &Limits) -> anyhow::Result<Kept> {
    if let Some(url) = &shared.database {
        let store = Postgres::open(url.expose(), &PostgresOptions::from(limits)).await;
        let store = Arc::new(store.map_err(|error| Refusal::failed(error.to_string(), error.action()))?);
        return Ok(Kept { store: store.clone(), postgres: Some(store) });
    }
    let commit_events = usize::try_from(limits.commit_batch).unwrap_or(usize::MAX);
    let store = Sqlite::open(data.path(), &Options { commit_events, ..Options::default() });
    let store = store.map_err(|error| Refusal::failed(error.to_string(), error.action()))?;
    Ok(Kept { store: Arc::new(store), postgres: None })
}

/// The bus between processes, if there is one and this role has use for it. That it does not answer is no error.
fn redis(role: Role, shared: &Shared) -> anyhow::Result<Option<Arc<RedisBus>>> {
    let alone = role == Role::Up && shared.database.is_none();
    let Some(url) = shared.redis.as_ref().filter(|_| !alone) else { return Ok(None) };
    let bus = RedisBus::open(url.expose());
    bus.map(|bus| Some(Arc::new(bus))).map_err(|error| Refusal::usage(format!("{url}: {error}"), error.action()))
}

/// Where objects are kept.
pub fn objects(shared: &Shared, data: &DataDir) -> PathBuf {
    shared.objects.clone().unwrap_or_else(|| data.path().join("objects"))
}

/// Makes sure that the objects are those of the database, before a run is claimed whose files are elsewhere: an object that is
/// named by the database's owner is put there with the first start.
async fn belongs_together(
    store: &dyn Store,
    objects: &AddressedObjects,
    world: &SystemWorld,
    folder: &Path,
) -> anyhow::Result<()> {
    let owner = store.owner(new_id(world), world.now_ms()).await?;
    let mark = Bytes::from(format!("These are the objects of the database of {owner}.\n"));
    if objects.get(&sha256(&mark)).await?.is_none() {
        if !store.runs(owner, None, None, 1).await?.items.is_empty() {
            return Err(Refusal::failed(
                format!("{} does not hold the files of this database's projects", folder.display()),
                "give all servers and workers the same folder with BATON_OBJECTS (on several machines: a shared one)",
            ));
        }
        objects.put(mark).await?;
    }
    Ok(())
}

/// Where generated code runs, if it runs in this process.
async fn hands(role: Role, data: &DataDir, prepared: &Prepared) -> anyhow::Result<(Arc<dyn Sandbox>, IsolationReport)> {
    let sandbox: Arc<dyn Sandbox> = match role {
        Role::Up | Role::Worker => Arc::new(sandbox(data, Some(prepared)).await?),
        Role::Server => Arc::new(AbsentSandbox::new()),
    };
    let isolation = sandbox.report().clone();
    if isolation.level == IsolationLevel::Refused {
        tracing::warn!(reason = isolation.reason, "the sandbox is refused here: runs will fail; see `baton doctor`");
    }
    Ok((sandbox, isolation))
}

/// The sandbox on a data folder, with the template's dependencies if there is one.
///
/// # Errors
/// If a folder that it needs cannot be used. Where the system refuses isolation, its report says so.
pub async fn sandbox(data: &DataDir, prepared: Option<&Prepared>) -> anyhow::Result<LocalSandbox> {
    let mut config = LocalSandboxConfig::new(data.path());
    config.template_dir = prepared.map(|prepared| prepared.folder.clone());
    config.node_dir = node::find().await.and_then(|node| node.outside_usr);
    LocalSandbox::new(config).await.map_err(|error| Refusal::failed(error.to_string(), error.action()))
}

fn model(setting: &ModelSetting, limits: &Limits, demo_speed: f64) -> anyhow::Result<Arc<dyn Model>> {
    match setting {
        ModelSetting::Demo => {
            let scripts = demo_scripts()
                .map_err(|error| Refusal::failed(error.to_string(), "this is a fault of Baton: report it"))?;
            let reference = ModelRef { provider: Provider::Demo, name: DEMO.into() };
            Ok(Arc::new(ScriptedModel::new(scripts.at_speed(demo_speed), reference).with_limits(limits)))
        }
        ModelSetting::Remote { provider, name, url, key } => {
            let config = RemoteConfig {
                provider: *provider,
                base_url: url.clone(),
                key: key.clone(),
                model: name.clone(),
                limits: limits.clone(),
            };
            Ok(Arc::new(remote(config)?))
        }
    }
}

fn remote(config: RemoteConfig) -> anyhow::Result<Remote> {
    Remote::new(config)
        .map_err(|error| Refusal::usage(error.to_string(), "see BATON_MODEL, BATON_MODEL_URL and BATON_MODEL_KEY"))
}

/// Asks the model's server whether it takes the key and has the model, which costs nothing. Nothing to ask for the demo.
///
/// # Errors
/// What the server said, or that it does not answer.
pub async fn confirm(settings: &Settings) -> anyhow::Result<()> {
    let ModelSetting::Remote { provider, name, url, key } = &settings.model else { return Ok(()) };
    let config = RemoteConfig {
        provider: *provider,
        base_url: url.clone(),
        key: key.clone(),
        model: name.clone(),
        limits: settings.limits.clone(),
    };
    Ok(remote(config)?.confirm().await?)
}

/// The model for a person; a key only as stars.
pub fn model_words(setting: &ModelSetting) -> String {
    match setting {
        ModelSetting::Demo => {
            "demo, a built-in script and no AI model (BATON_MODEL, BATON_MODEL_URL and BATON_MODEL_KEY set a real one)"
                .into()
        }
        ModelSetting::Remote { provider, name, url, key } => {
            let key = if key.is_some() { "key ***" } else { "no key" };
            format!("{name} of {} at {url}, {key}", config::provider_words(*provider))
        }
    }
}

/// How generated code is isolated, for a person.
pub fn isolation_words(level: IsolationLevel) -> &'static str {
    match level {
        IsolationLevel::Full => "full isolation",
        IsolationLevel::Soft => "soft isolation; `baton doctor` says what is missing",
        IsolationLevel::Refused => "refused here, so runs will fail; `baton doctor` says what to do",
        IsolationLevel::Elsewhere => "of the workers",
    }
}
