//! From a sentence to a preview, measured from outside: the release program over HTTP, its demo model without delays.
//!
//! `scripts/bench first-app` prints JSON lines, each the median of the rounds. What the program itself says (events carry their
//! time) tells the parts; what a client waits for is told by the client's own clock. The recipe is the to-do list: three turns,
//! a build that fails and one that is good, so a whole run holds two builds and the last wait holds one. Instant previews (N7) are
//! measured in runs of their own, over HTTP and, by `e2e/painted.mjs`, in Chromium.
#![expect(clippy::disallowed_methods, reason = "a benchmark starts the program and reads clock and load")]
#![expect(clippy::expect_used, reason = "a benchmark that cannot go on has failed")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use adapters::model::sse::SseDecoder;
use reqwest::header::HOST;
use reqwest::{Client, Response};
use serde_json::{Value, json};

/// Rounds of which the median is told, after one that warms up.
const ROUNDS: usize = 7;
/// The sentence.
const MESSAGE: &str = "Build me a to-do list";
/// Longest event, in bytes.
const EVENT_BYTES: usize = 8 * 1024 * 1024;

/// What one round measured: case and milliseconds.
type Round = Vec<(&'static str, f64)>;

/// A Baton that ends with the benchmark.
struct Baton {
    child: Child,
    url: String,
    token: String,
    _data: tempfile::TempDir,
}

impl Drop for Baton {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn main() {
    // An error says that it is chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let baton = start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = Client::builder().no_proxy().build().expect("a client");
    let (mut rounds, mut instant): (Vec<Round>, Vec<Round>) = Default::default();
    for round in 0..=ROUNDS {
        let measured = (runtime.block_on(measure(&client, &baton)), runtime.block_on(measure_instant(&client, &baton)));
        if round > 0 {
            rounds.push(measured.0);
            instant.push(measured.1);
        }
    }
    for rounds in [rounds, instant] {
        for (n, (case, _)) in rounds[0].iter().enumerate() {
            tell(case, rounds.iter().map(|round| round[n].1).collect());
        }
    }
    painted(&baton);
    drop(baton);
    let starts = (0..ROUNDS).map(|_| runtime.block_on(from_nothing(&client))).collect::<Vec<_>>();
    tell("start of the program → instant preview 200", starts.iter().map(|(instant, _)| *instant).collect());
    tell("start of the program → built preview 200", starts.iter().map(|(_, built)| *built).collect());
}

/// A program that was built and a template that was prepared, to a preview: the demo at full speed, on an empty data folder.
async fn from_nothing(client: &Client) -> (f64, f64) {
    let began = Instant::now();
    let baton = start();
    let mut events = follow(client, &baton, &send(client, &baton).await).await;
    let mut instant = None;
    let built = loop {
        let event = events.next().await.expect("the run reaches its preview");
        if event["type"] == "preview_url" {
            open(client, &baton, &event).await;
            let took = began.elapsed().as_secs_f64() * 1e3;
            match event["kind"].as_str() {
                Some("built") => break took,
                _ => instant.get_or_insert(took),
            };
        }
    };
    (instant.expect("an instant page before the build"), built)
}

/// Sends the sentence: what the server answers.
async fn send(client: &Client, baton: &Baton) -> Value {
    let request = client.post(format!("{}/v1/chats", baton.url)).bearer_auth(&baton.token);
    let accepted = request.json(&json!({ "text": MESSAGE })).send().await.expect("an answer");
    accepted.error_for_status().expect("accepted").json().await.expect("JSON")
}

/// Follows the run that was accepted.
async fn follow(client: &Client, baton: &Baton, accepted: &Value) -> Events {
    let run = accepted["run_id"].as_str().expect("a run");
    let request = client.get(format!("{}/v1/runs/{run}/events", baton.url)).bearer_auth(&baton.token);
    Events::of(request.send().await.expect("a stream").error_for_status().expect("a stream"))
}

/// Where the chat that was accepted has its preview.
async fn host_of(client: &Client, baton: &Baton, accepted: &Value) -> String {
    let chat = accepted["chat_id"].as_str().expect("a chat");
    let request = client.get(format!("{}/v1/chats/{chat}", baton.url)).bearer_auth(&baton.token);
    let chat: Value = request.send().await.expect("an answer").json().await.expect("JSON");
    chat["preview"]["host"].as_str().expect("a host").to_owned()
}

/// Opens what a `preview_url` says.
async fn open(client: &Client, baton: &Baton, preview: &Value) {
    let url = preview["url"].as_str().expect("an address");
    let target = url.splitn(4, '/').nth(3).unwrap_or_default();
    let host = preview["host"].as_str().expect("a host");
    fetch(client, baton, host, target).await;
}

async fn fetch(client: &Client, baton: &Baton, host: &str, target: &str) {
    let page = client.get(format!("{}/{target}", baton.url)).header(HOST, host).send().await.expect("the preview");
    page.error_for_status().expect("the preview").bytes().await.expect("its bytes");
}

/// What an instant preview takes: from the event that closes a file to its module, and from the page's event to the page. Both
/// begin with the time that the event itself says, by the same machine's clock.
async fn measure_instant(client: &Client, baton: &Baton) -> Round {
    let sent = Instant::now();
    let accepted = send(client, baton).await;
    let host = host_of(client, baton, &accepted).await;
    let mut events = follow(client, baton, &accepted).await;
    let (mut module, mut page, mut seen) = (None, None, None);
    while let Some(event) = events.next().await {
        let is_page = event["type"] == "preview_url" && event["kind"] == "instant";
        if is_page && page.is_none() {
            seen = Some(sent.elapsed().as_secs_f64() * 1e3);
            open(client, baton, &event).await;
            page = Some(since_event(&event));
        }
        let is_app = event["type"] == "file_completed" && event["by"] == "model" && event["path"] == "src/App.tsx";
        if is_app && module.is_none() {
            let hash = &event["sha256"].as_str().expect("a hash")[..16];
            fetch(client, baton, &host, &format!("src/App.tsx?module={hash}")).await;
            module = Some(since_event(&event));
        }
    }
    vec![
        ("message → instant preview announced", seen.expect("an instant page")),
        ("instant preview announced → page 200", page.expect("an instant page")),
        ("file closed → its module 200", module.expect("src/App.tsx")),
    ]
}

/// Milliseconds since an event was made.
fn since_event(event: &Value) -> f64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock after 1970");
    now.as_secs_f64() * 1e3 - event["at"].as_f64().expect("a time")
}

/// The same in a browser, which is driven from Node.
fn painted(baton: &Baton) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the repository");
    let rounds = ROUNDS.to_string();
    let output = Command::new("node")
        .args(["painted.mjs", &baton.url, &baton.token, &rounds])
        .current_dir(root.join("e2e"))
        .stderr(Stdio::inherit())
        .output()
        .expect("node: scripts/bench finds it");
    assert!(output.status.success(), "painted.mjs ended with {}", output.status);
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let case: Value = serde_json::from_str(line).expect("a case");
        let values = case["values"].as_array().expect("values").iter().filter_map(Value::as_f64).collect();
        tell(case["case"].as_str().expect("a name"), values);
    }
}

