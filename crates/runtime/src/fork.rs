//! Forking a run (N5): a new chat and project whose run has the log of another one up to a step, and goes on from there by itself.
//!
//! The source is only read, so it may be one that still works: what its log holds does not change any more.

use contract::api::{Accepted, RunView};
use contract::event::{
    Author, Event, FileCompleted, Fork, ModelRef, NewEvent, PreviewKind, PreviewUrl, Session, StepKind, StepStatus,
    Warning,
};
use contract::{RunId, StepId, UserId};
use thiserror::Error;

use crate::admission::slug;
use crate::begun::begun;
use crate::history::Absent;
use crate::ports::store::{Admission, AdmitError, Door, NewChat, StoreError, run_title};
use crate::ports::world::new_id;
use crate::{Runtime, RuntimeError, history, replay};

/// Why a run was not forked. Nothing was stored.
#[derive(Debug, Error)]
pub enum ForkError {
    /// The user has no such run.
    #[error("there is no such run")]
    NoSuchRun,
    /// No step with that id has begun.
    #[error("no step `{step}` has begun")]
    UnknownStep {
        /// What was asked for.
        step: StepId,
        /// Those that have begun, in that order.
        begun: Vec<StepId>,
    },
    /// This Baton reaches no such model.
    #[error("there is no model called `{name}`")]
    UnknownModel {
        /// What was asked for.
        name: String,
    },
    /// The log up to that step is too long to be taken along.
    #[error("the log is larger than {most} bytes")]
    TooLong {
        /// The limit `bundle_bytes`.
        most: u64,
    },
    /// What the step begins with is not here: the run was imported without its files.
    #[error("what `{path}` holds is not here")]
    BytesGone {
        /// A file that is not here.
        path: String,
    },
    /// What is to be published was built elsewhere.
    #[error("what the run built is not here")]
    BuildGone,
    /// It was not admitted.
    #[error(transparent)]
    Admit(#[from] AdmitError),
    /// The log or the files could not be read.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

impl From<StoreError> for ForkError {
    fn from(error: StoreError) -> Self {
        Self::Runtime(error.into())
    }
}

/// What a fork says whose model is not its source's.
fn other_model(former: &ModelRef, now: &ModelRef) -> Event {
    let message = format!("The model {} of the run is not reached here: this fork asks {}.", former.name, now.name);
    Warning { code: "model_replaced".into(), message }.into()
}

impl Runtime {
    /// Forks a run of the user at a step that has begun: that step and what follows is performed anew, by another model if one is
    /// named. If none is and this Baton does not reach that of the source, it is the one that runs ask now, and the fork's log says so
    /// before anything else. The fork is durable when this returns.
    pub async fn fork(
        &self,
        user: UserId,
        source: RunId,
        at: &StepId,
        model: Option<&str>,
        idempotency_key: Option<&str>,
    ) -> Result<Accepted, ForkError> {
        let Some(view) = self.ports.store.run(user, source).await? else { return Err(ForkError::NoSuchRun) };
        let asked = match model {
            Some(name) => {
                let unknown = || ForkError::UnknownModel { name: name.to_owned() };
                Some(self.ports.model.named(name).ok_or_else(unknown)?)
            }
            None => None,
        };
        let (former, log) = self.log_until(&view, at).await?;
        let mut absent = Absent::default();
        log.iter().for_each(|entry| absent.take(&entry.event));
        if let Some(path) = absent.any() {
            return Err(ForkError::BytesGone { path });
        }
        let reached = self.ports.model.knows(&former.model);
        let replaced = (asked.is_none() && !reached).then(|| other_model(&former.model, &self.model()));
        let model = asked.unwrap_or_else(|| if reached { former.model.clone() } else { self.model() });
        let world = self.ports.world.as_ref();
        let slug = slug(&run_title(&former.request), world.random());
        let told = replaced.map(|event| NewEvent { at: view.created_at, step: None, event });
        let mut events: Vec<NewEvent> = told.into_iter().collect();
        events.extend(self.files_before(user, &view).await?);
        events.extend(log.into_iter().filter_map(|entry| self.own(entry, &slug)));
        let earlier = history::before(self.ports.store.as_ref(), user, &former, source).await?;
        let session = Session {
            chat_id: new_id(world),
            project_id: new_id(world),
            user_message_id: new_id(world),
            assistant_message_id: new_id(world),
            is_new_chat: true,
            follow_up: false,
            model,
            fork: Some(Fork { run_id: source, step_id: at.clone(), earlier }),
            ..former
        };
        let title = format!("Fork: {}", run_title(&session.request));
        let admission = self.admission(user, new_id(world), session.clone());
        let (log, state) = begun(admission.at, session, &events)?;
        if state.step(at).is_some_and(|step| step.kind == StepKind::Publish) {
            let built = state.build_output.unwrap_or_default();
            // What is no hash is nothing that was built here either.
            if !matches!(self.ports.objects.get(&built).await, Ok(Some(_))) {
                return Err(ForkError::BuildGone);
            }
        }
        let idempotency_key = idempotency_key.map(str::to_owned);
        let new_chat = Some(NewChat { title, slug });
        Ok(self.admit(Admission { door: Door::Fork, new_chat, idempotency_key, log, ..admission }).await?)
    }

    /// A run's sealed envelope, and the events from there to where a step begins.
    async fn log_until(&self, run: &RunView, at: &StepId) -> Result<(Session, Vec<NewEvent>), ForkError> {
        let (mut left, most) = (Some(self.limits.bundle_bytes), self.limits.bundle_bytes);
        let (mut session, mut events, mut begun, mut after) = (None, vec![], vec![], 0);
        loop {
            let page = self.ports.store.read_after(run.id, after, replay::PAGE).await?;
            if page.is_empty() {
                return Err(ForkError::UnknownStep { step: at.clone(), begun });
            }
            for stored in page {
                after = stored.head.seq;
                left = left.and_then(|left| left.checked_sub(stored.payload.len() as u64));
                let entry = replay::decode(run.id, stored)?;
                if let Event::StepState(step) = &entry.event
                    && step.state == StepStatus::Running
                {
                    if step.id == *at && left.is_none() {
                        return Err(ForkError::TooLong { most });
                    }
                    if step.id == *at {
                        return Ok((session.ok_or_else(|| history::unsealed(run.id))?, events));
                    }
                    if !begun.contains(&step.id) {
                        begun.push(step.id.clone());
                    }
                }
                if let Event::Session(sealed) = entry.event {
                    session = Some(sealed);
                } else if left.is_some() {
                    // Past the limit only the steps are looked for, so that an unknown one is told with those that there are.
                    events.push(entry);
                }
            }
        }
    }

    /// What the project was before a run, as the first events of another log. Their bytes are objects afterwards.
    pub(crate) async fn files_before(&self, user: UserId, run: &RunView) -> Result<Vec<NewEvent>, RuntimeError> {
        let (store, objects) = (self.ports.store.as_ref(), self.ports.objects.as_ref());
        let project = history::files_before(store, objects, user, run).await?;
        let mut events = vec![];
        for (path, file) in project.files() {
            let sha256 = objects.put(file.content.clone()).await?;
            let bytes = file.content.len() as u64;
            let event = FileCompleted { path: path.clone(), bytes, sha256, by: Author::Restored }.into();
            events.push(NewEvent { at: run.created_at, step: None, event });
        }
        Ok(events)
    }

    /// An event of the source as one of the fork; none if it tells of what only the source has: its admission, its workers, what it
    /// published. Its instant pages are the fork's own, at the fork's address.
    fn own(&self, entry: NewEvent, slug: &str) -> Option<NewEvent> {
        let NewEvent { at, step, event } = entry;
        if let Event::PreviewUrl(shown) = event {
            let url = self.preview.instant_url(slug, shown.revision.as_deref().unwrap_or_default());
            let own = PreviewUrl { url, host: self.preview.host(slug), ..shown };
            return (own.kind == PreviewKind::Instant).then(|| NewEvent { at, step, event: own.into() });
        }
        let is_the_sources = matches!(
            &event,
            Event::RunQueued(_) | Event::RunStarted(_) | Event::CancelRequested(_) | Event::VersionCreated(_)
        );
        (!is_the_sources).then_some(NewEvent { at, step, event })
    }
}
