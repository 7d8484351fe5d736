//! Admission: message, run, first events and claimability in one transaction, or nothing (E1).

use contract::api::{Accepted, Role, RunStatus};
use contract::event::{NewEvent, Parent, RunQueued};
use contract::{ChatId, MessageId, ProjectId, RunId, UserId};
use runtime::ports::store::{Admission, AdmitError, AppendError, Entry, StoreError, StoreFault, run_title};
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::append::{finish, insert_event};
use super::column::{bits, count, int, key, uint, word};
use super::failure::Failure;
use super::rows;

/// Events of every admission: `run_queued` and `session`.
const EVENTS: usize = 2;
/// The id of the global counter.
const EVERYBODY: [u8; 16] = [0; 16];

/// An admission with everything that can be made outside of the transaction.
pub(super) struct Prepared {
    admission: Admission,
    session: Entry,
    fingerprint: [u8; 32],
}

impl Prepared {
    /// Encodes the session and fingerprints the request.
    pub(super) fn new(admission: Admission) -> Result<Self, StoreError> {
        let session = Entry::of(&NewEvent { at: admission.at, step: None, event: admission.session.clone().into() })?;
        let fingerprint = admission.fingerprint();
        Ok(Self { admission, session, fingerprint })
    }

    /// Events of the admission.
    pub(super) fn weight(&self) -> usize {
        EVENTS + self.admission.log.events.len()
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
    let parent = parent(db, &prepared.admission)?;
    let position = place_in_queue(db, &prepared.admission)?;
    let event = RunQueued { position: u32::try_from(position).unwrap_or(u32::MAX), parent };
    let queued = Entry::of(&NewEvent { at: prepared.admission.at, step: None, event: event.into() });
    let queued = queued.map_err(|error| Failure::Refused(error.into()))?;

    write(db, prepared, parent)?;
    for (seq, event) in (1..).zip([&queued, &prepared.session].into_iter().chain(&prepared.admission.log.events)) {
        insert_event(db, key(run_id.bits()), seq, event)?;
    }
    begin(db, prepared)?;
    Ok(Accepted {
        chat_id: session.chat_id,
        message_id: session.user_message_id,
        run_id: *run_id,
        project_id: session.project_id,
    })
}

/// Draws the rows of a log that is admitted with its run.
fn begin(db: &Connection, prepared: &Prepared) -> Result<(), Failure<AdmitError>> {
    let (run, log) = (prepared.admission.run_id, &prepared.admission.log);
    for change in &log.rows {
        rows::change(db, run, count(prepared.weight()), change).map_err(|failure| match failure {
            Failure::Sql(error) => Failure::Sql(error),
            Failure::Refused(AppendError::Store(error)) => Failure::Refused(error.into()),
            Failure::Refused(AppendError::Fenced | AppendError::Conflict { .. }) => {
                Failure::Refused(StoreError::new(StoreFault::Refused, "a row refuses a log that begins").into())
            }
        })?;
    }
    if log.ends {
        finish(db, run, count(prepared.weight()))?;
    }
    Ok(())
}

/// What the run has of the one that starts it, if another run does.
fn parent(db: &Connection, admission: &Admission) -> Result<Option<Parent>, Failure<AdmitError>> {
    let Some(claim) = admission.parent else { return Ok(None) };
    let id = key(claim.run_id.bits());
    let found = db
        .prepare_cached(
            "SELECT c.root_id, r.depth, root.created_at FROM claims c JOIN runs r ON r.id = c.run_id JOIN runs root ON root.id = c.root_id
             WHERE c.run_id = ?1 AND c.epoch = ?2 AND c.worker IS NOT NULL
             AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.run_id = ?1 AND json_extract(i.item, '$.type') = 'cancel')",
        )?
        .query_row(params![id, int(claim.epoch)], |row| Ok((bits(row, 0)?, row.get::<_, u32>(1)?, uint(row, 2)?)))
        .optional()?;
    let Some((root, depth, since)) = found else { return Err(Failure::Refused(AdmitError::ParentOver)) };
    let (limit, value) = admission.most_depth;
    if u64::from(depth) >= value {
        return Err(Failure::Refused(AdmitError::Limit { limit, value }));
    }
    Ok(Some(Parent { run_id: claim.run_id, root_id: RunId::from_bits(root), depth: depth + 1, since }))
}

/// Active root runs before this one, if it is within the limits and the project may have it.
fn place_in_queue(db: &Connection, admission: &Admission) -> Result<u64, Failure<AdmitError>> {
    if admission.alone {
        let busy = db
            .prepare_cached("SELECT run_id FROM claims WHERE project_id = ?1 ORDER BY n LIMIT 1")?
            .query_row([key(admission.session.project_id.bits())], |row| bits(row, 0).map(RunId::from_bits))
            .optional()?;
        if let Some(run) = busy {
            return Err(Failure::Refused(AdmitError::ProjectBusy { run }));
        }
    }
    let mut active = 0;
    let counters = counters(admission.session.chat_id, admission.user);
    for ((scope, id), (limit, value)) in counters.into_iter().zip(admission.most_active) {
        active = db
            .prepare_cached("SELECT active FROM counters WHERE scope = ?1 AND id = ?2")?
            .query_row(params![scope, id], |row| uint(row, 0))
            .optional()?
            .unwrap_or(0);
        // A child has its root's slot, and a run that has ended needs none.
        if active >= value && admission.parent.is_none() && !admission.log.ends {
            return Err(Failure::Refused(AdmitError::Limit { limit, value }));
        }
    }
    // The last counter is the global one.
    Ok(active)
}

/// Everything but the events.
fn write(db: &Connection, prepared: &Prepared, parent: Option<Parent>) -> Result<()> {
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
        "INSERT INTO runs (id, user_id, chat_id, project_id, status, title, last_seq, created_at, parent, depth)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, ?9)",
    )?
    .execute(params![
        run,
        owner,
        chat,
        project,
        word(&RunStatus::Queued)?,
        run_title(&session.request),
        time,
        parent.map(|parent| key(parent.run_id.bits())),
        parent.map_or(0, |parent| parent.depth)
    ])?;
    db.prepare_cached(
        "INSERT INTO claims (run_id, n, project_id, root_id, epoch, claimable_at, last_seq) VALUES (?1, ?2, ?3, ?4, 0, 0, ?5)",
    )?
    .execute(params![
        run,
        db.last_insert_rowid(),
        project,
        key(parent.map_or(*run_id, |parent| parent.root_id).bits()),
        count(prepared.weight())
    ])?;
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
    for (scope, id) in counters(session.chat_id, *user).into_iter().filter(|_| parent.is_none()) {
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

/// The project of a chat of the user.
pub(super) fn project_of(db: &Connection, user: UserId, chat: ChatId) -> Result<Option<ProjectId>> {
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
