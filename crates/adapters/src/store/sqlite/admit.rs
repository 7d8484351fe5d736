//! Admission: message, run, first events and claimability in one transaction, or nothing (E1).

use contract::api::{Accepted, Role, RunStatus};
use contract::event::RunQueued;
use contract::{ChatId, Event, MessageId, ProjectId, RunId, UserId};
use runtime::ports::store::{Admission, AdmitError, StoreError, StoreFault, run_title};
use rusqlite::{Connection, OptionalExtension, Result, params};
use sha2::{Digest, Sha256};

use super::append::{EventRow, insert_event};
use super::column::{bits, count, int, key, uint, word};
use super::failure::{Failure, json};

/// Events of an admission: `run_queued` and `session`.
pub(super) const EVENTS: usize = 2;
/// The id of the global counter.
const EVERYBODY: [u8; 16] = [0; 16];

/// An admission with everything that can be made outside of the transaction.
pub(super) struct Prepared {
    admission: Admission,
    session: EventRow,
    fingerprint: [u8; 32],
}

impl Prepared {
    /// Encodes the session and fingerprints the request.
    pub(super) fn new(admission: Admission) -> Result<Self, StoreError> {
        let event = Event::from(admission.session.clone());
        let session = EventRow { at: admission.at, step: None, kind: event.kind(), payload: json(&event)? };
        // A new chat has a new id at each repetition, so what tells the request is that it asks for one.
        let chat = if admission.new_chat.is_some() { [0; 16] } else { key(admission.session.chat_id.bits()) };
        let fingerprint = Sha256::new().chain_update(chat).chain_update(&admission.session.request).finalize().into();
        Ok(Self { admission, session, fingerprint })
    }
}

/// Admits, or refuses before anything has changed.
pub(super) fn admit(db: &Connection, prepared: &Prepared) -> Result<Accepted, Failure<AdmitError>> {
    let Admission { user, run_id, session, new_chat, idempotency_key, .. } = &prepared.admission;
    if let Some(used) = idempotency_key
        && let Some(first) = first_answer(db, *user, used, &prepared.fingerprint)?
    {
        return first.map_err(Failure::Refused);
    }
    if new_chat.is_none() {
        match project_of(db, *user, session.chat_id)? {
            None => return Err(Failure::Refused(AdmitError::NoSuchChat)),
            Some(project) if project != session.project_id => {
                let error = StoreError::new(StoreFault::Refused, "the session names a project of another chat");
                return Err(Failure::Refused(error.into()));
            }
            Some(_) => {}
        }
    }
    let position = place_in_queue(db, &prepared.admission)?;
    let queued = Event::from(RunQueued { position: u32::try_from(position).unwrap_or(u32::MAX) });
    let payload = json(&queued).map_err(|error| Failure::Refused(error.into()))?;
    let queued = EventRow { at: prepared.admission.at, step: None, kind: queued.kind(), payload };

    write(db, prepared)?;
    for (seq, event) in (1..).zip([&queued, &prepared.session]) {
        insert_event(db, key(run_id.bits()), seq, event)?;
    }
    Ok(Accepted {
        chat_id: session.chat_id,
        message_id: session.user_message_id,
        run_id: *run_id,
        project_id: session.project_id,
    })
}

/// Active runs before this one, if it is within the limits.
fn place_in_queue(db: &Connection, admission: &Admission) -> Result<u64, Failure<AdmitError>> {
    let mut active = 0;
    let counters = counters(admission.session.chat_id, admission.user);
    for ((scope, id), (limit, value)) in counters.into_iter().zip(admission.most_active) {
        active = db
            .prepare_cached("SELECT active FROM counters WHERE scope = ?1 AND id = ?2")?
            .query_row(params![scope, id], |row| uint(row, 0))
            .optional()?
            .unwrap_or(0);
        if active >= value {
            return Err(Failure::Refused(AdmitError::Limit { limit, value }));
        }
    }
    // The last counter is the global one.
    Ok(active)
}

