//! The person at the browser: does what a case says through the door of a process that lives, reads every run to its end, and comes
//! back when the door is gone. What was asked and not answered is asked again under the same key (promise 1).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use contract::api::{Accepted, PreviewReport};
use contract::event::{PlannedStep, Work};
use contract::{ChatId, ProjectId, ProjectPath, RunId, StepId, UserId};
use futures::future::try_join_all;
use runtime::ports::store::{Admission, AdmitError};
use runtime::{ChangeError, ForkError, Frame, MessageError, RetryError, Runtime, RuntimeError};

use super::admission;
use super::case::{Act, Case, Deed, During, Message};
use super::director::Director;
use super::world::Dice;

/// How long a person waits before asking again.
const AGAIN: Duration = Duration::from_millis(400);
/// How often they ask.
const TRIES: usize = 600;
/// The one user of the stage.
pub(super) const USER: UserId = UserId::from_bits(7);

/// A person, who outlives every process.
pub(super) struct Person {
    case: Case,
    director: Arc<Director>,
    memory: Mutex<Memory>,
}

struct Memory {
    /// Acts that are over.
    acts: usize,
    chat: Option<ChatId>,
    /// By the key under which they were asked for.
    runs: BTreeMap<String, RunId>,
    told: BTreeMap<RunId, Told>,
    /// Deeds that are done, by run and number.
    done: BTreeSet<(RunId, usize)>,
    dice: Dice,
    outcome: Option<Result<(), String>>,
}

/// What a person was told of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    last: u64,
    /// Every frame.
    pub(super) frames: Vec<Frame>,
    ended: bool,
}

/// Something that could not be done.
enum Refusal {
    /// Asking again may help.
    Again(String),
    /// It never will be.
    Never(String),
}

