//! `baton cancel RUN`: stops a run, wherever it is, and says how it ended.

use clap::Args;
use contract::RunId;
use contract::api::{RunStatus, RunView};
use tokio::time::{Duration, sleep};

use super::runs::status;
use crate::client::{Client, ClientArgs, Follow};
use crate::exit::Exit;
use crate::{output, watch};

/// How long one waits without being told what for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Arguments of `baton cancel`.
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// The run
    #[arg(value_name = "RUN")]
    run: RunId,
    /// Only ask, and do not wait until it has ended
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// Asks, and waits until the run has ended: then its processes are gone.
///
/// # Errors
/// If there is no such run, or the server stays away.
pub async fn perform(args: CancelArgs) -> anyhow::Result<Exit> {
    let client = Client::new(&args.client)?;
    let asked = watch::cancel(&client, args.run).await?;
    let over = asked.status.is_terminal();
    let run = if over || args.no_wait { asked } else { ended(&client, asked).await? };
    if args.client.json {
        output::json(&run)?;
        return Ok(Exit::Done);
    }
    let how = match (over, run.status.is_terminal()) {
        (true, _) => format!("had ended before: {}", status(run.status)),
        (false, true) => status(run.status).to_owned(),
        (false, false) => "is being stopped".to_owned(),
    };
    output::line(&format!("{} {how}", run.id))?;
    Ok(Exit::Done)
}

async fn ended(client: &Client, run: RunView) -> anyhow::Result<RunView> {
    let mut events = Follow::new(client, run.id, run.last_seq);
    let told = sleep(PATIENCE);
    tokio::pin!(told);
    let mut waiting = true;
    loop {
        tokio::select! {
            event = events.next() => if event?.is_none() { break },
            () = &mut told, if waiting => {
                waiting = false;
                output::note(&format!("baton: asked; {}", what_for(client, &run).await?));
            }
        }
    }
    client.get(&format!("/v1/runs/{}", run.id)).await
}

/// What a run that was told to stop has not done yet.
async fn what_for(client: &Client, run: &RunView) -> anyhow::Result<String> {
    let now: RunView = client.get(&format!("/v1/runs/{}", run.id)).await?;
    Ok(match now.status {
        RunStatus::Queued => "waiting until a server or worker that runs takes it (Ctrl-C: it ends all the same)".into(),
        RunStatus::Running | RunStatus::Waiting => {
            "waiting until its worker has ended what it does, or another takes it when its lease ends (Ctrl-C: it ends all the same)".into()
        }
        RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => "waiting for the last of its events".into(),
    })
}
