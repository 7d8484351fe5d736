//! Readers of events on the wire: how soon they have what was committed, and what each of them costs.
//!
//! `scripts/bench readers` prints JSON lines. The server runs in a process of its own on SQLite at full durability, so that its memory
//! is what is measured; the readers are this process: plain sockets on the loopback, which note when the bytes of an event are there.
//! An event is committed when the store has answered its append. Both processes read one clock.
#![expect(clippy::disallowed_methods, reason = "a bench reads clocks and starts processes, tasks and files")]
#![expect(clippy::expect_used, reason = "a bench that cannot go on says why")]

use std::collections::HashMap;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use adapters::bus::LocalBus;
use adapters::store::sqlite::{Options, Sqlite};
use adapters::world::SystemWorld;
use contract::event::{NewEvent, TextDelta};
use contract::{Limits, RunId, StepId};
use metrics_exporter_prometheus::PrometheusBuilder;
use runtime::Runtime;
use runtime::ports::{Store, Wake};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::{OwnerToken, Server, ServerConfig};
use sim::conformance::store::Clerk;
use sim::scribe::{Scribe, desk};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Tells a child from its parent.
const SERVE: &str = "--serve";
const TOKEN: &str = "62656e63682d6f776e6572732d746f6b656e";
/// Runs in whose logs events are written; a server has that many by default.
const RUNS: usize = 200;
/// Readers that wait and get heartbeats.
const IDLE: usize = 10_000;
/// Readers of runs that stream.
const BUSY: usize = 1_000;
/// Connections that are made at once.
const CONNECTING: usize = 64;
/// How long a run streams in one case.
const STREAMING: Duration = Duration::from_secs(8);
/// From the last event to the end of a case, for what is late.
const LATE: Duration = Duration::from_secs(2);
/// The bench stops by itself.
const WHOLE: Duration = Duration::from_secs(300);
/// How long an answer of the child may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a long log that is read again, in events of this size.
const REPLAYED: (u64, usize) = (20_000, 24);
const SETTING: &str = "HTTP over loopback, SQLite WAL synchronous=FULL, server in its own process, two cores for both";

fn main() {
    raise_files();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    match std::env::args().any(|argument| argument == SERVE) {
        true => runtime.block_on(serve()),
        false => runtime.block_on(async { tokio::time::timeout(WHOLE, measure()).await }).expect("an end in time"),
    }
}

/// As many open files as the system lets one have: a reader is one on each side.
fn raise_files() {
    let most = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
}

fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    u64::try_from(now.as_micros()).expect("a clock before the sun dies")
}

// ---- the server's process: it is told in lines what to write, and answers in lines.

