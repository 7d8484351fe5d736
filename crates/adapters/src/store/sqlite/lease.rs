//! Who has a run: claims under a lease with a fencing epoch, and the inbox that wakes a run nobody has.

use contract::RunId;
use contract::api::RunStatus;
use runtime::ports::store::{Claim, InboxItem};
use rusqlite::types::Type;
use rusqlite::{Connection, Error, Result, params};

use super::column::{bits, count, int, key, uint, word};

/// Takes runs that can be claimed, oldest first. Nothing is written if there are none.
pub(super) fn claim(db: &Connection, worker: &str, most: usize, now_ms: u64, lease_ms: u64) -> Result<Vec<Claim>> {
    // `CROSS`: the few active runs first, not all that there ever were.
    let found = db
        .prepare_cached(
            "SELECT run_id, epoch FROM claims CROSS JOIN runs ON id = run_id WHERE claimable_at <= ?1 ORDER BY n LIMIT ?2",
        )?
        .query_map(params![int(now_ms), count(most)], |row| {
            Ok(Claim { run_id: RunId::from_bits(bits(row, 0)?), epoch: uint(row, 1)? + 1 })
        })?
        .collect::<Result<Vec<_>>>()?;
    for claim in &found {
        db.prepare_cached("UPDATE claims SET worker = ?2, epoch = ?3, claimable_at = ?4 WHERE run_id = ?1")?.execute(
            params![key(claim.run_id.bits()), worker, int(claim.epoch), int(now_ms.saturating_add(lease_ms))],
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

/// Puts an item into the inbox of a run that has not ended.
pub(super) fn put_inbox(db: &Connection, run: RunId, item: &str, at: u64) -> Result<()> {
    let run = key(run.bits());
    db.prepare_cached(
        "INSERT INTO inbox (run_id, item, at) SELECT run_id, ?2, ?3 FROM claims WHERE run_id = ?1
         AND NOT EXISTS (SELECT 1 FROM inbox WHERE run_id = ?1 AND item = ?2)",
    )?
    .execute(params![run, item, int(at)])?;
    db.prepare_cached("UPDATE claims SET claimable_at = 0 WHERE run_id = ?1 AND claimable_at IS NULL")?
        .execute([run])?;
    Ok(())
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
