//! The real thing: servers and workers as processes of their own on a real PostgreSQL and a real Redis, under load, while machines die.
//!
//! What must hold stands in the promises: whatever dies, an accepted run ends as it would have, nothing is done twice, and no reader
//! sees a gap. Here nothing of Baton is replaced but the model, and what is checked is checked against witnesses of which Baton knows
//! nothing (`witness.rs`). `scripts/chaos` runs the long one.

#![expect(clippy::disallowed_methods, reason = "starts, hurts and watches processes")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "tells what happened")]

mod cancel;
mod dice;
mod drain;
mod load;
mod log;
mod town;
mod verdict;
mod view;
mod villain;
mod wire;
mod witness;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use load::{Book, Load};
use town::{Plan, Town, now_ms};
use villain::Villain;
use wire::Wire;
use witness::Lookout;

/// How long the load and the blows last, in seconds, unless `CHAOS_SECONDS` says otherwise.
const SECONDS: u64 = 60;
/// Chats that are talked to at once.
const CHATS: u64 = 20;
/// A rage that long deals every kind of blow, and each has to have hit something.
const ALL_BLOWS: Duration = Duration::from_secs(60);
/// How long everything may take to come to an end once nothing is broken any more.
const SETTLES: Duration = Duration::from_secs(120);
/// How long processes may take to stop.
const STOPS: Duration = Duration::from_secs(30);

/// The usual limits, but for these:
/// - leases of 3 s instead of 15, in the usual proportions, so that a pause outlives one several times within a minute;
/// - snapshots after so few events that runs as short as these have some;
/// - two messages of a chat at once, so that runs of one project wait for each other;
/// - more runs of the one user than two, and fewer than the chats want: who is refused comes back after `Retry-After`;
/// - 30 recoveries of a step instead of 10: a process dies here every other second, so a turn of some seconds on a busy machine meets
///   more than 10 deaths, which elsewhere mean that the turn is what kills;
/// - a heartbeat of streams by which a client sees within seconds that a server is held up.
const LIMITS: &str = "
lease_ms = 3000
heartbeat_ms = 1000
lease_margin_ms = 600
snapshot_events = 20
active_runs_per_chat = 2
active_runs_per_user = 12
step_recoveries = 30
sse_heartbeat_ms = 500
";

/// What the model says, with the rules that each chat has for itself.
fn script() -> String {
    let unlucky = |chat: u64| include_str!("unlucky.yaml").replace("CHAT", &chat.to_string());
    format!("{}\n{}", include_str!("script.yaml"), (0..CHATS).map(unlucky).collect::<String>())
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// E1, E4, E11, E15, E16, E20, E21, promises 1, 2, 3, 6 and 7.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "takes more than a minute: scripts/chaos"]
async fn whatever_dies_an_accepted_run_ends_and_nothing_is_done_twice() {
    let seconds = number("CHAOS_SECONDS").unwrap_or(SECONDS);
    let seed = number("CHAOS_SEED").unwrap_or_else(|| now_ms() % 1_000_000);
    let again = format!("scripts/chaos --seconds {seconds} --seed {seed}");
    println!("seed {seed}; the same again: {again}");
    let plan = Plan { script: &script(), limits: LIMITS, servers: 2, workers: 2 };
    let town = Town::found(&plan).await;
    witness::take_notes(&town.postgres);
    town.open();
    let lookout = Lookout::start(town.ledger.clone());
    let wire = Arc::new(Wire::new(town.servers(), town.token()));
    let until = Instant::now() + Duration::from_secs(seconds);
    let load = Arc::new(Load { wire: wire.clone(), seed, until, book: Mutex::new(Book::default()) });
    let drivers: Vec<_> = (0..CHATS).map(|chat| tokio::spawn(load.clone().drive(chat))).collect();
    let dealt = {
        let town = town.clone();
        let villain = move || {
            let mut villain = Villain::new(&town, seed);
            villain.rage(Duration::from_secs(seconds));
            villain.dealt
        };
        tokio::task::spawn_blocking(villain).await.unwrap()
    };
    let mended = Instant::now();
    let settled = settle(&town, drivers).await;
    let settling = mended.elapsed();
    if !settled {
        load.book().faults.push(format!("not everything has ended {SETTLES:?} after nothing was broken any more"));
    }
    let seen = lookout.end();
    let book = std::mem::take(&mut *load.book());
    let mut verdict = verdict::judge(&town, &wire, &book, &seen).await;
    if Duration::from_secs(seconds) >= ALL_BLOWS {
        verdict.was_hurt(&dealt, &wire.borne);
    }
    let words = verdict.words(&book, &wire.borne);
    tokio::task::block_in_place(|| town.close(STOPS));
    verdict.faults.extend(town.take_faults());
    let left: Vec<_> = std::fs::read_dir(town.sandbox()).unwrap().flatten().map(|entry| entry.path()).collect();
    if !left.is_empty() {
        verdict.faults.push(format!("workspaces are left: {left:?}"));
    }
    let blows: Vec<_> = dealt.iter().map(|(blow, times)| format!("{blow:?} {times}")).collect();
    println!("  blows       {} in {seconds} s: {}", dealt.values().sum::<u32>(), blows.join(", "));
    println!("{words}  the end     {:.1} s after the last blow was mended", settling.as_secs_f64());
    if !verdict.faults.is_empty() {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{seed}"));
        town.keep_logs(&place);
        let shown: Vec<_> = verdict.faults.iter().take(40).map(String::as_str).collect();
        let (count, text) = (verdict.faults.len(), shown.join("\n"));
        panic!("{count} violations:\n{text}\nwhat the processes said is in {}; again: {again}", place.display());
    }
}

/// Waits until all drivers have come to their end; false if that takes too long.
async fn settle(town: &Arc<Town>, drivers: Vec<tokio::task::JoinHandle<()>>) -> bool {
    let all = async {
        for driver in drivers {
            driver.await.unwrap();
        }
    };
    let town = town.clone();
    let looking = async move {
        loop {
            tokio::task::block_in_place(|| town.look_after());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        done = tokio::time::timeout(SETTLES, all) => done.is_ok(),
        () = looking => false,
    }
}
