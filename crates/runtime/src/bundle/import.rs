//! Importing: a bundle from anywhere becomes a run that has ended, in a chat of its own, to be read like any other.
//!
//! Nothing in it is believed. Hashes are computed again: what is read is remembered by the hash of its text, so a wrong one would
//! put one file in the place of another. Every count and size is bounded before it costs anything. What is refused leaves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use contract::api::{Accepted, RunView};
use contract::bundle::{Bundle, FORMAT, VERSION};
use contract::event::{
    Author, ChangedFile, Event, FileCompleted, FileEdited, FileRejected, NewEvent, RunFailed, Session, StepStatus,
    Warning, Work,
};
use contract::{Limits, ProjectPath, UserId};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::{IMPORTED, NOT_IN_BUNDLE, bytes_of};
use crate::admission::slug;
use crate::begun::begun;
use crate::ingest::is_protected;
use crate::ports::store::{Admission, AdmitError, Begun, Door, NewChat, StoreError, run_title};
use crate::ports::world::new_id;
use crate::project::{is_sha256, sha256};
use crate::{Project, Runtime, RuntimeError};

/// Calls of tools in one bundle.
const CALLS: usize = 5_000;
/// Attempts beyond the first, of all steps together.
const ATTEMPTS: usize = 500;
/// Bytes of files that are written, patched and hashed while a bundle is read: a run writes each file a few times.
const WORK_BYTES: u64 = 256 * 1024 * 1024;
/// Bytes of the name of a step, a call or a build.
const NAME_BYTES: usize = 96;
/// Characters of a reason that may repeat what stands in the bundle.
const REASON_CHARS: usize = 200;

/// Why a bundle was refused. Nothing was stored.
#[derive(Debug, Error)]
pub enum ImportError {
    /// It is not the log of a run.
    #[error("this is no bundle of a run: {0}")]
    Bad(String),
    /// It is of a version that this Baton does not know.
    #[error("the bundle has version {found}, and this Baton reads {VERSION}")]
    Version {
        /// The version that it says.
        found: u32,
    },
    /// It passes a limit.
    #[error("{limit} is passed: {value}")]
    TooLarge {
        /// The limit's name in the limits table.
        limit: &'static str,
        /// Its value.
        value: u64,
    },
    /// It was not admitted.
    #[error(transparent)]
    Admit(#[from] AdmitError),
    /// Its files could not be stored.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

impl From<StoreError> for ImportError {
    fn from(error: StoreError) -> Self {
        Self::Runtime(error.into())
    }
}

fn bad(reason: impl AsRef<str>) -> ImportError {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    ImportError::Bad(reason.as_ref().chars().take(REASON_CHARS).map(shown).collect())
}

/// A bundle that was read.
struct Read {
    /// When the run was accepted, where it ran.
    at: u64,
    session: Session,
    log: Begun,
    contents: Vec<Bytes>,
}

impl Runtime {
    /// Takes a bundle in as a run of the user that has ended. The same with the same key again gives the run that there is.
    #[expect(
        clippy::disallowed_methods,
        reason = "reading a bundle takes the processor, and there is no adapter for that"
    )]
    pub async fn import(
        self: &Arc<Self>,
        user: UserId,
        bundle: Bytes,
        idempotency_key: Option<&str>,
    ) -> Result<RunView, ImportError> {
        let value = self.limits.bundle_bytes;
        if bundle.len() as u64 > value {
            return Err(ImportError::TooLarge { limit: "bundle_bytes", value });
        }
        let world = self.ports.world.as_ref();
        let ids = Accepted {
            chat_id: new_id(world),
            message_id: new_id(world),
            run_id: new_id(world),
            project_id: new_id(world),
        };
        let answer = new_id(world);
        let (runtime, now, of) = (self.clone(), world.now_ms(), ids.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let read = read(&runtime.limits, now, &bundle, |former| Session {
                chat_id: of.chat_id,
                project_id: of.project_id,
                user_message_id: of.message_id,
                assistant_message_id: answer,
                is_new_chat: true,
                follow_up: false,
                fork: None,
                ..former
            });
            read.map(|read| (read, Sha256::digest(&bundle).into()))
        });
        let (read, hash) = reading.await.map_err(|_broken_down| RuntimeError::Broken)??;
        let Read { at, session, log, contents } = read;
        let title = run_title(&session.request);
        let slug = slug(&title, world.random());
        let admission = Admission {
            door: Door::Import(hash),
            at,
            new_chat: Some(NewChat { title: format!("Imported: {title}"), slug }),
            idempotency_key: idempotency_key.map(str::to_owned),
            log,
            ..self.admission(user, ids.run_id, session)
        };
        let accepted = match self.answered_before(&admission).await? {
            Some(first) => first,
            None => {
                for content in contents {
                    self.ports.objects.put(content).await.map_err(RuntimeError::from)?;
                }
                self.admit(admission).await?
            }
        };
        let view = self.ports.store.run(user, accepted.run_id).await?;
        Ok(view.ok_or(RuntimeError::Broken)?)
    }
}

