//! The note that a running server leaves in its data folder, so that commands find it.
//!
//! A lock on it tells a living server from one that is gone: the kernel releases it however the process ended.

#![expect(clippy::disallowed_methods, reason = "owns the notes")]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

/// Longest note, in bytes.
const BYTES: u64 = 64 * 1024;

/// What a running server writes into its data folder, so that commands find it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Its machine: the folder may be several machines', the address is good on this one.
    #[serde(default)]
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// Its address, without a slash at the end.
    pub url: String,
}

/// A note that stands for as long as this is held.
#[derive(Debug)]
pub struct Note {
    pub(super) path: PathBuf,
    file: File,
}

impl Note {
    /// Writes a note in the place of one that a server left which is gone.
    pub(super) fn write(path: PathBuf, running: &Running) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let fresh = path.with_extension(format!("new-{}", running.pid));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        // Before anybody can see it.
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(&serde_json::to_vec(running)?)?;
        fs::rename(&fresh, &path)?;
        Ok(Self { path, file })
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let same = |(a, b): (fs::Metadata, fs::Metadata)| (a.dev(), a.ino()) == (b.dev(), b.ino());
        // Another server may have written its own here meanwhile.
        if fs::metadata(&self.path).ok().zip(self.file.metadata().ok()).is_some_and(same) {
            // Whoever finds one that was left sees that nobody holds it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A note, and whether its server lives.
pub(super) fn read(path: &Path) -> Option<(Running, bool)> {
    let file = File::open(path).ok()?;
    let mut text = Vec::new();
    (&file).take(BYTES).read_to_end(&mut text).ok()?;
    let lives = match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => false,
        Err(error) => io::Error::from(error).kind() == ErrorKind::WouldBlock,
    };
    Some((serde_json::from_slice(&text).ok()?, lives))
}
