//! kill -9 on one machine: a process with fifty runs dies, and is started again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::RunId;
use serde_json::Value;

use super::child::{Orders, Process, run_of};
use super::figures::{ROUNDS, median, tell};
use super::house::{House, Place, Site, limits, tokio};
use super::talker::{Talk, Talker};

/// Runs that the process has in hand.
pub const RUNS: usize = 50;
/// Steps of each.
pub const STEPS: usize = 200;

/// What was acknowledged: steps that a reader has seen completed.
pub type Seen = BTreeSet<(RunId, String)>;

/// Kills a process in the middle of its runs and starts it again.
pub fn measure(site: &Site) {
    if site.servers.is_some() {
        // There, another worker is ready: see `workers`.
        return;
    }
    let (mut resumed, mut ended, mut again, mut acknowledged) = (vec![], vec![], 0, 0);
    for round in 0..ROUNDS {
        let place = site.place(&format!("kill-{round}"));
        let orders =
            |chains| Orders { place: place.clone(), name: "bench".into(), chains, lease_ms: 15_000, reads: true };
        let first = Process::start(&orders((RUNS, STEPS)));
        let mut seen = Seen::new();
        // In another place of the runs each time.
        while seen.len() < RUNS * STEPS / 10 * (round + 2) {
            let (_, event) = first.line().expect("the runs go on");
            note(&event, &mut seen);
        }
        first.kill().iter().for_each(|event| note(event, &mut seen));
        let second = Process::start(&orders((0, 0)));
        let (mut starts, mut ends) = (BTreeMap::new(), BTreeMap::new());
        while ends.len() < RUNS {
            let (at, event) = second.line().expect("the runs go on");
            let Some(run) = run_of(&event) else { continue };
            let after = at.duration_since(second.start);
            match event["type"].as_str() {
                Some("run_started") => drop(starts.entry(run).or_insert(after)),
                Some("run_completed") => drop(ends.entry(run).or_insert(after)),
                _ => {}
            }
        }
        second.end();
        assert_eq!(starts.len(), RUNS, "all of them were taken over");
        let last =
            |times: &BTreeMap<RunId, Duration>| times.values().max().map_or(0.0, |time| time.as_secs_f64() * 1e3);
        resumed.push(last(&starts));
        ended.push(last(&ends));
        acknowledged += seen.len();
        again += repeated(&place, &seen);
    }
    let case = format!("kill -9 with {RUNS} running chains");
    tell(&format!("{case}, process start → all resumed"), median(&mut resumed), "ms", &site.setting);
    tell(&format!("{case}, process start → all ended"), median(&mut ended), "ms", &site.setting);
    tell(&format!("{case}, acknowledged steps"), acknowledged as f64, "steps", &site.setting);
    tell(&format!("{case}, acknowledged steps run again"), again as f64, "steps", &site.setting);
}

/// Takes in what a reader saw.
pub fn note(event: &Value, seen: &mut Seen) {
    if event["type"] == "step_state"
        && event["state"] == "completed"
        && let (Some(run), Some(step)) = (run_of(event), event["id"].as_str())
    {
        seen.insert((run, step.to_owned()));
    }
}

/// Acknowledged steps that the logs do not hold, or that ran once more afterwards; and of all steps, those that did not end once.
pub fn repeated(place: &Place, seen: &Seen) -> usize {
    tokio().block_on(async {
        let house = House::open(place, Talker::new(Talk::Prose(0), true), limits(), None).await;
        let page = house.runtime.ports.store.runs(house.user(), None, None, RUNS).await.expect("the runs");
        let mut wrong = 0;
        for run in page.items {
            let mut ended: BTreeMap<String, u32> = BTreeMap::new();
            let mut after = 0;
            loop {
                let events = house.runtime.ports.store.read_after(run.id, after, 1_000).await.expect("read");
                let Some(last) = events.last() else { break };
                after = last.head.seq;
                for event in events.iter().filter(|event| event.kind == "step_state") {
                    let state: Value = serde_json::from_slice(&event.payload).expect("an event");
                    let id = state["id"].as_str().expect("a step").to_owned();
                    match state["state"].as_str() {
                        Some("completed") => *ended.entry(id).or_default() += 1,
                        Some("running") if ended.contains_key(&id) => wrong += 1,
                        _ => {}
                    }
                }
            }
            wrong += seen.iter().filter(|(of, step)| *of == run.id && !ended.contains_key(step)).count();
            wrong += ended.values().filter(|times| **times != 1).count() + STEPS.abs_diff(ended.len());
        }
        house.close().await;
        wrong
    })
}
