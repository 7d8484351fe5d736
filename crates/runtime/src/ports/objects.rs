//! Bytes by their hash: files of versions and of builds. Content-addressed, so a write is idempotent and needs no lock.

use async_trait::async_trait;
use bytes::Bytes;
use thiserror::Error;

/// Why an object could not be stored or read.
#[derive(Debug, Error)]
pub enum ObjectsError {
    /// The text is not 64 hexadecimal digits.
    #[error("`{0}` is not a SHA-256 in hexadecimal")]
    BadHash(String),
    /// What was stored under the hash is something else.
    #[error("object {0} is damaged: its bytes do not have that hash")]
    Damaged(String),
    /// The place where objects are kept failed.
    #[error("the object store failed: {0}")]
    Unavailable(String),
}

/// Where objects are kept.
#[async_trait]
pub trait Objects: Send + Sync {
    /// Stores bytes durably and gives their SHA-256 in hexadecimal. Storing them again changes nothing.
    async fn put(&self, bytes: Bytes) -> Result<String, ObjectsError>;

    /// The bytes with that SHA-256, or none; never other bytes.
    async fn get(&self, sha256: &str) -> Result<Option<Bytes>, ObjectsError>;
}
