//! The state of a run: the fold of its events, and nothing else.
//!
//! `fold` is total: a wrong or unknown event changes nothing that it cannot change soundly, and never panics. File contents are
//! not here (the log has them); the state holds their hashes.

use contract::event::{
    Author, Budget, BuildError, BuildState, Circle, Event, Finish, LoopBroken, NewEvent, PreviewKind, PreviewProblem,
    Session, StepAdded, StepKind, StepRetry, StepState, StepStatus, StopReason, TokenCount, ToolFinished, ToolInput,
    ToolOutput, ToolRequested, ToolStarted, ToolStatus,
};
use contract::{CallId, ProjectPath, StepId};
use serde::{Deserialize, Serialize};

/// A node of the run's graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The step.
    pub id: StepId,
    /// What it does.
    pub kind: StepKind,
    /// The same for a person.
    pub title: String,
    /// Steps that have to be completed before.
    pub depends_on: Vec<StepId>,
    /// Where it is.
    pub status: StepStatus,
    /// Its latest attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// Attempts that failed by themselves; those that died with their worker are not counted here.
    pub failures: u32,
    /// When its retry is due, in milliseconds since the Unix epoch.
    pub retry_at: Option<u64>,
    /// Why it is where it is.
    pub reason: Option<String>,
    /// What went wrong in this attempt, other than the project's own fault.
    pub fault: Option<contract::event::Error>,
    /// What it gives to the steps that depend on it, once it is completed.
    pub output: Option<serde_json::Value>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The call.
    pub id: CallId,
    /// The step that asked.
    pub step: StepId,
    /// Which attempt of it.
    pub attempt: u32,
    /// Which call of the turn, from 1.
    pub ordinal: u32,
    /// What was asked.
    pub input: ToolInput,
    /// Whether the hands began.
    pub started: bool,
    /// When they did, and the last sign of it since, in milliseconds since the Unix epoch: how long it ran at least.
    pub ran: (u64, u64),
    /// The end of what it has printed so far, until it has a result: what is told of a call that is interrupted.
    pub printed: String,
    /// The result.
    pub result: Option<ToolFinished>,
}

/// Something that a turn did, in the order in which it did it; what the model is shown of its own former turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Part {
    /// Prose.
    Text(String),
    /// A whole file, by the hash of its text.
    File {
        /// The file.
        path: ProjectPath,
        /// SHA-256 of its text.
        sha256: String,
    },
    /// A patched file.
    Edit {
        /// The file.
        path: ProjectPath,
        /// The replacements.
        blocks: Vec<contract::event::Replacement>,
    },
    /// A deleted file.
    Delete(ProjectPath),
    /// A renamed file.
    Rename(ProjectPath, ProjectPath),
    /// A call of a tool.
    Call(CallId),
    /// A file that a command changed: its hash, or none if it is gone.
    Changed(ProjectPath, Option<String>),
    /// A refused change: path, code and reason.
    Rejected(String, String, String),
}

/// One question to the model and what came of it. Begun anew by each attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its step.
    pub step: StepId,
    /// Which attempt.
    pub attempt: u32,
    /// What it did.
    pub parts: Vec<Part>,
    /// Whether the model said that it is done.
    pub done: bool,
    /// How the stream ended, once it has.
    pub finish: Option<Finish>,
    /// Whether files had changed since the last build before it, or a command has changed some since: what becomes of
    /// [`RunState::dirty`] when an abandoned attempt's own changes are put back.
    pub dirty_without: bool,
    /// Why this turn was asked for, beyond what the results say: a nudge, or a failure to be mended.
    pub cause: Cause,
}

/// Why a turn was added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Cause {
    /// It is the first.
    Request,
    /// The former turn has results that the model has not seen.
    Results,
    /// The former turn did nothing.
    Nudge,
    /// A check or build failed; this is what it said.
    Mend(String),
    /// The former turns went round in circles with this call.
    Circle(String),
}

/// Code of the problem that counts as a fault of the project: nothing is on the screen.
pub const BLANK_PAGE: &str = "blank_page";

/// A page that leaves the screen blank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Blank {
    /// The page.
    pub revision: String,
    /// What the browser said.
    pub why: String,
    /// Whether a check has told it: the model is asked once to mend it.
    pub told: bool,
}

