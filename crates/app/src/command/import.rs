//! `baton import FILE`: takes in what `baton export` wrote, as a run that has ended, in a chat of its own. Once: the same file again
//! is told as the run that there is.

#![expect(clippy::disallowed_methods, reason = "reads the file that was asked for")]

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;
use contract::api::RunView;
use runtime::sha256;

use super::runs::status;
use crate::client::{Client, ClientArgs};
use crate::exit::{Exit, Refusal};
use crate::{output, watch};

/// Bytes that are read at the most. What a server takes is its `bundle_bytes`.
const MOST_BYTES: u64 = 1024 * 1024 * 1024;

/// Arguments of `baton import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The bundle; `-`: standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    client: ClientArgs,
}

/// Sends the bundle.
///
/// # Errors
/// If the file cannot be read, or is no bundle of a run.
pub async fn perform(args: ImportArgs) -> anyhow::Result<Exit> {
    let client = Client::new(&args.client)?;
    let bundle = read(&args.file)?;
    // The same file again is the same run, also where the answer to the first time was lost.
    let once = watch::once_as(&format!("import-{}", sha256(&bundle)))?;
    let run: RunView = client.post_bytes("/v1/bundles", bundle, once).await?;
    if args.client.json {
        output::json(&run)?;
        return Ok(Exit::Done);
    }
    output::line(&format!("{} in {}: {} ({})", run.id, run.chat_id, output::visible(&run.title), status(run.status)))?;
    output::note(&format!("baton: `baton replay {}` tells it again", run.id));
    Ok(Exit::Done)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let unreadable = |error: io::Error| {
        Refusal::failed(format!("cannot read {}: {error}", path.display()), "name a file that `baton export` wrote")
    };
    let mut bytes = Vec::new();
    let read = match path.as_os_str() == "-" {
        true => io::stdin().lock().take(MOST_BYTES).read_to_end(&mut bytes),
        false => File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes)),
    };
    read.map_err(unreadable)?;
    Ok(bytes)
}
