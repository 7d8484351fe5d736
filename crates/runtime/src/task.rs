//! One run, from claim to end: the only owner of the run's state, so there is nothing to lock.
//!
//! Every round: take what has come in (reports of effects, the inbox, timers), fold and step it until nothing more follows,
//! append all of it in one commit, publish, and only then perform. While a commit is under way the next round gathers by itself.

mod again;
mod keep;
mod look;
mod skill;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use contract::api::Role;
use contract::event::{
    Author, Budget, Event, FileCompleted, FileDeleted, Finish, Head, ModelRef, NewEvent, PreviewProblem, RunFailed,
    RunStarted, Said, Session, StepKind, StepState, StepStatus, StopReason, TimerFired, TurnCompleted, Work,
};
use contract::{ProjectPath, StepId};
use engine::prompt::{Material, PromptMessage, Speaker};
use engine::{Effect, RunState};
use keep::Upkeep;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ingest::Ingest;
use crate::live::Frame;
use crate::perform::{Edition, FileOp, Hands, Report, StepRef};
use crate::ports::bus::{Listener, Wake};
use crate::ports::model::ModelRequest;
use crate::ports::store::{Append, Claim, Entry, InboxItem, ProjectRow, RowChange};
use crate::project::{File, sha256};
use crate::recall::{Recalled, still_told};
use crate::{Project, Runtime, RuntimeError, history, projection, replay};

/// Why a task is over.
#[derive(Debug)]
pub(crate) enum End {
    /// The run's terminal event is in the log.
    Finished,
    /// The worker is stopping; the run is to be handed back.
    Drained,
    /// The claim is lost, or the store cannot be trusted with it; another worker goes on.
    Lost(RuntimeError),
}

/// One round: what is appended in one commit, and what is done afterwards, in order.
#[derive(Default)]
struct Round {
    events: Vec<NewEvent>,
    rows: Vec<RowChange>,
    acts: Vec<Act>,
    consumed: Vec<u64>,
}

enum Act {
    Write(FileOp),
    Perform(Effect),
}

pub(crate) struct Task {
    runtime: Arc<Runtime>,
    worker: String,
    claim: Claim,
    state: RunState,
    /// End of the log as this task knows it.
    end: u64,
    project: Project,
    /// First label of the preview's host.
    slug: String,
    /// What was told of why the files cannot be shown at once, as far as it still holds.
    told: Vec<PreviewProblem>,
    /// The project as it was when the run began.
    base: BTreeMap<ProjectPath, File>,
    history: Vec<PromptMessage>,
    turns: HashMap<StepId, Ingest>,
    timers: BTreeMap<String, u64>,
    /// What the model has changed since the call in hand was started: it is written behind it, so it is the later word.
    meanwhile: BTreeSet<ProjectPath>,
    hands: Hands,
    reports: mpsc::Receiver<Report>,
    /// What needed no hands, for the next round.
    own: Vec<Report>,
    /// What the run's row says that it is doing.
    progress: Option<RowChange>,
    inbox: Listener,
    /// When the inbox is looked into, wake-up or not.
    next_poll: Instant,
    upkeep: Upkeep,
}

impl Task {
    /// Reads the log: what a fresh start and a recovery both begin with.
    pub(crate) async fn open(runtime: Arc<Runtime>, worker: String, claim: Claim) -> Result<Self, RuntimeError> {
        let inbox = runtime.ports.bus.listen(Wake::Inbox(claim.run_id));
        let (store, objects) = (runtime.ports.store.as_ref(), runtime.ports.objects.as_ref());
        let Recalled { state, project, base, told, end, tail } = Recalled::of(store, objects, claim.run_id).await?;
        let unsealed = || history::unsealed(claim.run_id);
        let session = state.session.clone().ok_or_else(unsealed)?;
        let row = store.project(session.project_id).await?.ok_or_else(unsealed)?;
        let history = history(&runtime, &session, &row, claim).await?;
        let files = project.files().iter().map(|(path, file)| (path.clone(), file.content.clone())).collect();
        let (sender, reports) = mpsc::channel(usize::try_from(runtime.limits.run_inbox).unwrap_or(1));
        let hands = Hands::new(runtime.clone(), claim, session.project_id, files, sender);
        let (turns, timers, next_poll) = (HashMap::new(), BTreeMap::new(), Instant::now());
        Ok(Self {
            runtime,
            worker,
            claim,
            state,
            end,
            project,
            slug: row.slug,
            told,
            base,
            history,
            turns,
            timers,
            meanwhile: BTreeSet::new(),
            hands,
            reports,
            own: vec![],
            progress: None,
            inbox,
            next_poll,
            upkeep: Upkeep::new(tail),
        })
    }