async fn serve() {
    let folder =
        tempfile::Builder::new().prefix("bench-readers-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(folder.path(), &Options::default()).expect("a store"));
    let bus = Arc::new(LocalBus::new());
    let process = |limits| desk(store.clone(), bus.clone(), Arc::new(SystemWorld::new()), limits).expect("a desk");
    // The second is another process as far as the first can tell: it shares the store and the wake-ups.
    let (here, elsewhere) = (process(Limits::default()), process(Limits::default()));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let metrics = PrometheusBuilder::new().install_recorder().expect("a recorder");
    let config = ServerConfig { runtime: here.clone(), port, owner_token: OwnerToken::new(TOKEN), metrics };
    tokio::spawn(Box::pin(Server::new(config).serve(listener, CancellationToken::new())));
    let clerk = Clerk::new();
    let user = store.owner(clerk.id(), 0).await.expect("an owner");
    for _ in 0..RUNS {
        store.admit(clerk.new_chat(user)).await.expect("admitted");
    }
    let claims = store.claim("bench", RUNS, 0, u64::MAX / 4).await.expect("claimed");
    let mut scribes: HashMap<usize, Scribe> =
        claims.into_iter().map(|claim| Scribe { claim, end: 2 }).enumerate().collect();
    say(&format!("port {port}"));
    let mut names: Vec<_> = scribes.iter().map(|(n, scribe)| (*n, scribe.claim.run_id)).collect();
    names.sort_unstable();
    say(&names.iter().map(|(_, run)| run.to_string()).collect::<Vec<_>>().join(" "));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut words = line.split(' ');
        let command = words.next().unwrap_or_default();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).expect("a number");
        match command {
            // write FIRST COUNT PAUSE_US ELSEWHERE: runs that stream for a while, an event and then a pause.
            "write" => {
                let (first, count, pause) = (number() as usize, number() as usize, Duration::from_micros(number()));
                let writer = if number() == 1 { &elsewhere } else { &here };
                let chosen = (first..first + count).map(|n| (n, scribes.remove(&n).expect("a run"))).collect();
                scribes.extend(stream(writer, chosen, pause).await);
            }
            // fill RUN EVENTS BYTES: a long log.
            "fill" => {
                let (run, events, bytes) = (number() as usize, number(), number() as usize);
                let scribe = scribes.get_mut(&run).expect("a run");
                for _ in 0..events / 500 {
                    scribe.write(&here, &vec![text(bytes); 500]).await.expect("appended");
                }
                say("filled");
            }
            _ => return,
        }
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("a parent that listens");
}

fn text(bytes: usize) -> NewEvent {
    let event = TextDelta { text: "a few words of prose, ".repeat(bytes / 22 + 1)[..bytes].into() };
    NewEvent { at: 1_732_147_200_000, step: Some((StepId::new("turn-1"), 1)), event: event.into() }
}

/// Streams, each run by itself; then tells when each event was committed: `run seq microseconds`.
async fn stream(writer: &Arc<Runtime>, scribes: Vec<(usize, Scribe)>, pause: Duration) -> Vec<(usize, Scribe)> {
    let mut tasks = JoinSet::new();
    for (n, mut scribe) in scribes {
        let writer = writer.clone();
        tasks.spawn(async move {
            let (begun, mut committed) = (tokio::time::Instant::now(), vec![]);
            // Not all at the same moment.
            tokio::time::sleep(pause.mul_f64((n % 16) as f64 / 16.0)).await;
            while begun.elapsed() < STREAMING {
                let frames = scribe.append(&writer, &[text(40)]).await.expect("appended");
                committed.push((n, scribe.end, now_us()));
                writer.live.publish(scribe.claim.run_id, frames);
                writer.ports.bus.send(Wake::Appended(scribe.claim.run_id));
                tokio::time::sleep(pause).await;
            }
            (n, scribe, committed)
        });
    }
    let mut back = vec![];
    for (n, scribe, committed) in tasks.join_all().await {
        committed.iter().for_each(|(run, seq, at)| say(&format!("{run} {seq} {at}")));
        back.push((n, scribe));
    }
    say("written");
    back
}

// ---- this process: the readers.

/// The server's process.
struct House {
    child: Child,
    ask: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    port: u16,
    runs: Vec<RunId>,
}

impl House {
    async fn open() -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .arg(SERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the server's process");
        let ask = child.stdin.take().expect("its input");
        let answers = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut house = Self { child, ask, answers, port: 0, runs: vec![] };
        let port = house.answer().await;
        house.port = port.strip_prefix("port ").and_then(|port| port.parse().ok()).expect("a port");
        house.runs = house.answer().await.split(' ').map(|run| run.parse().expect("a run")).collect();
        house
    }

    async fn tell(&mut self, command: &str) {
        self.ask.write_all(format!("{command}\n").as_bytes()).await.expect("a server that listens");
    }

