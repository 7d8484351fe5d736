//! Following a run in a terminal until it ends: a story for a person, or its events as JSON lines. Ctrl-C stops the run.

use adapters::world::SystemWorld;
use contract::RunId;
use contract::api::{Accepted, RunView};
use reqwest::header::{HeaderMap, HeaderValue};
use runtime::ports::World as _;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Duration, timeout};

use crate::client::{Client, Follow};
use crate::exit::Exit;
use crate::output;
use crate::show::{Screen, Story};

/// How long a cancelled run may take until its processes are gone and its log says so.
const CANCEL_MOST: Duration = Duration::from_secs(30);

/// Follows a run to its end, and ends as it did.
///
/// # Errors
/// If the server stays away, or nobody reads what is printed.
pub async fn watch(client: &Client, run: RunId, json: bool) -> anyhow::Result<Exit> {
    let mut screen = if json { Screen::Plain } else { Screen::new() };
    let outcome = follow(client, run, json, &mut screen).await;
    screen.close();
    outcome
}

/// Tells of a run that was accepted, and follows it if that is asked for.
///
/// # Errors
/// See [`watch`].
pub async fn accepted(client: &Client, run: &Accepted, json: bool, follow: bool) -> anyhow::Result<Exit> {
    if follow {
        return watch(client, run.run_id, json).await;
    }
    if json {
        output::json(run)?;
    } else {
        output::line(&format!("{} in {}", run.run_id, run.chat_id))?;
        output::note(&format!("baton: `baton events {} --follow` shows how it goes on", run.run_id));
    }
    Ok(Exit::Done)
}

/// Headers that make a request count once, however often it is sent.
///
/// # Errors
/// Never: a number is a header value.
pub fn once() -> anyhow::Result<HeaderMap> {
    once_as(&format!("{:032x}", SystemWorld::new().random()))
}

/// Headers that make all requests with a key count once.
///
/// # Errors
/// If the key is no header value.
pub fn once_as(key: &str) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert("idempotency-key", HeaderValue::from_str(key)?);
    Ok(headers)
}

/// Asks for a run to stop, and gives it as it was then.
///
/// # Errors
/// If there is no such run, or nobody answers.
pub async fn cancel(client: &Client, run: RunId) -> anyhow::Result<RunView> {
    client.post(&format!("/v1/runs/{run}/cancel"), &json!({}), HeaderMap::new()).await
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
                    Ok(outcome) => drop(outcome?),
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

/// How a run ended whose last event this version does not know.
async fn ended(client: &Client, run: RunId) -> anyhow::Result<Exit> {
    let view: RunView = client.get(&format!("/v1/runs/{run}")).await?;
    Ok(view.stop_reason.map_or(Exit::Failed, Exit::of))
}
