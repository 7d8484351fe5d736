//! What these tests share: a store that is opened, appends, and waiting for what another process does.

use std::time::Duration;

use adapters::store::postgres::{Clock, Postgres, PostgresOptions};
use contract::api::RunStatus;
use contract::event::{NewEvent, RunCompleted, StopReason, TextDelta};
use contract::{Event, StepId};
use runtime::ports::Store;
use runtime::ports::store::{Admission, Append, Claim, Entry, PublishedVersion, RowChange};
use sim::conformance::store::Clerk;
use sim::servers;

/// A lease that no test outlives.
pub const LONG_MS: u64 = 3_600_000;
/// How long something may take on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often is looked whether it is done.
const LOOK: Duration = Duration::from_millis(10);

/// Nothing that depends on a clock but the caller's.
pub fn exact() -> PostgresOptions {
    PostgresOptions { clock: Clock::Caller, grace_ms: 0, wait_ms: 60_000, ..PostgresOptions::default() }
}

/// A store that is open.
pub async fn open(url: &str, options: &PostgresOptions) -> Postgres {
    Postgres::open(url, options).await.unwrap()
}

/// An empty database with Baton's tables, to be copied: quicker than making them each time.
pub async fn prepared(server: &servers::Postgres) -> String {
    open(&server.url(), &exact()).await.close().await;
    gone(server).await;
    server.url()
}

/// Waits until the server has noticed that nobody has a store open.
pub async fn gone(server: &servers::Postgres) {
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'baton'";
    eventually(async || server.ask(&server.url(), sessions) == "0").await;
}

/// Waits until something is so.
pub async fn eventually(mut is: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is().await {
            tokio::time::sleep(LOOK).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "it never came true");
}

/// Waits until a number of sessions wait for locks that others hold.
pub async fn waiting(server: &servers::Postgres, sessions: u32) {
    let ask = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted";
    eventually(async || server.ask(&server.url(), ask) == sessions.to_string()).await;
}

/// One piece of text.
pub fn text(claim: Claim, after: u64, text: &str) -> Append {
    let event = Event::from(TextDelta { text: text.into() });
    let new = NewEvent { at: after, step: Some((StepId::new("turn-1"), 1)), event };
    Append { claim, after, events: vec![Entry::of(&new).unwrap()], rows: vec![], consumed: vec![], ends: false }
}

/// The end of a run.
pub fn ended(claim: Claim, after: u64) -> Append {
    let event = Event::from(RunCompleted { stop_reason: StopReason::Done, result: "done".into() });
    let (status, stop_reason) = (RunStatus::Completed, Some(StopReason::Done));
    let row = RowChange::Run { status, stop_reason, code: None, error: None, at: 5_000 };
    let events = vec![Entry::of(&NewEvent { at: 5_000, step: None, event }).unwrap()];
    Append { claim, after, events, rows: vec![row], consumed: vec![], ends: true }
}

/// A version of an admission's project.
pub fn version(clerk: &Clerk, admission: &Admission) -> PublishedVersion {
    PublishedVersion {
        id: clerk.id(),
        project_id: admission.session.project_id,
        run_id: admission.run_id,
        parent: None,
        summary: "a version".into(),
        files: "0".repeat(64),
        output: "1".repeat(64),
        at: 7,
    }
}

/// Where the log ends.
pub async fn log_end(store: &Postgres, claim: Claim) -> u64 {
    store.read_after(claim.run_id, 0, 100_000).await.unwrap().len() as u64
}

/// That the database holds together.
pub async fn is_whole(store: &Postgres) {
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
}
