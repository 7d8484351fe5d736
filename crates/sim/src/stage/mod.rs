//! The stage: a whole Baton on stand-ins and a paused clock, whose process can be killed at any append and started again.
//!
//! What survives a kill is what survives one in the real world: the store and the objects. Everything else is dropped with the
//! process, which is a tokio runtime of its own.

mod sandbox;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use adapters::bus::LocalBus;
use adapters::model::scripted::{ScriptedModel, Scripts};
use bytes::Bytes;
use contract::event::{Event, ModelRef, PreviewKind, Provider};
use contract::{Limits, ProjectId, ProjectPath, RunId, UserId};
use runtime::{Ports, PreviewAddress, Project, Runtime, Template, Worker};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub use sandbox::{Executed, StageSandbox};
pub use world::SeededWorld;

use crate::memory::{Hook, MemoryObjects, MemoryStore, Moment};

/// What is done to a process, by the number of the append at which it happens (from 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    /// Nothing.
    None,
    /// The process is killed when the append has been committed and before its answer is used.
    KillAfter(usize),
    /// The append fails and nothing of it is stored.
    Refuse(usize),
    /// The append is stored and its answer is lost.
    LoseAnswer(usize),
    /// The person stops the run when the append has been committed.
    CancelAfter(usize),
}

/// A user's request, and what is sent after it in the same chat.
pub type Messages = [&'static str];

/// What a rehearsal leaves behind, as far as it must not depend on what went wrong on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Each run's terminal event and, if it has one, its stop reason.
    pub ends: Vec<String>,
    /// The project's files: path and hash.
    pub files: BTreeMap<String, String>,
    /// What the preview shows: path and hash.
    pub preview: BTreeMap<String, String>,
}

/// A rehearsal's report.
#[derive(Debug)]
pub struct Report {
    /// What must be the same.
    pub outcome: Outcome,
    /// How many appends there were.
    pub appends: usize,
    /// Commands and builds that ran, in order.
    pub executed: Vec<Executed>,
    /// All events as a reader got them, as JSON.
    pub log: Vec<String>,
}

/// Everything that survives a kill, and what it is started with.
pub struct Stage {
    store: MemoryStore,
    objects: MemoryObjects,
    /// Another process, which lives on.
    model: ScriptedModel,
    seed: u64,
    appends: Arc<AtomicUsize>,
    killed: Arc<Notify>,
    cancelled: Arc<Notify>,
    executed: sandbox::Ledger,
    epoch_ms: u64,
}

