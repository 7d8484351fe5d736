//! Who the user is: the owner of an embedded server, and the sessions of browsers.

use contract::UserId;
use runtime::ports::store::{StoreError, StoreFault};

use super::column::{Key, bits, escape, int};
use super::links::Links;

/// Browser sessions of one user; those that end first make room.
const SESSIONS_PER_USER: i64 = 100;

/// The one user of an embedded server, made if there is none.
pub(super) async fn owner(links: &Links, fresh: UserId, at: u64) -> Result<UserId, StoreError> {
    let make = || {
        sqlx::query("INSERT INTO users (id, owner, created_at) VALUES ($1, TRUE, $2) ON CONFLICT (owner) DO NOTHING")
            .bind(Key(fresh.bits()))
            .bind(int(at))
    };
    if let Some(owner) = known_owner(links).await? {
        return Ok(owner);
    }
    links.write(make).await?;
    known_owner(links).await?.ok_or_else(|| StoreError::new(StoreFault::Damaged, "there is no owner"))
}

/// The same, if there is one.
pub(super) async fn known_owner(links: &Links) -> Result<Option<UserId>, StoreError> {
    let found = links.read(|| sqlx::query("SELECT id FROM users WHERE owner")).await?;
    found.first().map(|row| bits(row, 0).map(UserId::from_bits)).transpose()
}

/// Stores a session's token until a time; 0 ends it.
pub(super) async fn put_session(links: &Links, token: &str, user: UserId, until: u64) -> Result<(), StoreError> {
    let token = escape(token);
    if until == 0 {
        let ask = || sqlx::query("DELETE FROM sessions WHERE token_sha256 = $1").bind(&*token);
        return links.write(ask).await.map(drop);
    }
    // The new row is none of those that the deletion sees, so one fewer of them stays.
    let ask = || {
        sqlx::query(
            "WITH kept AS (
                 INSERT INTO sessions (token_sha256, user_id, until) VALUES ($1, $2, $3)
                 ON CONFLICT (token_sha256) DO UPDATE SET user_id = excluded.user_id, until = excluded.until
             )
             DELETE FROM sessions WHERE token_sha256 IN (
                 SELECT token_sha256 FROM sessions WHERE user_id = $2 AND token_sha256 <> $1 ORDER BY until DESC OFFSET $4
             )",
        )
        .bind(&*token)
        .bind(Key(user.bits()))
        .bind(int(until))
        .bind(SESSIONS_PER_USER - 1)
    };
    links.write(ask).await.map(drop)
}

/// The user of a session that has not ended.
pub(super) async fn session(links: &Links, token: &str, now_ms: u64) -> Result<Option<UserId>, StoreError> {
    let token = escape(token);
    let ask = || {
        sqlx::query("SELECT user_id FROM sessions WHERE token_sha256 = $1 AND until > $2")
            .bind(&*token)
            .bind(int(now_ms))
    };
    links.read(ask).await?.first().map(|row| bits(row, 0).map(UserId::from_bits)).transpose()
}
