//! The folder of one running sandbox, and the removal of those that were left behind.
//!
//! Several processes may share a data folder, each with an instance of its own. A lock tells a living instance from a dead one: the
//! kernel releases it however the process ended. What is living is touched by nobody else.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, FlockOperation, Mode, OFlags, flock};

use super::tree;

const LOCK: &str = "lock";

/// A folder that is ours until this is dropped.
pub(super) struct Instance {
    folder: PathBuf,
    _lock: OwnedFd,
}

impl Instance {
    /// Removes what dead instances left below `base`, and makes a folder of our own.
    #[expect(clippy::disallowed_methods, reason = "makes the sandbox's folder below the data folder")]
    pub(super) fn start(base: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(base)?;
        let all = open(base)?;
        rustix::fs::fchmod(&all, Mode::RWXU)?;
        // One starts at a time, so that a folder without a lock yet is not taken for a dead one's.
        flock(&all, FlockOperation::LockExclusive)?;
        remove_dead(&all);
        let mut number = std::process::id();
        let name = loop {
            let name = number.to_string();
            match rustix::fs::mkdirat(&all, &name, Mode::RWXU) {
                Err(rustix::io::Errno::EXIST) => number = number.wrapping_add(1),
                made => break made.map(|()| name)?,
            }
        };
        let folder = base.join(name);
        let lock = lock_file(&open(&folder)?, OFlags::CREATE)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { folder, _lock: lock })
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let removed = self.folder.parent().zip(self.folder.file_name()).map(|(base, name)| -> io::Result<()> {
            let all = open(base)?;
            // Half removed, it has no lock and would be removed by one that starts now, too.
            flock(&all, FlockOperation::LockExclusive)?;
            tree::remove(&all, &CString::new(name.as_encoded_bytes())?)
        });
        if let Some(Err(error)) = removed {
            tracing::warn!(%error, "the sandbox's folder could not be removed; the next start does it");
        }
    }
}

fn open(folder: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(CWD, folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

fn lock_file(folder: &OwnedFd, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, LOCK, flags, Mode::RUSR | Mode::WUSR)
}

/// Removes what can be removed: what is left over costs room, and is no reason not to start.
fn remove_dead(all: &OwnedFd) {
    let entries = Dir::read_from(all).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        if entry.file_type() != FileType::Directory || matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let alive = match tree::open_folder(all, name).and_then(|folder| lock_file(&folder, OFlags::empty())) {
            Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err(),
            Err(rustix::io::Errno::NOENT) => false,
            Err(_) => true,
        };
        if !alive && let Err(error) = tree::remove(all, name) {
            tracing::warn!(?name, %error, "what a dead sandbox left could not be removed");
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test prepares and looks at folders")]
mod tests {
    use super::*;

    #[test]
    fn a_living_instance_keeps_its_folder_and_a_dead_one_loses_it() {
        let base = tempfile::tempdir().unwrap();
        let living = Instance::start(base.path()).unwrap();
        let dead = base.path().join("7");
        std::fs::create_dir_all(dead.join("1/project/src")).unwrap();
        std::fs::write(dead.join(LOCK), "").unwrap();
        std::fs::write(dead.join("1/project/src/App.tsx"), "x").unwrap();
        let second = Instance::start(base.path()).unwrap();
        assert!(living.folder().exists() && second.folder().exists() && !dead.exists());
        let gone = living.folder().to_owned();
        drop(living);
        assert!(!gone.exists() && second.folder().exists());
    }

    #[test]
    fn instances_that_come_and_go_at_once_leave_each_other_alone() {
        let base = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..50 {
                        let instance = Instance::start(base.path()).unwrap();
                        let file = instance.folder().join(format!("{round}"));
                        std::fs::create_dir(instance.folder().join("0-1-0")).unwrap();
                        std::fs::write(&file, "x").unwrap();
                        assert!(file.exists() && instance.folder().join(LOCK).exists());
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
    }
}
