//! The release program itself over HTTP: what it weighs, how soon a message has its first event, and what a kill of it costs.
//!
//! Its model is a scripted one, served by this process; its template is one in miniature, since nothing is built.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use adapters::model::scripted::{Scripts, ServeOptions, serve};
use adapters::model::sse::SseDecoder;
use reqwest::header::ACCEPT;
use reqwest::{Client, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::figures::{ROUNDS, cpu, median, memory, part, tell};
use super::house::{Place, Site, tokio};

/// Messages at once.
const AT_ONCE: [usize; 3] = [1, 50, 200];
/// Runs whose cost is told.
const RUNS: usize = 50;
/// Longest event, in bytes.
const EVENT_BYTES: usize = 1024 * 1024;
/// How long a program rests before it is weighed.
const REST: Duration = Duration::from_secs(2);
/// How soon a connection is tried again.
const AGAIN: Duration = Duration::from_millis(2);
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers in words alone. Of its rules one is short and one takes some seconds.
const SCRIPT: &str = r#"
name: bench
rules:
  - name: slow
    when: { request: slow }
    respond: "@@@<done/>"
    pace: { chunk: 16, delay_ms: 15 }
  - name: many
    when: { request: many }
    respond: "@@@<done/>"
    pace: { chunk: 16 }
  - name: short
    respond: "Yes.<done/>"
"#;
/// Characters of a long answer.
const ANSWER: usize = 16 * 190;

/// Programs that end with the bench.
struct Programs {
    children: Vec<Child>,
    url: String,
    token: String,
}

impl Drop for Programs {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Programs {
    /// `baton up`, or `baton server` and `baton worker`.
    fn start(place: &Place, model: &str, port: u16) -> Self {
        prepare(&place.folder);
        let roles: &[&str] = if place.shared.is_none() { &["up"] } else { &["server", "worker"] };
        let (mut children, mut url) = (vec![], String::new());
        for role in roles {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the repository");
            let named = std::env::var_os("BENCH_BINARY");
            let binary = named.map_or_else(|| root.join("target/release/baton"), PathBuf::from);
            let mut command = Command::new(binary);
            command.arg(role).arg("--data").arg(&place.folder);
            command.env("BATON_MODEL", "bench").env("BATON_MODEL_URL", model).env("BATON_LOG", "error");
            if *role != "worker" {
                command.args(["--port", &port.to_string()]);
            }
            if *role == "up" {
                command.arg("--no-open");
            }
            if let Some((database, redis)) = &place.shared {
                command.env("BATON_DATABASE_URL", database).env("BATON_REDIS_URL", redis);
            }
            let child = command.stdout(Stdio::piped()).spawn().expect("the release program: scripts/bench builds it");
            children.push(child);
            let stdout = children.last_mut().and_then(|child| child.stdout.take()).expect("its output");
            let said = BufReader::new(stdout).lines().map_while(Result::ok).find_map(|line| {
                let at = line.find("http://").map(|at| line[at..].trim().to_owned());
                at.or_else(|| line.contains("worker is ready").then(String::new))
            });
            let said = said.expect("the program says that it is ready");
            if !said.is_empty() {
                url = said;
            }
        }
        let token = std::fs::read_to_string(place.folder.join("owner-token")).expect("the owner's token");
        Self { children, url, token }
    }

    fn all(&self, figure: impl Fn(u32) -> f64) -> f64 {
        self.children.iter().map(|child| figure(child.id())).sum()
    }

    /// Sends a message that begins a chat and follows its run.
    async fn send(&self, client: &Client, message: &str) -> Events {
        let request = client.post(format!("{}/v1/chats", self.url)).bearer_auth(&self.token);
        let request = request.header(ACCEPT, "text/event-stream").json(&json!({ "text": message }));
        let answer = request.send().await.expect("an answer").error_for_status().expect("accepted");
        Events::of(answer)
    }
}

/// A data folder with a template in miniature and limits that do not get in the way.
fn prepare(data: &Path) {
    let template = data.join("templates/react-vite");
    for (path, text) in [
        ("package.json", r#"{"name": "app", "scripts": {"build": "vite build"}}"#),
        ("package-lock.json", r#"{"packages": {"": {}}}"#),
        ("instant.json", r#"{"format": 1, "packages": {}, "modules": {}, "imports": {}}"#),
        ("index.html", "<!doctype html><title>Miniature</title>\n"),
        ("src/main.tsx", "import './App';\n"),
        ("src/App.tsx", "export default () => null;\n"),
        ("node_modules/none/package.json", "{}"),
    ] {
        let path = template.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    let names = ["active_runs_per_user", "active_runs_global", "runs_per_worker", "model_operations"];
    let limits: String = names.iter().map(|name| format!("{name} = 1000\n")).collect();
    std::fs::write(data.join("baton.toml"), format!("[limits]\n{limits}")).expect("a file");
}

/// Serves the model until `stop`. Gives where.
async fn model(stop: &CancellationToken) -> String {
    let script = SCRIPT.replace("@@@", &"word ".repeat(ANSWER / 5));
    let scripts = Scripts::read([("bench", script.as_str())]).expect("a script");
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let stop = stop.clone();
    ::tokio::spawn(async move { serve(listener, scripts, ServeOptions::default(), stop).await });
    url
}

/// What the program weighs, idle and with runs, and what a kill of it costs.
pub fn measure(site: &Site) {
    let stop = CancellationToken::new();
    tokio().block_on(async {
        let model = model(&stop).await;
        let programs = Programs::start(&site.place("program"), &model, 0);
        ::tokio::time::sleep(REST).await;
        let what = if site.servers.is_some() { "server and worker" } else { "baton up" };
        tell(&format!("{what}, idle"), programs.all(|id| memory(id, "VmRSS")), "MiB RSS", &site.setting);
        let client = Client::builder().no_proxy().build().expect("a client");
        let (before, start) = (programs.all(cpu), Instant::now());
        let mut runs = JoinSet::new();
        for _ in 0..RUNS {
            let mut events = programs.send(&client, "many words").await;
            runs.spawn(async move {
                let mut count = 0_u32;
                while events.next().await.is_some() {
                    count += 1;
                }
                count
            });
        }
        let counts = runs.join_all().await;
        let wall = start.elapsed().as_secs_f64();
        let events = f64::from(counts.iter().sum::<u32>());
        let case = format!("{what}, {RUNS} runs at once that say 190 pieces each");
        tell(&format!("{case}, cpu"), (programs.all(cpu) - before) / RUNS as f64 * 1e3, "ms/run", &site.setting);
        tell(&format!("{case}, memory at the peak"), programs.all(|id| memory(id, "VmHWM")), "MiB", &site.setting);
        tell(&format!("{case}, all of it"), wall, "s", &site.setting);
        tell(&format!("{case}, stored and delivered"), events / wall, "events/s", &site.setting);
        drop(programs);
        if site.servers.is_none() {
            killed(site, &client, &model).await;
        }
    });
    stop.cancel();
}

/// Kills `baton up` while it streams and starts it again: from the start of the program to what its readers see.
async fn killed(site: &Site, client: &Client, model: &str) {
    let (mut up, mut resumed) = (vec![], vec![]);
    for round in 0..ROUNDS {
        let place = site.place(&format!("killed-{round}"));
        let mut programs = Programs::start(&place, model, 0);
        let mut runs = BTreeMap::new();
        let mut streams = vec![];
        for _ in 0..RUNS {
            let mut events = programs.send(client, "a slow answer").await;
            let first = events.next().await.expect("a first event");
            runs.insert(first["run_id"].as_str().expect("a run").to_owned(), ());
            streams.push(events);
        }
        ::tokio::time::sleep(Duration::from_millis(500)).await;
        for child in &mut programs.children {
            child.kill().expect("killed");
            child.wait().expect("gone");
        }
        drop(streams);
        let port = programs.url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        let (url, token) = (programs.url.clone(), programs.token.clone());
        for (run, ()) in runs {
            let request = client.get(format!("{url}/v1/runs/{run}/events")).bearer_auth(&token);
            tasks.spawn(async move { taken_over(request, start).await });
        }
        let again = ::tokio::task::spawn_blocking({
            let (place, model) = (place.clone(), model.to_owned());
            move || {
                let programs = Programs::start(&place, &model, port);
                (programs, start.elapsed().as_secs_f64() * 1e3)
            }
        });
        let times = ::tokio::time::timeout(PATIENCE, tasks.join_all()).await.expect("the runs go on");
        let (programs, ready) = again.await.expect("the program starts");
        drop(programs);
        up.push(ready);
        resumed.push(times.into_iter().fold(0.0, f64::max));
    }
    let case = format!("kill -9 of baton up with {RUNS} streaming runs, start of the program");
    tell(&format!("{case} → it says that it is up"), median(&mut up), "ms", &site.setting);
    tell(&format!("{case} → all readers see run_started"), median(&mut resumed), "ms", &site.setting);
}

/// Follows a run as soon as somebody answers. Gives when it was taken over, in milliseconds.
async fn taken_over(request: reqwest::RequestBuilder, start: Instant) -> f64 {
    loop {
        let answer = request.try_clone().expect("no body").send().await;
        let Ok(answer) = answer.and_then(Response::error_for_status) else {
            ::tokio::time::sleep(AGAIN).await;
            continue;
        };
        let mut events = Events::of(answer);
        while let Some(event) = events.next().await {
            if event["type"] == "run_started" && event["epoch"].as_u64() > Some(1) {
                return start.elapsed().as_secs_f64() * 1e3;
            }
        }
    }
}

/// From a message to its first event and to the first that the model said, in one request.
pub fn first_events(site: &Site) {
    let stop = CancellationToken::new();
    tokio().block_on(async {
        let model = model(&stop).await;
        let programs = Arc::new(Programs::start(&site.place("first-event"), &model, 0));
        let client = Client::builder().no_proxy().build().expect("a client");
        for at_once in AT_ONCE {
            let rounds = if at_once == 1 { 20 * ROUNDS } else { ROUNDS };
            let (mut firsts, mut said, mut ends) = (vec![], vec![], vec![]);
            for round in 0..=rounds {
                let mut tasks = JoinSet::new();
                for _ in 0..at_once {
                    let (programs, client) = (programs.clone(), client.clone());
                    tasks.spawn(async move { message(&programs, &client).await });
                }
                let times = tasks.join_all().await;
                if round > 0 {
                    firsts.extend(times.iter().map(|times| times[0]));
                    said.extend(times.iter().map(|times| times[1]));
                    ends.extend(times.iter().map(|times| times[2]));
                }
            }
            for (what, mut times) in [("first event", firsts), ("first model event", said), ("end", ends)] {
                let case = format!("message → {what}, {at_once} at once");
                tell(&format!("{case}, p50"), part(&mut times, 50), "ms", &site.setting);
                tell(&format!("{case}, p99"), part(&mut times, 99), "ms", &site.setting);
            }
        }
    });
    stop.cancel();
}

/// One message: milliseconds to the first event, to the first words of the model, and to the end.
async fn message(programs: &Programs, client: &Client) -> [f64; 3] {
    let start = Instant::now();
    let mut times = [f64::NAN; 3];
    let mut events = programs.send(client, "a short answer").await;
    while let Some(event) = events.next().await {
        let now = start.elapsed().as_secs_f64() * 1e3;
        if times[0].is_nan() {
            times[0] = now;
        }
        if times[1].is_nan() && event["type"] == "text_delta" {
            times[1] = now;
        }
        times[2] = now;
    }
    times
}

struct Events {
    answer: Response,
    decoder: SseDecoder,
    ready: std::collections::VecDeque<Value>,
}

impl Events {
    fn of(answer: Response) -> Self {
        Self { answer, decoder: SseDecoder::new(EVENT_BYTES), ready: Default::default() }
    }

    /// The next event; none when the stream has ended or broken off.
    async fn next(&mut self) -> Option<Value> {
        while self.ready.is_empty() {
            let bytes = self.answer.chunk().await.ok().flatten()?;
            let ready = &mut self.ready;
            let push = |event: adapters::model::sse::SseEvent| ready.extend(serde_json::from_str::<Value>(&event.data));
            self.decoder.push(&bytes, push).expect("events within their limit");
        }
        self.ready.pop_front()
    }
}