impl Person {
    pub(super) fn new(case: Case, director: Arc<Director>, seed: u64) -> Self {
        let memory = Memory {
            acts: 0,
            chat: None,
            runs: BTreeMap::new(),
            told: BTreeMap::new(),
            done: BTreeSet::new(),
            dice: Dice::new(seed),
            outcome: None,
        };
        Self { case, director, memory: Mutex::new(memory) }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether everything is done and was read to its end, or something went wrong that must not.
    pub(super) fn outcome(&self) -> Option<Result<(), String>> {
        self.memory().outcome.clone()
    }

    /// What they were told of each run.
    pub(super) fn told(&self) -> BTreeMap<RunId, Told> {
        self.memory().told.clone()
    }

    /// Goes on where they were, at the door of a process.
    pub(super) async fn live(self: Arc<Self>, runtime: Arc<Runtime>) {
        let stops = async {
            loop {
                self.director.stop.notified().await;
                self.stop_all(&runtime).await;
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = self.act(&runtime) => outcome,
            () = stops => Ok(()),
        };
        self.memory().outcome = Some(outcome);
    }

    async fn act(&self, runtime: &Arc<Runtime>) -> Result<(), String> {
        loop {
            let number = self.memory().acts;
            let Some(act) = self.case.acts.get(number) else { return Ok(()) };
            match act {
                Act::Say(messages) => self.say(runtime, number, messages).await?,
                Act::Change(_) | Act::Restore(_) | Act::Retry(_) | Act::Graph(_) | Act::Fork(..) => {
                    let key = format!("{number}.0");
                    let run = match self.known(&key) {
                        Some(run) => Ok(run),
                        None => insist(|| self.ask(runtime, act, &key)).await.map(|answer| self.noted(&key, answer)),
                    };
                    // What is refused for good has no run, which is seen when the runs are counted: what it was about may be missing
                    // because the run before was stopped.
                    if let Ok(run) = run {
                        self.read(runtime, run, &[], &[]).await?;
                    }
                }
            }
            // What was started from a run is read to its end as well.
            while let Some(run) = self.open() {
                self.read(runtime, run, &[], &[]).await?;
            }
            self.memory().acts += 1;
        }
    }

    /// The run that was accepted as the n-th: keys sort as they were used.
    fn nth(&self, n: usize) -> Option<RunId> {
        self.memory().runs.values().nth(n).copied()
    }

    async fn say(&self, runtime: &Arc<Runtime>, number: usize, messages: &[Message]) -> Result<(), String> {
        let mut runs = vec![];
        for (n, message) in messages.iter().enumerate() {
            runs.push(self.send(runtime, &format!("{number}.{n}"), message).await?);
        }
        let reading = messages.iter().zip(&runs).map(|(message, run)| self.read(runtime, *run, message.during, &runs));
        try_join_all(reading).await.map(drop)
    }

    async fn send(&self, runtime: &Arc<Runtime>, key: &str, message: &Message) -> Result<RunId, String> {
        let chat = self.memory().chat.filter(|_| !message.new_chat);
        if let Some(run) = self.known(key) {
            return Ok(run);
        }
        let accepted = insist(|| async {
            runtime.send(USER, chat, message.text, Some(key)).await.map_err(|error| match error {
                MessageError::Admit(error) => of_admission(error),
                other => Refusal::Never(other.to_string()),
            })
        });
        let accepted = accepted.await?;
        let mut memory = self.memory();
        memory.chat = Some(accepted.chat_id);
        memory.runs.insert(key.to_owned(), accepted.run_id);
        Ok(accepted.run_id)
    }

    fn known(&self, key: &str) -> Option<RunId> {
        self.memory().runs.get(key).copied()
    }

    fn noted(&self, key: &str, accepted: Accepted) -> RunId {
        let mut memory = self.memory();
        memory.runs.insert(key.to_owned(), accepted.run_id);
        memory.chat.get_or_insert(accepted.chat_id);
        accepted.run_id
    }

    /// Asks for the run of an act that is no message.
    async fn ask(&self, runtime: &Arc<Runtime>, act: &Act, key: &str) -> Result<Accepted, Refusal> {
        let nth = |n: usize| self.nth(n).ok_or_else(|| Refusal::Never("there is no such run".into()));
        match act {
            Act::Say(_) => Err(Refusal::Never("a message is sent otherwise".into())),
            Act::Change(files) => {
                let mut edits = vec![];
                for (path, text) in *files {
                    let path = ProjectPath::parse(path).map_err(|problem| Refusal::Never(problem.to_string()))?;
                    edits.push((path, text.map(|text| Bytes::from_static(text.as_bytes()))));
                }
                let project = self.project(runtime).await?;
                runtime.edit(USER, project, edits, None, Some(key)).await.map_err(of_change)
            }
            Act::Restore(n) => {
                let project = self.project(runtime).await?;
                let mut versions = store(runtime.ports.store.versions(project, 100).await)?;
                versions.reverse();
                let version = versions.get(*n).ok_or_else(|| Refusal::Never("there is no such version".into()))?;
                runtime.restore(USER, project, version.id, Some(key)).await.map_err(of_change)
            }
            Act::Retry(n) => runtime.retry(USER, nth(*n)?, Some(key)).await.map_err(|error| match error {
                RetryError::Admit(error) => of_admission(error),
                RetryError::Runtime(error) => of_runtime(&error),
                other => Refusal::Never(other.to_string()),
            }),
            Act::Graph(steps) => {
                let admission = admission::new_chat(runtime, "a graph", graph(steps));
                let admission = Admission { idempotency_key: Some(key.to_owned()), ..admission };
                runtime.admit(admission).await.map_err(of_admission)
            }
            Act::Fork(n, step) => {
                let fork = runtime.fork(USER, nth(*n)?, &StepId::new(*step), None, Some(key)).await;
                fork.map_err(|error| match error {
                    ForkError::Admit(error) => of_admission(error),
                    ForkError::Runtime(error) => of_runtime(&error),
                    // What is said of an object that could not be read.
                    ForkError::BuildGone => Refusal::Again(error.to_string()),
                    other => Refusal::Never(other.to_string()),
                })
            }
        }
    }

    /// The project of the latest chat.
    async fn project(&self, runtime: &Arc<Runtime>) -> Result<ProjectId, Refusal> {
        let chat = self.memory().chat.ok_or_else(|| Refusal::Never("there is no chat".into()))?;
        let project = store(runtime.ports.store.project_of(USER, chat).await)?;
        project.ok_or_else(|| Refusal::Never("the chat is gone".into()))
    }

    fn has_ended(&self, run: RunId) -> bool {
        self.memory().told.get(&run).is_some_and(|told| told.ended)
    }

    /// A run whose end was not read.
    fn open(&self) -> Option<RunId> {
        let memory = self.memory();
        memory.runs.values().copied().find(|run| !memory.told.get(run).is_some_and(|told| told.ended))
    }

    /// Reads a run to its end, checking on the way that there is no gap (E21), with a new reader every now and then.
    async fn read(
        &self,
        runtime: &Arc<Runtime>,
        run: RunId,
        during: &[During],
        siblings: &[RunId],
    ) -> Result<(), String> {
        let mut failures = 0;
        while !self.has_ended(run) {
            let (after, frames) = {
                let mut memory = self.memory();
                let frames = 1 + memory.dice.below(30);
                (memory.told.entry(run).or_default().last, frames)
            };
            let mut reader = runtime.events(run, after);
            for _ in 0..frames {
                match reader.next().await {
                    Ok(Some(frame)) => {
                        self.take(run, &frame)?;
                        self.react(runtime, run, &frame, during, siblings).await?;
                    }
                    Ok(None) if self.has_ended(run) => return Ok(()),
                    Ok(None) => return Err(format!("what was told of {run} stopped before its end")),
                    Err(RuntimeError::Store(_)) if failures < TRIES => {
                        failures += 1;
                        tokio::time::sleep(AGAIN).await;
                        break;
                    }
                    Err(error) => return Err(format!("{run} cannot be read: {error}")),
                }
            }
        }
        Ok(())
    }

    fn take(&self, run: RunId, frame: &Frame) -> Result<(), String> {
        let mut memory = self.memory();
        let told = memory.told.entry(run).or_default();
        if told.ended {
            return Err(format!("{run} goes on after its end with {}", frame.kind));
        }
        if frame.first() != told.last + 1 {
            return Err(format!("a reader of {run} saw {} after {}", frame.first(), told.last));
        }
        told.last = frame.seq;
        told.ended = frame.terminal;
        told.frames.push(frame.clone());
        Ok(())
    }

    async fn react(
        &self,
        runtime: &Arc<Runtime>,
        run: RunId,
        frame: &Frame,
        during: &[During],
        siblings: &[RunId],
    ) -> Result<(), String> {
        for (n, During { kind, holds, deed }) in during.iter().enumerate() {
            let text = String::from_utf8_lossy(&frame.json);
            if *frame.kind != **kind || !text.contains(holds) || self.memory().done.contains(&(run, n)) {
                continue;
            }
            let revision = || {
                let event: Option<serde_json::Value> = serde_json::from_slice(&frame.json).ok();
                event.and_then(|event| Some(event.get("revision")?.as_str()?.to_owned())).unwrap_or_default()
            };
            let page = |blank, message: &str| PreviewReport {
                revision: revision(),
                blank,
                message: message.to_owned(),
                at: None,
            };
            match deed {
                Deed::Stop => self.stop(runtime, run).await?,
                Deed::StopOther(n) => match siblings.get(*n) {
                    Some(other) => self.stop(runtime, *other).await?,
                    None => return Err("there is no such run to stop".into()),
                },
                Deed::Blank(message) => report(runtime, run, page(true, message)).await?,
                Deed::Exception(message) => report(runtime, run, page(false, message)).await?,
                Deed::Start(text) => {
                    let child = || admission::new_chat(runtime, text, Work::Message);
                    self.start(runtime, run, &format!("{run}.{n}"), child).await?;
                }
                Deed::StartGraph(steps) => {
                    let view = insist(|| async { store(runtime.ports.store.run(USER, run).await) }).await?;
                    let view = view.ok_or("the run is gone")?;
                    let work = || graph(steps);
                    let child = || admission::in_chat(runtime, view.chat_id, view.project_id, "a graph", work());
                    self.start(runtime, run, &format!("{run}.{n}"), child).await?;
                }
            }
            self.memory().done.insert((run, n));
        }
        Ok(())
    }

    /// Starts a run from a run, as long as that one goes on.
    async fn start(
        &self,
        runtime: &Arc<Runtime>,
        parent: RunId,
        key: &str,
        child: impl Fn() -> Admission,
    ) -> Result<(), String> {
        for _ in 0..TRIES {
            let claim = self.director.claim_of(parent);
            let admission = Admission { parent: claim, idempotency_key: Some(key.to_owned()), ..child() };
            match runtime.admit(admission).await {
                Ok(accepted) => {
                    self.memory().runs.insert(format!("~{key}"), accepted.run_id);
                    return Ok(());
                }
                Err(AdmitError::ParentOver) => {
                    let view = insist(|| async { store(runtime.ports.store.run(USER, parent).await) }).await?;
                    if view.is_none_or(|view| view.status.is_terminal()) {
                        return Ok(());
                    }
                }
                Err(AdmitError::Store(_)) => {}
                Err(error) => return Err(format!("no run can be started from {parent}: {error}")),
            }
            tokio::time::sleep(AGAIN).await;
        }
        Err(format!("no run could be started from {parent}"))
    }

    async fn stop(&self, runtime: &Arc<Runtime>, run: RunId) -> Result<(), String> {
        insist(|| async { store(runtime.cancel(USER, run).await) }).await.map(drop)
    }

    /// Stops every run that has not ended.
    async fn stop_all(&self, runtime: &Arc<Runtime>) {
        let Ok(runs) = insist(|| async { store(runtime.ports.store.runs(USER, None, None, 100).await) }).await else {
            return;
        };
        for run in runs.items {
            // A run that cannot be stopped is seen by the rehearsal: it ends as if nothing had been said.
            let _ = self.stop(runtime, run.id).await;
        }
    }
}

/// Asks until there is an answer.
async fn insist<T, F: Future<Output = Result<T, Refusal>>>(ask: impl Fn() -> F) -> Result<T, String> {
    let mut last = String::new();
    for _ in 0..TRIES {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(Refusal::Never(why)) => return Err(why),
            Err(Refusal::Again(why)) => last = why,
        }
        tokio::time::sleep(AGAIN).await;
    }
    Err(format!("there is no answer: {last}"))
}

fn store<T, E: std::fmt::Display>(answer: Result<T, E>) -> Result<T, Refusal> {
    answer.map_err(|error| Refusal::Again(error.to_string()))
}

fn of_runtime(error: &RuntimeError) -> Refusal {
    match error {
        RuntimeError::Store(_) | RuntimeError::Objects(_) => Refusal::Again(error.to_string()),
        other => Refusal::Never(other.to_string()),
    }
}

fn of_change(error: ChangeError) -> Refusal {
    match error {
        ChangeError::Admit(error) => of_admission(error),
        ChangeError::Runtime(error) => of_runtime(&error),
        other => Refusal::Never(other.to_string()),
    }
}

fn of_admission(error: AdmitError) -> Refusal {
    match error {
        AdmitError::Store(error) => Refusal::Again(error.to_string()),
        other => Refusal::Never(other.to_string()),
    }
}

async fn report(runtime: &Arc<Runtime>, run: RunId, what: PreviewReport) -> Result<(), String> {
    insist(|| async { store(runtime.report(USER, run, what.clone()).await) }).await.map(drop)
}

/// Steps that echo, as a run's work.
pub(super) fn graph(steps: &[(&str, &str, &[&str])]) -> Work {
    let planned = |(id, skill, on): &(&str, &str, &[&str])| PlannedStep {
        id: StepId::new(*id),
        skill: (*skill).to_owned(),
        inputs: serde_json::json!({ "of": id }),
        depends_on: on.iter().map(|id| StepId::new(*id)).collect(),
    };
    Work::Graph { steps: steps.iter().map(planned).collect() }
}