    /// Performs the run until it ends, the worker drains (`stop`) or the claim is lost (`lost`).
    pub(crate) async fn run(mut self, stop: CancellationToken, lost: CancellationToken) -> End {
        let end = tokio::select! {
            biased;
            () = lost.cancelled() => End::Lost(RuntimeError::Append(crate::ports::store::AppendError::Fenced)),
            () = stop.cancelled() => End::Drained,
            ended = self.rounds() => match ended {
                Ok(()) => End::Finished,
                Err(error) => End::Lost(error),
            },
        };
        // Nobody reads reports any more: effects that wait to report must not hold the hands up.
        drop(self.reports);
        self.hands.close().await;
        end
    }

    async fn rounds(&mut self) -> Result<(), RuntimeError> {
        let mut round = self.begin().await?;
        loop {
            self.show(&mut round).await?;
            self.commit(round).await?;
            if self.state.ended {
                return Ok(());
            }
            round = self.gather().await?;
        }
    }

    /// The first round. Cancels come first, so that a run that was stopped while it waited does not begin.
    async fn begin(&mut self) -> Result<Round, RuntimeError> {
        let mut round = Round::default();
        self.take_inbox(&mut round).await?;
        if self.project.files().is_empty() && !self.state.ended {
            for (path, content) in self.runtime.template.files.clone() {
                self.changed(&mut round, None, path.clone(), Some(content), Author::Template).await?;
                self.base.extend(self.project.file(&path).map(|file| (path, file.clone())));
            }
        }
        let work = self.state.session.as_ref().map(|session| session.work.clone());
        if let Some(Work::Change { files, .. }) = work.filter(|_| self.state.steps.is_empty()) {
            for file in files {
                let content = match &file.sha256 {
                    Some(sha256) => {
                        Some(crate::project::fetch(self.runtime.ports.objects.as_ref(), &file.path, sha256).await?)
                    }
                    None => None,
                };
                self.changed(&mut round, None, file.path, content, Author::Person).await?;
            }
        }
        let started = RunStarted { worker: self.worker.clone(), epoch: self.claim.epoch };
        self.push(&mut round, None, started.into(), None);
        Ok(round)
    }

    /// Waits until something has come in, then takes all that is there.
    async fn gather(&mut self) -> Result<Round, RuntimeError> {
        let mut round = Round::default();
        let most = usize::try_from(self.runtime.limits.run_inbox).unwrap_or(1);
        let mut reports = Vec::new();
        let due = self.timers.values().min().map(|due| due.saturating_sub(self.runtime.ports.world.now_ms()));
        let (inbox, next_poll) = (&mut self.inbox, self.next_poll);
        tokio::select! {
            // What comes seldom goes first, so that what streams does not keep it waiting.
            biased;
            () = inbox.heard() => {}
            () = tokio::time::sleep_until(next_poll) => {}
            () = tokio::time::sleep(Duration::from_millis(due.unwrap_or(u64::MAX >> 16))), if due.is_some() => {}
            () = std::future::ready(()), if !self.own.is_empty() => reports.append(&mut self.own),
            _count = self.reports.recv_many(&mut reports, most) => {}
        }
        if reports.is_empty() || Instant::now() >= self.next_poll {
            self.next_poll = Instant::now() + Duration::from_millis(self.runtime.limits.poll_ms);
            self.take_inbox(&mut round).await?;
        }
        for report in reports {
            self.take(&mut round, report).await?;
        }
        let now = self.runtime.ports.world.now_ms();
        let due: Vec<String> =
            self.timers.iter().filter(|(_, due)| **due <= now).map(|(token, _)| token.clone()).collect();
        for token in due {
            self.timers.remove(&token);
            self.push(&mut round, None, TimerFired { token }.into(), None);
        }
        Ok(round)
    }

    async fn take_inbox(&mut self, round: &mut Round) -> Result<(), RuntimeError> {
        for (row, item) in self.runtime.ports.store.inbox(self.claim.run_id).await? {
            round.consumed.push(row);
            match item {
                InboxItem::Cancel { by } => self.push(round, None, engine::step::cancel(&by).into(), None),
                InboxItem::PreviewProblem(problem) => {
                    // A blank page counts once for each page; of exceptions there can be any number.
                    let counts = match problem.code == engine::state::BLANK_PAGE {
                        true => self.state.instant == problem.revision && self.state.shows_nothing().is_none(),
                        false => u64::from(self.state.exceptions) < self.runtime.limits.preview_exceptions,
                    };
                    if counts {
                        self.push(round, None, problem.into(), None);
                    }
                }
            }
        }
        Ok(())
    }

