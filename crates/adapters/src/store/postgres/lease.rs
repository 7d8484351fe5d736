//! Who has a run: claims under a lease with a fencing epoch, and the inbox that wakes a run nobody has.

use contract::RunId;
use runtime::ports::store::{Claim, InboxItem, StoreError, StoreFault};

use super::column::{Key, addend, bits, count, get, int, uint};
use super::failure::json;
use super::links::Links;

/// By what and as whom leases are taken.
pub(super) struct Terms {
    /// This process's number.
    pub(super) holder: i64,
    /// How long after the server's start nobody is taken for dead.
    pub(super) grace_ms: i64,
}

/// A worker that asks for runs.
pub(super) struct Asking<'a> {
    /// Its name.
    pub(super) worker: &'a str,
    /// How many it takes at the most.
    pub(super) most: usize,
    /// Whether it takes only those that were told to stop.
    pub(super) stopped: bool,
}

/// Takes runs that can be claimed, oldest first; `now` is the caller's clock, if that is the one that counts.
pub(super) async fn claim(
    links: &Links,
    terms: &Terms,
    asking: Asking<'_>,
    now: Option<u64>,
    lease_ms: u64,
) -> Result<Vec<Claim>, StoreError> {
    let ask = || {
        sqlx::query("SELECT run, held_under FROM baton_claim($1, $2, $3, $4, $5, $6, $7)")
            .bind(asking.worker)
            .bind(terms.holder)
            .bind(terms.grace_ms)
            .bind(count(asking.most))
            .bind(asking.stopped)
            .bind(now.map(addend))
            .bind(addend(lease_ms))
    };
    claims(links.write(ask).await?)
}

fn claims(rows: Vec<sqlx::postgres::PgRow>) -> Result<Vec<Claim>, StoreError> {
    rows.iter().map(|row| Ok(Claim { run_id: RunId::from_bits(bits(row, 0)?), epoch: uint(row, 1)? })).collect()
}

/// Lengthens leases; gives the claims that are lost.
pub(super) async fn renew(
    links: &Links,
    asked: &[Claim],
    now: Option<u64>,
    lease_ms: u64,
) -> Result<Vec<Claim>, StoreError> {
    if asked.is_empty() {
        return Ok(vec![]);
    }
    let ask = || {
        sqlx::query("SELECT run, held_under FROM baton_renew($1, $2, $3, $4)")
            .bind(asked.iter().map(|claim| Key(claim.run_id.bits())).collect::<Vec<_>>())
            .bind(asked.iter().map(|claim| int(claim.epoch)).collect::<Vec<_>>())
            .bind(now.map(addend))
            .bind(addend(lease_ms))
    };
    let held = claims(links.write(ask).await?)?;
    Ok(asked.iter().filter(|claim| !held.contains(claim)).copied().collect())
}

/// Gives a run back. One that waits for somebody is parked until its inbox has a row.
pub(super) async fn release(links: &Links, claim: Claim) -> Result<(), StoreError> {
    let ask = || sqlx::query("SELECT baton_release($1, $2)").bind(Key(claim.run_id.bits())).bind(int(claim.epoch));
    links.write(ask).await.map(drop)
}

/// Ends the claims of processes that are gone.
pub(super) async fn reap(links: &Links, terms: &Terms) -> Result<(), StoreError> {
    links.write(|| sqlx::query("SELECT baton_reap($1, $2)").bind(terms.holder).bind(terms.grace_ms)).await.map(drop)
}

/// Puts an item into the inbox of a run that has not ended, and a cancel into those of the runs that it started. Gives the runs
/// that have something new.
pub(super) async fn put_inbox(links: &Links, run: RunId, item: &InboxItem, at: u64) -> Result<Vec<RunId>, StoreError> {
    let json = json(item)?;
    let cancel = match item {
        InboxItem::Cancel { .. } => true,
        InboxItem::PreviewProblem(_) => false,
    };
    let ask = || {
        sqlx::query("SELECT baton_put_inbox($1, $2, $3, $4)")
            .bind(Key(run.bits()))
            .bind(json.as_str())
            .bind(cancel)
            .bind(int(at))
    };
    links.write(ask).await?.iter().map(|row| bits(row, 0).map(RunId::from_bits)).collect()
}

/// A run's inbox, oldest first.
pub(super) async fn inbox(links: &Links, run: RunId) -> Result<Vec<(u64, InboxItem)>, StoreError> {
    let ask = || sqlx::query("SELECT id, item FROM inbox WHERE run_id = $1 ORDER BY id").bind(Key(run.bits()));
    let rows = links.read(ask).await?;
    let unreadable = |_| StoreError::new(StoreFault::Damaged, "an inbox holds what this program does not know");
    rows.iter().map(|row| Ok((uint(row, 0)?, serde_json::from_str(get(row, 1)?).map_err(unreadable)?))).collect()
}
