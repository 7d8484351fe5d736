//! Witnesses that no process of Baton can talk to: the database's own record of who appended what and when, the kernel's of which
//! commands ran, and the model's of what it was asked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use adapters::model::scripted::{LEDGER_ENTRIES, Ledger};
use sim::servers::Postgres;

use crate::load::label_of;

/// How often the kernel and the model are asked. Commands run longer than that.
const LOOK: Duration = Duration::from_millis(20);

/// Makes the database note each append, with the claim that the run is under at that moment; and lets a third of all takeovers take
/// long, as on a slow disk: what a fenced worker does meanwhile is what fencing is for.
const NOTES: &str = r"
CREATE SCHEMA witness;
CREATE TABLE witness.appends (
    n BIGSERIAL PRIMARY KEY, run UUID NOT NULL, first BIGINT NOT NULL, last BIGINT NOT NULL, epoch BIGINT NOT NULL,
    at BIGINT NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint
);
CREATE INDEX ON witness.appends (run, n);
CREATE FUNCTION witness.note() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO witness.appends (run, first, last, epoch)
    SELECT f.run_id, min(f.seq), max(f.seq), c.epoch FROM fresh f JOIN public.claims c ON c.run_id = f.run_id
    GROUP BY f.run_id, c.epoch;
    RETURN NULL;
END $$;
CREATE TRIGGER witness AFTER INSERT ON public.events REFERENCING NEW TABLE AS fresh
FOR EACH STATEMENT EXECUTE FUNCTION witness.note();
CREATE FUNCTION witness.hold() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
    PERFORM pg_sleep(0.25) FROM (SELECT 1 WHERE random() < 0.33) once;
    RETURN NULL;
END $$;
CREATE TRIGGER hold AFTER UPDATE OF epoch ON public.claims FOR EACH ROW
WHEN (OLD.worker IS NOT NULL AND NEW.epoch > OLD.epoch) EXECUTE FUNCTION witness.hold();
";

/// An append, as the database saw it.
#[derive(Debug, Clone, Copy)]
pub struct Append {
    /// The order in which appends were made, over all runs.
    pub n: u64,
    pub first: u64,
    pub last: u64,
    /// The epoch of the run's claim at that moment.
    pub epoch: u64,
    pub at_ms: u64,
}

/// Makes the database take notes from here on.
pub fn take_notes(postgres: &Postgres) {
    postgres.ask(&postgres.url(), NOTES);
}

/// What the database noted of some runs, which are named as it names them.
pub fn appends(postgres: &Postgres, runs: &str) -> BTreeMap<u128, Vec<Append>> {
    let ask = format!("SELECT run, n, first, last, epoch, at FROM witness.appends WHERE run IN ({runs}) ORDER BY n");
    let mut found: BTreeMap<u128, Vec<Append>> = BTreeMap::new();
    for line in postgres.ask(&postgres.url(), &ask).lines() {
        let (run, rest) = line.split_once('|').unwrap();
        let numbers: Vec<u64> = rest.split('|').map(|number| number.parse().unwrap()).collect();
        let [n, first, last, epoch, at_ms] = numbers[..] else { panic!("{line}") };
        found.entry(bits_of(run)).or_default().push(Append { n, first, last, epoch, at_ms });
    }
    found
}

/// The bits of a UUID as PostgreSQL writes it.
pub fn bits_of(uuid: &str) -> u128 {
    u128::from_str_radix(&uuid.replace('-', ""), 16).unwrap()
}

/// What was seen of the world outside of Baton.
#[derive(Default)]
pub struct Seen {
    /// For each label of a command, the processes that ran it: their numbers and when they began.
    pub commands: BTreeMap<String, BTreeSet<(u32, u64)>>,
    /// How often the model was asked, by request and turn.
    pub asked: BTreeMap<(String, u32), u32>,
    /// Requests that the model refused to understand, and others that were missed.
    pub faults: Vec<String>,
}

/// Looks at the kernel and the model until it is told to stop.
pub struct Lookout {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Lookout {
    pub fn start(ledger: Ledger) -> Self {
        let (seen, stop) = (Arc::new(Mutex::new(Seen::default())), Arc::new(AtomicBool::new(false)));
        let thread = {
            let (seen, stop) = (seen.clone(), stop.clone());
            std::thread::spawn(move || {
                let mut known = 0;
                while !stop.load(Ordering::SeqCst) {
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    look_at_commands(&mut seen);
                    look_at_model(&mut seen, &ledger, &mut known);
                    drop(seen);
                    sleep(LOOK);
                }
            })
        };
        Self { seen, stop, thread: Some(thread) }
    }

    /// Ends it and gives what it has seen.
    pub fn end(mut self) -> Seen {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Shells in sandboxes, by what they were told to do. A shell that was only forked has the words of its parent: it counts once for
/// each start of a program, since only that changes the words. What the kernel says of the process is asked first: words that come
/// after it are then its own.
fn look_at_commands(seen: &mut Seen) {
    for pid in pids() {
        if let Some(began) = began(pid)
            && let Some(words) = words(pid)
            && let [program, "-c", script] = words.split('\0').collect::<Vec<_>>()[..].get(..3).unwrap_or_default()
            && *program == "sh"
            && let Some(label) = label_of(script)
        {
            seen.commands.entry(label).or_default().insert((pid, began));
        }
    }
}

fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn words(pid: u32) -> Option<String> {
    String::from_utf8(fs::read(format!("/proc/{pid}/cmdline")).ok()?).ok()
}

/// Processes whose words hold a text and that are more than a name.
pub fn processes_with(text: &str) -> Vec<u32> {
    let found = pids().filter(|pid| words(*pid).is_some_and(|words| words.contains(text)));
    found.filter(|pid| *pid != std::process::id()).collect()
}

/// When a process began, in ticks since the machine did; nothing if it is a copy of another that has started no program of its own.
fn began(pid: u32) -> Option<u64> {
    /// `PF_FORKNOEXEC` of the kernel's `sched.h`.
    const IS_COPY: u64 = 0x40;
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may hold anything; the third field is the first behind it.
    let fields: Vec<_> = text[text.rfind(')')? + 2..].split(' ').collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    (number(9)? & IS_COPY == 0).then(|| number(22)).flatten()
}

fn look_at_model(seen: &mut Seen, ledger: &Ledger, known: &mut u64) {
    let count = ledger.count();
    if count == *known {
        return;
    }
    for entry in ledger.entries() {
        if entry.n <= *known {
            continue;
        }
        if entry.n > *known + 1 {
            seen.faults
                .push(format!("more than {LEDGER_ENTRIES} questions to the model came at once; some were missed"));
        }
        *known = entry.n;
        match (&entry.problem, entry.turn) {
            (None, Some(turn)) => {
                let asking = entry.messages.iter().rev().find(|said| said.text.contains("\n# Request\n"));
                let request = asking.and_then(|said| said.text.rsplit("# Request").next()).unwrap_or_default();
                let request = request.lines().find(|line| !line.is_empty() && !line.starts_with('`'));
                *seen.asked.entry((request.unwrap_or_default().to_owned(), turn)).or_default() += 1;
            }
            (problem, _) => seen.faults.push(format!("the model refused a question: {problem:?}")),
        }
    }
}
