//! `baton retry RUN`: the same request again, in the same chat, as a new run.

use clap::Args;
use contract::RunId;
use contract::api::Accepted;
use serde_json::json;

use crate::client::{Client, ClientArgs};
use crate::exit::Exit;
use crate::watch;

/// Arguments of `baton retry`.
#[derive(Debug, Args)]
pub struct RetryArgs {
    /// A run that has ended
    #[arg(value_name = "RUN")]
    run: RunId,
    /// Follow the new run, and end as it does
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// Begins the new run.
///
/// # Errors
/// If it is refused: at a limit, or since the run has not ended.
pub async fn perform(args: RetryArgs) -> anyhow::Result<Exit> {
    let client = Client::new(&args.client)?;
    let run: Accepted = client.post(&format!("/v1/runs/{}/retry", args.run), &json!({}), watch::once()?).await?;
    watch::accepted(&client, &run, args.client.json, args.follow).await
}