/// Files that every project on the stage begins with.
const TEMPLATE: [(&str, &str); 4] = [
    ("package.json", r#"{"scripts":{"build":"vite build"}}"#),
    ("index.html", r#"<script type="module" src="/src/main.tsx"></script>"#),
    ("src/main.tsx", "import './App'\n"),
    ("src/App.tsx", "export default () => <p>Your app will appear here</p>;\n"),
];

/// Its packages as modules for instant pages. No page of the stage is ever opened, so their code does not matter.
const PACKAGES: &str = r#"{"format": 1, "imports": {},
    "packages": {"react": {"module": "r.js"}, "react/jsx-runtime": {"module": "r.js"}, "react-dom/client": {"module": "r.js"},
        "lucide-react": {"module": "r.js"}},
    "modules": {"r.js": "export const jsx = 1, jsxs = 1, Fragment = 1, StrictMode = 1, createRoot = 1, useEffect = 1, useLayoutEffect = 1, useRef = 1, useState = 1, Check = 1, CircleCheckBig = 1, ListTodo = 1, Moon = 1, Plus = 1, Search = 1, SearchX = 1, Sun = 1, Sunrise = 1, Trash2 = 1;"}}"#;

/// How far the clock moves on between two processes: longer than a lease, so that what a dead worker held can be claimed.
const BETWEEN_MS: u64 = 20_000;
/// How long a process may take on its paused clock: longer than any run may.
const MOST_TIME: Duration = Duration::from_secs(3 * 3_600);
/// Processes of one rehearsal at the most; more means that a run never ends.
const MOST_PROCESSES: usize = 8;

impl Stage {
    /// A stage on which a scripted model answers, disturbed once.
    pub fn new(script: &str, seed: u64, disturbance: Disturbance) -> Result<Self, String> {
        let scripts = Scripts::read([("corpus", script)]).map_err(|error| error.to_string())?;
        let model = ScriptedModel::new(scripts, ModelRef { provider: Provider::Demo, name: "stage".into() });
        let appends = Arc::new(AtomicUsize::new(0));
        let killed = Arc::new(Notify::new());
        let cancelled = Arc::new(Notify::new());
        let (count, kill, cancel) = (appends.clone(), killed.clone(), cancelled.clone());
        let hook = Hook::new(move |moment, op| {
            if op.name != "append" {
                return Ok(());
            }
            let number = match moment {
                Moment::Before => count.fetch_add(1, Ordering::SeqCst) + 1,
                Moment::After => count.load(Ordering::SeqCst),
            };
            match (disturbance, moment) {
                (Disturbance::KillAfter(n), Moment::After) if n == number => {
                    kill.notify_one();
                    Err("killed".into())
                }
                (Disturbance::CancelAfter(n), Moment::After) if n == number => {
                    cancel.notify_one();
                    Ok(())
                }
                (Disturbance::Refuse(n), Moment::Before) | (Disturbance::LoseAnswer(n), Moment::After)
                    if n == number =>
                {
                    Err(format!("append {n} was disturbed"))
                }
                _ => Ok(()),
            }
        });
        Ok(Self {
            store: MemoryStore::new(hook),
            objects: MemoryObjects::default(),
            model,
            seed,
            appends,
            killed,
            cancelled,
            executed: sandbox::Ledger::default(),
            epoch_ms: 1_700_000_000_000,
        })
    }

    /// Sends the messages one after the other, each when the run before has ended, and starts the process again when it was killed.
    pub fn rehearse(mut self, messages: &Messages) -> Result<Report, String> {
        let mut sent = vec![];
        for _process in 0..MOST_PROCESSES {
            let done = self.process(messages, &mut sent)?;
            if let Some((outcome, log)) = done {
                let appends = self.appends.load(Ordering::SeqCst);
                return Ok(Report { outcome, appends, executed: self.executed.all(), log });
            }
            self.epoch_ms += BETWEEN_MS;
            self.store.restart();
        }
        Err("the runs did not end".into())
    }

    fn process(
        &mut self,
        messages: &Messages,
        sent: &mut Vec<RunId>,
    ) -> Result<Option<(Outcome, Vec<String>)>, String> {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let tokio = tokio.map_err(|error| error.to_string())?;
        let (killed, cancelled) = (self.killed.clone(), self.cancelled.clone());
        let result = tokio.block_on(async {
            let world = Arc::new(SeededWorld::new(self.seed, self.epoch_ms));
            let runtime = self.runtime(world.clone())?;
            let worker = Worker::new(runtime.clone(), "stage".into());
            let story = async {
                let user = runtime.ports.store.owner(UserId::from_bits(7), 0).await.map_err(|e| e.to_string())?;
                let (ends, log) = tell(&runtime, user, messages, sent).await?;
                let (files, preview) = look(&runtime, user).await?;
                redraw(&runtime, sent).await?;
                Ok::<_, String>(Some((Outcome { ends, files, preview }, log)))
            };
            let canceller = async {
                cancelled.notified().await;
                cancel_all(&runtime).await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                () = killed.notified() => Ok(None),
                told = story => told,
                () = canceller => Err("a person never stops stopping".into()),
                () = tokio::time::sleep(MOST_TIME) => Err("the runs did not end".into()),
                () = worker.run(CancellationToken::new()) => Err("the worker stopped by itself".into()),
            }
        });
        // Dropping the runtime is the kill: nothing that was under way gets another poll.
        drop(tokio);
        result
    }

    fn runtime(&self, world: Arc<SeededWorld>) -> Result<Arc<Runtime>, String> {
        let ports = Ports {
            store: Arc::new(self.store.clone()),
            bus: Arc::new(LocalBus::new()),
            objects: Arc::new(self.objects.clone()),
            model: Arc::new(self.model.clone()),
            sandbox: Arc::new(StageSandbox::new(self.executed.clone())),
            world,
        };
        let path = |p: &str| ProjectPath::parse(p).map_err(|problem| problem.to_string());
        let mut files = vec![];
        for (name, text) in TEMPLATE {
            files.push((path(name)?, Bytes::from_static(text.as_bytes())));
        }
        let template = Template {
            name: "stage".into(),
            files,
            packages: BTreeMap::from([("lucide-react".to_owned(), "1.0.0".to_owned())]),
            instant: runtime::Packages::read(PACKAGES.as_bytes()).map_err(|error| error.to_string())?,
            output_dir: path("dist")?,
        };
        let preview = PreviewAddress { host_suffix: "localhost".into(), port: 7420 };
        Ok(Runtime::new(ports, Limits::default(), preview, template))
    }
}

/// Stops every run that has not ended.
async fn cancel_all(runtime: &Runtime) {
    let store = &runtime.ports.store;
    let Ok(user) = store.owner(UserId::from_bits(7), 0).await else { return };
    let Ok(runs) = store.runs(user, None, None, 100).await else { return };
    for run in runs.items {
        // A run that cannot be stopped is seen by the rehearsal: it ends as if nothing had been said.
        let _ = runtime.cancel(user, run.id).await;
    }
}

/// Sends what was not sent yet and reads every run to its end, checking on the way that no reader sees a gap (E21).
async fn tell(
    runtime: &Arc<Runtime>,
    user: UserId,
    messages: &Messages,
    sent: &mut Vec<RunId>,
) -> Result<(Vec<String>, Vec<String>), String> {
    let store = &runtime.ports.store;
    let (mut ends, mut log) = (vec![], vec![]);
    for n in 0..messages.len() {
        if sent.len() <= n {
            let chat = store.chats(user, None, 1).await.map_err(|e| e.to_string())?.items.first().map(|c| c.id);
            let accepted = runtime.send(user, chat, messages[n], None).await;
            sent.push(accepted.map_err(|error| format!("message {}: {error}; so far {ends:?}", n + 1))?.run_id);
        }
        let run = sent[n];
        ends.push(read_to_the_end(runtime, run, &mut log).await?);
    }
    Ok((ends, log))
}

async fn read_to_the_end(runtime: &Arc<Runtime>, run: RunId, log: &mut Vec<String>) -> Result<String, String> {
    let mut reader = runtime.events(run, 0);
    let mut last = 0;
    let mut end = String::new();
    while let Some(frame) = reader.next().await.map_err(|e| e.to_string())? {
        if frame.from_seq.unwrap_or(frame.seq) != last + 1 {
            return Err(format!("a reader saw {} after {last}", frame.seq));
        }
        last = frame.seq;
        log.push(String::from_utf8_lossy(&frame.json).into_owned());
        if frame.terminal {
            let event: serde_json::Value = serde_json::from_slice(&frame.json).map_err(|e| e.to_string())?;
            let why = event.get("stop_reason").or(event.get("code")).and_then(|r| r.as_str()).unwrap_or_default();
            end = format!("{} {why}", frame.kind);
        }
    }
    Ok(end)
}

/// Draws every instant page again from the log up to its event: it is a projection, so it is the page that was shown (N7).
async fn redraw(runtime: &Arc<Runtime>, sent: &[RunId]) -> Result<(), String> {
    let mut files = Project::default();
    for run in sent {
        let (_, events) = runtime::replay(runtime.ports.store.as_ref(), *run).await.map_err(|e| e.to_string())?;
        for (n, entry) in events.iter().enumerate() {
            files.replay(runtime.ports.objects.as_ref(), &entry.event).await.map_err(|e| e.to_string())?;
            if let Event::PreviewUrl(preview) = &entry.event
                && preview.kind == PreviewKind::Instant
            {
                let drawn = runtime.page(files.clone()).await.map_err(|e| e.to_string())?.map(|page| page.revision);
                if drawn.as_ref().ok() != preview.revision.as_ref() {
                    return Err(format!(
                        "event {} of {run} shows {:?}, and its files are {drawn:?}",
                        n + 1,
                        preview.revision
                    ));
                }
            }
        }
    }
    Ok(())
}

type Hashes = BTreeMap<String, String>;

async fn look(runtime: &Arc<Runtime>, user: UserId) -> Result<(Hashes, Hashes), String> {
    let store = &runtime.ports.store;
    let chats = store.chats(user, None, 1).await.map_err(|e| e.to_string())?;
    let project: ProjectId = chats.items.first().ok_or("the chat is gone")?.project_id;
    let files = runtime.files(user, project).await.map_err(|e| e.to_string())?.ok_or("the project is gone")?;
    let files = files.files.into_iter().map(|f| (f.path.to_string(), f.sha256)).collect();
    let row = store.project(project).await.map_err(|e| e.to_string())?.ok_or("the project is gone")?;
    let published = runtime.published(&row.slug).await.map_err(|e| e.to_string())?;
    let shown =
        published.map(|(_, manifest)| manifest.files.iter().map(|(p, e)| (p.to_string(), e.sha256.clone())).collect());
    Ok((files, shown.unwrap_or_default()))
}
