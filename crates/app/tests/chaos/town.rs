//! A Baton of several processes for a test: servers and workers on a PostgreSQL, a Redis and a scripted model of their own.
//!
//! It stands in for whoever looks after the processes: it starts what has ended and notes what ended by itself. Everything listens on
//! 127.0.0.1 and ends with the test's process, however that ends: a keeper waits for its end.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use adapters::model::Scripts;
use adapters::model::scripted::{Ledger, ServeOptions, serve};
use rustix::process::{Pid, Signal, kill_process};
use sim::servers::{Postgres, Redis, free_port};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// The program.
const BATON: &str = env!("CARGO_BIN_EXE_baton");
/// How long the system may take to make something true.
pub const MOST: Duration = Duration::from_secs(60);
/// How often is looked whether it has.
const LOOK: Duration = Duration::from_millis(10);
/// Where browsers find previews. Nobody listens there: who connects to a server names it as the Host.
pub const PREVIEWS: &str = "localhost:7420";
/// A process that has died is started again after this.
const REST: Duration = Duration::from_millis(100);

/// What the keeper does: waits for the end of its input, then ends the processes of which there are notes, and removes the folder.
const KEEPER: &str = r#"
while read -r _; do :; done
for note in "$1"/pids/*; do [ -e "$note" ] && kill -KILL "${note##*/}"; done
sleep 0.2
rm -rf "$1"
"#;

/// A build tool in miniature: it copies what the page is made of, or fails, or takes long, where the source asks for it.
const VITE: &str = r#"
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
const source = readFileSync("src/App.tsx", "utf8");
if (source.includes("BREAK THE BUILD")) {
  console.error("src/App.tsx: the build was asked to fail");
  process.exit(1);
}
const slow = /SLOW BUILD ([0-9.]+)/.exec(source);
if (slow) spawnSync("sleep", [slow[1]]);
mkdirSync("dist", { recursive: true });
cpSync("index.html", "dist/index.html");
writeFileSync("dist/app.txt", source);
"#;

/// What a town is made of.
pub struct Plan<'a> {
    /// What the model says.
    pub script: &'a str,
    /// Lines of `[limits]`.
    pub limits: &'a str,
    pub servers: usize,
    pub workers: usize,
}

/// The role of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Server,
    Worker,
}

/// What blows at the database are called.
pub const DATABASE: &str = "database";

/// How something was hurt, and when: what takeovers are measured from.
#[derive(Debug, Clone)]
pub struct Blow {
    /// The name by which events know the worker; empty for anything else.
    pub worker: String,
    pub how: &'static str,
    pub at_ms: u64,
}

