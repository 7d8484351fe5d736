//! Looking after the database: does it hold together.

use std::time::Duration;

use futures::StreamExt as _;
use runtime::ports::store::{StoreError, StoreFault};
use sqlx::PgConnection;
use tokio::time::timeout;

use super::super::alike::with_ids;
use super::column::get;
use super::failure::store_error;
use super::links::Links;
use super::{OpenError, Postgres, PostgresOptions, open};

/// Faults of one kind that are reported; there may be more.
const REPORTED: usize = 100;

/// What must hold between tables and what no constraint can say. Each query gives one line per fault.
const INVARIANTS: &[&str] = &[
    "SELECT 'the log of run ' || run_id || ' has gaps: ' || count(*) || ' events up to ' || max(seq)
     FROM events GROUP BY run_id HAVING count(*) <> max(seq)",
    "SELECT 'the log of run ' || r.id || ' does not end where its row says' FROM runs r LEFT JOIN claims c ON c.run_id = r.id
     WHERE coalesce(c.last_seq, r.last_seq) <> coalesce((SELECT max(seq) FROM events e WHERE e.run_id = r.id), 0)",
    "SELECT 'there are events of run ' || run_id || ', which is unknown' FROM (SELECT DISTINCT run_id FROM events) e
     WHERE NOT EXISTS (SELECT FROM runs r WHERE r.id = e.run_id)",
    "SELECT 'run ' || r.id || ' is ' || r.status || ' and ' || CASE WHEN c.run_id IS NULL THEN 'cannot' ELSE 'can' END || ' be claimed'
     FROM runs r LEFT JOIN claims c ON c.run_id = r.id WHERE (r.ended_at IS NULL) <> (c.run_id IS NOT NULL)",
    "SELECT 'the claim of run ' || c.run_id || ' is not that of its row' FROM claims c JOIN runs r ON r.id = c.run_id
     WHERE (c.n, c.project_id, c.chat_id, c.user_id) <> (r.n, r.project_id, r.chat_id, r.user_id)
     OR (c.root_id = c.run_id) <> (r.parent IS NULL) OR (c.slot IS NULL) <> (r.parent IS NOT NULL)",
    "SELECT 'the claim of run ' || run_id || ' has half a holder' FROM claims WHERE (worker IS NULL) <> (holder IS NULL)",
    "SELECT 'the snapshot of run ' || s.run_id || ' is beyond the end of its log' FROM snapshots s
     WHERE s.seq > coalesce((SELECT max(seq) FROM events e WHERE e.run_id = s.run_id), 0)",
    "SELECT 'the answer of run ' || run_id || ' is in pieces' FROM prose WHERE run_id NOT IN (SELECT run_id FROM claims)
     GROUP BY run_id",
    "SELECT 'run ' || run_id || ' has ended with an inbox' FROM inbox WHERE run_id NOT IN (SELECT run_id FROM claims)
     GROUP BY run_id",
    "SELECT 'the counter of active runs of ' || scope || ' is wrong by ' || sum(active) FROM (
         SELECT 'chat ' || id AS scope, active FROM chats
         UNION ALL SELECT 'user ' || id, active FROM users
         UNION ALL SELECT 'slot ' || slot, active FROM slots
         UNION ALL SELECT 'chat ' || chat_id, -count(*) FROM claims WHERE root_id = run_id GROUP BY chat_id
         UNION ALL SELECT 'user ' || user_id, -count(*) FROM claims WHERE root_id = run_id GROUP BY user_id
         UNION ALL SELECT 'slot ' || slot, -count(*) FROM claims WHERE root_id = run_id GROUP BY slot
     ) counted GROUP BY scope HAVING sum(active) <> 0",
    "SELECT 'project ' || p.id || ' shows a version of another' FROM projects p JOIN versions v ON v.id = p.current_version
     WHERE v.project_id <> p.id",
];

/// What holds for a session that reads everything: it changes nothing, however long it takes, and tables are searched, which is what
/// reading all of them takes.
const SESSION: &str = "SET default_transaction_read_only = on; SET statement_timeout = 0;
    SET idle_in_transaction_session_timeout = 0; SET plan_cache_mode = auto; SET enable_seqscan = on; SET enable_hashjoin = on;
    SET enable_mergejoin = on; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// How long it may take all the same.
const MOST: Duration = Duration::from_secs(24 * 3_600);

impl Postgres {
    /// Reads the whole database as it is at one moment and gives what does not hold together, one line per fault; nothing if all
    /// is well.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn check(&self) -> Result<Vec<String>, StoreError> {
        faults(&self.links, self.links.connect().await?).await
    }
}

/// The same of the database at `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, also while others work on it. Nothing is changed, and nobody
/// waits or is taken for dead.
///
/// # Errors
/// See [`OpenError`]: there is no database of Baton, it has another schema than this program, or it cannot be read.
pub async fn check_database(url: &str) -> Result<Vec<String>, OpenError> {
    let options = PostgresOptions::default();
    let address = open::address(url, &options)?;
    let place = open::place(&address);
    let links = Links::new(address, &options);
    let unusable = |error| OpenError::Unusable { place: place.clone(), error };
    let mut connection = links.connect().await.map_err(unusable)?;
    open::recognise(&links, &mut connection, &place).await?;
    faults(&links, connection).await.map_err(unusable)
}

/// What does not hold together, seen by a connection that is given up afterwards.
async fn faults(links: &Links, mut connection: PgConnection) -> Result<Vec<String>, StoreError> {
    links.run(&mut connection, SESSION).await.map_err(|trouble| trouble.error)?;
    let reading = async {
        let mut faults = vec![];
        for invariant in INVARIANTS {
            let mut rows = sqlx::query(*invariant).fetch(&mut connection).take(REPORTED);
            while let Some(row) = rows.next().await {
                faults.push(with_ids(&get::<String>(&row.map_err(|error| store_error(&error))?, 0)?));
            }
        }
        Ok(faults)
    };
    let read = timeout(MOST, reading).await;
    read.unwrap_or_else(|_| Err(StoreError::new(StoreFault::Unavailable, "the database takes too long to be read")))
}