    async fn answer(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.answers.next_line()).await.expect("an answer in time");
        line.expect("text").expect("a server that lives")
    }

    /// Lets runs stream; gives when each of their events was committed.
    async fn write(&mut self, first: usize, count: usize, pause_us: u64, elsewhere: bool) -> Commits {
        self.tell(&format!("write {first} {count} {pause_us} {}", u8::from(elsewhere))).await;
        let mut commits = HashMap::new();
        loop {
            let line = self.answer().await;
            let mut numbers = line.split(' ').map(|word| word.parse::<u64>());
            let (Some(Ok(run)), Some(Ok(seq)), Some(Ok(at))) = (numbers.next(), numbers.next(), numbers.next()) else {
                return commits;
            };
            commits.insert((run as usize, seq), at);
        }
    }

    fn proc(&self, file: &str) -> String {
        let id = self.child.id().expect("a server that lives");
        std::fs::read_to_string(format!("/proc/{id}/{file}")).expect("what the system knows of it")
    }

    /// Resident memory in KiB.
    fn memory(&self) -> f64 {
        let status = self.proc("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Processor time in seconds.
    fn cpu(&self) -> f64 {
        let stat = self.proc("stat");
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>()
            / 100.0
    }

    /// Opens a stream of one run's events; reads the head of the answer.
    async fn connect(&self, run: usize, after: u64, buffer: Option<u32>) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        if let Some(bytes) = buffer {
            socket.set_recv_buffer_size(bytes).expect("a small buffer");
        }
        let address = format!("127.0.0.1:{}", self.port).parse().expect("an address");
        let mut stream = socket.connect(address).await.expect("connected");
        let request = format!(
            "GET /v1/runs/{}/events?after={after} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {TOKEN}\r\n\
             Accept: text/event-stream\r\n\r\n",
            self.runs[run], self.port
        );
        stream.write_all(request.as_bytes()).await.expect("asked");
        let mut head = vec![];
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("an answer"));
        }
        assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
        stream
    }

    /// Readers of these runs at their ends, each in a task.
    async fn readers(self: &Arc<Self>, runs: Vec<(usize, u64)>) -> Readers {
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        for some in runs.chunks(CONNECTING) {
            let mut connecting = JoinSet::new();
            for (run, after) in some.iter().copied() {
                let house = self.clone();
                connecting.spawn(async move { (run, house.connect(run, after, None).await) });
            }
            for (run, stream) in connecting.join_all().await {
                tasks.spawn(read(stream, run, stop.clone()));
            }
        }
        Readers { tasks, stop }
    }
}

type Commits = HashMap<(usize, u64), u64>;
/// Run, place and when its bytes were there.
type Seen = Vec<(usize, u64, u64)>;

struct Readers {
    tasks: JoinSet<Seen>,
    stop: CancellationToken,
}

impl Readers {
    async fn stop(self) -> Seen {
        self.stop.cancel();
        self.tasks.join_all().await.concat()
    }
}

/// Notes each event that comes.
async fn read(mut stream: TcpStream, run: usize, stop: CancellationToken) -> Seen {
    let (mut seen, mut rest, mut piece) = (vec![], Vec::new(), Box::new([0; 2_048]));
    loop {
        let bytes = tokio::select! {
            () = stop.cancelled() => return seen,
            read = stream.read(&mut *piece) => read.expect("a stream that lasts"),
        };
        assert!(bytes > 0, "a stream that lasts");
        let now = now_us();
        rest.extend_from_slice(&piece[..bytes]);
        let mut done = 0;
        while let Some(end) = rest[done..].iter().position(|byte| *byte == b'\n') {
            let line = &rest[done..done + end];
            done += end + 1;
            if let Some(id) = line.strip_prefix(b"id: ") {
                let seq = std::str::from_utf8(id).ok().and_then(|id| id.rsplit(':').next()?.parse().ok());
                seen.push((run, seq.expect("a place"), now));
            }
        }
        rest.drain(..done);
    }
}

