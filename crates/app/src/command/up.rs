//! `baton up`: everything in one process, on this machine alone.

#![expect(clippy::disallowed_methods, reason = "owns the tasks of the server, and asks the desktop to open a link")]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;

use clap::Args;
use contract::api::SessionLink;
use reqwest::header::HeaderMap;
use runtime::ports::sandbox::IsolationLevel;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::client::{Client, ClientArgs, http, is_alive};
use crate::compose;
use crate::config::{self, Raw, Settings};
use crate::data::{DataDir, Running};
use crate::exit::{Exit, Refusal};
use crate::output;

/// Arguments of `baton up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// Data folder [default: $XDG_DATA_HOME/baton or ~/.local/share/baton]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Port on 127.0.0.1; 0: any that is free [default: 7420]
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Do not open a browser
    #[arg(long)]
    no_open: bool,
    /// Folder of prepared templates [default: `templates` in the data folder]
    #[arg(long, value_name = "DIR")]
    templates: Option<PathBuf>,
    /// Name of the model, as its server calls it [env: BATON_MODEL] [default: demo, a built-in script]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Base URL of an OpenAI-compatible server [env: BATON_MODEL_URL]; a key is given as BATON_MODEL_KEY
    #[arg(long, value_name = "URL")]
    model_url: Option<String>,
    /// Divide the demo's delays by this; 0: no delays at all
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = speed)]
    demo_speed: f64,
}

/// Starts, says where it is, and serves until it is told to stop.
///
/// # Errors
/// What is missing or in the way, with what to do about it.
pub async fn perform(args: UpArgs) -> anyhow::Result<Exit> {
    let data = DataDir::find(args.data.as_deref(), &config::environment)?;
    data.make()?;
    let raw = Raw {
        model: args.model,
        model_url: args.model_url,
        port: args.port,
        templates: args.templates,
        ..Raw::default()
    };
    let settings = raw.with_surroundings(&data)?.resolve().map_err(|faults| config::refusal(&faults))?;
    settings.warnings.iter().for_each(|warning| output::note(&format!("baton: {warning}")));
    // Before the store, whose lock would only say that somebody has the folder.
    refuse_second(&data).await?;
    let listener = listen(settings.port).await?;
    let port = listener.local_addr()?.port();
    let stop = stop_signal()?;
    let house = compose::house(&settings, &data, port, args.demo_speed).await?;
    let running = Running { pid: std::process::id(), port, url: format!("http://127.0.0.1:{port}") };
    let mut worker = tokio::spawn(house.worker.run(stop.clone()));
    let mut server = tokio::spawn(house.server.serve(listener, stop.clone()));
    data.set_running(&running)?;
    let told = welcome(&data, &settings, &running, house.isolation.level, !args.no_open).await;
    if told.is_err() {
        // Such as a closed pipe: nobody reads, and the server serves all the same, unless it is the server that failed.
        tracing::warn!("the link could not be shown; `baton token --link` prints a new one");
    }
    // Neither goes on without the other: messages that nobody works on, or work that nobody can see. Mostly both were told to stop.
    let (served, worked) = tokio::select! {
        served = &mut server => {
            stop.cancel();
            (served, worker.await)
        }
        worked = &mut worker => {
            stop.cancel();
            (server.await, worked)
        }
    };
    data.clear_running(running.pid);
    worked?;
    served??;
    Ok(Exit::Done)
}

/// Refuses to start where a Baton already serves the data folder.
async fn refuse_second(data: &DataDir) -> anyhow::Result<()> {
    let Some(running) = data.running() else { return Ok(()) };
    if !is_alive(&http()?, &running.url).await {
        return Ok(());
    }
    Err(Refusal::failed(
        format!("Baton already runs on {}: {} (process {})", data.path().display(), running.url, running.pid),
        format!("`baton token --link` prints a link to it; `kill {}` stops it", running.pid),
    ))
}

async fn listen(port: u16) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => Refusal::failed(
            format!("port {port} is taken by another program"),
            format!("choose another: `baton up --port {}` (0: any that is free)", port.saturating_add(1)),
        ),
        _ => Refusal::failed(format!("cannot listen on port {port}: {error}"), "choose another with --port"),
    })
}

/// Prints a link that signs a browser in, and opens it where there is a desktop.
async fn welcome(
    data: &DataDir,
    settings: &Settings,
    running: &Running,
    isolation: IsolationLevel,
    open: bool,
) -> anyhow::Result<()> {
    let args = ClientArgs { server: Some(running.url.clone()), data: Some(data.path().to_owned()), json: false };
    let link: SessionLink = Client::new(&args)?.post("/v1/session/codes", &json!({}), HeaderMap::new()).await?;
    if open && config::has_display() {
        // Whether it worked is seen on the screen; the link below works as well.
        let _ = Command::new("xdg-open")
            .arg(&link.url)
            .env_remove("BATON_MODEL_KEY")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
    }
    let isolation = match isolation {
        IsolationLevel::Full => "full isolation",
        IsolationLevel::Soft => "soft isolation; `baton doctor` says what is missing",
        IsolationLevel::Refused => "refused here, so runs will fail; `baton doctor` says what to do",
    };
    let lines = [
        format!("Baton is up: {}", running.url),
        format!("  model    {}", compose::model_words(&settings.model)),
        format!("  sandbox  {isolation}"),
        format!("  data     {}", data.path().display()),
        format!("  open     {}", link.url),
        "           (works once, within a minute; `baton token --link` prints another)".to_owned(),
    ];
    output::line(&lines.join("\n"))?;
    Ok(())
}

/// Cancelled when the process is told to stop.
///
/// # Errors
/// If signals cannot be listened for.
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
