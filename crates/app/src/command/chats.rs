//! `baton chats`: the chats of the owner.

use clap::Args;
use contract::api::{ChatView, Page};

use crate::client::{Client, ClientArgs};
use crate::exit::Exit;
use crate::output;

/// Arguments of `baton chats`.
#[derive(Debug, Args)]
pub struct ChatsArgs {
    /// How many at the most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=100))]
    limit: u16,
    #[command(flatten)]
    client: ClientArgs,
}

/// Lists them.
///
/// # Errors
/// If the server does not answer.
pub async fn perform(args: ChatsArgs) -> anyhow::Result<Exit> {
    let client = Client::new(&args.client)?;
    let page: Page<ChatView> = client.get(&format!("/v1/chats?limit={}", args.limit)).await?;
    if args.client.json {
        page.items.iter().try_for_each(output::json)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<_> = page
        .items
        .iter()
        .map(|chat| {
            let status = chat.run.as_ref().map(|run| super::runs::status(run.status)).unwrap_or_default();
            [chat.id.to_string(), status.to_owned(), chat.title.clone()]
        })
        .collect();
    output::table(["CHAT", "LATEST RUN", "TITLE"], &rows)?;
    Ok(Exit::Done)
}
