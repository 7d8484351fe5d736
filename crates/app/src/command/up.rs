//! `baton up`: everything in one process, on this machine alone.

#![expect(clippy::disallowed_methods, reason = "asks the desktop to open a link")]

use std::process::Stdio;

use clap::Args;
use runtime::ports::sandbox::IsolationLevel;
use tokio::process::Command;

use crate::client::{http, is_alive};
use crate::compose;
use crate::config::{self, Role, VARIABLES};
use crate::data::{DataDir, Running};
use crate::exit::{Exit, Refusal};
use crate::output;
use crate::process::{DoorArgs, PlaceArgs, Process, stop_signal};

/// Arguments of `baton up`.
#[derive(Debug, Args)]
#[command(after_help = config::help())]
pub struct UpArgs {
    #[command(flatten)]
    door: DoorArgs,
    #[command(flatten)]
    place: PlaceArgs,
    /// Do not open a browser
    #[arg(long)]
    no_open: bool,
}

/// Starts, says where it is, and serves until it is told to stop.
///
/// # Errors
/// What is missing or in the way, with what to do about it.
pub async fn perform(args: UpArgs) -> anyhow::Result<Exit> {
    let process = Process::prepare(Role::Up, args.place, Some(&args.door))?;
    // Before the store, whose lock would only say that somebody has the folder.
    refuse_second(&process.data).await?;
    let listener = process.listen().await?;
    let port = listener.local_addr()?.port();
    let stop = stop_signal()?;
    let house = process.house(port).await?;
    let (running, isolation) = (Process::running(port), house.isolation.level);
    let open = house.open(Some(listener), &stop);
    let _note = process.data.announce(&running, true)?;
    if welcome(&process, &running, isolation, !args.no_open).await.is_err() {
        // Such as a closed pipe: nobody reads, and the server serves all the same, unless it is the server that failed.
        tracing::warn!("the link could not be shown; `baton token --link` prints a new one");
    }
    open.end().await?;
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

/// Prints a link that signs a browser in, and opens it where there is a desktop.
async fn welcome(process: &Process, running: &Running, isolation: IsolationLevel, open: bool) -> anyhow::Result<()> {
    let link = process.link(running).await?;
    if open && config::has_display() {
        let mut browser = Command::new("xdg-open");
        // It needs none of our secrets.
        for (name, _) in VARIABLES {
            browser.env_remove(name);
        }
        // Whether it worked is seen on the screen; the link below works as well.
        let _ = browser.arg(&link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    }
    let mut lines = vec![format!("Baton is up: {}", running.url)];
    lines.extend(process.words(running.port));
    lines.push(format!("  sandbox   {}", compose::isolation_words(isolation)));
    lines.push(format!("  open      {link}"));
    lines.push("            (works once, within a minute; `baton token --link` prints another)".to_owned());
    output::line(&lines.join("\n"))?;
    Ok(())
}
