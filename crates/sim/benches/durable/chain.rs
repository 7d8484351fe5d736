//! Steps that do nothing: in chains, and fanned out. What is left is what durability costs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::event::Work;
use runtime::ports::Model;

use super::figures::{ROUNDS, commits, cpu, median, part, tell};
use super::house::{self, House, Site, chain, echo, file_bytes, limits};
use super::talker::{Talk, Talker};

/// Steps of one chain.
const LENGTH: usize = 100;
/// Chains at once, and how many each client has performed one after the other in a round.
const CLIENTS: [(usize, usize); 3] = [(1, 10), (16, 4), (64, 1)];
/// How often one of several clients looks whether its run has ended.
const CALM: Duration = Duration::from_millis(20);
/// Steps between the first and the last of a fan-out.
const WIDTH: usize = 100;
/// Fan-outs of one round, one after the other.
const FANS: usize = 10;

/// What one round of chains took.
struct Round {
    steps: f64,
    wall: f64,
    cpu: f64,
    commits: f64,
}

fn silent() -> Arc<dyn Model> {
    Talker::new(Talk::Prose(0), true)
}

/// Chains at 1, 16 and 64 at once: each step is in the log before the next begins.
pub fn chains(site: &Site) {
    for (clients, times) in CLIENTS {
        let place = site.place(&format!("chain-{clients}"));
        let mut rounds: Vec<Round> = house::tokio().block_on(async {
            let house = Arc::new(House::open(&place, silent(), limits(), Some("bench")).await);
            let mut rounds = vec![];
            for _ in 0..=ROUNDS {
                rounds.push(round(&house, clients, times).await);
            }
            Arc::into_inner(house).expect("nobody else has it").close().await;
            rounds
        });
        let all: f64 = rounds.iter().map(|round| round.steps).sum();
        rounds.remove(0);
        let of = |figure: fn(&Round) -> f64| median(&mut rounds.iter().map(figure).collect::<Vec<_>>());
        let case = format!("chain of {LENGTH} steps, {clients} at once");
        tell(&case, of(|round| round.steps / round.wall), "steps/s", &site.setting);
        tell(
            &format!("{case}, cpu of the process"),
            of(|round| round.cpu / round.steps * 1e6),
            "µs/step",
            &site.setting,
        );
        if site.servers.is_none() {
            tell(&format!("{case}, commits"), of(|round| round.commits / round.steps), "commits/step", &site.setting);
            // Two events a step, and one more that adds it.
            let bytes = file_bytes(&place.folder) as f64 / (all * 3.0);
            tell(&format!("{case}, on disk"), bytes, "bytes/event", &site.setting);
        }
    }
}

/// Each client has a user of its own and performs its chains one after the other.
async fn round(house: &Arc<House>, clients: usize, times: usize) -> Round {
    let (start, cpu_before, commits_before) = (house.now_ms(), cpu(std::process::id()), commits());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let house = house.clone();
        tasks.spawn(async move {
            let (user, mut ends, mut last) = (house.stranger(), house.ends(), 0);
            let calm = if clients > 1 { CALM } else { Duration::ZERO };
            for _ in 0..times {
                let admitted = house.admit_for(user, chain(LENGTH)).await;
                last = house.ended(admitted, &mut ends, calm).await;
            }
            last
        });
    }
    let last = tasks.join_all().await.into_iter().max().unwrap_or(start);
    Round {
        steps: (clients * times * LENGTH) as f64,
        wall: last.saturating_sub(start) as f64 / 1e3,
        cpu: cpu(std::process::id()) - cpu_before,
        commits: (commits() - commits_before) as f64,
    }
}

/// One step, a hundred that wait for it, and one that waits for those; from the request to the end that a client sees.
pub fn fan_out(site: &Site) {
    let place = site.place("fan-out");
    let (mut p50s, mut p99s, mut per_run) = (vec![], vec![], vec![]);
    house::tokio().block_on(async {
        let house = House::open(&place, silent(), limits(), Some("bench")).await;
        let mut ends = house.ends();
        for round in 0..=ROUNDS {
            let (mut times, before) = (vec![], commits());
            for _ in 0..FANS {
                let start = Instant::now();
                let admitted = house.admit(fan()).await;
                house.ended(admitted, &mut ends, Duration::ZERO).await;
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            if round > 0 {
                p50s.push(median(&mut times));
                p99s.push(part(&mut times, 99));
                per_run.push((commits() - before) as f64 / FANS as f64);
            }
        }
        house.close().await;
    });
    let case = format!("fan-out 1 → {WIDTH} → 1");
    tell(&format!("{case}, p50"), median(&mut p50s), "ms", &site.setting);
    tell(&format!("{case}, slowest of {FANS}"), median(&mut p99s), "ms", &site.setting);
    if site.servers.is_none() {
        tell(&format!("{case}, commits"), median(&mut per_run), "commits/run", &site.setting);
    }
}

fn fan() -> Work {
    let wide: Vec<String> = (0..WIDTH).map(|n| format!("wide-{n}")).collect();
    let first = "first".to_owned();
    let mut steps = vec![echo(first.clone(), &[])];
    steps.extend(wide.iter().map(|id| echo(id.clone(), std::slice::from_ref(&first))));
    steps.push(echo("last".into(), &wide));
    Work::Graph { steps }
}