    /// Turns a report into events. A report of an attempt that is over says nothing any more.
    async fn take(&mut self, round: &mut Round, report: Report) -> Result<(), RuntimeError> {
        match report {
            Report::Said(step, frames) if self.is_current(&step) => {
                if self.turns.get_mut(&step.0).is_some_and(|t| std::mem::take(&mut t.stale)) {
                    self.put_back(round, &step).await?;
                }
                for frame in frames {
                    let ingest =
                        self.turns.entry(step.0.clone()).or_insert_with(|| Ingest::new(step.0.clone(), step.1));
                    for event in ingest.take(&self.runtime.limits, &mut self.project, frame) {
                        self.meanwhile.extend(event.changed_paths().cloned());
                        self.note_file(round, &event);
                        self.push(round, Some(step.clone()), event, None);
                    }
                }
            }
            Report::TurnEnded { step, finish, bytes, usage } if self.is_current(&step) => {
                let done = self.turns.remove(&step.0).is_some_and(|t| t.done);
                let turn = self.state.count(StepKind::Turn);
                let completed = Event::from(TurnCompleted { turn, finish, done, bytes, usage });
                // Nothing of it has to be fetched.
                let _ = self.project.fold(&completed);
                self.push(round, Some(step), completed, None);
            }
            // Nothing is published any more once the run is being stopped.
            Report::Events(step, _, Some(RowChange::Publish(_))) if engine::step::stopping(&self.state) => {
                self.stopped(round, step);
            }
            Report::Events(step, events, row) => {
                let mut row = row;
                for event in events {
                    if !self.is_stale(&step, &event) {
                        self.push(round, Some(step.clone()), event, row.take());
                    }
                }
            }
            Report::Changed(step, mut changes) => {
                changes.retain(|(path, _)| !self.meanwhile.contains(path));
                for (path, content) in changes {
                    self.changed(round, Some(&step), path, content, Author::Command).await?;
                }
            }
            Report::Stopped(step) => self.stopped(round, step),
            Report::Broken => return Err(RuntimeError::Broken),
            Report::Said(..) | Report::TurnEnded { .. } => {}
        }
        Ok(())
    }

    fn stopped(&mut self, round: &mut Round, step: StepRef) {
        if self.is_current(&step) {
            let (id, reason) = (step.0.clone(), Some("stopped".into()));
            let state = StepState { id, state: StepStatus::Skipped, attempt: step.1, reason, output: None };
            self.push(round, Some(step), state.into(), None);
        }
    }

    /// The model begins to answer once more: it believes the files to be as they were before this turn, so they have to be. Not
    /// sooner, so that what was written is kept if it never answers again.
    async fn put_back(&mut self, round: &mut Round, step: &StepRef) -> Result<(), RuntimeError> {
        for (path, content) in self.project.undo() {
            self.changed(round, Some(step), path, content, Author::Restored).await?;
        }
        Ok(())
    }

    fn is_current(&self, step: &StepRef) -> bool {
        self.state.step(&step.0).is_some_and(|s| s.attempt == step.1 && s.status == StepStatus::Running)
    }

    fn is_stale(&self, step: &StepRef, event: &Event) -> bool {
        if let Event::ToolFinished(finished) = event {
            // A call has one result.
            return self.state.calls.iter().any(|c| c.id == finished.call_id && c.result.is_some());
        }
        !matches!(event, Event::ToolOutput(_)) && !self.is_current(step)
    }

    /// A file that something else than the model's words changed becomes part of the log, with its bytes in the object store: so a
    /// lost workspace can be made again exactly.
    async fn changed(
        &mut self,
        round: &mut Round,
        step: Option<&StepRef>,
        path: ProjectPath,
        content: Option<bytes::Bytes>,
        by: Author,
    ) -> Result<(), RuntimeError> {
        let event = match content {
            Some(content) => {
                if self.project.file(&path).is_some_and(|file| file.sha256 == sha256(&content)) {
                    return Ok(());
                }
                let sha256 = self.runtime.ports.objects.put(content.clone()).await?;
                let bytes = content.len() as u64;
                self.project.put(path.clone(), content, sha256.clone(), by);
                FileCompleted { path, bytes, sha256, by }.into()
            }
            None if self.project.file(&path).is_some() => {
                let gone = Event::from(FileDeleted { path, by });
                let _ = self.project.fold(&gone);
                gone
            }
            None => return Ok(()),
        };
        if by != Author::Command {
            // A command's change is in the workspace already.
            self.note_file(round, &event);
        }
        self.push(round, step.cloned(), event, None);
        Ok(())
    }