/// A place for one process, which is started again and again.
pub struct Seat {
    pub role: Role,
    /// Such as `worker-1`.
    pub name: String,
    /// Of a server, always the same.
    pub port: u16,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    child: Option<Child>,
    /// Whether the child says that it is ready.
    ready: Arc<AtomicBool>,
    /// What it calls itself.
    called: Arc<Mutex<String>>,
    /// Whether somebody wants it to live.
    wanted: bool,
    paused: bool,
    /// Since when it has been told to stop.
    asked: Option<Instant>,
    /// When it is to be started again.
    due: Option<Instant>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Now, in milliseconds since the Unix epoch: all processes are on this machine.
pub fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// The town.
pub struct Town {
    folder: Option<TempDir>,
    data: PathBuf,
    keeper: Child,
    pub postgres: Postgres,
    pub redis: Redis,
    /// What the model was asked.
    pub ledger: Ledger,
    model_url: String,
    model_stop: CancellationToken,
    pub seats: Vec<Seat>,
    pub blows: Mutex<Vec<Blow>>,
    /// What no process of this town may do.
    faults: Mutex<Vec<String>>,
    /// What was done to it, line by line, for a person.
    chronicle: Mutex<Vec<String>>,
    /// Whether nothing is started again any more.
    closing: AtomicBool,
}

impl Town {
    /// Builds one, and starts its first server, which makes the schema. The others wait for [`Town::open`].
    pub async fn found(plan: &Plan<'_>) -> Arc<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = TempDir::with_prefix("baton-town-").unwrap();
        let data = folder.path().to_owned();
        furnish(&data, plan.limits);
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(&data).stdin(Stdio::piped()).stdout(Stdio::null());
        // Whoever ends the test's group does not end its keeper.
        let keeper = keeper.stderr(Stdio::null()).process_group(0).spawn().unwrap();
        let (ledger, model_stop) = (Ledger::default(), CancellationToken::new());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let model_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let scripts = Scripts::read([("script", plan.script)]).unwrap();
        let options = ServeOptions { ledger: ledger.clone(), ..ServeOptions::default() };
        tokio::spawn(serve(listener, scripts, options, model_stop.clone()));
        let seat =
            |role, name: &str, n| Seat { role, name: format!("{name}-{n}"), port: free_port(), held: Mutex::default() };
        let servers = (1..=plan.servers).map(|n| seat(Role::Server, "server", n));
        let seats = servers.chain((1..=plan.workers).map(|n| seat(Role::Worker, "worker", n))).collect();
        let town = Arc::new(Self {
            folder: Some(folder),
            data,
            keeper,
            postgres: Postgres::start_own(),
            redis: Redis::start(),
            ledger,
            model_url,
            model_stop,
            seats,
            blows: Mutex::default(),
            faults: Mutex::default(),
            chronicle: Mutex::default(),
            closing: AtomicBool::new(false),
        });
        town.start(&town.seats[0]);
        town.until_ready(&town.seats[0]);
        town
    }

    /// Starts everything else.
    pub fn open(&self) {
        self.seats.iter().skip(1).for_each(|seat| self.start(seat));
        self.seats.iter().for_each(|seat| self.until_ready(seat));
    }

    pub fn of(&self, role: Role) -> impl Iterator<Item = &Seat> {
        self.seats.iter().filter(move |seat| seat.role == role)
    }

    pub fn seat(&self, name: &str) -> &Seat {
        self.seats.iter().find(|seat| seat.name == name).unwrap()
    }

    /// The addresses of the servers.
    pub fn servers(&self) -> Vec<String> {
        self.of(Role::Server).map(|seat| format!("http://127.0.0.1:{}", seat.port)).collect()
    }

    /// The owner's token.
    pub fn token(&self) -> String {
        fs::read_to_string(self.data.join("owner-token")).unwrap().trim().to_owned()
    }

    pub fn sandbox(&self) -> PathBuf {
        self.data.join("sandbox")
    }

    pub fn log(&self, seat: &Seat) -> PathBuf {
        self.data.join("logs").join(&seat.name)
    }

    /// Notes something that may not be.
    pub fn fault(&self, what: impl Into<String>) {
        lock(&self.faults).push(what.into());
    }

    /// Notes what is done.
    pub fn tell(&self, what: impl std::fmt::Debug) {
        let now = now_ms();
        lock(&self.chronicle).push(format!("{}.{:03} {what:?}", now / 1_000, now % 1_000));
    }

