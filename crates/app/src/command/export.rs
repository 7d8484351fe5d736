//! `baton export RUN`: a run in one file, without its secrets, to be attached to a bug report.

#![expect(clippy::disallowed_methods, reason = "writes the file that was asked for")]

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use contract::RunId;
use contract::bundle::Bundle;

use crate::client::{Client, ClientArgs};
use crate::exit::{Exit, Refusal};
use crate::output;
use crate::show::bytes;

/// Arguments of `baton export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The run
    #[arg(value_name = "RUN")]
    run: RunId,
    /// Where to write it; `-`: standard output [default: RUN.baton.json]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Leave out what files hold; their hashes stay
    #[arg(long)]
    no_files: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// Writes the bundle. A file that exists is not overwritten.
///
/// # Errors
/// If there is no such run, or the file cannot be written.
pub async fn perform(args: ExportArgs) -> anyhow::Result<Exit> {
    let client = Client::new(&args.client)?;
    let files = !args.no_files;
    let bundle = client.get_bytes(&format!("/v1/runs/{}/bundle?files={files}", args.run)).await?;
    let path = args.output.unwrap_or_else(|| PathBuf::from(format!("{}.baton.json", args.run)));
    if path.as_os_str() == "-" {
        io::stdout().lock().write_all(&bundle)?;
        return Ok(Exit::Done);
    }
    let told: Bundle = serde_json::from_slice(&bundle).context("the server gave what this version does not know")?;
    create(&path)?.write_all(&bundle).with_context(|| format!("cannot write {}", path.display()))?;
    if args.client.json {
        let (missing, size) = (told.missing.len(), bundle.len());
        let file = path.display().to_string();
        output::json(
            &serde_json::json!({ "file": file, "bytes": size, "redacted": told.redacted, "missing": missing }),
        )?;
        return Ok(Exit::Done);
    }
    output::line(&path.display().to_string())?;
    let (events, size) = (told.events.len(), bytes(bundle.len() as u64));
    output::note(&format!(
        "baton: {events} events, {size}; {} texts that look like secrets were replaced by ***. Look at it before you send it.",
        told.redacted
    ));
    if !told.missing.is_empty() {
        output::note(&format!(
            "baton: {} contents of files are left out: too large, or not stored any more",
            told.missing.len()
        ));
    }
    Ok(Exit::Done)
}

/// A new file that its owner alone can read: what is in it was found by its look.
fn create(path: &std::path::Path) -> anyhow::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            Refusal::failed(format!("{} exists", path.display()), "name another file with -o FILE")
        }
        _ => Refusal::failed(format!("cannot write {}: {error}", path.display()), "name another file with -o FILE"),
    })
}
