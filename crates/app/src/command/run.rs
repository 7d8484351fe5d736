//! `baton run "…"`: sends a message, follows the run, and ends as the run did.

use adapters::world::SystemWorld;
use clap::Args;
use contract::api::{Accepted, NewMessage, RunView};
use contract::{ChatId, RunId};
use reqwest::header::{HeaderMap, HeaderValue};
use runtime::ports::World as _;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Duration, timeout};

use crate::client::{Client, ClientArgs, Follow, ensure_server};
use crate::exit::{Exit, Refusal};
use crate::output;
use crate::show::{Screen, Story};

/// How long a cancelled run may take until its processes are gone and its log says so.
const CANCEL_MOST: Duration = Duration::from_secs(30);

/// Arguments of `baton run`.
#[derive(Debug, Args)]
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
    let run = send(&client, &args).await?;
    let mut screen = if args.client.json { Screen::Plain } else { Screen::new() };
    let outcome = follow(&client, run, args.client.json, &mut screen).await;
    screen.close();
    outcome
}

async fn send(client: &Client, args: &RunArgs) -> anyhow::Result<RunId> {
    let path = args.chat.map_or_else(|| "/v1/chats".to_owned(), |chat| format!("/v1/chats/{chat}/messages"));
    let mut headers = HeaderMap::new();
    headers.insert("idempotency-key", HeaderValue::from_str(&format!("{:032x}", SystemWorld::new().random()))?);
    let accepted: Accepted = client.post(&path, &NewMessage { text: args.message.clone() }, headers).await?;
    Ok(accepted.run_id)
}

async fn follow(client: &Client, run: RunId, json: bool, screen: &mut Screen) -> anyhow::Result<Exit> {
    let mut events = Follow::new(client, run, 0);
    let mut story = Story::default();
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut cancelled = false;
    loop {
        let received = tokio::select! {
            received = events.next() => received?,
            Some(()) = interrupts.recv() => {
                if cancelled {
                    return Ok(Exit::Cancelled);
                }
                cancelled = true;
                screen.remark("baton: stopping the run (once more to leave at once)");
                match timeout(CANCEL_MOST, cancel(client, run)).await {
                    Ok(outcome) => outcome?,
                    Err(_) => return Ok(Exit::Cancelled),
                }
                continue;
            }
        };
        let Some(received) = received else {
            return ended(client, run).await;
        };
        if json {
            output::json(&received.json)?;
        }
        if let Some(event) = &received.event {
            if json {
                story.tell(received.at, event);
            } else {
                screen.show(&mut story, received.at, event)?;
            }
        }
        if let Some(ending) = story.ending() {
            return Ok(Exit::of(ending.reason));
        }
    }
}

async fn cancel(client: &Client, run: RunId) -> anyhow::Result<()> {
    client.post::<RunView>(&format!("/v1/runs/{run}/cancel"), &json!({}), HeaderMap::new()).await.map(drop)
}

/// How a run ended whose last event this version does not know.
async fn ended(client: &Client, run: RunId) -> anyhow::Result<Exit> {
    let view: RunView = client.get(&format!("/v1/runs/{run}")).await?;
    Ok(view.stop_reason.map_or(Exit::Failed, Exit::of))
}