/// How long a run has been performed: the time in which it waited for a worker, or nobody was there, is not its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Performed {
    /// Under the claims before the latest, in milliseconds.
    pub before_ms: u64,
    /// When the latest claim began, in milliseconds since the Unix epoch.
    pub began_at: Option<u64>,
    /// When the latest event was made.
    latest: u64,
}

impl Performed {
    fn fold(&mut self, entry: &NewEvent) {
        if let Event::RunStarted(_) = entry.event {
            self.before_ms += self.began_at.map_or(0, |began| self.latest.saturating_sub(began));
            self.began_at = Some(entry.at);
        }
        self.latest = entry.at;
    }

    /// All of it up to a moment, in milliseconds.
    pub fn until(&self, at: u64) -> u64 {
        self.before_ms + self.began_at.map_or(0, |began| at.saturating_sub(began))
    }

    /// When a run that may be performed for that long has been.
    pub fn due(&self, most_ms: u64) -> u64 {
        self.began_at.unwrap_or(self.latest) + most_ms.saturating_sub(self.before_ms)
    }
}

/// Calls that went round in circles, once: after them another approach is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Looped {
    /// The turn in which that was seen.
    pub step: StepId,
    /// The first of the calls that were the same.
    pub first: CallId,
    /// How many calls there were then. What came before does not count towards the next circle.
    pub calls: usize,
    /// The call, for the model.
    pub what: String,
}

/// The state of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    /// The run's sealed envelope.
    pub session: Option<Session>,
    /// When the run was accepted, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// How long it has been performed.
    pub performed: Performed,
    /// The graph, in the order in which it grew.
    pub steps: Vec<Step>,
    /// The turns.
    pub turns: Vec<Turn>,
    /// All calls of tools.
    pub calls: Vec<Call>,
    /// Whether files changed since the last build that succeeded.
    pub dirty: bool,
    /// Checks and builds that failed since one succeeded.
    pub failed_rounds: u32,
    /// What the latest failed check or build said, without what is different each time, and how often it came in a row.
    pub same_error: Option<(String, u32)>,
    /// The circle that was broken, if there was one.
    pub looped: Option<Looped>,
    /// Nudges so far.
    pub nudges: u32,
    /// Hash of the manifest of what the last build made, if it succeeded.
    pub build_output: Option<String>,
    /// Why the last build failed, until one succeeds.
    pub build_error: Option<BuildError>,
    /// The limit that stops the run.
    pub stop: Option<StopReason>,
    /// Who asked for the run to stop.
    pub cancelled_by: Option<String>,
    /// Whether its time was up.
    pub timed_out: bool,
    /// Tokens so far.
    pub tokens: TokenCount,
    /// What they cost, as far as prices are known, in nanodollars.
    pub cost: u64,
    /// Whether a version was published in this run.
    pub published: bool,
    /// The instant page of the files as they are now, if it was shown (N7).
    pub instant: Option<String>,
    /// An instant page that leaves the screen blank, and why, if a browser said so.
    pub blank: Option<Blank>,
    /// Exceptions that browsers have told so far.
    pub exceptions: u32,
    /// Whether the terminal event is in the log.
    pub ended: bool,
}

impl RunState {
    /// The step with that id.
    pub fn step(&self, id: &StepId) -> Option<&Step> {
        self.steps.iter().find(|s| s.id == *id)
    }

    /// The turn of a step.
    pub fn turn(&self, step: &StepId) -> Option<&Turn> {
        self.turns.iter().find(|t| t.step == *step)
    }

    /// Calls of the latest attempt of a step, in order.
    pub fn calls_of<'a>(&'a self, step: &'a StepId) -> impl Iterator<Item = &'a Call> {
        let attempt = self.step(step).map_or(0, |s| s.attempt);
        self.calls.iter().filter(move |c| c.step == *step && c.attempt == attempt)
    }

