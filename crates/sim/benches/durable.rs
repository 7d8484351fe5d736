//! What durable runs cost: steps, fan-out, streams, first events, resumes and kills, through the whole runtime and on both stores.
//!
//! `scripts/bench durable` prints JSON lines and ends by itself within ten minutes; `--only CASE` does one of [`CASES`], `--store sqlite`
//! or `--store postgres` one store. Every figure is a median of at least five rounds unless its case says otherwise. Compare lines of
//! one run alone, and with the limits that are measured beside them: raw commits of the same disk, bare inserts of the same PostgreSQL.
//! Readers are measured by another benchmark, `readers`.
#![expect(clippy::disallowed_methods, reason = "a bench reads clocks and owns processes, files and tasks")]
#![expect(clippy::expect_used, reason = "a bench that cannot go on says why")]
#![expect(clippy::print_stderr, reason = "a wrong argument is told to whoever types it")]

use std::process::ExitCode;
use std::time::Duration;

mod durable {
    pub mod bare;
    pub mod chain;
    pub mod child;
    pub mod figures;
    pub mod house;
    pub mod kill;
    pub mod program;
    pub mod resume;
    pub mod stream;
    pub mod talker;
    pub mod workers;
}

use durable::house::Site;
use durable::{bare, chain, child, figures, kill, program, resume, stream, workers};

/// What can be asked for with `--only`, in the order in which it is done.
const CASES: [&str; 9] =
    ["limits", "chain", "fan-out", "stream", "resume", "kill", "workers", "program", "first-event"];
/// After so long the bench ends, whatever it is doing.
const MOST: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    figures::count_commits();
    // An error says that it is chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Some(told) = std::env::var_os(child::VARIABLE) {
        child::live(&told.to_string_lossy());
        return ExitCode::SUCCESS;
    }
    let mut arguments = std::env::args().skip(1);
    let (mut only, mut stores) = (None, vec!["sqlite", "postgres"]);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--only" => only = arguments.next(),
            "--store" => {
                let wanted = arguments.next().unwrap_or_default();
                stores.retain(|store| *store == wanted);
            }
            // Cargo says it to every benchmark.
            "--bench" => {}
            other => return refuse(&format!("`{other}` is unknown")),
        }
    }
    if only.as_ref().is_some_and(|only| !CASES.contains(&only.as_str())) {
        return refuse("there is no such case");
    }
    if stores.is_empty() {
        return refuse("there is no such store");
    }
    std::thread::spawn(|| {
        std::thread::sleep(MOST);
        eprintln!("the bench took longer than {} s and was ended", MOST.as_secs());
        std::process::exit(1);
    });
    for store in stores {
        let site = Site::of(store);
        for case in CASES.into_iter().filter(|case| only.as_ref().is_none_or(|only| only == case)) {
            perform(case, &site);
        }
    }
    ExitCode::SUCCESS
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("{why}: --only {} --store sqlite|postgres", CASES.join("|"));
    ExitCode::FAILURE
}

fn perform(case: &str, site: &Site) {
    match case {
        "limits" => bare::measure(site),
        "chain" => chain::chains(site),
        "fan-out" => chain::fan_out(site),
        "stream" => stream::measure(site),
        "resume" => resume::measure(site),
        "kill" => kill::measure(site),
        "workers" => workers::measure(site),
        "program" => program::measure(site),
        _ => program::first_events(site),
    }
}