/// Reads a bundle; `own` makes its sealed envelope one of this Baton.
fn read(limits: &Limits, now: u64, bundle: &[u8], own: impl FnOnce(Session) -> Session) -> Result<Read, ImportError> {
    let bundle: Bundle = serde_json::from_slice(bundle).map_err(|error| bad(error.to_string()))?;
    if bundle.format != FORMAT {
        return Err(bad("it does not say that it is one"));
    }
    if bundle.version != VERSION {
        return Err(ImportError::Version { found: bundle.version });
    }
    let value = limits.bundle_events;
    if bundle.events.len() as u64 > value {
        return Err(ImportError::TooLarge { limit: "bundle_events", value });
    }
    let mut reader = Reader::new(limits, bundle.contents)?;
    let mut events = vec![];
    let mut session = None;
    let mut at = now;
    for file in bundle.base {
        events.push(reader.base(file.path, file.sha256)?);
    }
    for (n, told) in bundle.events.into_iter().enumerate() {
        let wrong = |reason: &str| bad(format!("event {}: {reason}", n + 1));
        if told.seq != n as u64 + 1 {
            return Err(wrong("it is not in its place"));
        }
        let entry = NewEvent {
            // A clock that is ahead elsewhere would put the chat before all others for ever.
            at: told.at.min(now),
            step: told.step_id.map(|step| (step, told.attempt.unwrap_or(1))),
            event: told.event,
        };
        let is_first = matches!(&entry.event, Event::RunQueued(_));
        if is_first != (n == 0) || matches!(&entry.event, Event::Session(_)) != (n == 1) {
            return Err(wrong("a log begins with run_queued and session, once"));
        }
        if is_first {
            at = entry.at;
        } else if let Event::Session(sealed) = entry.event {
            session = Some(sealed);
        } else {
            let taken = reader.take(entry);
            events.extend(taken.map_err(|error| if let ImportError::Bad(why) = &error { wrong(why) } else { error })?);
        }
    }
    let session = session.ok_or_else(|| bad("it has no events"))?;
    check_session(limits, &session)?;
    let told = reader.told(&bundle.baton);
    events.insert(0, NewEvent { at, step: None, event: told.into() });
    if !reader.ended {
        let failed = RunFailed {
            code: "imported_unfinished".into(),
            message: "The run had not ended when it was exported.".into(),
            action: "Look at it where it runs, or export it again when it has ended.".into(),
        };
        let last = events.last().map_or(at, |entry| entry.at);
        events.push(NewEvent { at: last, step: None, event: failed.into() });
    }
    events[..].iter_mut().for_each(|entry| entry.at = entry.at.max(at).min(now));
    let session = own(session);
    let (log, _) = begun(at, session.clone(), &events)?;
    Ok(Read { at, session, log, contents: reader.used() })
}

/// What a person could not have sent is not taken in either.
fn check_session(limits: &Limits, session: &Session) -> Result<(), ImportError> {
    if session.request.len() as u64 > limits.message_bytes {
        return Err(ImportError::TooLarge { limit: "message_bytes", value: limits.message_bytes });
    }
    match &session.work {
        Work::Change { files, .. } if files.len() as u64 > limits.project_files => {
            Err(ImportError::TooLarge { limit: "project_files", value: limits.project_files })
        }
        Work::Change { files, .. } if !files.iter().all(is_sound) => Err(bad("it changes what no change may touch")),
        Work::Graph { steps } if steps.len() as u64 > limits.graph_steps => {
            Err(ImportError::TooLarge { limit: "graph_steps", value: limits.graph_steps })
        }
        Work::Graph { steps } if !steps.iter().all(|step| is_name(step.id.as_str())) => {
            Err(bad("a step of its plan has no name that a step can have"))
        }
        Work::Message | Work::Change { .. } | Work::Graph { .. } => Ok(()),
    }
}

fn is_sound(file: &ChangedFile) -> bool {
    !is_protected(&file.path) && file.sha256.as_ref().is_none_or(|hash| is_sha256(hash))
}

/// Whether a text is such as Baton makes for steps, calls and builds. A step's stands in every encoded event as it is.
fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
}

