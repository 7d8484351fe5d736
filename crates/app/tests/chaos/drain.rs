//! A worker that is told to stop hands its runs back at once, and another goes on where it was: a rolling deploy loses no second of
//! work beyond the step in hand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::load::{Kind, Run};
use crate::log;
use crate::town::{Plan, Role, Town, now_ms};
use crate::view::View;
use crate::wire::{Reading, Wire};
use crate::witness;

const FIRST: Reading = Reading { first: 0, multiplexed: false, leaves_after: None };
/// Leases that nobody can wait for within the test's bounds.
const LIMITS: &str = "
lease_ms = 600000
heartbeat_ms = 1000
poll_ms = 60000
shutdown_ms = 10000
active_runs_per_user = 20
";
/// What a busy machine may add to `shutdown_ms`.
const SLACK: Duration = Duration::from_secs(10);
/// How long after the end of the first worker the last of its runs may lie still.
const AT_ONCE: u64 = 30_000;

/// What each run is doing when its worker is told to stop.
fn is_in_the_middle(kind: Kind, view: &View) -> bool {
    match kind {
        // Both commands have succeeded, and the stream goes on.
        Kind::Steps => view.events.iter().filter(|event| event.kind() == "tool_finished").count() == 2,
        Kind::Long => view.has("tool_output"),
        _ => view.has("text_delta"),
    }
}

async fn send(wire: &Wire, kind: Kind, n: u32) -> Run {
    let key = format!("d{n}");
    let text = format!("{} {key}", kind.word());
    let accepted = wire.send(None, &text, &text).await.unwrap();
    let field = |name: &str| accepted[name].as_str().unwrap().to_owned();
    let (id, chat, project) = (field("run_id"), field("chat_id"), field("project_id"));
    Run { key, kind, id, chat, project, seen: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_told_to_stop_hands_its_runs_over_at_once_and_nothing_completed_runs_again() {
    // D14, E4, E11
    let plan = Plan { script: include_str!("script.yaml"), limits: LIMITS, servers: 1, workers: 2 };
    let town = Town::found(&plan).await;
    witness::take_notes(&town.postgres);
    let (one, other) = (town.seat("worker-1"), town.seat("worker-2"));
    tokio::task::block_in_place(|| {
        town.start(one);
        town.until_ready(one);
    });
    let wire = Arc::new(Wire::new(town.servers(), town.token()));
    let mut runs = vec![];
    for (n, kind) in (0..).zip([Kind::Steps, Kind::Long, Kind::Hang, Kind::Steps, Kind::Long]) {
        runs.push(send(&wire, kind, n).await);
    }
    for run in &runs {
        let there = wire.follow(&run.id, FIRST, |view| is_in_the_middle(run.kind, view)).await.unwrap();
        assert!(!there.ended(), "{} was too quick", run.request());
    }
    tokio::task::block_in_place(|| {
        town.start(other);
        town.until_ready(other);
    });
    let (told, since) = (now_ms(), Instant::now());
    tokio::task::block_in_place(|| {
        town.terminate(one, false);
        while town.is_stopping(one) {
            assert!(since.elapsed() < Duration::from_secs(10) + SLACK, "it does not stop:\n{}", town.last_words(one));
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    println!("  a worker with {} runs stopped within {} ms", runs.len(), since.elapsed().as_millis());
    let mut latest = 0;
    for run in &runs {
        let moved = |view: &View| view.events.iter().filter(|event| event.kind() == "run_started").count() == 2;
        let view = wire.follow(&run.id, FIRST, moved).await.unwrap();
        let start = view.events.last().unwrap();
        assert_eq!(start.text("worker"), town.called(other));
        latest = latest.max(start.json["at"].as_u64().unwrap().saturating_sub(told));
        if run.kind == Kind::Hang {
            let path = format!("/v1/runs/{}/cancel", run.id);
            wire.ask(reqwest::Method::POST, &path, "", &serde_json::Value::Null).await;
        }
    }
    println!("  the last of its runs was taken over after {latest} ms");
    assert!(latest < AT_ONCE, "they wait for something");
    for run in &runs {
        let view = wire.follow(&run.id, FIRST, |_| false).await.unwrap();
        let told = log::read(run, &view);
        assert_eq!(told.faults, [""; 0]);
        let ledger = wire.file(&run.project, "ledger.txt").await.unwrap_or_default();
        for (label, done) in &told.commands {
            let count = ledger.lines().filter(|line| line == label).count();
            assert_eq!(count, done.succeeded as usize, "{label}: {done:?}");
        }
        if run.kind == Kind::Steps {
            // What had succeeded before is taken over, in a turn that begins again.
            assert_eq!((told.replayed, told.turns[&1]), (2, 2), "{}", run.request());
        }
    }
    assert_eq!(town.of(Role::Worker).filter(|seat| town.is_ready(seat)).count(), 1);
    assert_eq!(town.take_faults(), [""; 0]);
}
