//! Values as columns: ids as 16 bytes, big endian, so that they sort by creation time; words as the API spells them.

use rusqlite::types::{FromSqlError, Type, ValueRef};
use rusqlite::{Error, Result, Row};
use serde::de::value::{Error as WordError, StrDeserializer};
use serde::{Serialize, de::DeserializeOwned};

/// An id as it is stored.
pub(super) fn key(bits: u128) -> [u8; 16] {
    bits.to_be_bytes()
}

/// The 128 bits of an id.
pub(super) fn bits(row: &Row<'_>, column: usize) -> Result<u128> {
    row.get::<_, [u8; 16]>(column).map(u128::from_be_bytes)
}

/// The 128 bits of an id that may be absent.
pub(super) fn some_bits(row: &Row<'_>, column: usize) -> Result<Option<u128>> {
    Ok(row.get::<_, Option<[u8; 16]>>(column)?.map(u128::from_be_bytes))
}

/// A count or a time as SQLite's signed integer. What does not fit is not a count of anything: it becomes the largest.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A count of items in memory as SQLite's signed integer.
pub(super) fn count(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A count or a time.
pub(super) fn uint(row: &Row<'_>, column: usize) -> Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| Error::IntegralValueOutOfRange(column, value))
}

/// A count or a time that may be absent.
pub(super) fn some_uint(row: &Row<'_>, column: usize) -> Result<Option<u64>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_) => uint(row, column).map(Some),
    }
}

/// A value of a closed set as its word.
pub(super) fn word(value: &impl Serialize) -> Result<String> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Ok(word),
        Ok(other) => Err(Error::ToSqlConversionFailure(format!("{other} is not a word").into())),
        Err(error) => Err(Error::ToSqlConversionFailure(error.into())),
    }
}

/// A value of a closed set from its word.
pub(super) fn from_word<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T> {
    let word = row.get_ref(column)?.as_str()?;
    T::deserialize(StrDeserializer::<WordError>::new(word))
        .map_err(|error| Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}

/// A value of a closed set that may be absent.
pub(super) fn some_word<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<Option<T>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        ValueRef::Text(_) => from_word(row, column).map(Some),
        ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => Err(FromSqlError::InvalidType.into()),
    }
}
