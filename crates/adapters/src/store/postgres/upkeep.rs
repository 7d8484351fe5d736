//! Looking after the database: does it hold together.

use runtime::ports::store::StoreError;

use super::Postgres;
use super::column::get;

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

impl Postgres {
    /// Reads the whole database as it is at one moment and gives what does not hold together, one line per fault; nothing if all
    /// is well.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn check(&self) -> Result<Vec<String>, StoreError> {
        let mut faults = vec![];
        let mut moment = self.links.moment().await?;
        for invariant in INVARIANTS {
            for row in moment.rows(sqlx::query(*invariant)).await?.iter().take(REPORTED) {
                faults.push(get(row, 0)?);
            }
        }
        moment.end().await?;
        Ok(faults)
    }
}
