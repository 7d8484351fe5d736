//! The log: appending under a fence, and reading it.

use contract::event::Head;
use contract::{ChatId, RunId, StepId, UserId};
use runtime::ports::store::{Append, AppendError, Claim, Entry, Snapshot, StoredEvent};
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::super::alike::PAGE_BYTES;
use super::column::{bits, count, int, key, uint};
use super::failure::Failure;
use super::{admit, lease, rows};

/// Appends, or refuses before anything has changed: the fence and the place in the log are the condition of the first update.
pub(super) fn append(db: &Connection, append: &Append) -> Result<u64, Failure<AppendError>> {
    let run = key(append.claim.run_id.bits());
    let epoch = int(append.claim.epoch);
    let end = int(append.after).saturating_add(count(append.events.len()));
    let moved = db
        .prepare_cached(
            "UPDATE claims SET last_seq = ?4 WHERE run_id = ?1 AND epoch = ?2 AND worker IS NOT NULL AND last_seq = ?3",
        )?
        .execute(params![run, epoch, int(append.after), end])?;
    if moved == 0 {
        let at = db
            .prepare_cached("SELECT last_seq FROM claims WHERE run_id = ?1 AND epoch = ?2 AND worker IS NOT NULL")?
            .query_row(params![run, epoch], |row| uint(row, 0))
            .optional()?;
        return Err(Failure::Refused(match at {
            Some(at) => AppendError::Conflict { at },
            None => AppendError::Fenced,
        }));
    }
    for (seq, event) in (int(append.after) + 1..).zip(&append.events) {
        insert_event(db, run, seq, event)?;
    }
    for change in &append.rows {
        rows::change(db, append.claim.run_id, end, change)?;
    }
    for number in &append.consumed {
        db.prepare_cached("DELETE FROM inbox WHERE id = ?1 AND run_id = ?2")?.execute(params![int(*number), run])?;
    }
    if append.ends {
        finish(db, append.claim.run_id, end)?;
    }
    Ok(u64::try_from(end).unwrap_or(0))
}

/// Puts one event at its place.
pub(super) fn insert_event(db: &Connection, run: [u8; 16], seq: i64, event: &Entry) -> Result<()> {
    let (step, attempt) = event.step.as_ref().map(|(step, attempt)| (step.as_str(), *attempt)).unzip();
    db.prepare_cached(
        "INSERT INTO events (run_id, seq, at, step_id, attempt, kind, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![run, seq, int(event.at), step, attempt, event.kind, event.payload])?;
    Ok(())
}

/// The run has ended: its answer is made whole, its claim and inbox go, and a root counts no longer.
pub(super) fn finish(db: &Connection, run: RunId, end: i64) -> Result<()> {
    let id = [key(run.bits())];
    rows::close_prose(db, run)?;
    lease::tell_children(db, run)?;
    db.prepare_cached("UPDATE runs SET last_seq = ?2 WHERE id = ?1")?.execute(params![id[0], end])?;
    db.prepare_cached("DELETE FROM claims WHERE run_id = ?1")?.execute(id)?;
    db.prepare_cached("DELETE FROM inbox WHERE run_id = ?1")?.execute(id)?;
    let root = db
        .prepare_cached("SELECT chat_id, user_id FROM runs WHERE id = ?1 AND parent IS NULL")?
        .query_row(id, |row| Ok((ChatId::from_bits(bits(row, 0)?), UserId::from_bits(bits(row, 1)?))))
        .optional()?;
    root.map_or(Ok(()), |(chat, user)| admit::uncount(db, chat, user))
}

/// Keeps a newer snapshot of a run, if the claim is the latest.
pub(super) fn put_snapshot(db: &Connection, claim: Claim, snapshot: &Snapshot) -> Result<()> {
    db.prepare_cached(
        "INSERT INTO snapshots (run_id, seq, body) SELECT run_id, ?3, ?4 FROM claims
         WHERE run_id = ?1 AND epoch = ?2 AND worker IS NOT NULL
         ON CONFLICT (run_id) DO UPDATE SET seq = excluded.seq, body = excluded.body WHERE excluded.seq > seq",
    )?
    .execute(params![key(claim.run_id.bits()), int(claim.epoch), int(snapshot.seq), &snapshot.body[..]])?;
    Ok(())
}

/// The newest snapshot of a run.
pub(super) fn snapshot(db: &Connection, run: RunId) -> Result<Option<Snapshot>> {
    db.prepare_cached("SELECT seq, body FROM snapshots WHERE run_id = ?1")?
        .query_row([key(run.bits())], |row| Ok(Snapshot { seq: uint(row, 0)?, body: row.get::<_, Vec<u8>>(1)?.into() }))
        .optional()
}

/// Events of a run after a place, in order.
pub(super) fn read_after(db: &Connection, run: RunId, after: u64, most: usize) -> Result<Vec<StoredEvent>> {
    let mut statement = db.prepare_cached(
        "SELECT seq, at, step_id, attempt, kind, payload FROM events WHERE run_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let rows = statement.query_map(params![key(run.bits()), int(after), count(most)], |row| {
        let head = Head {
            run_id: run,
            seq: uint(row, 0)?,
            from_seq: None,
            at: uint(row, 1)?,
            step_id: row.get::<_, Option<String>>(2)?.map(StepId::new),
            attempt: row.get(3)?,
        };
        Ok(StoredEvent { head, kind: row.get(4)?, payload: row.get::<_, String>(5)?.into() })
    })?;
    let mut page = Vec::new();
    let mut bytes = 0;
    for event in rows {
        let event: StoredEvent = event?;
        bytes += event.payload.len();
        page.push(event);
        if bytes >= PAGE_BYTES {
            break;
        }
    }
    Ok(page)
}
