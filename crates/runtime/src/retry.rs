//! Trying again: the same request in the same chat, as a new run. What the former one left stays as it is, whatever becomes of this.

use contract::api::Accepted;
use contract::event::{Session, Work};
use contract::{RunId, UserId};
use thiserror::Error;

use crate::ports::store::{Admission, AdmitError, Door, StoreError};
use crate::ports::world::new_id;
use crate::{ChangeError, Runtime, RuntimeError, history};

/// Why a run was not tried again. Nothing was stored.
#[derive(Debug, Error)]
pub enum RetryError {
    /// The user has no such run.
    #[error("there is no such run")]
    NoSuchRun,
    /// It has not ended.
    #[error("the run has not ended")]
    Active,
    /// What it left is not here: it was imported without its files.
    #[error("what `{path}` holds is not here")]
    BytesGone {
        /// A file that is not here.
        path: String,
    },
    /// It changed files by hand, and the project as it is now does not allow that any more.
    #[error(transparent)]
    Change(#[from] ChangeError),
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
        if let Some(path) = history::absent(store, run).await? {
            return Err(RetryError::BytesGone { path });
        }
        let former = history::sealed(store, run).await?.ok_or_else(|| history::unsealed(run))?;
        if let Work::Change { .. } = &former.work {
            return Ok(self.change_again(&view, &former, user, idempotency_key).await?);
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
        Ok(self.admit(Admission { door: Door::Retry(run), idempotency_key, ..admission }).await?)
    }
}
