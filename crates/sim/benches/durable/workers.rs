//! One of two workers dies or stands still, and the other has its runs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use contract::RunId;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::child::{Orders, Process, leased};
use super::figures::{median, tell};
use super::house::{Admitted, House, Place, Site, chain, tokio};
use super::kill::{RUNS, STEPS, Seen, note, repeated};
use super::talker::{Talk, Talker};

/// Rounds: each ends processes, and half of them wait for a lease.
const ROUNDS: usize = 3;
/// The lease of the workers. The product's is longer, and its figure longer by the difference.
const LEASE_MS: u64 = 3_000;
/// Events that wait to be looked at.
const EVENTS: usize = 10_000;
/// Longest silence.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is done to one of the workers.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    /// It is gone, and its connection with it.
    Kill,
    /// It stands still and keeps its connections: only the lease says so.
    Pause,
}

/// What was seen of one round.
#[derive(Default)]
struct Watched {
    seen: Seen,
    /// Who has each run that has not ended.
    owners: BTreeMap<RunId, String>,
    ended: usize,
}

/// Kills and pauses one of two workers on one PostgreSQL.
pub fn measure(site: &Site) {
    if site.servers.is_none() {
        return;
    }
    for (fate, what) in [(Fate::Kill, "kill -9"), (Fate::Pause, "SIGSTOP")] {
        let (mut taken, mut acknowledged, mut again) = (vec![], 0, 0);
        for round in 0..ROUNDS {
            let place = site.place(&format!("workers-{what}-{round}"));
            let (time, seen) = tokio().block_on(self::round(&place, fate));
            taken.push(time);
            acknowledged += seen.len();
            again += repeated(&place, &seen);
        }
        let setting = format!("{}, lease {} ms", site.setting, LEASE_MS);
        let case = format!("{what} of one of two workers with {RUNS} chains");
        tell(&format!("{case} → the other has all of its runs"), median(&mut taken), "ms", &setting);
        tell(&format!("{case}, acknowledged steps"), acknowledged as f64, "steps", &setting);
        tell(&format!("{case}, acknowledged steps run again"), again as f64, "steps", &setting);
    }
}

async fn round(place: &Place, fate: Fate) -> (f64, Seen) {
    let house = House::open(place, Talker::new(Talk::Prose(0), true), leased(LEASE_MS), None).await;
    let orders = |name: &str| Orders {
        place: place.clone(),
        name: name.into(),
        chains: (0, 0),
        lease_ms: LEASE_MS,
        reads: false,
    };
    let (victim, heir) = (Process::start(&orders("victim")), Process::start(&orders("heir")));
    let _ready = (victim.line(), heir.line());
    let (send, mut events) = mpsc::channel(EVENTS);
    for _ in 0..RUNS {
        let Admitted { run, .. } = house.admit(chain(STEPS)).await;
        let (mut reader, send) = (house.runtime.events(run, 0), send.clone());
        tokio::spawn(async move {
            while let Some(frame) = reader.next().await.expect("an event") {
                let event: Value = serde_json::from_slice(&frame.json).expect("an event");
                let _ = send.send((run, event)).await;
            }
        });
    }
    let mut watched = Watched::default();
    while watched.seen.len() < RUNS * STEPS / 4 {
        take(&mut events, &mut watched).await;
    }
    let struck = Instant::now();
    let pid = i32::try_from(victim.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, if fate == Fate::Kill { Signal::KILL } else { Signal::STOP }).expect("a signal");
    let left = |watched: &Watched| watched.owners.values().filter(|owner| *owner == "victim").count();
    assert!(left(&watched) > 0, "the victim has runs");
    while left(&watched) > 0 {
        take(&mut events, &mut watched).await;
    }
    let taken = struck.elapsed().as_secs_f64() * 1e3;
    if fate == Fate::Pause {
        kill_process(pid, Signal::CONT).expect("a signal");
    }
    while watched.ended < RUNS {
        take(&mut events, &mut watched).await;
    }
    heir.end();
    match fate {
        Fate::Kill => drop(victim.kill()),
        Fate::Pause => victim.end(),
    }
    house.close().await;
    (taken, watched.seen)
}

async fn take(events: &mut mpsc::Receiver<(RunId, Value)>, watched: &mut Watched) {
    let next = timeout(PATIENCE, events.recv()).await.expect("the runs go on");
    let (run, event) = next.expect("an event");
    note(&event, &mut watched.seen);
    match event["type"].as_str() {
        Some("run_started") => drop(watched.owners.insert(run, event["worker"].as_str().unwrap_or_default().into())),
        Some("run_completed") => {
            watched.owners.remove(&run);
            watched.ended += 1;
        }
        _ => {}
    }
}
