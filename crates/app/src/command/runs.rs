//! `baton runs`: the runs of the owner.

use clap::Args;
use contract::ChatId;
use contract::api::{Page, RunStatus, RunView};

use crate::client::{Client, ClientArgs};
use crate::exit::Exit;
use crate::output;
use crate::show::seconds;

/// Arguments of `baton runs`.
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// Those of one chat
    #[arg(long, value_name = "CHAT")]
    chat: Option<ChatId>,
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
pub async fn perform(args: RunsArgs) -> anyhow::Result<Exit> {
    let client = Client::new(&args.client)?;
    let chat = args.chat.map(|chat| format!("&chat={chat}")).unwrap_or_default();
    let page: Page<RunView> = client.get(&format!("/v1/runs?limit={}{chat}", args.limit)).await?;
    if args.client.json {
        page.items.iter().try_for_each(output::json)?;
        return Ok(Exit::Done);
    }
    let rows: Vec<_> = page
        .items
        .iter()
        .map(|run| {
            let took = run.started_at.zip(run.ended_at).map(|(from, to)| seconds(to.saturating_sub(from)));
            [run.id.to_string(), status(run.status).to_owned(), took.unwrap_or_default(), run.title.clone()]
        })
        .collect();
    output::table(["RUN", "STATUS", "TIME", "TITLE"], &rows)?;
    Ok(Exit::Done)
}

/// The word for where a run is.
pub fn status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Queued => "queued",
        RunStatus::Running => "running",
        RunStatus::Waiting => "waiting",
        RunStatus::Completed => "completed",
        RunStatus::Failed => "failed",
        RunStatus::Cancelled => "cancelled",
    }
}