    /// Notes what a file event means for the workspace, with the bytes as they are at this point of the stream.
    fn note_file(&self, round: &mut Round, event: &Event) {
        let now = |path: &ProjectPath| Act::Write((path.clone(), self.project.file(path).map(|f| f.content.clone())));
        round.acts.extend(event.changed_paths().map(now));
    }

    /// Folds and steps an event, and all that follows from it, into the round.
    fn push(&mut self, round: &mut Round, step: Option<StepRef>, event: Event, row: Option<RowChange>) {
        let at = self.runtime.ports.world.now_ms();
        let mut queue = VecDeque::from([(step, event)]);
        round.rows.extend(row);
        let mut taken_over = None;
        while let Some((step, event)) = queue.pop_front() {
            if self.state.ended {
                return;
            }
            if let Some(brought) = self.brought_along(round, &event, &mut taken_over) {
                queue.push_front((step.clone(), event));
                brought.into_iter().rev().for_each(|event| queue.push_front((step.clone(), event)));
                continue;
            }
            let entry = NewEvent { at, step, event };
            self.state.fold(&entry);
            still_told(&mut self.told, &entry.event);
            if let Event::StepState(_) | Event::ToolStarted(_) | Event::ToolFinished(_) = &entry.event {
                let _ = self.project.fold(&entry.event);
            }
            if let Event::ToolStarted(_) = &entry.event {
                self.meanwhile.clear();
            }
            for row in projection::rows(&self.state, &entry) {
                let doing = matches!(row, RowChange::Progress { .. }).then(|| row.clone());
                if doing.is_none() || doing != self.progress {
                    projection::add(&mut round.rows, row);
                }
                self.progress = doing.or(self.progress.take());
            }
            let decision = engine::step(&self.runtime.limits, &self.state, &entry);
            // What follows from an event stands right behind it.
            for follows in decision.events.into_iter().rev() {
                queue.push_front(follows);
            }
            round.acts.extend(decision.effects.into_iter().map(Act::Perform));
            add_event(&mut round.events, entry, &self.runtime.limits);
        }
    }

    /// Appends the round, publishes it, and performs what it decided.
    async fn commit(&mut self, mut round: Round) -> Result<(), RuntimeError> {
        if round.events.is_empty() && round.consumed.is_empty() {
            return Ok(());
        }
        let entries = round.events.iter().map(Entry::of).collect::<Result<Vec<_>, _>>()?;
        // Encoded for those who read here; who comes meanwhile is told by the wake-up.
        let read = self.runtime.live.is_read(self.claim.run_id);
        let numbered = (self.end + 1..).zip(entries.iter().filter(|_| read));
        let frames = numbered.map(|(seq, entry)| Frame::committed(&self.head(seq, entry), entry)).collect();
        self.upkeep.note(&entries);
        let append = Append {
            claim: self.claim,
            after: self.end,
            events: entries,
            rows: std::mem::take(&mut round.rows),
            consumed: std::mem::take(&mut round.consumed),
            ends: self.state.ended,
        };
        self.end = self.runtime.ports.store.append(append).await?;
        self.runtime.live.publish(self.claim.run_id, frames);
        self.runtime.ports.bus.send(Wake::Appended(self.claim.run_id));
        if self.state.ended {
            // The next run of the project can begin.
            self.runtime.ports.bus.send(Wake::Claimable);
        } else {
            self.perform(round.acts);
            self.keep();
        }
        Ok(())
    }

    fn head(&self, seq: u64, entry: &Entry) -> Head {
        let (step_id, attempt) = entry.step.clone().unzip();
        Head { run_id: self.claim.run_id, seq, from_seq: None, at: entry.at, step_id, attempt }
    }

    fn perform(&mut self, acts: Vec<Act>) {
        let mut writes = vec![];
        for act in acts {
            match act {
                Act::Write(op) => writes.push(op),
                Act::Perform(effect) => {
                    if !writes.is_empty() {
                        self.hands.write(std::mem::take(&mut writes));
                    }
                    self.perform_one(effect);
                }
            }
        }
        if !writes.is_empty() {
            self.hands.write(writes);
        }
    }