/// Reads one log, event by event, with the files that it makes.
struct Reader<'a> {
    limits: &'a Limits,
    contents: BTreeMap<String, Bytes>,
    /// Contents that the log needs.
    needed: BTreeSet<String>,
    project: Project,
    steps: u64,
    calls: usize,
    attempts: usize,
    /// Bytes of files so far.
    worked: u64,
    /// Events about previews and versions.
    left_out: u64,
    /// Files without their contents.
    absent: u64,
    ended: bool,
}

impl<'a> Reader<'a> {
    fn new(limits: &'a Limits, contents: BTreeMap<String, contract::bundle::Content>) -> Result<Self, ImportError> {
        let mut known = BTreeMap::new();
        for (hash, content) in contents {
            let bytes = bytes_of(content).ok_or_else(|| bad("a content is no base64"))?;
            if sha256(&bytes) != hash {
                return Err(bad("a content is not what its hash says"));
            }
            known.insert(hash, bytes);
        }
        Ok(Self {
            limits,
            contents: known,
            needed: BTreeSet::new(),
            project: Project::default(),
            steps: 0,
            calls: 0,
            attempts: 0,
            worked: 0,
            left_out: 0,
            absent: 0,
            ended: false,
        })
    }

    /// A file that was there before the run.
    fn base(&mut self, path: ProjectPath, hash: String) -> Result<NewEvent, ImportError> {
        if self.project.file(&path).is_some() {
            return Err(bad(format!("`{path}` is there twice")));
        }
        let done = FileCompleted { path, bytes: 0, sha256: hash, by: Author::Restored };
        Ok(NewEvent { at: 0, step: None, event: self.completed(done)? })
    }

    /// The next event as it is taken in; none if it is left out.
    fn take(&mut self, entry: NewEvent) -> Result<Option<NewEvent>, ImportError> {
        if self.ended {
            return Err(bad("it follows the end of the run"));
        }
        self.bound(&entry)?;
        if matches!(&entry.event, Event::PreviewUrl(_) | Event::VersionCreated(_)) {
            // They lead to what is not here, and what they show was never looked at by this Baton.
            self.left_out += 1;
            return Ok(None);
        }
        if let Event::FileRenamed(renamed) = &entry.event
            && (is_protected(&renamed.to) || self.project.conflicts(&renamed.to))
        {
            return Err(bad("a file is renamed to what no file may be called"));
        }
        let event = if let Event::FileCompleted(done) = entry.event {
            self.completed(done)?
        } else if let Event::FileEdited(edit) = entry.event {
            self.edited(edit)?
        } else {
            entry.event
        };
        self.ended = event.is_terminal();
        // What would have to be fetched was put by `completed`.
        let _ = self.project.fold(&event);
        Ok(Some(NewEvent { at: entry.at, step: entry.step, event }))
    }

    /// Counts what costs more the more there is of it, and checks the names.
    fn bound(&mut self, entry: &NewEvent) -> Result<(), ImportError> {
        let mut names: Vec<&str> = entry.step.iter().map(|(step, _)| step.as_str()).collect();
        match &entry.event {
            Event::StepAdded(added) => {
                self.steps += 1;
                names.push(added.id.as_str());
                names.extend(added.depends_on.iter().map(|step| step.as_str()));
            }
            Event::StepState(state) => {
                self.attempts += usize::from(state.state == StepStatus::Running && state.attempt > 1);
                names.push(state.id.as_str());
            }
            Event::StepRetry(retry) => names.push(retry.id.as_str()),
            Event::ToolRequested(request) => {
                self.calls += 1;
                names.push(request.call_id.as_str());
            }
            Event::ToolStarted(started) => names.push(started.call_id.as_str()),
            Event::ToolOutput(output) => names.push(output.call_id.as_str()),
            Event::ToolFinished(finished) => names.push(finished.call_id.as_str()),
            Event::BuildStatus(build) => names.push(build.build_id.as_str()),
            Event::RunQueued(_) | Event::RunStarted(_) | Event::CancelRequested(_) | Event::TimerFired(_) => {}
            Event::PhaseChange(_) | Event::Status(_) | Event::Session(_) => {}
            Event::RunCompleted(_) | Event::RunFailed(_) | Event::RunCancelled(_) => {}
            Event::TurnStarted(_) | Event::TurnCompleted(_) | Event::TextDelta(_) | Event::ElementRejected(_) => {}
            Event::ThinkingStarted(_) | Event::ThinkingDelta(_) | Event::ThinkingEnded(_) => {}
            Event::SandboxStarted(_) | Event::SandboxEnded(_) | Event::FileStarted(_) | Event::FileDelta(_) => {}
            Event::FileCompleted(_) | Event::FileEdited(_) | Event::FileDeleted(_) => {}
            Event::FileRenamed(_) | Event::FileRejected(_) | Event::PreviewUrl(_) | Event::PreviewProblem(_) => {}
            Event::VersionCreated(_) | Event::Usage(_) | Event::Budget(_) => {}
            Event::RateLimit(_) | Event::LoopBroken(_) | Event::Warning(_) | Event::Error(_) => {}
        }
        if !names.into_iter().all(is_name) {
            return Err(bad("a step, call or build has no name that one can have"));
        }
        if self.steps > self.limits.graph_steps {
            return Err(ImportError::TooLarge { limit: "graph_steps", value: self.limits.graph_steps });
        }
        if self.calls > CALLS || self.attempts > ATTEMPTS {
            return Err(bad("there are more calls or attempts than any run has"));
        }
        Ok(())
    }

