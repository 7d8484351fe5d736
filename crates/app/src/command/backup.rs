//! `baton backup FILE`: a copy of the database as it is now, whether a server works on it or not.

use std::path::PathBuf;

use adapters::store::sqlite::backup_folder;
use clap::Args;
use serde_json::json;

use crate::config::{self, Raw, environment};
use crate::data::DataDir;
use crate::exit::{Exit, Refusal};
use crate::{compose, output};

/// Arguments of `baton backup`.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// The copy, which must not exist yet
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Data folder [default: $XDG_DATA_HOME/baton or ~/.local/share/baton]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Copies the database, and says what else belongs to a backup.
///
/// # Errors
/// If there is no database, it is not SQLite's, or the copy cannot be written.
pub fn perform(args: &BackupArgs) -> anyhow::Result<Exit> {
    let data = DataDir::find(args.data.as_deref(), &environment)?;
    let settings = Raw::default().with_surroundings(&data)?.resolve().map_err(|faults| config::refusal(&faults))?;
    let objects = compose::objects(&settings.shared, &data);
    if let Some(database) = &settings.shared.database {
        return Err(Refusal::failed(
            format!("the database is {database}, which PostgreSQL's own tools copy"),
            format!("use `pg_dump`, and then copy {}", objects.display()),
        ));
    }
    backup_folder(data.path(), &args.file).map_err(|error| Refusal::failed(error.to_string(), error.action()))?;
    let (file, objects) = (args.file.display().to_string(), objects.display().to_string());
    if args.json {
        output::json(&json!({ "file": file, "objects": objects }))?;
        return Ok(Exit::Done);
    }
    output::line(&file)?;
    // In this order: what the copy names is there then, since objects never change and are not deleted.
    output::note(&format!("baton: files of projects are in {objects}: copy that folder now, after the database"));
    Ok(Exit::Done)
}