    fn perform_one(&mut self, effect: Effect) {
        match effect {
            Effect::StartStep { step, attempt, kind } => match kind {
                StepKind::Turn => self.start_turn((step, attempt)),
                StepKind::Check => self.hands.check((step, attempt), self.examination()),
                StepKind::Build => self.hands.build((step, attempt)),
                StepKind::Publish => self.publish((step, attempt)),
                StepKind::Skill => self.skill((step, attempt)),
            },
            Effect::StopTurn { step } => self.hands.stop_turn(&step),
            Effect::PerformTool { call_id, step, input } => self.hands.tool(step, call_id, input),
            Effect::SetTimer { token, due } => {
                self.timers.insert(token, due);
            }
            Effect::StopAll => self.hands.stop_all(),
        }
    }

    /// The model of the run's sealed envelope.
    fn model(&self) -> ModelRef {
        self.state.session.as_ref().map_or_else(|| self.runtime.model(), |session| session.model.clone())
    }

    fn start_turn(&mut self, step: StepRef) {
        self.turns.insert(step.0.clone(), Ingest::new(step.0.clone(), step.1));
        let material = Material {
            limits: &self.runtime.limits,
            state: &self.state,
            history: &self.history,
            files: self.base.iter().map(|(path, file)| (path, std::str::from_utf8(&file.content).ok())).collect(),
            text_of: &|sha256| self.project.written(sha256),
        };
        match engine::prompt::compose(&material) {
            Ok(messages) => self.hands.turn(step, ModelRequest::new(self.model(), messages)),
            Err(too_large) => {
                let turn = self.state.count(StepKind::Turn);
                let budget = Budget {
                    stop: StopReason::ContextLimitExceeded,
                    limit: "prompt_bytes".into(),
                    used: too_large.bytes,
                    value: self.runtime.limits.prompt_bytes,
                };
                let ended = TurnCompleted { turn, finish: Finish::Limit, done: false, bytes: 0, usage: None };
                self.own.push(Report::Events(step, vec![budget.into(), ended.into()], None));
            }
        }
    }

    fn publish(&mut self, step: StepRef) {
        let Some(session) = &self.state.session else { return };
        let edition = Edition {
            project: session.project_id,
            run: self.claim.run_id,
            files: self.project.files().iter().map(|(path, file)| (path.clone(), file.content.clone())).collect(),
            output: self.state.build_output.clone().unwrap_or_default(),
            summary: session.request.lines().next().unwrap_or_default().chars().take(120).collect(),
        };
        self.hands.publish(step, edition);
    }
}

/// Adds an event to a batch, joined to the one before if both are pieces of one stream.
fn add_event(events: &mut Vec<NewEvent>, entry: NewEvent, limits: &contract::Limits) {
    let most = usize::try_from(limits.merged_delta_bytes).unwrap_or(usize::MAX);
    match events.last_mut() {
        Some(last) if last.step == entry.step => {
            if let Some(event) = last.event.merge(entry.event, most) {
                events.push(NewEvent { at: entry.at, step: entry.step, event });
            }
        }
        Some(_) | None => events.push(entry),
    }
}

/// Earlier messages of the chat, oldest first.
async fn history(
    runtime: &Runtime,
    session: &Session,
    project: &ProjectRow,
    claim: Claim,
) -> Result<Vec<PromptMessage>, RuntimeError> {
    let said = history::before(runtime.ports.store.as_ref(), project.user, session, claim.run_id).await?;
    let message = |said: Said| {
        let speaker = match said.role {
            Role::User => Speaker::User,
            Role::Assistant => Speaker::Assistant,
        };
        PromptMessage::new(speaker, said.text)
    };
    Ok(said.into_iter().map(message).collect())
}

/// Ends a run whose log cannot be read: it fails with a reason instead of being tried for ever.
pub(crate) async fn give_up(runtime: &Runtime, claim: Claim, error: &RuntimeError) -> Result<(), RuntimeError> {
    let (mut after, mut created_at) = (0, None);
    loop {
        let page = runtime.ports.store.read_after(claim.run_id, after, replay::PAGE).await?;
        let (Some(first), Some(last)) = (page.first(), page.last()) else { break };
        created_at.get_or_insert(first.head.at);
        after = last.head.seq;
    }
    let at = runtime.ports.world.now_ms();
    let failed = RunFailed {
        code: "run_unreadable".into(),
        message: error.to_string(),
        action: "Send the message again. If it happens again, check the disk.".into(),
    };
    let entry = NewEvent { at, step: None, event: failed.into() };
    let state = RunState { created_at: created_at.unwrap_or(at), ..RunState::default() };
    let rows = projection::rows(&state, &entry);
    let append = Append { claim, after, events: vec![Entry::of(&entry)?], rows, consumed: vec![], ends: true };
    runtime.ports.store.append(append).await?;
    runtime.ports.bus.send(Wake::Appended(claim.run_id));
    runtime.ports.bus.send(Wake::Claimable);
    Ok(())
}
