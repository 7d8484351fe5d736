//! `baton worker`: the hands alone. Several share a database; told to stop, one hands its runs back at once, for others to go on.

use clap::Args;

use crate::compose;
use crate::config::{self, Role};
use crate::exit::Exit;
use crate::output;
use crate::process::{PlaceArgs, Process, stop_signal};

/// Arguments of `baton worker`.
#[derive(Debug, Args)]
#[command(after_help = config::help())]
pub struct WorkerArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

/// Starts, says so, and works until it is told to stop.
///
/// # Errors
/// What is missing or in the way, with what to do about it.
pub async fn perform(args: WorkerArgs) -> anyhow::Result<Exit> {
    let process = Process::prepare(Role::Worker, args.place, None)?;
    let stop = stop_signal()?;
    let house = process.house(process.settings.port).await?;
    let mut lines = vec![format!("Baton worker is ready: {}", house.name)];
    lines.extend(process.words(process.settings.port));
    lines.push(format!("  sandbox   {}", compose::isolation_words(house.isolation.level)));
    let open = house.open(None, &stop);
    if output::line(&lines.join("\n")).is_err() {
        tracing::warn!("nobody reads what the worker says");
    }
    open.end().await?;
    Ok(Exit::Done)
}
