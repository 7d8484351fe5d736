//! `baton restore CHAT VERSION`: makes the files of the chat's project what they were in a version, by a run that builds them.

use clap::Args;
use contract::api::{Accepted, ChatDetail};
use contract::{ChatId, VersionId};
use serde_json::json;

use crate::client::{Client, ClientArgs};
use crate::exit::Exit;
use crate::watch;

/// Arguments of `baton restore`.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// The chat
    #[arg(value_name = "CHAT")]
    chat: ChatId,
    /// One of `baton versions CHAT`
    #[arg(value_name = "VERSION")]
    version: VersionId,
    /// Follow the run that builds it, and end as it does
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// Begins the run.
///
/// # Errors
/// If it is refused: there is no such version, nothing would change, or another run has the project.
pub async fn perform(args: RestoreArgs) -> anyhow::Result<Exit> {
    let client = Client::new(&args.client)?;
    let detail: ChatDetail = client.get(&format!("/v1/chats/{}", args.chat)).await?;
    let path = format!("/v1/projects/{}/versions/{}/restore", detail.chat.project_id, args.version);
    let run: Accepted = client.post(&path, &json!({}), watch::once()?).await?;
    watch::accepted(&client, &run, args.client.json, args.follow).await
}
