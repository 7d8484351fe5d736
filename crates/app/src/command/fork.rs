//! `baton fork RUN --at STEP`: another run with the same past up to a step, in a chat and project of its own (N5).

use clap::Args;
use contract::api::{Accepted, NewFork};
use contract::{Event, RunId, StepId};

use crate::client::{Client, ClientArgs, Follow};
use crate::exit::Exit;
use crate::{output, watch};

/// Arguments of `baton fork`.
#[derive(Debug, Args)]
pub struct ForkArgs {
    /// The run
    #[arg(value_name = "RUN")]
    run: RunId,
    /// The step that is performed anew, with all that follows, such as turn-2
    #[arg(long, value_name = "STEP")]
    at: String,
    /// Name of another model for it [default: the same, or the usual one where that is not reached]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Follow the fork, and end as it does
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// Begins the fork.
///
/// # Errors
/// If it is refused: there is no such step or model, or a limit is reached.
pub async fn perform(args: ForkArgs) -> anyhow::Result<Exit> {
    let client = Client::new(&args.client)?;
    let fork = NewFork { at: StepId::new(args.at), model: args.model };
    let run: Accepted = client.post(&format!("/v1/runs/{}/fork", args.run), &fork, watch::once()?).await?;
    if !args.follow {
        // What a fork says of itself stands behind its first two events.
        let first = Follow::new(&client, run.run_id, 2).next().await?.and_then(|received| received.event);
        if let Some(Event::Warning(told)) = first.filter(|_| fork.model.is_none()) {
            output::note(&format!("baton: {}", told.message));
        }
    }
    watch::accepted(&client, &run, args.client.json, args.follow).await
}
