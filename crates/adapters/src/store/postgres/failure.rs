//! How errors become the port's: by kind, with the server's code and without data, addresses or passwords.

use runtime::ports::store::{StoreError, StoreFault};
use serde::Serialize;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// What an error says of the statement that met it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was not done, and the connection is as good as before.
    Undone,
    /// The same, and only because of what others did at the same moment: it can be done again.
    Again,
    /// The connection is gone; whether it was done is unknown.
    Unknown,
}

/// Codes of the server, by class or whole (PostgreSQL documentation, appendix A).
const NO_ROOM: &[&str] = &["53100"];
const DAMAGED: &[&str] = &["XX001", "XX002", "42P01", "42703", "42883"];
const REFUSED: &[&str] = &["22", "23", "42", "54"];
const AGAIN: &[&str] = &["40001", "40P01"];

fn is(code: &str, of: &[&str]) -> bool {
    of.iter().any(|start| code.starts_with(start))
}

/// What became of the statement.
pub(super) fn fate(error: &sqlx::Error) -> Fate {
    match server(error) {
        Some(error) if ends_the_session(error) => Fate::Unknown,
        Some(error) if is(error.code(), AGAIN) => Fate::Again,
        Some(_) => Fate::Undone,
        None => Fate::Unknown,
    }
}

fn server(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    match error {
        sqlx::Error::Database(error) => error.try_downcast_ref(),
        _ => None,
    }
}

/// The server closes the connection after saying so, perhaps between a commit and its answer.
fn ends_the_session(error: &PgDatabaseError) -> bool {
    matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic)
}

/// The port's error.
pub(super) fn store_error(error: &sqlx::Error) -> StoreError {
    if let Some(error) = server(error) {
        let code = error.code();
        let fault = match code {
            _ if is(code, NO_ROOM) => StoreFault::Full,
            _ if is(code, DAMAGED) => StoreFault::Damaged,
            _ if is(code, REFUSED) => StoreFault::Refused,
            _ => StoreFault::Unavailable,
        };
        // What the server says of a value holds the value.
        let said = match fault {
            StoreFault::Refused => error.constraint().unwrap_or("the statement is refused"),
            StoreFault::Full
            | StoreFault::Unavailable
            | StoreFault::Damaged
            | StoreFault::Stopped
            | StoreFault::BadCursor => error.message(),
        };
        return StoreError::new(fault, format!("PostgreSQL: {code}: {said}"));
    }
    match error {
        sqlx::Error::Io(error) => unavailable(&format!("the connection failed: {error}")),
        sqlx::Error::Tls(_) => unavailable("the connection cannot be encrypted"),
        sqlx::Error::Protocol(_) => unavailable("the server's answer is not understood"),
        sqlx::Error::Configuration(_) => unavailable("the server asks for what is not configured"),
        _ => unavailable("the connection failed"),
    }
}

/// The server cannot be asked, or does not answer.
pub(super) fn unavailable(why: &str) -> StoreError {
    StoreError::new(StoreFault::Unavailable, format!("PostgreSQL: {why}"))
}

/// A value as JSON. Only a fault of the value's own type can fail here.
pub(super) fn json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::new(StoreFault::Refused, format!("JSON: {error}")))
}
