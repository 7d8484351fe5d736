//! Trying again: the same request in the same chat, as a new run. What the former one left stays as it is, whatever becomes of this.

use contract::api::Accepted;
use contract::event::{Session, Work};
use contract::{ProjectPath, RunId, UserId};
use thiserror::Error;

use crate::ports::store::{Admission, AdmitError, StoreError};
use crate::ports::world::new_id;
use crate::{Runtime, RuntimeError, history};

/// Why a run was not tried again. Nothing was stored.
#[derive(Debug, Error)]
pub enum RetryError {
    /// The user has no such run.
    #[error("there is no such run")]
    NoSuchRun,
    /// It has not ended.
    #[error("the run has not ended")]
    Active,
    /// What it was to change a file to is not here: it was imported without.
    #[error("what `{0}` was to become is not here")]
    BytesGone(ProjectPath),
    /// It was not admitted.
    #[error(transparent)]
    Admit(#[from] AdmitError),
    /// Its log could not be read.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

impl From<StoreError> for RetryError {
    fn from(error: StoreError) -> Self {
        Self::Runtime(error.into())
    }
}

impl Runtime {
    /// Does again what a run of the user that has ended was asked. It asks the model that runs ask now, but for a fork, whose model
    /// was chosen. The new run is durable when this returns.
    pub async fn retry(&self, user: UserId, run: RunId, idempotency_key: Option<&str>) -> Result<Accepted, RetryError> {
        let (store, world) = (self.ports.store.as_ref(), self.ports.world.as_ref());
        let Some(view) = store.run(user, run).await? else { return Err(RetryError::NoSuchRun) };
        if !view.status.is_terminal() {
            return Err(RetryError::Active);
        }
        let former = history::sealed(store, run).await?.ok_or_else(|| history::unsealed(run))?;
        // A change does not wait for another run of the project, neither the first time nor again.
        let (changes, alone) = match &former.work {
            Work::Change { files, .. } => (&files[..], true),
            Work::Message | Work::Graph { .. } => (&[][..], false),
        };
        for file in changes {
            if let Some(sha256) = &file.sha256
                && self.ports.objects.get(sha256).await.map_err(RuntimeError::from)?.is_none()
            {
                return Err(RetryError::BytesGone(file.path.clone()));
            }
        }
        let chosen = former.fork.is_some() && self.ports.model.knows(&former.model);
        let session = Session {
            chat_id: view.chat_id,
            project_id: view.project_id,
            user_message_id: new_id(world),
            assistant_message_id: new_id(world),
            is_new_chat: false,
            follow_up: true,
            template: self.template.name.clone(),
            model: if chosen { former.model } else { self.model() },
            fork: None,
            request: former.request,
            intent: former.intent,
            work: former.work,
        };
        let idempotency_key = idempotency_key.map(str::to_owned);
        let admission = self.admission(user, new_id(world), session);
        Ok(self.admit(Admission { alone, idempotency_key, ..admission }).await?)
    }
}
