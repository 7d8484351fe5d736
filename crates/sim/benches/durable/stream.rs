//! Runs that stream: a model says small pieces as fast as they are taken, through parser, task and store.

use std::time::{Duration, Instant};

use contract::event::Work;

use super::figures::{ROUNDS, commits, cpu, median, memory, tell};
use super::house::{self, Admitted, House, Place, Site, limits};
use super::talker::{Talk, Talker};

/// Runs at once, and the rounds of four events that the model of each says.
const RUNS: [(usize, u64); 3] = [(1, 2_500), (64, 100), (1_000, 10)];

/// What one round took.
#[derive(Default)]
struct Measured {
    wall: f64,
    cpu: f64,
    events: f64,
    pieces: f64,
    commits: f64,
    memory: f64,
}

/// Events at 1, 64 and 1,000 streaming runs. Every event counts that the log got while the models talked.
pub fn measure(site: &Site) {
    for (runs, turns) in RUNS {
        let mut rounds: Vec<Measured> = vec![];
        let place = site.place(&format!("stream-{runs}"));
        for _ in 0..=ROUNDS {
            rounds.push(house::tokio().block_on(round(&place, runs, Talk::Turns(turns))));
        }
        let fresh = rounds.remove(0);
        let of = |figure: fn(&Measured) -> f64| median(&mut rounds.iter().map(figure).collect::<Vec<_>>());
        let case = format!("{runs} streaming runs, no two pieces joined");
        tell(&case, of(|round| round.events / round.wall), "events/s", &site.setting);
        tell(
            &format!("{case}, cpu of the process"),
            of(|round| round.cpu / round.events * 1e6),
            "µs/event",
            &site.setting,
        );
        tell(
            &format!("{case}, events of one commit"),
            of(|round| round.events / round.commits),
            "events",
            &site.setting,
        );
        if runs > 1 {
            tell(&format!("{case}, memory"), fresh.memory / runs as f64 * 1_024.0, "KiB/run", &site.setting);
        }
        let mut rounds: Vec<Measured> = (0..=ROUNDS)
            .map(|n| {
                house::tokio().block_on(round(&site.place(&format!("prose-{runs}-{n}")), runs, Talk::Prose(turns * 4)))
            })
            .collect();
        rounds.remove(0);
        let of = |figure: fn(&Measured) -> f64| median(&mut rounds.iter().map(figure).collect::<Vec<_>>());
        let case = format!("{runs} streaming runs, prose");
        tell(&case, of(|round| round.pieces / round.wall), "pieces/s", &site.setting);
        tell(&format!("{case}, pieces of one event"), of(|round| round.pieces / round.events), "pieces", &site.setting);
    }
}

async fn round(place: &Place, runs: usize, talk: Talk) -> Measured {
    let model = Talker::new(talk, true);
    let house = House::open(place, model.clone(), limits(), Some("bench")).await;
    let before = memory(std::process::id(), "VmRSS");
    let mut ids = vec![];
    for _ in 0..runs {
        ids.push(house.admit(Work::Message).await);
    }
    while model.asked() < runs as u64 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let memory = memory(std::process::id(), "VmRSS") - before;
    let begun = events(&house, &ids).await;
    let (start, cpu_before, commits_before) = (Instant::now(), cpu(std::process::id()), commits());
    model.open();
    let mut ends = house.ends();
    for admitted in &ids {
        house.ended(*admitted, &mut ends, Duration::ZERO).await;
    }
    let pieces = match talk {
        Talk::Prose(pieces) => pieces,
        Talk::Turns(turns) => turns * 2,
    };
    let measured = Measured {
        wall: start.elapsed().as_secs_f64(),
        cpu: cpu(std::process::id()) - cpu_before,
        commits: (commits() - commits_before) as f64,
        events: events(&house, &ids).await - begun,
        pieces: (pieces * runs as u64) as f64,
        memory,
    };
    house.close().await;
    measured
}

/// Events of runs, by their rows.
async fn events(house: &House, runs: &[Admitted]) -> f64 {
    let mut events = 0.0;
    for of in runs {
        let view = house.runtime.ports.store.run(of.user, of.run).await.expect("the store answers");
        events += view.expect("the run is there").last_seq as f64;
    }
    events
}
