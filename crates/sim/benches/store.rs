//! How fast the store in SQLite is at full durability, beside what the same disk gives for bare commits.
//!
//! `cargo bench -p sim --bench store` prints JSON lines. Every figure is the median of five rounds; compare lines of one run alone.
#![expect(clippy::disallowed_methods, reason = "a bench reads clocks and owns files and tasks")]
#![expect(clippy::expect_used, reason = "a bench that cannot go on says why")]

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use adapters::store::sqlite::{Options, Sqlite};
use contract::event::{NewEvent, TextDelta};
use contract::{RunId, StepId, UserId};
use runtime::ports::Store;
use runtime::ports::store::{Append, Claim, Entry};
use sim::conformance::store::Clerk;
use tokio::task::JoinSet;

/// Rounds of which the median is told, after one that warms up.
const ROUNDS: usize = 5;
/// How long one round lasts.
const ROUND: Duration = Duration::from_millis(1_000);
/// Events of the run that is read again and again: a small app of one turn.
const REPLAYED: u64 = 194;
const DURABLE: &str = "WAL, synchronous=FULL, fdatasync";

fn main() {
    let folder =
        tempfile::Builder::new().prefix("bench-store-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    raw_commits(folder.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let grouped = Options::default();
        for producers in [1, 16, 64, 256] {
            appends(&folder.path().join(format!("append-{producers}")), &grouped, producers, 1).await;
        }
        appends(&folder.path().join("bulk"), &grouped, 16, 64).await;
        let alone = Options { commit_events: 1, ..Options::default() };
        appends(&folder.path().join("alone"), &alone, 16, 1).await;
        admissions(&folder.path().join("admit")).await;
        replays(&folder.path().join("replay")).await;
    });
}

fn tell(case: &str, value: f64, unit: &str, setting: &str) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load1: f64 = load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(-1.0);
    let value = (value * 100.0).round() / 100.0;
    let line = serde_json::json!({
        "bench": "store", "case": case, "value": value, "unit": unit, "setting": setting, "load1": load1,
    });
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Processor time of this process, in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// The limit: one page overwritten and synced, as often as it goes, by one writer.
fn raw_commits(folder: &Path) {
    let mut file = std::fs::File::create(folder.join("raw")).expect("a file");
    let page = [7_u8; 4_096];
    for _ in 0..1_024 {
        file.write_all(&page).expect("written");
    }
    file.sync_all().expect("synced");
    let mut rates = vec![];
    let mut times = vec![];
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut done = 0_u32;
        while start.elapsed() < ROUND {
            let began = Instant::now();
            file.seek(SeekFrom::Start(u64::from(done % 1_024) * 4_096)).expect("sought");
            file.write_all(&page).expect("written");
            file.sync_data().expect("synced");
            times.push(began.elapsed().as_secs_f64() * 1e6);
            done += 1;
        }
        rates.push(f64::from(done) / start.elapsed().as_secs_f64());
    }
    tell("raw commits of 4 KiB", median(rates), "commits/s", "overwrite + fdatasync");
    tell("raw commits of 4 KiB, p50", median(times), "µs", "overwrite + fdatasync");
}

fn open(data: &Path, options: &Options) -> Arc<Sqlite> {
    Arc::new(Sqlite::open(data, options).expect("a store"))
}

async fn runs(store: &Sqlite, count: usize) -> (UserId, Vec<Claim>) {
    let clerk = Clerk::new();
    let user = clerk.id();
    for _ in 0..count {
        store.admit(clerk.new_chat(user)).await.expect("admitted");
    }
    (user, store.claim("bench", count, 0, u64::MAX / 4).await.expect("claimed"))
}

fn small(claim: Claim, after: u64, events: u64) -> Append {
    let event = |i| {
        let event = TextDelta { text: "a few words of prose, ".into() }.into();
        let new = NewEvent { at: 1_732_147_200_000 + after + i, step: Some((StepId::new("turn-1"), 1)), event };
        Entry::of(&new).expect("encoded")
    };
    Append { claim, after, events: (0..events).map(event).collect(), rows: vec![], consumed: vec![], ends: false }
}

