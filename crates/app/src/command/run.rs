//! `baton run "…"`: sends a message, follows the run, and ends as the run did.

use clap::Args;
use contract::ChatId;
use contract::api::{Accepted, NewMessage};

use crate::client::{Client, ClientArgs, ensure_server};
use crate::exit::{Exit, Refusal};
use crate::{output, watch};

/// Arguments of `baton run`.
#[derive(Debug, Args)]
#[command(after_help = "Ctrl-C stops the run; once more leaves at once. The first line names the run and its chat.")]
pub struct RunArgs {
    /// What you want, in a sentence
    #[arg(value_name = "MESSAGE")]
    message: String,
    /// Go on in this chat
    #[arg(long, value_name = "CHAT")]
    chat: Option<ChatId>,
    #[command(flatten)]
    client: ClientArgs,
}

/// Sends and follows.
///
/// # Errors
/// If the message is refused, or the server stays away.
pub async fn perform(args: RunArgs) -> anyhow::Result<Exit> {
    if args.message.trim().is_empty() {
        return Err(Refusal::usage("the message is empty", "say what you want: baton run \"a to-do list\""));
    }
    ensure_server(&args.client).await?;
    let client = Client::new(&args.client)?;
    let path = args.chat.map_or_else(|| "/v1/chats".to_owned(), |chat| format!("/v1/chats/{chat}/messages"));
    let accepted: Accepted = client.post(&path, &NewMessage { text: args.message }, watch::once()?).await?;
    if !args.client.json {
        output::line(&format!("{} in {}", accepted.run_id, accepted.chat_id))?;
    }
    watch::watch(&client, accepted.run_id, args.client.json).await
}
