//! The door's side of a run: a message comes in, a cancel comes in. Both are rows in one transaction, and a wake-up after it.

use contract::api::{Accepted, RunView};
use contract::event::{Intent, Session, Work};
use contract::{ChatId, RunId, UserId};
use thiserror::Error;

use crate::Runtime;
use crate::ports::bus::Wake;
use crate::ports::store::{Admission, AdmitError, Begun, Door, InboxItem, NewChat, StoreError, run_title};
use crate::ports::world::new_id;

/// Why a message was refused. Nothing was stored (promise 1).
#[derive(Debug, Error)]
pub enum MessageError {
    /// There is nothing in it.
    #[error("the message is empty")]
    Empty,
    /// It is too long.
    #[error("the message has {bytes} bytes, and {most} is the most")]
    TooLong {
        /// Its size.
        bytes: u64,
        /// The limit `message_bytes`.
        most: u64,
    },
    /// It was not admitted.
    #[error(transparent)]
    Admit(#[from] AdmitError),
}

impl Runtime {
    /// Accepts a message for a chat of the user, or for a new one. The run is durable when this returns.
    pub async fn send(
        &self,
        user: UserId,
        chat: Option<ChatId>,
        text: &str,
        idempotency_key: Option<&str>,
    ) -> Result<Accepted, MessageError> {
        let most = self.limits.message_bytes;
        let bytes = text.len() as u64;
        if text.trim().is_empty() {
            return Err(MessageError::Empty);
        }
        if bytes > most {
            return Err(MessageError::TooLong { bytes, most });
        }
        let world = self.ports.world.as_ref();
        let project_id = match chat {
            Some(chat) => {
                let known = self.ports.store.project_of(user, chat).await.map_err(AdmitError::from)?;
                known.ok_or(AdmitError::NoSuchChat)?
            }
            None => new_id(world),
        };
        let run_id: RunId = new_id(world);
        let session = Session {
            chat_id: chat.unwrap_or_else(|| new_id(world)),
            project_id,
            user_message_id: new_id(world),
            assistant_message_id: new_id(world),
            is_new_chat: chat.is_none(),
            request: text.to_owned(),
            intent: if chat.is_none() { Intent::Generate } else { Intent::Edit },
            follow_up: chat.is_some(),
            template: self.template.name.clone(),
            model: self.model(),
            work: Work::Message,
            fork: None,
        };
        let title = run_title(text);
        let new_chat = chat.is_none().then(|| NewChat { slug: slug(&title, world.random()), title });
        let admission = Admission {
            new_chat,
            idempotency_key: idempotency_key.map(str::to_owned),
            ..self.admission(user, run_id, session)
        };
        Ok(self.admit(admission).await?)
    }

    /// An admission within the limits in force.
    pub(crate) fn admission(&self, user: UserId, run_id: RunId, session: Session) -> Admission {
        Admission {
            door: Door::Message,
            user,
            run_id,
            session,
            new_chat: None,
            idempotency_key: None,
            at: self.ports.world.now_ms(),
            most_active: [
                ("active_runs_per_chat", self.limits.active_runs_per_chat),
                ("active_runs_per_user", self.limits.active_runs_per_user),
                ("active_runs_global", self.limits.active_runs_global),
            ],
            parent: None,
            most_depth: ("child_run_depth", self.limits.child_run_depth),
            alone: false,
            log: Begun::default(),
        }
    }

    /// Admits a run, which is durable when this returns, and wakes a worker for it.
    pub async fn admit(&self, admission: Admission) -> Result<Accepted, AdmitError> {
        let accepted = self.ports.store.admit(admission).await?;
        self.ports.bus.send(Wake::Claimable);
        Ok(accepted)
    }

    /// What the same request was answered the first time, if its key says that it is a repetition: whatever is in its way now, that
    /// answer holds.
    pub(crate) async fn answered_before(&self, admission: &Admission) -> Result<Option<Accepted>, AdmitError> {
        if admission.idempotency_key.is_none() {
            return Ok(None);
        }
        // A store looks at the key before anything else; what is new finds no room, since it has not ended.
        let most_active = admission.most_active.map(|(limit, _)| (limit, 0));
        let none = Admission { most_active, log: Begun::default(), ..admission.clone() };
        match self.ports.store.admit(none).await {
            Ok(first) => Ok(Some(first)),
            Err(AdmitError::Limit { .. } | AdmitError::ProjectBusy { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Asks for a run of the user to stop. Gives the run as it is now, or none if there is no such run.
    pub async fn cancel(&self, user: UserId, run: RunId) -> Result<Option<RunView>, StoreError> {
        let Some(view) = self.ports.store.run(user, run).await? else { return Ok(None) };
        if !view.status.is_terminal() {
            self.tell(run, InboxItem::Cancel { by: "user".into() }).await?;
        }
        Ok(Some(view))
    }

    /// Puts something into a run's inbox and wakes who has the run, or whoever may take it.
    pub(crate) async fn tell(&self, run: RunId, item: InboxItem) -> Result<(), StoreError> {
        let told = self.ports.store.put_inbox(run, item, self.ports.world.now_ms()).await?;
        told.into_iter().for_each(|run| self.ports.bus.send(Wake::Inbox(run)));
        self.ports.bus.send(Wake::Claimable);
        Ok(())
    }
}

/// First label of a preview's host: words that a person knows again, and enough chance that it is unique and not guessed.
pub(crate) fn slug(title: &str, random: u128) -> String {
    const WORDS_BYTES: usize = 24;
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut words = String::new();
    for word in title.to_ascii_lowercase().split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()) {
        if words.len() + word.len() >= WORDS_BYTES {
            break;
        }
        words.push_str(word);
        words.push('-');
    }
    if words.is_empty() {
        words.push_str("app-");
    }
    let chance = (0..8).map(|n| char::from(DIGITS[((random >> (n * 5)) & 31) as usize]));
    words.chars().chain(chance).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_is_a_dns_label_whatever_the_message_says() {
        for text in
            ["Build me a to-do list, please!", "", "日本語", "x".repeat(200).as_str(), "--- a --- b ---", "xn--abc"]
        {
            let slug = slug(&run_title(text), u128::MAX / 7);
            assert!(slug.len() <= 63 && !slug.starts_with('-') && !slug.ends_with('-'), "{slug}");
            assert!(slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{slug}");
        }
    }
}
