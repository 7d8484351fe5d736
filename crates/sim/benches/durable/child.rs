//! This program once more, as a process that can be killed: a house whose worker performs runs and whose readers say what they see.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use contract::{Limits, RunId};
use serde_json::{Value, json};

use super::house::{House, Place, chain, limits, tokio};
use super::talker::{Talk, Talker};

/// The variable that makes this program a child.
pub const VARIABLE: &str = "BATON_BENCH_CHILD";
/// Lines that wait to be taken.
const LINES: usize = 4_096;
/// Nothing for so long means that nothing more comes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Runs that a child finds at the most.
const RUNS: usize = 100;

/// What a child is told.
pub struct Orders {
    /// Its store.
    pub place: Place,
    /// Its worker's name.
    pub name: String,
    /// Chains that it admits before it begins, and their steps.
    pub chains: (usize, usize),
    /// The lease of its claims.
    pub lease_ms: u64,
    /// Whether it reads the runs and says what it sees.
    pub reads: bool,
}

/// The limits of a child: a lease with what belongs to it.
pub fn leased(lease_ms: u64) -> Limits {
    Limits { lease_ms, heartbeat_ms: lease_ms / 3, lease_margin_ms: lease_ms / 5, ..limits() }
}

/// A process.
pub struct Process {
    child: Child,
    lines: Receiver<(Instant, Value)>,
    /// When it was started.
    pub start: Instant,
    _stdin: ChildStdin,
}

impl Process {
    /// Starts one.
    pub fn start(orders: &Orders) -> Self {
        let shared = orders.place.shared.as_ref();
        let told = json!({
            "folder": orders.place.folder, "shared": shared, "name": orders.name, "chains": orders.chains,
            "lease_ms": orders.lease_ms, "reads": orders.reads,
        });
        let start = Instant::now();
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command.env(VARIABLE, told.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("this program starts");
        let (stdin, stdout) = (child.stdin.take().expect("its input"), child.stdout.take().expect("its output"));
        let (send, lines) = sync_channel(LINES);
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            for value in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                if send.send((Instant::now(), value)).is_err() {
                    break;
                }
            }
        });
        Self { child, lines, start, _stdin: stdin }
    }

    /// The next thing that it says and when; none once it has ended.
    pub fn line(&self) -> Option<(Instant, Value)> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("a child has said nothing for {} s", PATIENCE.as_secs()),
        }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it as a power cut would. Gives what it had said until then.
    pub fn kill(mut self) -> Vec<Value> {
        let _ = self.child.kill();
        let rest = self.lines.iter().map(|(_, value)| value).collect();
        let _ = self.child.wait();
        rest
    }

    /// Lets it end by itself: its input ends.
    pub fn end(self) {
        let Self { mut child, _stdin: stdin, lines, .. } = self;
        drop(stdin);
        lines.iter().for_each(drop);
        let _ = child.wait();
    }
}

/// The life of a child. It ends with its input.
pub fn live(told: &str) {
    let told: Value = serde_json::from_str(told).expect("orders");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let shared = told["shared"].as_array().map(|both| (text(&both[0]), text(&both[1])));
    let place = Place { folder: text(&told["folder"]).into(), shared };
    let number = |value: &Value| usize::try_from(value.as_u64().expect("a number")).expect("a number");
    let (chains, length) = (number(&told["chains"][0]), number(&told["chains"][1]));
    let limits = leased(told["lease_ms"].as_u64().expect("a lease"));
    tokio().block_on(async {
        let silent = Talker::new(Talk::Prose(0), true);
        let house = House::open(&place, silent, limits, told["name"].as_str()).await;
        for _ in 0..chains {
            house.admit(chain(length)).await;
        }
        let page = house.runtime.ports.store.runs(house.user(), None, None, RUNS).await.expect("the runs");
        for run in page.items.iter().filter(|run| told["reads"] == true && !run.status.is_terminal()) {
            tokio::spawn(read(house.runtime.events(run.id, run.last_seq)));
        }
        say(&json!({ "ready": page.items.len() }));
        let input = tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().for_each(drop));
        input.await.expect("its input");
        house.close().await;
    });
}

async fn read(mut reader: runtime::EventReader) {
    while let Some(frame) = reader.next().await.expect("an event") {
        say(&serde_json::from_slice(&frame.json).expect("an event"));
    }
}

fn say(value: &Value) {
    // Nobody may be listening any more.
    let _ = writeln!(std::io::stdout(), "{value}");
}

/// The run of an event.
pub fn run_of(event: &Value) -> Option<RunId> {
    event["run_id"].as_str()?.parse().ok()
}
