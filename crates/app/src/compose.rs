//! The one place where adapters are chosen: settings in, a server and a worker out (N3).
//!
//! Everything below it knows ports alone. It starts nothing but what an adapter needs to be ready.

use std::sync::Arc;

use adapters::bus::LocalBus;
use adapters::model::scripted::demo_scripts;
use adapters::model::{Compatible, CompatibleConfig, ScriptedModel};
use adapters::objects::AddressedObjects;
use adapters::sandbox::local::{LocalSandbox, LocalSandboxConfig};
use adapters::store::sqlite::{Options, Sqlite};
use adapters::world::SystemWorld;
use contract::Limits;
use contract::event::{ModelRef, Provider};
use metrics_exporter_prometheus::PrometheusBuilder;
use runtime::ports::sandbox::{IsolationLevel, IsolationReport};
use runtime::ports::{Model, Sandbox as _, World as _};
use runtime::{Ports, PreviewAddress, Runtime, Worker};
use server::{OwnerToken, Server, ServerConfig};

use crate::config::{ModelSetting, Settings};
use crate::data::DataDir;
use crate::exit::Refusal;
use crate::node;
use crate::template::{self, Prepared};

/// Below this name browsers find this machine, whatever comes before it (RFC 6761).
const PREVIEWS: &str = "localhost";
/// The name of the built-in demo.
const DEMO: &str = "demo";

/// The parts that run.
pub struct House {
    /// The doors.
    pub server: Server,
    /// The hands.
    pub worker: Worker,
    /// How generated code is isolated.
    pub isolation: IsolationReport,
}

/// Puts everything together on a data folder, for previews on this port.
///
/// # Errors
/// What is missing or in the way, with what to do about it.
pub async fn house(settings: &Settings, data: &DataDir, port: u16, demo_speed: f64) -> anyhow::Result<House> {
    let limits = settings.limits.clone();
    let prepared = template::find(settings.templates.as_deref(), data, &limits)?;
    let options =
        Options { commit_events: usize::try_from(limits.commit_batch).unwrap_or(usize::MAX), ..Options::default() };
    let store =
        Sqlite::open(data.path(), &options).map_err(|error| Refusal::failed(error.to_string(), error.action()))?;
    // The store has locked the folder: from here on it is ours alone.
    let world = SystemWorld::new();
    let token = data.token_or([world.random(), world.random()])?;
    let objects = AddressedObjects::local(&data.path().join("objects"))
        .map_err(|error| Refusal::failed(error.to_string(), error.action()))?;
    let sandbox = sandbox(data, Some(&prepared)).await?;
    let isolation = sandbox.report().clone();
    if isolation.level == IsolationLevel::Refused {
        tracing::warn!(reason = isolation.reason, "the sandbox is refused here: runs will fail; see `baton doctor`");
    }
    let ports = Ports {
        store: Arc::new(store),
        bus: Arc::new(LocalBus::new()),
        objects: Arc::new(objects),
        model: model(&settings.model, &limits, demo_speed)?,
        sandbox: Arc::new(sandbox),
        world: Arc::new(world),
    };
    let preview = PreviewAddress { host_suffix: PREVIEWS.into(), port };
    let runtime = Runtime::new(ports, limits, preview, prepared.template);
    let metrics = PrometheusBuilder::new().install_recorder().map_err(|error| {
        Refusal::failed(format!("metrics cannot be recorded: {error}"), "this is a fault of Baton: report it")
    })?;
    let server =
        Server::new(ServerConfig { runtime: runtime.clone(), port, owner_token: OwnerToken::new(&token), metrics });
    let worker = Worker::new(runtime, format!("{}-{}", node::host_name(), std::process::id()));
    Ok(House { server, worker, isolation })
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
        ModelSetting::Compatible { name, url, key } => {
            let config = CompatibleConfig {
                base_url: url.clone(),
                key: key.clone(),
                model: name.clone(),
                limits: limits.clone(),
            };
            let model = Compatible::new(config).map_err(|error| {
                Refusal::usage(error.to_string(), "see BATON_MODEL, BATON_MODEL_URL and BATON_MODEL_KEY")
            })?;
            Ok(Arc::new(model))
        }
    }
}

/// The model for a person; a key only as stars.
pub fn model_words(setting: &ModelSetting) -> String {
    match setting {
        ModelSetting::Demo => {
            "demo, a built-in script and no AI model (BATON_MODEL, BATON_MODEL_URL and BATON_MODEL_KEY set a real one)"
                .into()
        }
        ModelSetting::Compatible { name, url, key } => {
            format!("{name} at {url}, {}", if key.is_some() { "key ***" } else { "no key" })
        }
    }
}
