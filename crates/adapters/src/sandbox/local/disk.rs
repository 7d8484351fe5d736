//! What a workspace takes on the disk, watched while a command runs. A plain folder has no quota that works on every file system.
//!
//! Looking through the folder is the only exact answer and costs time, so it is done only when the file system has lost as much
//! space as the workspace had left when it was last looked through: before that, it cannot be over.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{CWD, StatVfs};

use super::tree::{ENTRY_BYTES, open_folder, usage};

/// How often the file system is asked for its free space, which is cheap.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Watches one workspace during one command.
pub(super) struct DiskWatch {
    folders: Vec<PathBuf>,
    most_bytes: u64,
}

/// Space that is left on the file system, and how much of it the workspace could still take at that moment.
struct Looked {
    free: u64,
    room: u64,
}

impl DiskWatch {
    /// Watches folders that lie on one file system.
    pub(super) fn new(folders: Vec<PathBuf>, most_bytes: u64) -> Self {
        Self { folders, most_bytes }
    }

    /// Returns when the folders together take more than they may. A file system that cannot be asked is not watched.
    pub(super) async fn over(self) {
        let mut last: Option<Looked> = None;
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + LOOK_EVERY, LOOK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Ok(free) = self.free() else { return std::future::pending().await };
            if last.as_ref().is_some_and(|last| last.free.saturating_sub(free) < last.room) {
                continue;
            }
            let folders = self.folders.clone();
            #[expect(
                clippy::disallowed_methods,
                reason = "looking through a folder blocks; it is bounded by the watch's own limit"
            )]
            let taken = tokio::task::spawn_blocking(move || taken(&folders)).await;
            let taken = taken.map_err(io::Error::other).and_then(|taken| taken).unwrap_or(0);
            if taken > self.most_bytes {
                return;
            }
            last = Some(Looked { free, room: self.most_bytes - taken });
        }
    }

    /// Free space in bytes, where a free inode counts as what an entry is taken to cost.
    fn free(&self) -> io::Result<u64> {
        let folder = self.folders.first().ok_or(io::ErrorKind::NotFound)?;
        let StatVfs { f_bfree, f_frsize, f_ffree, .. } = rustix::fs::statvfs(folder)?;
        Ok(f_bfree.saturating_mul(f_frsize).saturating_add(f_ffree.saturating_mul(ENTRY_BYTES)))
    }
}

fn taken(folders: &[PathBuf]) -> io::Result<u64> {
    folders.iter().try_fold(0u64, |sum, folder| {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        let root: OwnedFd = rustix::fs::openat(CWD, folder, flags, rustix::fs::Mode::empty())?;
        Ok(sum.saturating_add(usage(open_folder(root, ".")?)?))
    })
}
