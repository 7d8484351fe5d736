//! How SQLite's errors become the port's: by kind, with what SQLite says and without data.

use runtime::ports::store::{StoreError, StoreFault};
use rusqlite::ErrorCode;
use serde::Serialize;

/// Why a piece of work in a transaction ended early: the database failed, or the request is refused.
pub(super) enum Failure<E> {
    /// The database failed.
    Sql(rusqlite::Error),
    /// The request is refused with the caller's own error.
    Refused(E),
}

impl<E> From<rusqlite::Error> for Failure<E> {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// SQLite's error as the port's.
pub(super) fn store_error(error: &rusqlite::Error) -> StoreError {
    let fault = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreFault::Full,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreFault::Damaged,
        Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig | ErrorCode::ApiMisuse) => {
            StoreFault::Refused
        }
        Some(_) => StoreFault::Unavailable,
        // Not SQLite's: a column did not hold what this program writes there.
        None => StoreFault::Damaged,
    };
    StoreError::new(fault, format!("SQLite: {error}"))
}

/// A value as JSON. Only a fault of the value's own type can fail here.
pub(super) fn json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::new(StoreFault::Refused, format!("JSON: {error}")))
}