/// How late each event was, in milliseconds, sorted. Every event that was committed has to be there as often as it has readers.
fn lags(commits: &Commits, seen: &Seen, readers: usize) -> Vec<f64> {
    let lag = |(run, seq, at): &(usize, u64, u64)| {
        commits.get(&(*run, *seq)).map(|committed| at.saturating_sub(*committed) as f64 / 1e3)
    };
    let mut lags: Vec<f64> = seen.iter().filter_map(lag).collect();
    assert_eq!(lags.len(), commits.len() * readers, "every reader has every event");
    lags.sort_by(f64::total_cmp);
    lags
}

fn tell(case: &str, value: f64, unit: &str) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load1: f64 = load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(-1.0);
    let value = (value * 100.0).round() / 100.0;
    let line = serde_json::json!({
        "bench": "readers", "case": case, "value": value, "unit": unit, "setting": SETTING, "load1": load1,
    });
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn tell_lags(case: &str, lags: &[f64]) {
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let at = ((lags.len() - 1) as f64 * share) as usize;
        tell(&format!("{case}, {name}"), lags[at], "ms");
    }
}

async fn measure() {
    // Each in a process of its own: what an earlier case gave back to the allocator would hide what a later one takes.
    one(&mut fresh().await).await;
    busy(&mut fresh().await).await;
    idle(&mut fresh().await).await;
    stalled(&mut fresh().await).await;
    replay(&mut fresh().await).await;
}

/// A server that has had a few readers, so that what is made once is not counted.
async fn fresh() -> Arc<House> {
    let house = Arc::new(House::open().await);
    house.readers((0..16).map(|run| (run, 2)).collect()).await.stop().await;
    tokio::time::sleep(LATE).await;
    house
}

/// One run and one who reads it: the way of an event alone.
async fn one(house: &mut Arc<House>) {
    for (run, elsewhere, case) in [(0, false, "performed here"), (1, true, "performed by another process")] {
        let readers = house.readers(vec![(run, 2)]).await;
        tokio::time::sleep(LATE).await;
        let commits = Arc::get_mut(house).expect("nobody connects").write(run, 1, 4_000, elsewhere).await;
        tokio::time::sleep(LATE).await;
        tell_lags(&format!("committed → socket, one run, {case}"), &lags(&commits, &readers.stop().await, 1));
    }
}

/// Many readers of runs that stream.
async fn busy(house: &mut Arc<House>) {
    const STREAMS: usize = 50;
    const EACH: usize = BUSY / STREAMS;
    for (first, elsewhere, case) in [(10, false, "performed here"), (70, true, "performed by another process")] {
        let before = house.memory();
        let readers = house.readers((0..BUSY).map(|n| (first + n % STREAMS, 2)).collect()).await;
        tokio::time::sleep(LATE).await;
        let cpu = house.cpu();
        let commits = Arc::get_mut(house).expect("nobody connects").write(first, STREAMS, 50_000, elsewhere).await;
        // The second time the memory of the first is used again.
        let memory = (!elsewhere).then(|| (house.memory() - before) / BUSY as f64);
        let cpu = house.cpu() - cpu;
        tokio::time::sleep(LATE).await;
        let lags = lags(&commits, &readers.stop().await, EACH);
        let case = format!("{BUSY} busy readers of {STREAMS} runs {case}");
        tell_lags(&format!("{case}: lag"), &lags);
        memory.into_iter().for_each(|memory| tell(&format!("{case}: memory of each"), memory, "KiB"));
        tell(&format!("{case}: events on sockets"), lags.len() as f64 / STREAMING.as_secs_f64(), "events/s");
        tell(
            &format!("{case}: processor time of an event on a socket, its commit included"),
            cpu / lags.len() as f64 * 1e6,
            "µs",
        );
    }
}

