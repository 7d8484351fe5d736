//! Who the user is: the owner of an embedded server, and the sessions of browsers.

use contract::UserId;
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::column::{bits, int, key};

/// Browser sessions of one user; those that end first make room.
const SESSIONS_PER_USER: i64 = 100;

/// The one user of an embedded server, made if there is none.
pub(super) fn owner(db: &Connection, fresh: UserId, at: u64) -> Result<UserId> {
    db.prepare_cached("INSERT INTO users (id, owner, created_at) VALUES (?1, 1, ?2) ON CONFLICT (owner) DO NOTHING")?
        .execute(params![key(fresh.bits()), int(at)])?;
    db.prepare_cached("SELECT id FROM users WHERE owner = 1")?.query_row([], |row| bits(row, 0).map(UserId::from_bits))
}

/// The same, if there is one.
pub(super) fn known_owner(db: &Connection) -> Result<Option<UserId>> {
    db.prepare_cached("SELECT id FROM users WHERE owner = 1")?
        .query_row([], |row| bits(row, 0).map(UserId::from_bits))
        .optional()
}

/// Stores a session's token until a time; 0 ends it.
pub(super) fn put_session(db: &Connection, token: &str, user: UserId, until: u64) -> Result<()> {
    if until == 0 {
        db.prepare_cached("DELETE FROM sessions WHERE token_sha256 = ?1")?.execute([token])?;
        return Ok(());
    }
    db.prepare_cached(
        "INSERT INTO sessions (token_sha256, user_id, until) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET user_id = excluded.user_id, until = excluded.until",
    )?
    .execute(params![token, key(user.bits()), int(until)])?;
    db.prepare_cached(
        "DELETE FROM sessions WHERE user_id = ?1 AND token_sha256 NOT IN
         (SELECT token_sha256 FROM sessions WHERE user_id = ?1 ORDER BY until DESC LIMIT ?2)",
    )?
    .execute(params![key(user.bits()), SESSIONS_PER_USER])?;
    Ok(())
}

/// The user of a session that has not ended.
pub(super) fn session(db: &Connection, token: &str, now_ms: u64) -> Result<Option<UserId>> {
    db.prepare_cached("SELECT user_id FROM sessions WHERE token_sha256 = ?1 AND until > ?2")?
        .query_row(params![token, int(now_ms)], |row| bits(row, 0).map(UserId::from_bits))
        .optional()
}