    /// A whole file, if its bytes are here and are what its hash says.
    fn completed(&mut self, mut done: FileCompleted) -> Result<Event, ImportError> {
        let open = self.project.open_text(&done.path).filter(|_| done.by == Author::Model);
        let (is_text, bytes) = match open {
            Some(text) => {
                self.worked += text.len() as u64;
                (true, (sha256(text.as_bytes()) == done.sha256).then_some(text.len() as u64))
            }
            None => (false, self.contents.get(&done.sha256).map(|content| content.len() as u64)),
        };
        let Some(bytes) = bytes else { return Ok(self.without(&done.path)) };
        self.room(&done.path, bytes)?;
        done.bytes = bytes;
        if let Some(content) = self.contents.get(&done.sha256).filter(|_| !is_text) {
            self.needed.insert(done.sha256.clone());
            self.project.put(done.path.clone(), content.clone(), done.sha256.clone(), done.by);
        }
        Ok(done.into())
    }

    /// A patched file, if the patch applies and gives what its hash says.
    fn edited(&mut self, edit: FileEdited) -> Result<Event, ImportError> {
        let after =
            self.project.text(&edit.path).and_then(|text| Some(engine::edit::apply(text, &edit.blocks).ok()?.text));
        match after.filter(|text| sha256(text.as_bytes()) == edit.sha256 && text.len() as u64 == edit.bytes) {
            Some(text) => {
                self.room(&edit.path, text.len() as u64)?;
                Ok(edit.into())
            }
            None => Ok(self.without(&edit.path)),
        }
    }

    /// What stands for a file whose contents are not here: its change did not come through.
    fn without(&mut self, path: &ProjectPath) -> Event {
        self.absent += 1;
        let reason = "the bundle does not hold what was written here".into();
        FileRejected { path: path.to_string(), code: NOT_IN_BUNDLE.into(), reason }.into()
    }

    /// Whether the project may have a file of that size there.
    fn room(&mut self, path: &ProjectPath, bytes: u64) -> Result<(), ImportError> {
        if is_protected(path) || self.project.conflicts(path) {
            return Err(bad("a file is where no file may be"));
        }
        self.worked += bytes;
        let former = self.project.file(path).map(|file| file.content.len() as u64);
        let files = self.project.files().len() as u64 + u64::from(former.is_none());
        for (used, limit, value) in [
            (bytes, "project_file_bytes", self.limits.project_file_bytes),
            (files, "project_files", self.limits.project_files),
            (self.project.bytes() - former.unwrap_or(0) + bytes, "project_bytes", self.limits.project_bytes),
        ] {
            if used > value {
                return Err(ImportError::TooLarge { limit, value });
            }
        }
        if self.worked > WORK_BYTES {
            return Err(bad("its files are written more often than any run does"));
        }
        Ok(())
    }

    /// What the imported log begins with.
    fn told(&self, baton: &str) -> Warning {
        let by = if is_name(baton) { baton } else { "of an unknown version" };
        let mut message = format!("This run was imported. It was performed elsewhere and exported by Baton {by}.");
        if self.left_out > 0 {
            message +=
                &format!(" {} events about previews and versions, which are not here, were left out.", self.left_out);
        }
        if self.absent > 0 {
            message += &format!(" What {} files hold is not in the bundle.", self.absent);
        }
        Warning { code: IMPORTED.into(), message }
    }

    fn used(mut self) -> Vec<Bytes> {
        self.contents.retain(|hash, _| self.needed.contains(hash));
        self.contents.into_values().collect()
    }
}
