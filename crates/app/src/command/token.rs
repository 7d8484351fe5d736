//! `baton token`: the owner's token, or a link that signs a browser in once.

use clap::Args;
use contract::api::SessionLink;
use reqwest::header::HeaderMap;
use serde_json::json;

use crate::client::{Client, ClientArgs};
use crate::config;
use crate::exit::Exit;
use crate::output;

/// Arguments of `baton token`.
#[derive(Debug, Args)]
pub struct TokenArgs {
    /// Print a link for a browser instead; it works once, within a minute
    #[arg(long)]
    link: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// Prints it.
///
/// # Errors
/// If there is no token, or for a link no server.
pub async fn perform(args: TokenArgs) -> anyhow::Result<Exit> {
    if args.link {
        let link: SessionLink =
            Client::new(&args.client)?.post("/v1/session/codes", &json!({}), HeaderMap::new()).await?;
        if args.client.json {
            output::json(&link)?
        } else {
            output::line(&link.url)?
        }
        return Ok(Exit::Done);
    }
    let token = config::owner_token(&args.client.data()?)?;
    if args.client.json {
        output::json(&json!({ "token": token }))?
    } else {
        output::line(&token)?
    }
    Ok(Exit::Done)
}
