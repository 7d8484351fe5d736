//! `baton server`: the doors alone. Several share a database, and any of them shows any run, whoever performs it.

use clap::Args;

use crate::config::{self, Role};
use crate::data::Running;
use crate::exit::Exit;
use crate::output;
use crate::process::{DoorArgs, PlaceArgs, Process, stop_signal};

/// Arguments of `baton server`.
#[derive(Debug, Args)]
#[command(after_help = config::help())]
pub struct ServerArgs {
    #[command(flatten)]
    door: DoorArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Starts, says where it is, and serves until it is told to stop.
///
/// # Errors
/// What is missing or in the way, with what to do about it.
pub async fn perform(args: ServerArgs) -> anyhow::Result<Exit> {
    let process = Process::prepare(Role::Server, args.place, Some(&args.door))?;
    let listener = process.listen().await?;
    let port = listener.local_addr()?.port();
    let stop = stop_signal()?;
    let house = process.house(port).await?;
    let running = Process::running(port);
    let open = house.open(Some(listener), &stop);
    let _note = process.data.announce(&running, false)?;
    if welcome(&process, &running).await.is_err() {
        // Such as a closed pipe, or a database that is away for a moment: the server serves all the same.
        tracing::warn!("the link could not be shown; `baton token --link` prints a new one");
    }
    open.end().await?;
    Ok(Exit::Done)
}

async fn welcome(process: &Process, running: &Running) -> anyhow::Result<()> {
    let mut lines = vec![format!("Baton server is ready: {}", running.url)];
    lines.extend(process.words(running.port));
    // Before the link, which has to be asked for: who waits for this line need not wait for the database.
    output::line(&lines.join("\n"))?;
    let link = process.link(running).await?;
    output::line(&format!(
        "  open      {link}\n            (works once, within a minute; `baton token --link` prints another)"
    ))?;
    Ok(())
}