/// Each producer appends to a run of its own and waits for each answer.
async fn appends(data: &Path, options: &Options, producers: usize, events: u64) {
    let store = open(data, options);
    let (_, claims) = runs(&store, producers).await;
    let mut ends = vec![2_u64; producers];
    let (mut rates, mut cpus, mut p50s, mut p99s) = (vec![], vec![], vec![], vec![]);
    for round in 0..=ROUNDS {
        let (start, cpu_before) = (Instant::now(), cpu());
        let mut tasks = JoinSet::new();
        for (claim, end) in claims.iter().zip(&ends) {
            let (store, claim, mut end) = (store.clone(), *claim, *end);
            tasks.spawn(async move {
                let mut times = vec![];
                while start.elapsed() < ROUND {
                    let began = Instant::now();
                    end = store.append(small(claim, end, events)).await.expect("appended");
                    times.push(began.elapsed().as_secs_f64() * 1e6);
                }
                (claim, end, times)
            });
        }
        let mut times = vec![];
        while let Some(done) = tasks.join_next().await {
            let (claim, end, mut took) = done.expect("a task");
            times.append(&mut took);
            if let Some(i) = claims.iter().position(|other| *other == claim) {
                ends[i] = end;
            }
        }
        let wall = start.elapsed().as_secs_f64();
        if round > 0 {
            let count = times.len() as f64 * events as f64;
            rates.push(count / wall);
            cpus.push((cpu() - cpu_before) / count * 1e6);
            times.sort_by(f64::total_cmp);
            p50s.push(times[times.len() / 2]);
            p99s.push(times[times.len() * 99 / 100]);
        }
    }
    let grouping = if options.commit_events == 1 { ", one request a commit" } else { "" };
    let case = format!("append {events} to each of {producers} runs{grouping}");
    tell(&case, median(rates), "events/s", DURABLE);
    tell(&format!("{case}, p50"), median(p50s), "µs", DURABLE);
    tell(&format!("{case}, p99"), median(p99s), "µs", DURABLE);
    tell(&format!("{case}, cpu per event"), median(cpus), "µs", DURABLE);
    let total: u64 = ends.iter().sum();
    drop(store);
    let bytes = std::fs::metadata(data.join("baton.db")).expect("a file").len();
    tell(&format!("{case}, on disk"), bytes as f64 / total as f64, "bytes/event", DURABLE);
}

/// 16 users whose messages arrive at the same moment, again and again.
async fn admissions(data: &Path) {
    let store = open(data, &Options::default());
    let clerk = Arc::new(Clerk::new());
    let mut rates = vec![];
    for _ in 0..=ROUNDS {
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..16 {
            let (store, clerk) = (store.clone(), clerk.clone());
            tasks.spawn(async move {
                let mut done = 0_u32;
                while start.elapsed() < ROUND {
                    let mut admission = clerk.new_chat(clerk.id());
                    admission.most_active = admission.most_active.map(|(name, _)| (name, u64::MAX));
                    store.admit(admission).await.expect("admitted");
                    done += 1;
                }
                done
            });
        }
        let done: u32 = tasks.join_all().await.into_iter().sum();
        rates.push(f64::from(done) / start.elapsed().as_secs_f64());
    }
    tell("admissions of 16 users at once", median(rates), "messages/s", DURABLE);
}

async fn replays(data: &Path) {
    let store = open(data, &Options::default());
    let (_, claims) = runs(&store, 50).await;
    let ids: Vec<RunId> = claims.iter().map(|claim| claim.run_id).collect();
    for claim in claims {
        store.append(small(claim, 2, REPLAYED - 2)).await.expect("appended");
    }
    for readers in [1, 50] {
        let (mut rates, mut p50s) = (vec![], vec![]);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let mut tasks = JoinSet::new();
            for run in ids.iter().take(readers).copied() {
                let store = store.clone();
                tasks.spawn(async move {
                    let mut times = vec![];
                    while start.elapsed() < ROUND {
                        let began = Instant::now();
                        let log = store.read_after(run, 0, 512).await.expect("read");
                        assert_eq!(log.len() as u64, REPLAYED);
                        times.push(began.elapsed().as_secs_f64() * 1e6);
                    }
                    times
                });
            }
            let mut times = tasks.join_all().await.concat();
            rates.push(times.len() as f64 / start.elapsed().as_secs_f64());
            times.sort_by(f64::total_cmp);
            p50s.push(times[times.len() / 2]);
        }
        let case = format!("read a log of {REPLAYED} events, {readers} readers");
        tell(&case, median(rates), "logs/s", "committed, from the page cache");
        tell(&format!("{case}, p50"), median(p50s), "µs", "committed, from the page cache");
    }
}
