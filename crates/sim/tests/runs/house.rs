//! A Baton in memory: a worker, a scripted model that is listened to, and a sandbox of a handful of programs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use adapters::bus::LocalBus;
use adapters::model::scripted::{ScriptedModel, Scripts};
use async_trait::async_trait;
use bytes::Bytes;
use contract::api::{Accepted, RunView};
use contract::event::{Event, ModelRef, NewEvent, Provider};
use contract::{ChatId, Limits, ProjectPath, RunId, UserId};
use runtime::ports::model::{Model, ModelError, ModelRequest, ModelStream};
use runtime::{Ports, PreviewAddress, Runtime, Template, Worker};
use sim::memory::{MemoryObjects, MemoryStore};
use sim::stage::{SeededWorld, StageSandbox};
use tokio_util::sync::CancellationToken;

/// A name that the model also answers to.
pub const OTHER: &str = "other";
pub const USER: UserId = UserId::from_bits(7);

/// Runs that were performed, by script and what is sent.
pub const CORPUS: [(&str, &str, &[&str]); 8] = [
    ("answer", include_str!("../../corpus/answer.yaml"), &["what is this?"]),
    ("one_turn", include_str!("../../corpus/one_turn.yaml"), &["a page", "make it dark"]),
    ("mended", include_str!("../../corpus/mended.yaml"), &["an app"]),
    ("hard_luck", include_str!("../../corpus/hard_luck.yaml"), &["an app"]),
    ("broken_off", include_str!("../../corpus/broken_off.yaml"), &["an app"]),
    ("never_builds", include_str!("../../corpus/never_builds.yaml"), &["an app"]),
    ("too_many_tools", include_str!("../../corpus/too_many_tools.yaml"), &["an app"]),
    ("todo", include_str!("../../../../demo/todo.yaml"), &["a to-do list", "make it dark"]),
];

const TEMPLATE: [(&str, &str); 4] = [
    ("package.json", r#"{"scripts":{"build":"vite build"}}"#),
    ("index.html", r#"<script type="module" src="/src/main.tsx"></script>"#),
    ("src/main.tsx", "import './App'\n"),
    ("src/App.tsx", "export default () => <p>Your app will appear here</p>;\n"),
];

const PACKAGES: &str = r#"{"format": 1, "imports": {}, "packages": {"react": {"module": "r.js"}, "react/jsx-runtime": {"module": "r.js"}},
    "modules": {"r.js": "export const jsx = 1, jsxs = 1, Fragment = 1, useState = 1, useEffect = 1;"}}"#;

/// A scripted model that answers to two names and remembers what it was asked.
struct Listened {
    model: ScriptedModel,
    /// Whether it answers to [`OTHER`] no more.
    forgot: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<ModelRequest>>>,
}

#[async_trait]
impl Model for Listened {
    fn reference(&self) -> ModelRef {
        self.model.reference()
    }

    fn named(&self, name: &str) -> Option<ModelRef> {
        let other = || ModelRef { provider: Provider::Demo, name: OTHER.into() };
        let known = name == OTHER && !self.forgot.load(Ordering::SeqCst);
        self.model.named(name).or_else(|| known.then(other))
    }

    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        self.asked.lock().unwrap().push(request.clone());
        self.model.stream(request).await
    }
}

pub struct House {
    pub runtime: Arc<Runtime>,
    pub objects: MemoryObjects,
    asked: Arc<Mutex<Vec<ModelRequest>>>,
    forgot: Arc<AtomicBool>,
    _stop: tokio_util::sync::DropGuard,
}

impl House {
    pub fn new(script: &str) -> Self {
        Self::with(script, Limits::default())
    }

    pub fn with(script: &str, limits: Limits) -> Self {
        Self::on(script, limits, MemoryObjects::default())
    }

    /// The same with objects of which somebody decides what fails.
    pub fn on(script: &str, limits: Limits, objects: MemoryObjects) -> Self {
        let scripts = Scripts::read([("corpus", script)]).unwrap();
        let model = ScriptedModel::new(scripts, ModelRef { provider: Provider::Demo, name: "stage".into() });
        let asked = Arc::<Mutex<Vec<ModelRequest>>>::default();
        let forgot = Arc::<AtomicBool>::default();
        let ports = Ports {
            store: Arc::new(MemoryStore::default()),
            bus: Arc::new(LocalBus::new()),
            objects: Arc::new(objects.clone()),
            model: Arc::new(Listened { model, forgot: forgot.clone(), asked: asked.clone() }),
            sandbox: Arc::new(StageSandbox::default()),
            world: Arc::new(SeededWorld::new(42, 1_700_000_000_000)),
        };
        let template = Template {
            name: "stage".into(),
            files: TEMPLATE.iter().map(|(name, text)| (path(name), Bytes::from_static(text.as_bytes()))).collect(),
            packages: BTreeMap::from([("lucide-react".to_owned(), "1.0.0".to_owned())]),
            instant: runtime::Packages::read(PACKAGES.as_bytes()).unwrap(),
            output_dir: path("dist"),
        };
        let preview = PreviewAddress { host_suffix: "localhost".into(), port: 7420 };
        let runtime = Runtime::new(ports, limits, preview, template);
        let stop = CancellationToken::new();
        tokio::spawn(Worker::new(runtime.clone(), "vm-host-77-1234-0a1b2c3d".into()).run(stop.clone()));
        Self { runtime, objects, asked, forgot, _stop: stop.drop_guard() }
    }