/// Starts the program on an empty data folder. `scripts/bench` names it, and where the template is prepared.
fn start() -> Baton {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the repository");
    let named = |name: &str, usual: &str| std::env::var_os(name).map_or_else(|| root.join(usual), PathBuf::from);
    let data = tempfile::Builder::new().prefix("bench-app-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut child = Command::new(named("BENCH_BINARY", "target/release/baton"))
        .args(["up", "--no-open", "--port", "0", "--demo-speed", "0", "--data"])
        .arg(data.path())
        .arg("--templates")
        .arg(named("BENCH_TEMPLATES", "target/templates"))
        .env_remove("BATON_MODEL")
        .env_remove("BATON_MODEL_URL")
        .env_remove("BATON_MODEL_KEY")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the release program: scripts/bench builds it");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let first = lines.next().expect("a first line").expect("text");
    let url = first.strip_prefix("Baton is up: ").expect("its address").to_owned();
    let token = std::fs::read_to_string(data.path().join("owner-token")).expect("the owner's token");
    Baton { child, url, token, _data: data }
}

/// One message to its preview: case and milliseconds.
async fn measure(client: &Client, baton: &Baton) -> Round {
    let sent = Instant::now();
    let since = |start: Instant| start.elapsed().as_secs_f64() * 1e3;
    let accepted = send(client, baton).await;
    let answered = since(sent);
    let mut events = follow(client, baton, &accepted).await;
    let (mut first, mut model, mut token, mut told) = (None, None, sent, Vec::new());
    let preview = loop {
        let event = events.next().await.expect("the run reaches its preview");
        first.get_or_insert_with(|| since(sent));
        match event["type"].as_str().expect("a type") {
            "thinking_delta" | "text_delta" | "file_delta" => {
                model.get_or_insert_with(|| since(sent));
            }
            "turn_completed" => token = Instant::now(),
            "preview_url" if event["kind"] == "built" => break event,
            _ => {}
        }
        told.push(event);
    };
    open(client, baton, &preview).await;
    let shown = since(token);
    let whole = since(sent);
    // The chat's next message has to wait for the run's end.
    while events.next().await.is_some() {}
    vec![
        ("message → accepted", answered),
        ("message → first event", first.unwrap_or(0.0)),
        ("message → first model event", model.unwrap_or(0.0)),
        ("last model token → preview 200", shown),
        ("  of it: check", part(&told, "check")),
        ("  of it: build", part(&told, "build")),
        ("  of it: publish", part(&told, "publish")),
        ("message → preview 200, three turns and two builds", whole),
    ]
}

/// Milliseconds that the last step of a kind took, by the times of the program's own events.
fn part(events: &[Value], kind: &str) -> f64 {
    let at = |state: &str| {
        let fits = |e: &&Value| e["type"] == "step_state" && e["state"] == state;
        let of_kind = |e: &&Value| e["id"].as_str().is_some_and(|id| id.starts_with(kind));
        events.iter().rfind(|event| fits(event) && of_kind(event)).and_then(|event| event["at"].as_f64())
    };
    // The step's end may come with or after the preview's address.
    let end = at("completed").or_else(|| events.last().and_then(|event| event["at"].as_f64()));
    end.zip(at("running")).map_or(-1.0, |(end, start)| (end - start).max(0.0))
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

    async fn next(&mut self) -> Option<Value> {
        while self.ready.is_empty() {
            let bytes = self.answer.chunk().await.expect("the stream")?;
            let ready = &mut self.ready;
            let push = |event: adapters::model::sse::SseEvent| ready.extend(serde_json::from_str::<Value>(&event.data));
            self.decoder.push(&bytes, push).expect("events within their limit");
        }
        self.ready.pop_front()
    }
}

fn tell(case: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let value = (values[values.len() / 2] * 100.0).round() / 100.0;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load1: Option<f64> = load.split(' ').next().and_then(|load| load.parse().ok());
    let setting = format!(
        "one at a time, median of {ROUNDS}, SQLite at full durability, demo model without delays, sandboxed vite build"
    );
    let line = json!({
        "bench": "first-app", "case": case, "value": value, "unit": "ms", "setting": setting, "load1": load1,
    });
    // Nobody may be reading.
    let _ = writeln!(std::io::stdout(), "{line}");
}
