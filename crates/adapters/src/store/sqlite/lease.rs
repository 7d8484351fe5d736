//! Who has a run: claims under a lease with a fencing epoch, and the inbox that wakes a run nobody has.

use contract::RunId;
use contract::api::RunStatus;
use runtime::ports::store::{Claim, InboxItem};
use rusqlite::types::Type;
use rusqlite::{Connection, Error, Result, params};

use super::column::{bits, count, int, key, uint, word};
use super::failure::json;

/// A worker that asks for runs.
pub(super) struct Asking {
    /// Its name.
    pub(super) worker: String,
    /// How many it takes at the most.
    pub(super) most: usize,
    /// Whether it takes only those that were told to stop.
    pub(super) stopped: bool,
}

/// Takes runs that can be claimed, oldest first. One that was stopped before it began does not wait for its turn, since it changes
/// nothing. Nothing is written if there are none.
pub(super) fn claim(db: &Connection, asking: &Asking, now_ms: u64, lease_ms: u64) -> Result<Vec<Claim>> {
    let found = db
        .prepare_cached(
            "SELECT run_id, epoch FROM (
                 SELECT *, EXISTS (
                     SELECT 1 FROM inbox i WHERE i.run_id = f.run_id AND json_extract(i.item, '$.type') = 'cancel'
                 ) AS stopped FROM claims f WHERE claimable_at <= ?1
             ) c WHERE (stopped OR NOT ?3) AND (root_id =
                 (SELECT o.root_id FROM claims o WHERE o.project_id = c.project_id ORDER BY o.epoch = 0, o.n LIMIT 1)
                 OR epoch = 0 AND stopped
             ) ORDER BY n LIMIT ?2",
        )?
        .query_map(params![int(now_ms), count(asking.most), asking.stopped], |row| {
            Ok(Claim { run_id: RunId::from_bits(bits(row, 0)?), epoch: uint(row, 1)? + 1 })
        })?
        .collect::<Result<Vec<_>>>()?;
    for claim in &found {
        db.prepare_cached("UPDATE claims SET worker = ?2, epoch = ?3, claimable_at = ?4 WHERE run_id = ?1")?.execute(
            params![key(claim.run_id.bits()), asking.worker, int(claim.epoch), int(now_ms.saturating_add(lease_ms))],
        )?;
    }
    Ok(found)
}

/// Lengthens leases; gives the claims that are lost.
pub(super) fn renew(db: &Connection, claims: &[Claim], now_ms: u64, lease_ms: u64) -> Result<Vec<Claim>> {
    let until = int(now_ms.saturating_add(lease_ms));
    let mut lost = Vec::new();
    for claim in claims {
        let renewed = db
            .prepare_cached(
                "UPDATE claims SET claimable_at = ?3 WHERE run_id = ?1 AND epoch = ?2 AND worker IS NOT NULL",
            )?
            .execute(params![key(claim.run_id.bits()), int(claim.epoch), until])?;
        if renewed == 0 {
            lost.push(*claim);
        }
    }
    Ok(lost)
}

/// Gives a run back. One that waits for somebody is parked until its inbox has a row.
pub(super) fn release(db: &Connection, claim: Claim) -> Result<()> {
    db.prepare_cached(
        "UPDATE claims SET worker = NULL, claimable_at = CASE
             WHEN (SELECT status FROM runs WHERE id = ?1) = ?3 AND NOT EXISTS (SELECT 1 FROM inbox WHERE run_id = ?1) THEN NULL
             ELSE 0 END
         WHERE run_id = ?1 AND epoch = ?2 AND worker IS NOT NULL",
    )?
    .execute(params![key(claim.run_id.bits()), int(claim.epoch), word(&RunStatus::Waiting)?])?;
    Ok(())
}

/// Ends the lease of every run: whoever had them is dead, which the data folder's lock proves. Their epochs rise with the next claim.
pub(super) fn end_all(db: &Connection) -> Result<()> {
    db.execute("UPDATE claims SET worker = NULL, claimable_at = 0 WHERE worker IS NOT NULL", [])?;
    Ok(())
}

/// Puts an item into the inbox of a run that has not ended, and a cancel into those of the runs that it started. Gives the runs
/// that have something new.
pub(super) fn put_inbox(db: &Connection, run: RunId, item: &InboxItem, json: &str, at: u64) -> Result<Vec<RunId>> {
    match item {
        InboxItem::Cancel { .. } => put_all(db, family(db, run)?, json, at),
        InboxItem::PreviewProblem(_) => put_all(db, vec![run], json, at),
    }
}

/// The runs that a run has started end with it.
pub(super) fn tell_children(db: &Connection, run: RunId) -> Result<()> {
    let mut children = family(db, run)?;
    children.retain(|child| *child != run);
    if !children.is_empty() {
        let item = json(&InboxItem::parent_ended()).map_err(|error| Error::ToSqlConversionFailure(error.into()))?;
        put_all(db, children, &item, 0)?;
    }
    Ok(())
}

fn put_all(db: &Connection, runs: Vec<RunId>, json: &str, at: u64) -> Result<Vec<RunId>> {
    let mut told = vec![];
    for run in runs {
        let id = key(run.bits());
        let put = db
            .prepare_cached(
                "INSERT INTO inbox (run_id, item, at) SELECT run_id, ?2, ?3 FROM claims WHERE run_id = ?1
                 AND NOT EXISTS (SELECT 1 FROM inbox WHERE run_id = ?1 AND item = ?2)",
            )?
            .execute(params![id, json, int(at)])?;
        db.prepare_cached("UPDATE claims SET claimable_at = 0 WHERE run_id = ?1 AND claimable_at IS NULL")?
            .execute([id])?;
        if put > 0 {
            told.push(run);
        }
    }
    Ok(told)
}

/// A run with the runs that it started and that have not ended.
fn family(db: &Connection, run: RunId) -> Result<Vec<RunId>> {
    db.prepare_cached(
        "WITH RECURSIVE family (id) AS (
             SELECT ?1 UNION
             SELECT r.id FROM family f JOIN claims c ON c.root_id = (SELECT root_id FROM claims WHERE run_id = ?1)
             JOIN runs r ON r.id = c.run_id AND r.parent = f.id
         ) SELECT id FROM family",
    )?
    .query_map([key(run.bits())], |row| bits(row, 0).map(RunId::from_bits))?
    .collect()
}

/// A run's inbox, oldest first.
pub(super) fn inbox(db: &Connection, run: RunId) -> Result<Vec<(u64, InboxItem)>> {
    db.prepare_cached("SELECT id, item FROM inbox WHERE run_id = ?1 ORDER BY id")?
        .query_map([key(run.bits())], |row| {
            let item = serde_json::from_str(row.get_ref(1)?.as_str()?);
            let item = item.map_err(|error| Error::FromSqlConversionFailure(1, Type::Text, error.into()))?;
            Ok((uint(row, 0)?, item))
        })?
        .collect()
}