/// Everything but the events.
fn write(db: &Connection, prepared: &Prepared) -> Result<()> {
    let Admission { user, run_id, session, new_chat, idempotency_key, at, .. } = &prepared.admission;
    let (chat, project, run) = (key(session.chat_id.bits()), key(session.project_id.bits()), key(run_id.bits()));
    let (owner, time) = (key(user.bits()), int(*at));
    if let Some(new) = new_chat {
        db.prepare_cached("INSERT INTO users (id, created_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
            .execute(params![owner, time])?;
        db.prepare_cached(
            "INSERT INTO chats (id, user_id, title, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?4)",
        )?
        .execute(params![chat, owner, new.title, time])?;
        db.prepare_cached("INSERT INTO projects (id, chat_id, user_id, slug, created_at) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![project, chat, owner, new.slug, time])?;
    }
    db.prepare_cached(
        "INSERT INTO runs (id, user_id, chat_id, project_id, status, title, last_seq, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7)",
    )?
    .execute(params![run, owner, chat, project, word(&RunStatus::Queued)?, run_title(&session.request), time])?;
    db.prepare_cached("INSERT INTO claims (run_id, epoch, claimable_at, last_seq) VALUES (?1, 0, 0, ?2)")?
        .execute(params![run, count(EVENTS)])?;
    db.prepare_cached("UPDATE chats SET latest_run = ?2, updated_at = max(updated_at, ?3) WHERE id = ?1")?
        .execute(params![chat, run, time])?;
    let messages = [
        (session.user_message_id, Role::User, session.request.as_str()),
        (session.assistant_message_id, Role::Assistant, ""),
    ];
    for (id, role, text) in messages {
        db.prepare_cached(
            "INSERT INTO messages (id, chat_id, run_id, role, text, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![key(id.bits()), chat, run, word(&role)?, text, time])?;
    }
    for (scope, id) in counters(session.chat_id, *user) {
        db.prepare_cached(
            "INSERT INTO counters (scope, id, active) VALUES (?1, ?2, 1) ON CONFLICT DO UPDATE SET active = active + 1",
        )?
        .execute(params![scope, id])?;
    }
    if let Some(used) = idempotency_key {
        db.prepare_cached("INSERT INTO idempotency (user_id, key, fingerprint, run_id) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![owner, used, prepared.fingerprint, run])?;
    }
    Ok(())
}

/// What the key was answered the first time, if it was used.
fn first_answer(
    db: &Connection,
    user: UserId,
    used: &str,
    fingerprint: &[u8; 32],
) -> Result<Option<Result<Accepted, AdmitError>>> {
    db.prepare_cached(
        "SELECT i.fingerprint, r.chat_id, m.id, r.id, r.project_id FROM idempotency i
         JOIN runs r ON r.id = i.run_id JOIN messages m ON m.run_id = i.run_id AND m.role = ?3
         WHERE i.user_id = ?1 AND i.key = ?2",
    )?
    .query_row(params![key(user.bits()), used, word(&Role::User)?], |row| {
        if row.get::<_, [u8; 32]>(0)? != *fingerprint {
            return Ok(Err(AdmitError::KeyReused));
        }
        Ok(Ok(Accepted {
            chat_id: ChatId::from_bits(bits(row, 1)?),
            message_id: MessageId::from_bits(bits(row, 2)?),
            run_id: RunId::from_bits(bits(row, 3)?),
            project_id: ProjectId::from_bits(bits(row, 4)?),
        }))
    })
    .optional()
}

fn project_of(db: &Connection, user: UserId, chat: ChatId) -> Result<Option<ProjectId>> {
    db.prepare_cached("SELECT id FROM projects WHERE chat_id = ?1 AND user_id = ?2")?
        .query_row([key(chat.bits()), key(user.bits())], |row| bits(row, 0).map(ProjectId::from_bits))
        .optional()
}

type Counter = (&'static str, [u8; 16]);

/// The counters that a run is counted in, in the order of the limits.
fn counters(chat: ChatId, user: UserId) -> [Counter; 3] {
    [("chat", key(chat.bits())), ("user", key(user.bits())), ("global", EVERYBODY)]
}

/// A run has ended: it counts no longer.
pub(super) fn uncount(db: &Connection, chat: ChatId, user: UserId) -> Result<()> {
    for (scope, id) in counters(chat, user) {
        db.prepare_cached("UPDATE counters SET active = active - 1 WHERE scope = ?1 AND id = ?2")?
            .execute(params![scope, id])?;
        db.prepare_cached("DELETE FROM counters WHERE scope = ?1 AND id = ?2 AND active = 0")?
            .execute(params![scope, id])?;
    }
    Ok(())
}
