//! `baton versions CHAT`: what the chat's project has published.

use clap::Args;
use contract::ChatId;
use contract::api::{ChatDetail, Page, VersionView};

use crate::client::{Client, ClientArgs};
use crate::exit::Exit;
use crate::output;

/// Arguments of `baton versions`.
#[derive(Debug, Args)]
pub struct VersionsArgs {
    /// The chat
    #[arg(value_name = "CHAT")]
    chat: ChatId,
    #[command(flatten)]
    client: ClientArgs,
}

/// Lists them, newest first.
///
/// # Errors
/// If there is no such chat, or the server does not answer.
pub async fn perform(args: VersionsArgs) -> anyhow::Result<Exit> {
    let client = Client::new(&args.client)?;
    let detail: ChatDetail = client.get(&format!("/v1/chats/{}", args.chat)).await?;
    let page: Page<VersionView> = client.get(&format!("/v1/projects/{}/versions", detail.chat.project_id)).await?;
    if args.client.json {
        page.items.iter().try_for_each(output::json)?;
        return Ok(Exit::Done);
    }
    let cells = |version: &VersionView| [version.id.to_string(), version.run_id.to_string(), version.summary.clone()];
    output::table(["VERSION", "RUN", "WHAT IT IS ABOUT"], &page.items.iter().map(cells).collect::<Vec<_>>())?;
    Ok(Exit::Done)
}
