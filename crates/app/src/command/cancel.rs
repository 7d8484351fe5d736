//! `baton cancel RUN`: stops a run, wherever it is, and says how it ended.

use clap::Args;
use contract::RunId;
use contract::api::RunView;

use super::runs::status;
use crate::client::{Client, ClientArgs, Follow};
use crate::exit::Exit;
use crate::{output, watch};

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
    while events.next().await?.is_some() {}
    client.get(&format!("/v1/runs/{}", run.id)).await
}
