//! `baton events RUN`: a run's log, as it is now or as it grows.

use clap::Args;
use contract::RunId;
use contract::api::RunView;

use crate::client::{Client, ClientArgs, Follow};
use crate::exit::Exit;
use crate::output;
use crate::show;

/// Arguments of `baton events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// The run
    #[arg(value_name = "RUN")]
    run: RunId,
    /// Go on until the run ends
    #[arg(long)]
    follow: bool,
    /// Begin after this event
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
    #[command(flatten)]
    client: ClientArgs,
}

/// Prints them.
///
/// # Errors
/// If there is no such run, or the server does not answer.
pub async fn perform(args: EventsArgs) -> anyhow::Result<Exit> {
    let client = Client::new(&args.client)?;
    let run: RunView = client.get(&format!("/v1/runs/{}", args.run)).await?;
    // Beyond the end there is nothing to wait for: the server says so.
    let end = if args.follow || args.after > run.last_seq { u64::MAX } else { run.last_seq };
    let mut follow = Follow::new(&client, args.run, args.after);
    let mut last = args.after;
    while last < end
        && let Some(received) = follow.next().await?
    {
        last = received.seq;
        if args.client.json {
            output::json(&received.json)?;
        } else {
            let words = received.event.as_ref().map(show::summary).unwrap_or_default();
            let since = received.at.saturating_sub(run.created_at);
            output::line(
                format!("{:>6}  {:>9}  {:<17}  {words}", received.seq, show::seconds(since), received.kind).trim_end(),
            )?;
        }
    }
    Ok(Exit::Done)
}
