//! Content-addressed objects `ab/cdef…` in a folder (or, later, in a bucket).
//!
//! The `object_store` crate does the writing: it stages a file, syncs it, renames it and syncs the folder (`with_fsync`), so an
//! object is durable and whole before anything can refer to it. What it leaves open is closed here:
//! - It syncs new folders after it has made them, so of two writers the second could find a folder whose entry is not on the
//!   disk yet. All 256 are made, and synced, before the first object.
//! - That an object is there does not prove that it is durable: its writer may not have synced yet. So a write is left out only
//!   if this process has already finished the same one; everything else is written again, which also mends a damaged object.
//! - It does not know what the bytes should be. Their hash is checked with each read.
#![expect(clippy::disallowed_methods, reason = "makes the folders; hashing blocks and is awaited by its caller")]

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Location;
use object_store::{Error, ObjectStore, ObjectStoreExt};
use runtime::ports::objects::{Objects, ObjectsError};
use sha2::{Digest, Sha256};
use thiserror::Error as ThisError;

/// Hashes of objects that this process has stored, so that they are not stored again: 2 MiB of memory at the most.
const REMEMBERED: usize = 65_536;
/// Bytes from which on hashing is done on a blocking thread: about 0.1 ms of work.
const HASHED_ELSEWHERE: usize = 128 * 1024;

/// A SHA-256.
type Hash = [u8; 32];

/// Why the folder of objects could not be opened.
#[derive(Debug, ThisError)]
#[error("cannot keep objects in {}: {source}", dir.display())]
pub struct OpenObjectsError {
    /// The folder.
    pub dir: PathBuf,
    /// Why not.
    pub source: io::Error,
}

impl OpenObjectsError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        "objects_unusable"
    }

    /// What the person can do.
    pub fn action(&self) -> &'static str {
        "Check that the data folder is on a local disk with free space and belongs to you."
    }
}

/// Objects that are found by the hash of their bytes.
pub struct AddressedObjects {
    store: Arc<dyn ObjectStore>,
    stored: Mutex<HashSet<Hash>>,
}

impl AddressedObjects {
    /// Opens or makes a folder of objects.
    ///
    /// # Errors
    /// The folder cannot be made or written to.
    pub fn local(dir: &Path) -> Result<Self, OpenObjectsError> {
        let failed = |source| OpenObjectsError { dir: dir.to_owned(), source };
        let make = || -> io::Result<()> {
            for shard in 0..=u8::MAX {
                fs::create_dir_all(dir.join(format!("{shard:02x}")))?;
            }
            File::open(dir)?.sync_all()?;
            // The folder's own entry is in its parent.
            File::open(dir.join(".."))?.sync_all()
        };
        make().map_err(failed)?;
        Self::look(dir)
    }

    /// Opens a folder of objects as it is, to read what there is in it: nothing is made.
    ///
    /// # Errors
    /// There is no such folder.
    pub fn look(dir: &Path) -> Result<Self, OpenObjectsError> {
        let failed = |source| OpenObjectsError { dir: dir.to_owned(), source };
        fs::read_dir(dir).map_err(failed)?;
        let store = LocalFileSystem::new_with_prefix(dir).map_err(|error| failed(io::Error::other(error)))?;
        Ok(Self { store: Arc::new(store.with_fsync(true)), stored: Mutex::default() })
    }

    fn remembers(&self, hash: &Hash) -> bool {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner).contains(hash)
    }

    fn remember(&self, hash: Hash) {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        if stored.len() >= REMEMBERED {
            stored.clear();
        }
        stored.insert(hash);
    }
}

#[async_trait]
impl Objects for AddressedObjects {
    async fn put(&self, bytes: Bytes) -> Result<String, ObjectsError> {
        let hash = hash(&bytes).await?;
        let text = hex(&hash);
        let location = location(&text);
        if self.remembers(&hash) {
            match self.store.head(&location).await {
                Ok(_) => return Ok(text),
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(unavailable(error)),
            }
        }
        self.store.put(&location, bytes.into()).await.map_err(unavailable)?;
        self.remember(hash);
        Ok(text)
    }

    async fn get(&self, sha256: &str) -> Result<Option<Bytes>, ObjectsError> {
        if sha256.len() != 64 || !sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(ObjectsError::BadHash(sha256.chars().take(80).collect()));
        }
        let found = match self.store.get(&location(sha256)).await {
            Ok(found) => found,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(unavailable(error)),
        };
        let bytes = found.bytes().await.map_err(unavailable)?;
        match hex(&hash(&bytes).await?) == sha256 {
            true => Ok(Some(bytes)),
            false => Err(ObjectsError::Damaged(sha256.to_owned())),
        }
    }
}

fn location(sha256: &str) -> Location {
    let (shard, rest) = sha256.split_at(2);
    Location::from_iter([shard, rest])
}

async fn hash(bytes: &Bytes) -> Result<Hash, ObjectsError> {
    if bytes.len() < HASHED_ELSEWHERE {
        return Ok(Sha256::digest(bytes).into());
    }
    let bytes = bytes.clone();
    let hashed = tokio::task::spawn_blocking(move || Sha256::digest(&bytes).into()).await;
    hashed.map_err(|error| ObjectsError::Unavailable(format!("hashing did not end: {error}")))
}

fn hex(hash: &Hash) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    hash.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn unavailable(error: Error) -> ObjectsError {
    ObjectsError::Unavailable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_damaged_object_is_never_given_and_storing_it_again_mends_it() {
        let dir = tempfile::tempdir().unwrap();
        let objects = AddressedObjects::local(dir.path()).unwrap();
        let bytes = Bytes::from_static(b"a file of a version");
        let name = objects.put(bytes.clone()).await.unwrap();
        let file = dir.path().join(&name[..2]).join(&name[2..]);

        fs::write(&file, b"a file of a versiom").unwrap();
        assert!(matches!(objects.get(&name).await, Err(ObjectsError::Damaged(_))));
        // Whoever stores it next is another process as a rule; this one trusts what it has stored itself.
        let restarted = AddressedObjects::local(dir.path()).unwrap();
        restarted.put(bytes.clone()).await.unwrap();
        assert_eq!(objects.get(&name).await.unwrap(), Some(bytes.clone()));

        fs::remove_file(&file).unwrap();
        objects.put(bytes.clone()).await.unwrap();
        assert_eq!(objects.get(&name).await.unwrap(), Some(bytes), "stored again, although it is remembered");
    }
}
