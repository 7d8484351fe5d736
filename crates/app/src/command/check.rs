//! `baton check`: is everything whole that is stored? The database and the objects are read from beginning to end, whether a server
//! works on them or not, and what the rows say is held against the logs.

use std::path::PathBuf;

use adapters::objects::AddressedObjects;
use adapters::store::postgres::{Postgres, check_database};
use adapters::store::sqlite::{Sqlite, check_folder};
use clap::Args;
use contract::UserId;
use runtime::ports::Store;
use runtime::{Inspection, inspect};
use serde_json::json;
use tokio::time::{Duration, Instant};

use crate::config::{self, Raw, environment};
use crate::data::DataDir;
use crate::exit::{Exit, Refusal};
use crate::{compose, output};

/// How often a person is told how far it is.
const PROGRESS: Duration = Duration::from_secs(10);

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

/// Checks, and changes nothing. The exit code is 1 if anything is wrong.
///
/// # Errors
/// If there is no database, or it cannot be read.
pub async fn perform(args: CheckArgs) -> anyhow::Result<Exit> {
    let data = DataDir::find(args.data.as_deref(), &environment)?;
    let settings = Raw::default().with_surroundings(&data)?.resolve().map_err(|faults| config::refusal(&faults))?;
    let (store, mut faults): (Box<dyn Store>, _) = match &settings.shared.database {
        Some(url) => {
            let unusable =
                |error: adapters::store::postgres::OpenError| Refusal::failed(error.to_string(), error.action());
            let faults = check_database(url.expose()).await.map_err(unusable)?;
            (Box::new(Postgres::look(url.expose()).await.map_err(unusable)?), faults)
        }
        None => {
            let unusable =
                |error: adapters::store::sqlite::OpenError| Refusal::failed(error.to_string(), error.action());
            let faults = check_folder(data.path()).map_err(unusable)?;
            (Box::new(Sqlite::look(data.path()).map_err(unusable)?), faults)
        }
    };
    let folder = compose::objects(&settings.shared, &data);
    let found = match AddressedObjects::look(&folder) {
        Ok(objects) => look(store.as_ref(), &objects, &mut faults).await,
        Err(error) => {
            faults.push(format!("the files of projects are not in {}: {}", error.dir.display(), error.source));
            Inspection::default()
        }
    };
    let exit = if faults.is_empty() { Exit::Done } else { Exit::Failed };
    let Inspection { runs, events, objects, more, .. } = found;
    if args.json {
        output::json(&json!({ "faults": faults, "more": more, "runs": runs, "events": events, "objects": objects }))?;
        return Ok(exit);
    }
    faults.iter().try_for_each(|fault| output::line(&format!("✗ {fault}")))?;
    if more > 0 {
        output::line(&format!("✗ and {more} more"))?;
    }
    let read = format!("{}, {} and {} were read", count(runs, "run"), count(events, "event"), count(objects, "object"));
    match exit {
        Exit::Done => output::line(&format!("✓ everything is whole: {read}"))?,
        _ if settings.shared.database.is_some() => {
            output::note(&format!(
                "baton: {read}. Stop all servers and workers, and restore the database from a backup of PostgreSQL's own tools, and {}",
                folder.display()
            ));
        }
        _ => output::note(&format!("baton: {read}. Stop Baton and restore its data folder from a backup")),
    }
    Ok(exit)
}

fn count(of: u64, what: &str) -> String {
    format!("{of} {what}{}", if of == 1 { "" } else { "s" })
}

/// Looks at every run, and adds what is wrong.
async fn look(store: &dyn Store, objects: &AddressedObjects, faults: &mut Vec<String>) -> Inspection {
    let mut told = Instant::now();
    let progress = |found: &Inspection| {
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            output::note(&format!("baton: {} runs were read so far", found.runs));
        }
    };
    let looking = async {
        // Nobody is made the owner of a store that is only looked at.
        let owner = store.owner(UserId::from_bits(0), 0).await?;
        inspect(store, objects, owner, progress).await
    };
    match looking.await {
        Ok(mut found) => {
            faults.append(&mut found.faults);
            found
        }
        Err(error) => {
            faults.push(format!("the runs cannot be read: {error}"));
            Inspection::default()
        }
    }
}