    pub fn take_faults(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.faults))
    }

    /// Starts a process. Whether it becomes ready is seen later.
    pub fn start(&self, seat: &Seat) {
        let mut held = lock(&seat.held);
        assert!(held.child.is_none(), "{} runs already", seat.name);
        let log = File::options().create(true).append(true).open(self.log(seat)).unwrap();
        let mut command = baton();
        match seat.role {
            Role::Server => command.args(["server", "--port", &seat.port.to_string()]),
            Role::Worker => command.arg("worker"),
        };
        command.arg("--data").arg(&self.data);
        command.env("BATON_DATABASE_URL", self.postgres.url()).env("BATON_REDIS_URL", self.redis.url());
        command.env("BATON_MODEL", "scripted").env("BATON_MODEL_URL", &self.model_url);
        command.env("BATON_PREVIEWS", PREVIEWS).env("NO_COLOR", "1");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        fs::write(self.note(&child), "").unwrap();
        let (ready, called) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(String::new())));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        *held = Held { ready: ready.clone(), called: called.clone(), wanted: true, ..Held::default() };
        held.child = Some(child);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some((_, name)) = line.split_once(" is ready: ") {
                    name.clone_into(&mut lock(&called));
                    ready.store(true, Ordering::SeqCst);
                }
            }
        });
    }

    fn note(&self, child: &Child) -> PathBuf {
        self.data.join("pids").join(child.id().to_string())
    }

    pub fn is_ready(&self, seat: &Seat) -> bool {
        let held = lock(&seat.held);
        held.child.is_some() && held.ready.load(Ordering::SeqCst)
    }

    pub fn is_paused(&self, seat: &Seat) -> bool {
        lock(&seat.held).paused
    }

    /// What a worker calls itself.
    pub fn called(&self, seat: &Seat) -> String {
        lock(&lock(&seat.held).called).clone()
    }

    /// Waits until a process is ready, and starts it again if it could not start.
    pub fn until_ready(&self, seat: &Seat) {
        let since = Instant::now();
        while !self.is_ready(seat) {
            self.look_after();
            assert!(since.elapsed() < MOST, "{} never becomes ready: {}", seat.name, self.last_words(seat));
            sleep(LOOK);
        }
    }

    /// How a process is, and the end of what it has said.
    pub fn last_words(&self, seat: &Seat) -> String {
        let state = {
            let held = lock(&seat.held);
            let pid = held.child.as_ref().map(Child::id);
            let status = pid.and_then(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok()).unwrap_or_default();
            let state = status.lines().find(|line| line.starts_with("State:")).unwrap_or_default();
            let (wanted, paused) = (held.wanted, held.paused);
            format!("pid {pid:?} {state}, wanted {wanted}, paused {paused}, asked {:?}, due {:?}", held.asked, held.due)
        };
        let text = fs::read_to_string(self.log(seat)).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        format!("{state}\n{}", lines[lines.len().saturating_sub(30)..].join("\n"))
    }

    /// Kills a process, as a power cut would, and starts it again after a while.
    pub fn kill(&self, seat: &Seat, again: Option<Duration>) {
        self.blow(seat, "kill -9");
        let mut held = lock(&seat.held);
        if let Some(mut child) = held.child.take() {
            // First, so that the keeper never ends another process that got the number.
            let _ = fs::remove_file(self.note(&child));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        held.paused = false;
        held.asked = None;
        held.wanted = again.is_some();
        held.due = again.map(|after| Instant::now() + after);
    }

    /// Tells a process to stop; it is started again when it has, if it is wanted.
    pub fn terminate(&self, seat: &Seat, again: bool) {
        self.blow(seat, "SIGTERM");
        let mut held = lock(&seat.held);
        held.wanted = again;
        held.asked = Some(Instant::now());
        send(held.child.as_ref(), Signal::TERM);
    }

    /// Stops a process in the middle of whatever it does.
    pub fn pause(&self, seat: &Seat) {
        self.blow(seat, "SIGSTOP");
        let mut held = lock(&seat.held);
        held.paused = true;
        send(held.child.as_ref(), Signal::STOP);
    }

    pub fn resume(&self, seat: &Seat) {
        let mut held = lock(&seat.held);
        held.paused = false;
        send(held.child.as_ref(), Signal::CONT);
    }

    fn blow(&self, seat: &Seat, how: &'static str) {
        let worker = if seat.role == Role::Worker { self.called(seat) } else { String::new() };
        lock(&self.blows).push(Blow { worker, how, at_ms: now_ms() });
    }

    /// Notes that the database is away, or is back.
    pub fn database(&self) {
        lock(&self.blows).push(Blow { worker: String::new(), how: DATABASE, at_ms: now_ms() });
    }

    /// Whether a process that was told to stop still has not.
    pub fn is_stopping(&self, seat: &Seat) -> bool {
        self.look_after();
        let held = lock(&seat.held);
        held.child.is_some() && held.asked.is_some()
    }

    /// Starts what has died. What ended by itself after it was ready has a fault; what could not start is tried again.
    pub fn look_after(&self) {
        for seat in &self.seats {
            let mut held = lock(&seat.held);
            if let Some(child) = &mut held.child
                && let Some(status) = child.try_wait().unwrap()
            {
                let _ = fs::remove_file(self.note(child));
                held.child = None;
                let asked = held.asked.take();
                match asked {
                    Some(_) if status.success() => {}
                    Some(_) => self.fault(format!("{} was told to stop and ended with {status}", seat.name)),
                    None if held.ready.load(Ordering::SeqCst) => {
                        self.fault(format!("{} ended by itself with {status}", seat.name));
                    }
                    None => {}
                }
                held.due = held.wanted.then(|| Instant::now() + REST);
            }
            let due = held.due.is_some_and(|due| due <= Instant::now()) && !self.closing.load(Ordering::SeqCst);
            if held.child.is_none() && due {
                drop(held);
                self.start(seat);
            }
        }
    }

    /// Tells everything to stop and waits until it has.
    pub fn close(&self, most: Duration) {
        self.closing.store(true, Ordering::SeqCst);
        let live: Vec<_> = self.seats.iter().filter(|seat| lock(&seat.held).child.is_some()).collect();
        for seat in &live {
            self.resume(seat);
            self.terminate(seat, false);
        }
        let since = Instant::now();
        for seat in live {
            while self.is_stopping(seat) {
                if since.elapsed() > most {
                    self.fault(format!("{} was told to stop and has not, {:?} later", seat.name, most));
                    self.kill(seat, None);
                }
                sleep(LOOK);
            }
        }
        self.closing.store(false, Ordering::SeqCst);
    }

    /// Keeps what processes have said and what was done to them, for a person.
    pub fn keep_logs(&self, place: &Path) {
        fs::create_dir_all(place).unwrap();
        fs::write(place.join("chronicle"), lock(&self.chronicle).join("\n")).unwrap();
        for seat in &self.seats {
            let _ = fs::copy(self.log(seat), place.join(&seat.name));
        }
    }
}