/// Many readers that wait, and one run that streams beside them.
async fn idle(house: &mut Arc<House>) {
    let (first, streaming) = (130, 190);
    let before = house.memory();
    let began = tokio::time::Instant::now();
    let idle = house.readers((0..IDLE).map(|n| (first + n % (streaming - first), 2)).collect()).await;
    tell(&format!("{IDLE} readers connect"), IDLE as f64 / began.elapsed().as_secs_f64(), "readers/s");
    // Longer than a heartbeat, so that each has had one.
    tokio::time::sleep(Duration::from_secs(17)).await;
    tell(&format!("{IDLE} idle readers: memory of each"), (house.memory() - before) / IDLE as f64, "KiB");
    tell(&format!("{IDLE} idle readers: memory of the server"), house.memory() / 1024.0, "MiB");
    let cpu = house.cpu();
    tokio::time::sleep(Duration::from_secs(15)).await;
    tell(&format!("{IDLE} idle readers: processor time"), (house.cpu() - cpu) / 15.0 * 100.0, "percent of one core");
    let readers = house.readers(vec![(streaming, 2)]).await;
    let commits = Arc::get_mut(house).expect("nobody connects").write(streaming, 1, 4_000, false).await;
    tokio::time::sleep(LATE).await;
    let lags = lags(&commits, &readers.stop().await, 1);
    tell_lags(&format!("committed → socket beside {IDLE} idle readers"), &lags);
    idle.stop().await;
    tokio::time::sleep(LATE).await;
    tell(&format!("after {IDLE} idle readers have left: memory of the server"), house.memory() / 1024.0, "MiB");
}

/// Readers that take nothing of a long log: what is held for them until they are cut.
async fn stalled(house: &mut Arc<House>) {
    const STALLED: usize = 500;
    let run = 195;
    let inner = Arc::get_mut(house).expect("nobody connects");
    inner.tell(&format!("fill {run} 4000 2000")).await;
    inner.answer().await;
    let (before, system) = (house.memory(), socket_memory());
    let mut streams = vec![];
    for _ in 0..STALLED {
        streams.push(house.connect(run, 0, Some(4_096)).await);
    }
    tokio::time::sleep(LATE).await;
    let memory = (house.memory() - before) / STALLED as f64;
    tell(&format!("{STALLED} readers that take nothing of 8 MB: memory of each"), memory, "KiB");
    let system = (socket_memory() - system) / STALLED as f64;
    tell(&format!("{STALLED} readers that take nothing of 8 MB: the system's buffers of both ends"), system, "KiB");
}

/// What the system holds for all sockets, in KiB.
fn socket_memory() -> f64 {
    let sockets = std::fs::read_to_string("/proc/net/sockstat").expect("what the system knows of sockets");
    let pages = sockets.lines().find(|line| line.starts_with("TCP:")).and_then(|line| line.rsplit(' ').next());
    pages.and_then(|pages| pages.parse::<f64>().ok()).expect("pages") * 4.0
}

/// A long log of small events, read from its beginning.
async fn replay(house: &mut Arc<House>) {
    let run = 196;
    let (events, bytes) = REPLAYED;
    let inner = Arc::get_mut(house).expect("nobody connects");
    inner.tell(&format!("fill {run} {events} {bytes}")).await;
    inner.answer().await;
    let mut times = vec![];
    let mut taken = 0;
    for _ in 0..5 {
        let began = tokio::time::Instant::now();
        let mut stream = house.connect(run, 0, None).await;
        let (mut piece, mut tail, last) =
            (vec![0; 256 * 1024], vec![], format!("{}:{}\n", house.runs[run], events + 2));
        taken = 0;
        while !tail.windows(last.len()).any(|end| end == last.as_bytes()) {
            let read = stream.read(&mut piece).await.expect("a stream");
            taken += read;
            tail.drain(..tail.len().saturating_sub(last.len()));
            tail.extend_from_slice(&piece[..read]);
        }
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    tell(&format!("a log of {events} small deltas from its beginning"), times[times.len() / 2], "ms");
    tell(&format!("a log of {events} small deltas from its beginning: on the wire"), taken as f64 / 1024.0, "KiB");
}