    /// Steps that are being performed.
    pub fn running(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|s| s.status == StepStatus::Running)
    }

    /// How many steps of a kind there are.
    pub fn count(&self, kind: StepKind) -> u32 {
        u32::try_from(self.steps.iter().filter(|s| s.kind == kind).count()).unwrap_or(u32::MAX)
    }

    /// Prose of all turns: the assistant's message.
    pub fn prose(&self) -> String {
        let texts = self.turns.iter().flat_map(|t| &t.parts).filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::File { .. }
            | Part::Edit { .. }
            | Part::Delete(_)
            | Part::Rename(..)
            | Part::Call(_)
            | Part::Changed(..)
            | Part::Rejected(..) => None,
        });
        texts.collect()
    }

    /// Takes an event in. Observations only count; decisions are `step`'s.
    pub fn fold(&mut self, entry: &NewEvent) {
        if self.ended {
            return;
        }
        self.fold_preview(&entry.event);
        self.performed.fold(entry);
        match &entry.event {
            Event::Session(session) => self.session = Some(session.clone()),
            Event::RunQueued(_) => self.created_at = entry.at,
            Event::CancelRequested(cancel) => self.cancelled_by = Some(cancel.by.clone()),
            Event::Budget(budget) => self.limited(budget),
            Event::RunCompleted(_) | Event::RunFailed(_) | Event::RunCancelled(_) => self.ended = true,
            Event::StepAdded(added) => self.add_step(added),
            Event::StepState(state) => self.set_step(state),
            Event::StepRetry(retry) => self.retry_step(retry, entry.at),
            Event::TextDelta(delta) => self.say(entry, &delta.text),
            Event::FileCompleted(file) => {
                self.changed(entry, file.by);
                let (path, sha256) = (file.path.clone(), file.sha256.clone());
                match file.by {
                    Author::Model => self.did(entry, Part::File { path, sha256 }),
                    Author::Command => self.did(entry, Part::Changed(path, Some(sha256))),
                    Author::Template | Author::Person | Author::Restored => {}
                }
            }
            Event::FileEdited(edit) => {
                self.dirty = true;
                self.did(entry, Part::Edit { path: edit.path.clone(), blocks: edit.blocks.clone() });
            }
            Event::FileDeleted(gone) => {
                self.changed(entry, gone.by);
                match gone.by {
                    Author::Model => self.did(entry, Part::Delete(gone.path.clone())),
                    Author::Command => self.did(entry, Part::Changed(gone.path.clone(), None)),
                    Author::Template | Author::Person | Author::Restored => {}
                }
            }
            Event::FileRenamed(renamed) => {
                self.dirty = true;
                self.did(entry, Part::Rename(renamed.from.clone(), renamed.to.clone()));
            }
            Event::FileRejected(no) => {
                self.did(entry, Part::Rejected(no.path.clone(), no.code.clone(), no.reason.clone()))
            }
            Event::ElementRejected(no) => {
                self.did(entry, Part::Rejected(no.element.clone(), no.code.clone(), no.reason.clone()));
            }
            Event::TurnCompleted(completed) => {
                if let Some(turn) = self.turn_of(entry) {
                    turn.done = completed.done;
                    turn.finish = Some(completed.finish);
                }
            }
            Event::ToolRequested(request) => self.request(entry, request),
            Event::ToolStarted(ToolStarted { call_id })
            | Event::ToolOutput(ToolOutput { call_id, .. })
            | Event::ToolFinished(ToolFinished { call_id, .. }) => {
                let open = self.calls.iter_mut().find(|call| call.id == *call_id && call.result.is_none());
                open.into_iter().for_each(|call| call.fold(entry.at, &entry.event));
            }
            Event::BuildStatus(_) | Event::VersionCreated(_) | Event::Usage(_) => self.fold_outputs(&entry.event),
            Event::LoopBroken(broken) => self.circled(entry, broken),
            Event::RunStarted(_) | Event::TimerFired(_) | Event::PhaseChange(_) | Event::Status(_) => {}
            Event::TurnStarted(_) | Event::ThinkingStarted(_) | Event::ThinkingDelta(_) | Event::ThinkingEnded(_) => {}
            Event::SandboxStarted(_) | Event::SandboxEnded(_) | Event::FileStarted(_) | Event::FileDelta(_) => {}
            Event::PreviewUrl(_) | Event::PreviewProblem(_) | Event::RateLimit(_) | Event::Warning(_) => {}
            Event::Error(error) => self.fault(entry, error),
        }
    }

    fn limited(&mut self, budget: &Budget) {
        self.stop.get_or_insert(budget.stop);
        self.timed_out |= budget.stop == StopReason::TimedOut;
    }

    fn add_step(&mut self, added: &StepAdded) {
        self.steps.push(Step {
            id: added.id.clone(),
            kind: added.kind,
            title: added.title.clone(),
            depends_on: added.depends_on.clone(),
            status: StepStatus::Pending,
            attempt: 0,
            failures: 0,
            retry_at: None,
            reason: None,
            fault: None,
            output: None,
        });
    }

    fn set_step(&mut self, state: &StepState) {
        let Some(step) = self.steps.iter_mut().find(|s| s.id == state.id) else { return };
        step.status = state.state;
        step.attempt = state.attempt;
        step.reason.clone_from(&state.reason);
        step.output.clone_from(&state.output);
        let kind = step.kind;
        if state.state == StepStatus::Running {
            step.retry_at = None;
            step.fault = None;
            if kind == StepKind::Turn {
                self.begin_turn(&state.id, state.attempt);
            }
        }
        if state.state == StepStatus::Failed && matches!(kind, StepKind::Check | StepKind::Build) {
            self.failed_rounds += 1;
            self.failed_again(kind);
            self.blank.iter_mut().for_each(|blank| blank.told = true);
        }
    }

    /// Why the page of the files as they are now leaves the screen blank.
    pub fn shows_nothing(&self) -> Option<&str> {
        let blank = self.blank.as_ref()?;
        (self.instant.as_ref() == Some(&blank.revision)).then_some(blank.why.as_str())
    }

    /// Whether nobody has told the model yet that the page shows nothing.
    pub fn is_to_be_mended(&self) -> bool {
        self.shows_nothing().is_some() && self.blank.as_ref().is_some_and(|blank| !blank.told)
    }

    /// What is on the screen while the files change.
    fn fold_preview(&mut self, event: &Event) {
        if let Event::PreviewUrl(preview) = event
            && preview.kind == PreviewKind::Instant
        {
            self.instant.clone_from(&preview.revision);
        } else if let Event::PreviewProblem(problem) = event {
            self.preview_problem(problem);
        } else if event.changed_paths().next().is_some() {
            // Whether the page is still the same is said by the next `preview_url`.
            self.instant = None;
        }
    }

    fn preview_problem(&mut self, problem: &PreviewProblem) {
        let Some(revision) = &problem.revision else { return };
        if problem.code == BLANK_PAGE {
            let place = problem.place.as_ref().map(|at| format!(" ({at})"));
            let why = format!("{}{}", problem.message, place.unwrap_or_default());
            let told = self.blank.as_ref().is_some_and(|blank| blank.told && blank.revision == *revision);
            self.blank = Some(Blank { revision: revision.clone(), why, told });
        } else {
            self.exceptions += 1;
        }
    }

    fn fault(&mut self, entry: &NewEvent, error: &contract::event::Error) {
        let Some((id, attempt)) = &entry.step else { return };
        let current = |s: &&mut Step| s.id == *id && s.attempt == *attempt && s.status == StepStatus::Running;
        if let Some(step) = self.steps.iter_mut().find(current) {
            step.fault = Some(error.clone());
        }
    }

    fn retry_step(&mut self, retry: &StepRetry, at: u64) {
        if let Some(step) = self.steps.iter_mut().find(|s| s.id == retry.id) {
            step.failures += 1;
            step.retry_at = Some(at.saturating_add(retry.delay_ms));
        }
    }

    /// Remembers what a check or build said, and whether it said the same the last time.
    fn failed_again(&mut self, kind: StepKind) {
        let build = self.build_error.as_ref().filter(|_| kind == StepKind::Build);
        let said = build.map(|error| error.log_tail.clone()).filter(|log| !log.is_empty());
        let reason = self.steps.iter().rev().find(|s| s.kind == kind).and_then(|s| s.reason.clone());
        let print = crate::circle::print(&said.or(reason).unwrap_or_default());
        let times = self.same_error.take().filter(|(former, _)| *former == print).map_or(0, |(_, times)| times);
        self.same_error = Some((print, times + 1));
    }

    fn circled(&mut self, entry: &NewEvent, broken: &LoopBroken) {
        // Calls have their results in order: the latest that has one closed the circle, and others may be waiting behind it.
        let closing = self.calls.iter().rev().find(|call| call.is_recorded());
        let Some(((step, _), last)) = entry.step.as_ref().zip(closing) else { return };
        if broken.circle == Circle::Call {
            let same = |call: &&Call| call.input == last.input && call.is_recorded();
            let first = self.calls.iter().find(same).unwrap_or(last).id.clone();
            let (calls, what) = (self.calls.len(), broken.what.clone());
            self.looped = Some(Looped { step: step.clone(), first, calls, what });
        }
    }

    fn begin_turn(&mut self, step: &StepId, attempt: u32) {
        let (cause, dirty_without) = match self.turns.iter().position(|t| t.step == *step) {
            Some(at) => {
                let former = self.turns.remove(at);
                (former.cause, former.dirty_without)
            }
            None => (crate::outcome::cause_of_next_turn(self), self.dirty),
        };
        if cause == Cause::Nudge {
            self.nudges += u32::from(attempt == 1);
        }
        self.turns.push(Turn {
            step: step.clone(),
            attempt,
            parts: vec![],
            done: false,
            finish: None,
            dirty_without,
            cause,
        });
    }

    /// The turn that an event belongs to, unless a later attempt has taken its place.
    fn turn_of(&mut self, entry: &NewEvent) -> Option<&mut Turn> {
        let (step, attempt) = entry.step.as_ref()?;
        self.turns.iter_mut().find(|t| t.step == *step && t.attempt == *attempt)
    }

    fn changed(&mut self, entry: &NewEvent, by: Author) {
        match by {
            Author::Template => {}
            Author::Model | Author::Person => self.dirty = true,
            Author::Command => {
                self.dirty = true;
                if let Some(turn) = self.turn_of(entry) {
                    turn.dirty_without = true;
                }
            }
            Author::Restored => {
                if let Some(dirty) = self.turn_of(entry).map(|turn| turn.dirty_without) {
                    self.dirty = dirty;
                }
            }
        }
    }

    fn did(&mut self, entry: &NewEvent, part: Part) {
        if let Some(turn) = self.turn_of(entry) {
            turn.parts.push(part);
        }
    }

    fn say(&mut self, entry: &NewEvent, text: &str) {
        let Some(turn) = self.turn_of(entry) else { return };
        match turn.parts.last_mut() {
            Some(Part::Text(said)) => said.push_str(text),
            Some(_) | None => turn.parts.push(Part::Text(text.to_owned())),
        }
    }

    fn request(&mut self, entry: &NewEvent, request: &ToolRequested) {
        let Some((step, attempt)) = entry.step.clone() else { return };
        self.did(entry, Part::Call(request.call_id.clone()));
        self.calls.push(Call {
            id: request.call_id.clone(),
            step,
            attempt,
            ordinal: request.ordinal,
            input: request.input.clone(),
            started: false,
            ran: (0, 0),
            printed: String::new(),
            result: None,
        });
    }

    fn fold_outputs(&mut self, event: &Event) {
        if let Event::BuildStatus(build) = event {
            match build.status {
                BuildState::Building => {}
                BuildState::Failed => self.build_error.clone_from(&build.error),
                BuildState::Succeeded => {
                    self.build_output.clone_from(&build.output);
                    self.build_error = None;
                    // What shows nothing is not what the person wants, even if it builds.
                    self.dirty = self.is_to_be_mended();
                }
            }
        } else if let Event::VersionCreated(_) = event {
            self.published = true;
            self.failed_rounds = 0;
            self.same_error = None;
        } else if let Event::Usage(usage) = event {
            self.tokens += usage.tokens;
            self.cost = self.cost.saturating_add(usage.cost.unwrap_or(0));
        }
    }
}

/// Bytes of a running call's output that are remembered.
const PRINTED_BYTES: usize = 32 * 1024;

impl Call {
    /// Takes in what became of it.
    fn fold(&mut self, at: u64, event: &Event) {
        if let Event::ToolOutput(output) = event {
            self.ran.1 = at;
            self.print(&output.text);
        } else if let Event::ToolFinished(finished) = event {
            self.result = Some(finished.clone());
            self.printed = String::new();
        } else {
            (self.started, self.ran) = (true, (at, at));
        }
    }

    fn print(&mut self, text: &str) {
        self.printed.push_str(text);
        if self.printed.len() > 2 * PRINTED_BYTES {
            let from = self.printed.ceil_char_boundary(self.printed.len() - PRINTED_BYTES);
            self.printed.drain(..from);
        }
    }

    /// Whether its result is one that a later attempt may take over: it ran, and how it ended is known.
    pub fn is_recorded(&self) -> bool {
        self.result
            .as_ref()
            .is_some_and(|r| matches!(r.status, ToolStatus::Succeeded | ToolStatus::Failed | ToolStatus::TimedOut))
    }
}