impl Drop for Town {
    fn drop(&mut self) {
        self.model_stop.cancel();
        for seat in &self.seats {
            if let Some(child) = &mut lock(&seat.held).child {
                let _ = fs::remove_file(self.note(child));
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        // The keeper removes it.
        let _ = self.folder.take().map(TempDir::keep);
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

fn send(child: Option<&Child>, signal: Signal) {
    if let Some(child) = child {
        // One that has died is noticed elsewhere.
        let _ = kill_process(Pid::from_child(child), signal);
    }
}

/// Writes the data folder: settings and the template in miniature.
fn furnish(data: &Path, limits: &str) {
    for folder in ["logs", "pids"] {
        fs::create_dir(data.join(folder)).unwrap();
    }
    fs::write(data.join("baton.toml"), format!("[limits]\n{limits}\n")).unwrap();
    let template = data.join("templates/miniature-0001");
    for (path, text) in [
        ("package.json", r#"{"name": "app", "type": "module", "scripts": {"build": "vite build"}}"#),
        ("package-lock.json", r#"{"packages": {"": {}}}"#),
        ("instant.json", r#"{"format": 1, "packages": {}, "modules": {}, "imports": {}}"#),
        ("index.html", "<!doctype html><title>Miniature</title>\n"),
        ("src/App.tsx", "nothing yet\n// end\n"),
        ("node_modules/vite/bin/vite.js", VITE),
        ("node_modules/vite/package.json", r#"{"name": "vite", "type": "module"}"#),
    ] {
        let path = template.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    symlink("miniature-0001", data.join("templates/react-vite")).unwrap();
}

/// The program, with nothing of Baton's in its environment.
fn baton() -> Command {
    let mut command = Command::new(BATON);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BATON_")) {
        command.env_remove(name);
    }
    command
}
