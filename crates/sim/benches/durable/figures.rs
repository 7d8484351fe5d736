//! Lines, medians, and what the system says of a process.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// Rounds of which the median is told, after one that warms up.
pub const ROUNDS: usize = 5;

/// Prints a figure; nothing if there is none, as with what only one of the stores counts.
pub fn tell(case: &str, value: f64, unit: &str, setting: &str) {
    if !value.is_finite() {
        return;
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load1: Option<f64> = load.split(' ').next().and_then(|load| load.parse().ok());
    let value = (value * 100.0).round() / 100.0;
    let line = serde_json::json!({
        "bench": "durable", "case": case, "value": value, "unit": unit, "setting": setting, "load1": load1,
    });
    // Nobody may be reading.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The middle one.
pub fn median(values: &mut [f64]) -> f64 {
    part(values, 50)
}

/// The value below which so many percent are.
pub fn part(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get((values.len() * percent / 100).min(values.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// Processor time of a process, in seconds.
pub fn cpu(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// A line of a process's status in KiB, such as `VmRSS` or `VmHWM`, in MiB.
pub fn memory(process: u32, line: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let found = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    let kib = found.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1_024.0
}

static COMMITS: AtomicU64 = AtomicU64::new(0);

/// Commits of the store of this process so far.
pub fn commits() -> u64 {
    COMMITS.load(Ordering::Relaxed)
}

/// Counts commits from now on.
pub fn count_commits() {
    // An error says that somebody counts already.
    let _ = metrics::set_global_recorder(Commits);
}

/// Records the one metric that the bench wants.
struct Commits;

struct Count;

impl metrics::CounterFn for Count {
    fn increment(&self, value: u64) {
        COMMITS.fetch_add(value, Ordering::Relaxed);
    }

    fn absolute(&self, value: u64) {
        COMMITS.store(value, Ordering::Relaxed);
    }
}

impl Recorder for Commits {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match key.name() {
            "baton_store_commits_total" => Counter::from_arc(Arc::new(Count)),
            _ => Counter::noop(),
        }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
