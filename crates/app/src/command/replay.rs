//! `baton replay RUN`: tells a run again from its log, asks no model, and verifies that what is stored is what the log says.

use clap::Args;
use contract::RunId;
use contract::api::{RunView, Verification};

use crate::client::{self, Client, ClientArgs, Follow};
use crate::exit::{Exit, Refusal};
use crate::output;
use crate::show::Story;

/// Arguments of `baton replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// A run that has ended
    #[arg(value_name = "RUN")]
    run: RunId,
    #[command(flatten)]
    client: ClientArgs,
}

/// Tells and verifies. The exit code is 1 if anything is stored otherwise.
///
/// # Errors
/// If there is no such run, it has not ended, or its events have a hole.
pub async fn perform(args: ReplayArgs) -> anyhow::Result<Exit> {
    let client = Client::new(&args.client)?;
    let run: RunView = client.get(&format!("/v1/runs/{}", args.run)).await?;
    if !run.status.is_terminal() {
        return Err(Refusal::failed(
            format!("{} has not ended", run.id),
            format!("`baton events {} --follow` shows how it goes on; `baton cancel {0}` stops it", run.id),
        ));
    }
    let mut events = Follow::new(&client, run.id, 0);
    let mut story = Story::default();
    let (mut last, mut is_over) = (0, false);
    while let Some(received) = events.next().await? {
        (last, is_over) = (received.seq, received.event.as_ref().is_some_and(contract::Event::is_terminal));
        if args.client.json {
            output::json(&received.json)?;
        } else if let Some(event) = &received.event {
            story.tell(received.at, event).iter().try_for_each(|line| output::line(line))?;
        }
    }
    if last != run.last_seq || !is_over {
        return Err(Refusal::failed(
            format!("the events of {} end with event {last}, and its last is event {}", run.id, run.last_seq),
            client::MEND,
        ));
    }
    let found: Verification = client.get(&format!("/v1/runs/{}/verify", run.id)).await?;
    let exit = if found.differences.is_empty() { Exit::Done } else { Exit::Failed };
    if args.client.json {
        output::json(&found)?;
        return Ok(exit);
    }
    for difference in &found.differences {
        output::line(&format!("✗ {difference}"))?;
    }
    if exit == Exit::Failed {
        output::note(&format!("baton: what is stored of {} is damaged. {}", run.id, client::MEND));
    }
    if exit == Exit::Done {
        let snapshot = found.snapshot.map(|seq| format!(", and the snapshot at {seq}")).unwrap_or_default();
        output::line(&format!("verified {} events{snapshot}", found.events))?;
    }
    Ok(exit)
}