    /// Sends a message and waits for the end of its run.
    pub async fn run(&self, chat: Option<ChatId>, text: &str) -> Accepted {
        let accepted = self.runtime.send(USER, chat, text, None).await.unwrap();
        self.end(accepted.run_id).await;
        accepted
    }

    /// Sends messages to one chat, one after the other.
    pub async fn runs(&self, messages: &[&str]) -> Vec<Accepted> {
        let mut done: Vec<Accepted> = vec![];
        for message in messages {
            done.push(self.run(done.first().map(|first| first.chat_id), message).await);
        }
        done
    }

    /// Waits for the end of a run and tells it: the last event's type, and its reason or code.
    pub async fn end(&self, run: RunId) -> String {
        let mut reader = self.runtime.events(run, 0);
        while reader.next().await.unwrap().is_some() {}
        self.ended(run).await
    }

    pub async fn ended(&self, run: RunId) -> String {
        match &self.log(run).await.last().unwrap().event {
            Event::RunCompleted(done) => format!("completed {:?}", done.stop_reason),
            Event::RunFailed(failed) => format!("failed {}", failed.code),
            Event::RunCancelled(_) => "cancelled".to_owned(),
            other => panic!("{run} has not ended: {other:?}"),
        }
    }

    /// Waits until a run has such an event, and gives it.
    pub async fn until(&self, run: RunId, wanted: impl Fn(&Event) -> bool) -> NewEvent {
        let mut reader = self.runtime.events(run, 0);
        loop {
            if let Some(found) = self.log(run).await.into_iter().find(|entry| wanted(&entry.event)) {
                return found;
            }
            assert!(reader.next().await.unwrap().is_some(), "the run ended without it");
        }
    }

    pub async fn log(&self, run: RunId) -> Vec<NewEvent> {
        runtime::replay(self.runtime.ports.store.as_ref(), run).await.unwrap().1
    }

    pub async fn view(&self, run: RunId) -> RunView {
        self.runtime.ports.store.run(USER, run).await.unwrap().unwrap()
    }

    /// The files of a run's project: path and hash.
    pub async fn files(&self, of: &Accepted) -> BTreeMap<String, String> {
        let files = self.runtime.files(USER, of.project_id).await.unwrap().unwrap();
        files.files.into_iter().map(|file| (file.path.to_string(), file.sha256)).collect()
    }

    /// What the preview of a run's project shows: path and hash.
    pub async fn shown(&self, of: &Accepted) -> BTreeMap<String, String> {
        let row = self.runtime.ports.store.project(of.project_id).await.unwrap().unwrap();
        let shown = self.runtime.published(&row.slug).await.unwrap();
        let files = shown.map(|(_, manifest)| manifest.files.clone()).unwrap_or_default();
        files.into_iter().map(|(path, entry)| (path.to_string(), entry.sha256)).collect()
    }

    /// What is stored of a run is what its log says.
    pub async fn verify(&self, run: RunId) {
        let found = self.runtime.verify(USER, run).await.unwrap();
        assert_eq!((found.differences, found.events), (vec![], self.view(run).await.last_seq), "{run}");
    }

    /// From now on the model does not answer to [`OTHER`], as after a start with other settings.
    pub fn forget_other(&self) {
        self.forgot.store(true, Ordering::SeqCst);
    }

    /// What the model was asked since this was asked last.
    pub fn asked(&self) -> Vec<ModelRequest> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// Everything that a person sees in lists.
    pub async fn lists(&self) -> (Vec<RunView>, usize) {
        let store = &self.runtime.ports.store;
        let runs = store.runs(USER, None, None, 1_000).await.unwrap().items;
        (runs, store.chats(USER, None, 1_000).await.unwrap().items.len())
    }
}

pub fn path(text: &str) -> ProjectPath {
    ProjectPath::parse(text).unwrap()
}
