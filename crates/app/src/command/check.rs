//! `baton check`: is the database whole? It is read from beginning to end, whether a server works on it or not.

use std::path::PathBuf;

use adapters::store::postgres::check_database;
use adapters::store::sqlite::check_folder;
use clap::Args;
use serde_json::json;

use crate::config::{self, Raw, environment};
use crate::data::DataDir;
use crate::exit::{Exit, Refusal};
use crate::{compose, output};

/// Arguments of `baton check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Data folder [default: $XDG_DATA_HOME/baton or ~/.local/share/baton]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Checks. The exit code is 1 if anything is wrong.
///
/// # Errors
/// If there is no database, or it cannot be read.
pub async fn perform(args: CheckArgs) -> anyhow::Result<Exit> {
    let data = DataDir::find(args.data.as_deref(), &environment)?;
    let settings = Raw::default().with_surroundings(&data)?.resolve().map_err(|faults| config::refusal(&faults))?;
    let faults = match &settings.shared.database {
        Some(url) => {
            let faults = check_database(url.expose()).await;
            faults.map_err(|error| Refusal::failed(error.to_string(), error.action()))?
        }
        None => check_folder(data.path()).map_err(|error| Refusal::failed(error.to_string(), error.action()))?,
    };
    let exit = if faults.is_empty() { Exit::Done } else { Exit::Failed };
    if args.json {
        output::json(&json!({ "faults": faults }))?;
        return Ok(exit);
    }
    faults.iter().try_for_each(|fault| output::line(&format!("✗ {fault}")))?;
    match exit {
        Exit::Done => output::line("✓ the database is whole")?,
        _ if settings.shared.database.is_some() => {
            let objects = compose::objects(&settings.shared, &data);
            output::note(&format!(
                "baton: stop all servers and workers, and restore the database from a backup of PostgreSQL's own tools, then {}",
                objects.display()
            ));
        }
        _ => output::note("baton: stop Baton and restore its data folder from a backup"),
    }
    Ok(exit)
}
