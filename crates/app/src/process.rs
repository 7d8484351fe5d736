//! A process that stays: what `baton up`, `server` and `worker` have in common, from their flags to the signal that ends them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use contract::api::SessionLink;
use reqwest::header::HeaderMap;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::client::{self, Client, ClientArgs};
use crate::compose::{self, House};
use crate::config::{self, Raw, Role, Settings};
use crate::data::{DataDir, Running};
use crate::exit::Refusal;
use crate::{node, output};

/// Where a process finds what it works with.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// Data folder [default: $XDG_DATA_HOME/baton or ~/.local/share/baton]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Folder of prepared templates [default: `templates` in the data folder]
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,
    /// Name of the model, as its server calls it [env: BATON_MODEL] [default: demo, a built-in script]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Base URL of the model's server [env: BATON_MODEL_URL]; a key is given as BATON_MODEL_KEY
    #[arg(long, value_name = "URL")]
    model_url: Option<String>,
    /// Divide the demo's delays by this; 0: no delays at all
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = speed)]
    demo_speed: f64,
}

/// Where a process that takes connections does.
#[derive(Debug, Args)]
pub struct DoorArgs {
    /// Port on 127.0.0.1; 0: any that is free [default: 7420]
    #[arg(long, value_name = "N")]
    port: Option<u16>,
}

/// A process about to begin: settings that were found good, and its data folder.
pub struct Process {
    /// What it is for.
    pub role: Role,
    /// The settings.
    pub settings: Settings,
    /// The data folder.
    pub data: DataDir,
    demo_speed: f64,
}

impl Process {
    /// Reads and judges the settings, and says what a person should know of them.
    ///
    /// # Errors
    /// Every fault of the settings at once.
    pub fn prepare(role: Role, place: PlaceArgs, door: Option<&DoorArgs>) -> anyhow::Result<Self> {
        let data = DataDir::find(place.data.as_deref(), &config::environment)?;
        data.make()?;
        let raw = Raw {
            role,
            model: place.model,
            model_url: place.model_url,
            port: door.and_then(|door| door.port),
            templates: place.templates,
            ..Raw::default()
        };
        let settings = raw.with_surroundings(&data)?.resolve().map_err(|faults| config::refusal(&faults))?;
        settings.warnings.iter().for_each(|warning| output::note(&format!("baton: {warning}")));
        Ok(Self { role, settings, data, demo_speed: place.demo_speed })
    }

    /// Listens on the port of the settings.
    ///
    /// # Errors
    /// If it is taken.
    pub async fn listen(&self) -> anyhow::Result<TcpListener> {
        let (port, command) = (self.settings.port, self.role.name());
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let error = match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) => error,
        };
        if error.kind() != std::io::ErrorKind::AddrInUse {
            let what = format!("cannot listen on port {port}: {error}");
            return Err(Refusal::failed(what, "choose another with --port"));
        }
        let by = if is_baton(port).await { "a Baton that runs" } else { "another program" };
        let next = port.saturating_add(1);
        let action = format!("choose another: `baton {command} --port {next}` (0: any that is free)");
        Err(Refusal::failed(format!("port {port} is taken by {by}"), action))
    }

    /// Puts the process together.
    ///
    /// # Errors
    /// What is missing or in the way, with what to do about it.
    pub async fn house(&self, port: u16) -> anyhow::Result<House> {
        compose::house(self.role, &self.settings, &self.data, port, self.demo_speed).await
    }

    /// What a server tells commands about itself.
    pub fn running(port: u16) -> Running {
        Running { host: node::host_name(), pid: std::process::id(), port, url: format!("http://127.0.0.1:{port}") }
    }

    /// A link that signs a browser in, from the server of this process.
    ///
    /// # Errors
    /// If that does not answer.
    pub async fn link(&self, running: &Running) -> anyhow::Result<String> {
        let args =
            ClientArgs { server: Some(running.url.clone()), data: Some(self.data.path().to_owned()), json: false };
        let link: SessionLink = Client::new(&args)?.post("/v1/session/codes", &json!({}), HeaderMap::new()).await?;
        Ok(link.url)
    }

    /// What the process works with, for a person, a line each; passwords only as stars.
    pub fn words(&self, port: u16) -> Vec<String> {
        let shared = &self.settings.shared;
        let mut lines = vec![format!("  model     {}", compose::model_words(&self.settings.model))];
        if let Some(database) = &shared.database {
            let bus =
                shared.redis.as_ref().map_or_else(|| "polling".to_owned(), |redis| format!("{redis}, and polling"));
            let (host, preview_port) = shared.previews(port);
            lines.push(format!("  database  {database}"));
            lines.push(format!("  wake-ups  {bus}"));
            lines.push(format!("  objects   {}", compose::objects(shared, &self.data).display()));
            lines.push(format!("  previews  http://<project>.{host}:{preview_port}/"));
        }
        lines.push(format!("  data      {}", self.data.path().display()));
        lines
    }
}

/// Whether a Baton answers on a port of this machine.
async fn is_baton(port: u16) -> bool {
    match client::http() {
        Ok(http) => client::is_alive(&http, &format!("http://127.0.0.1:{port}")).await,
        Err(_) => false,
    }
}

/// Cancelled when the process is told to stop.
///
/// # Errors
/// If signals cannot be listened for.
#[expect(clippy::disallowed_methods, reason = "owns the task that waits for a signal, which ends with the process")]
pub fn stop_signal() -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // The terminal was closed.
    let mut hang_up = signal(SignalKind::hangup())?;
    let token = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
        token.cancel();
    });
    Ok(stop)
}

/// A factor for delays: 0 or more.
///
/// # Errors
/// If the text is none.
pub fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse::<f64>().map_err(|error| error.to_string())?;
    if speed.is_finite() && speed >= 0.0 { Ok(speed) } else { Err("write a number that is 0 or more".into()) }
}
