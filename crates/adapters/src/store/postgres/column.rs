//! Values as columns: ids as UUIDs, words as the API spells them, free text escaped.

use std::borrow::Cow;

use runtime::ports::store::{StoreError, StoreFault};
use serde::de::value::{Error as WordError, StrDeserializer};
use serde::{Serialize, de::DeserializeOwned};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgRow, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Row, Type};

/// PostgreSQL's own numbers of its types `uuid` and `uuid[]`.
const UUID: Oid = Oid(2950);
const UUIDS: Oid = Oid(2951);

/// An id as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(pub(super) u128);

impl Type<Postgres> for Key {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(UUID)
    }

    fn compatible(found: &PgTypeInfo) -> bool {
        found.oid() == Some(UUID)
    }
}

impl PgHasArrayType for Key {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(UUIDS)
    }
}

impl Encode<'_, Postgres> for Key {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buf.extend_from_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for Key {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(Self(u128::from_be_bytes(value.as_bytes()?.try_into()?)))
    }
}

/// A count or a time as PostgreSQL's signed integer. What does not fit is not a count of anything: it becomes the largest.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A count of items in memory as PostgreSQL's signed integer.
pub(super) fn count(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A time or a span whose sum with another fits.
pub(super) fn addend(value: u64) -> i64 {
    int(value).min(i64::MAX / 2)
}

/// A column's value. Only a schema that is not this program's can fail here.
pub(super) fn get<'r, T>(row: &'r PgRow, column: usize) -> Result<T, StoreError>
where
    T: Decode<'r, Postgres> + Type<Postgres>,
{
    row.try_get(column).map_err(|error| match error {
        // What it says may be the value itself.
        sqlx::Error::ColumnDecode { .. } => damaged(column),
        other => StoreError::new(StoreFault::Damaged, format!("column {column}: {other}")),
    })
}

fn damaged(column: usize) -> StoreError {
    StoreError::new(StoreFault::Damaged, format!("column {column} does not hold what is written there"))
}

/// The 128 bits of an id.
pub(super) fn bits(row: &PgRow, column: usize) -> Result<u128, StoreError> {
    get::<Key>(row, column).map(|key| key.0)
}

/// The 128 bits of an id that may be absent.
pub(super) fn some_bits(row: &PgRow, column: usize) -> Result<Option<u128>, StoreError> {
    Ok(get::<Option<Key>>(row, column)?.map(|key| key.0))
}

/// A count or a time.
pub(super) fn uint(row: &PgRow, column: usize) -> Result<u64, StoreError> {
    u64::try_from(get::<i64>(row, column)?).map_err(|_| damaged(column))
}

/// A count or a time that may be absent.
pub(super) fn some_uint(row: &PgRow, column: usize) -> Result<Option<u64>, StoreError> {
    get::<Option<i64>>(row, column)?.map(|value| u64::try_from(value).map_err(|_| damaged(column))).transpose()
}

/// A small count.
pub(super) fn small(row: &PgRow, column: usize) -> Result<u32, StoreError> {
    u32::try_from(get::<i64>(row, column)?).map_err(|_| damaged(column))
}

/// A value of a closed set as its word.
pub(super) fn word(value: &impl Serialize) -> Result<String, StoreError> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Ok(word),
        Ok(_) | Err(_) => Err(StoreError::new(StoreFault::Refused, "a value is not a word")),
    }
}

/// A value of a closed set from its word.
pub(super) fn from_word<T: DeserializeOwned>(row: &PgRow, column: usize) -> Result<T, StoreError> {
    parse_word(get(row, column)?, column)
}

/// A value of a closed set that may be absent.
pub(super) fn some_word<T: DeserializeOwned>(row: &PgRow, column: usize) -> Result<Option<T>, StoreError> {
    get::<Option<&str>>(row, column)?.map(|word| parse_word(word, column)).transpose()
}

fn parse_word<T: DeserializeOwned>(word: &str, column: usize) -> Result<T, StoreError> {
    T::deserialize(StrDeserializer::<WordError>::new(word)).map_err(|_| damaged(column))
}

/// Begins an escape: a character that texts do not have, and that means just this.
const ESCAPE: char = '\u{10}';

/// Free text as PostgreSQL can hold it, which knows no zero character. The escape of two texts one after the other is that of both
/// together, so pieces can be joined where they are stored.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    match text.contains(['\0', ESCAPE]) {
        false => Cow::Borrowed(text),
        true => Cow::Owned(text.replace(ESCAPE, "\u{10}\u{10}").replace('\0', "\u{10}0")),
    }
}

/// The text that was escaped.
pub(super) fn unescape(stored: &str) -> String {
    let mut text = String::with_capacity(stored.len());
    let mut rest = stored;
    while let Some((plain, escaped)) = rest.split_once(ESCAPE) {
        text.push_str(plain);
        let mut characters = escaped.chars();
        text.extend(characters.next().map(|character| if character == '0' { '\0' } else { character }));
        rest = characters.as_str();
    }
    text.push_str(rest);
    text
}

/// Free text.
pub(super) fn text(row: &PgRow, column: usize) -> Result<String, StoreError> {
    get(row, column).map(unescape)
}

/// Free text that may be absent.
pub(super) fn some_text(row: &PgRow, column: usize) -> Result<Option<String>, StoreError> {
    Ok(get::<Option<&str>>(row, column)?.map(unescape))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_escaped_comes_back_and_pieces_can_be_joined(pieces in prop::collection::vec("[a0\u{0}\u{10}é]{0,6}", 0..5)) {
            let stored: String = pieces.iter().map(|piece| escape(piece)).collect();
            prop_assert!(!stored.contains('\0'));
            prop_assert_eq!(unescape(&stored), pieces.concat());
        }
    }
}
