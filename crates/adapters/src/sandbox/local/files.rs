//! The host's hands in a project's folder: writing, reading, renaming and collecting files that a program inside may be tampering with.
//!
//! A path is never handed to the kernel whole without the promise that it stays below the project and follows no link (`openat2`). A file
//! appears by a rename from a folder that programs inside cannot see, so it is there whole or not at all.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use contract::ProjectPath;
use runtime::ports::sandbox::{FileStamp, SandboxError, Scan, ScanLimits};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::tree::{self, BENEATH, Entry, Next, open_folder, retry};

/// Where the template's dependencies are mounted: what the host would write below it could not be seen inside.
pub(super) const DEPENDENCIES: &str = "node_modules";
/// Folders that hold no files of the project, wherever they are.
const NOT_THE_PROJECT: &[&str] = &[DEPENDENCIES, ".git", ".cache", ".vite", ".next", ".turbo", ".parcel-cache"];
/// The build's output, at the top.
const BUILD_OUTPUT: &str = "dist";
/// Entries that are looked at for each file that is allowed, before a look is given up.
const ENTRIES_PER_FILE: u64 = 8;

/// A project's folder.
pub(super) struct ProjectFiles {
    root: OwnedFd,
    /// New files are written here first.
    stage: OwnedFd,
    /// Whose the files are to be, if not ours.
    owner: Option<u32>,
    next: AtomicU64,
}

impl ProjectFiles {
    /// The folder `root`; `stage` lies on the same file system.
    pub(super) fn new(root: OwnedFd, stage: OwnedFd, owner: Option<u32>) -> Self {
        Self { root, stage, owner, next: AtomicU64::new(0) }
    }

    /// Writes whole files.
    pub(super) fn write(&self, files: &[(ProjectPath, Bytes)]) -> Result<(), SandboxError> {
        files.iter().try_for_each(|(path, bytes)| self.write_one(path, bytes))
    }

    fn write_one(&self, path: &ProjectPath, bytes: &Bytes) -> Result<(), SandboxError> {
        let (folder, name) = self.folder_of(path, true)?;
        let staged = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let written = self
            .write_staged(&staged, bytes)
            .and_then(|()| rustix::fs::renameat(&self.stage, &staged, &folder, name).map_err(std::io::Error::from));
        written.map_err(|error| {
            let _ = rustix::fs::unlinkat(&self.stage, &staged, AtFlags::empty());
            refused(path, error)
        })
    }

    fn write_staged(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&self.stage, name, flags, Mode::from_raw_mode(0o644))?);
        file.write_all(bytes)?;
        Ok(self.give(&file)?)
    }

    fn give(&self, file: impl AsFd) -> Result<(), Errno> {
        match self.owner {
            Some(id) => {
                rustix::fs::fchown(file, Some(rustix::fs::Uid::from_raw(id)), Some(rustix::fs::Gid::from_raw(id)))
            }
            None => Ok(()),
        }
    }

    /// The folder that a path's last name is in, and that name.
    fn folder_of<'a>(&self, path: &'a ProjectPath, make: bool) -> Result<(OwnedFd, &'a str), SandboxError> {
        let (folders, name) = path.as_str().rsplit_once('/').unwrap_or((".", path.as_str()));
        if path.as_str().split('/').next() == Some(DEPENDENCIES) {
            return Err(bad(path, "the dependencies belong to the template"));
        }
        match open_folder(&self.root, folders) {
            Ok(folder) => return Ok((folder, name)),
            Err(Errno::NOENT) if make => {}
            Err(error) => return Err(refused(path, error.into())),
        }
        let mut folder = open_folder(&self.root, ".").map_err(|error| refused(path, error.into()))?;
        for step in folders.split('/') {
            folder = self.enter_or_make(&folder, step).map_err(|error| refused(path, error.into()))?;
        }
        Ok((folder, name))
    }

    fn enter_or_make(&self, folder: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
        match open_folder(folder, name) {
            Err(Errno::NOENT) => {}
            opened => return opened,
        }
        match rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        // Whatever has this name by now, a link is not followed.
        let made = open_folder(folder, name)?;
        self.give(&made)?;
        Ok(made)
    }

    /// Removes a file; false if there was none.
    pub(super) fn remove(&self, path: &ProjectPath) -> Result<bool, SandboxError> {
        let (folder, name) = match self.folder_of(path, false) {
            Err(SandboxError::NotFound(_)) => return Ok(false),
            found => found?,
        };
        match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(refused(path, error.into())),
        }
    }

    /// Renames a file or folder.
    pub(super) fn rename(&self, from: &ProjectPath, to: &ProjectPath) -> Result<(), SandboxError> {
        let (old_folder, old_name) = self.folder_of(from, false)?;
        // Before folders are made for it.
        rustix::fs::statat(&old_folder, old_name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| refused(from, error.into()))?;
        let (new_folder, new_name) = self.folder_of(to, true)?;
        rustix::fs::renameat(&old_folder, old_name, &new_folder, new_name).map_err(|error| match error {
            Errno::NOENT => SandboxError::NotFound(from.clone()),
            error => refused(to, error.into()),
        })
    }

    /// A file's bytes.
    pub(super) fn read(&self, path: &ProjectPath, most: u64) -> Result<Option<Bytes>, SandboxError> {
        match self.folder_of(path, false) {
            Err(SandboxError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
            Ok((folder, name)) => match read_regular(&folder, name, path, most) {
                Err(SandboxError::NotFound(_)) => Ok(None),
                read => read.map(Some),
            },
        }
    }

    /// The project's own files. Pipes, sockets and devices go: whoever reads them, such as a bundler, would wait for ever.
    pub(super) fn scan(&self, limits: ScanLimits) -> Result<Scan, SandboxError> {
        let mut scan = Scan::default();
        let mut budget = Budget::new(limits);
        let root = open_folder(&self.root, ".").map_err(|error| failed("looking through the project", error.into()))?;
        let ended = tree::walk(root, |entry| {
            if budget.entries_used_up() {
                return ControlFlow::Break(());
            }
            if entry.is_folder() {
                if entry.too_deep {
                    scan.skipped += 1;
                }
                return ControlFlow::Continue(if is_projects_folder(entry) { Next::Enter } else { Next::Skip });
            }
            match entry.path.and_then(|path| ProjectPath::parse(path).ok()) {
                Some(path) if entry.is_file() && size(&entry.stat) <= limits.file_bytes => {
                    if budget.take(size(&entry.stat)).is_err() {
                        return ControlFlow::Break(());
                    }
                    scan.files.insert(path, stamp(&entry.stat));
                }
                _ => {
                    scan.skipped += 1;
                    if entry.is_endless() {
                        // If it is gone already, so much the better.
                        let _ = rustix::fs::unlinkat(entry.folder, entry.name, AtFlags::empty());
                    }
                }
            }
            ControlFlow::Continue(Next::Skip)
        })
        .map_err(|error| failed("looking through the project", error))?;
        scan.truncated = ended.is_break();
        Ok(scan)
    }

    /// All regular files below a folder.
    pub(super) fn collect(
        &self,
        dir: &ProjectPath,
        limits: ScanLimits,
    ) -> Result<Vec<(ProjectPath, Bytes)>, SandboxError> {
        let (parent, name) = self.folder_of(dir, false)?;
        let root = open_folder(&parent, name).map_err(|error| refused(dir, error.into()))?;
        let mut budget = Budget::new(limits);
        let mut files = BTreeMap::new();
        let ended = tree::walk(root, |entry| {
            if budget.entries_used_up() {
                return ControlFlow::Break(over("the number of entries", limits.files, "files"));
            }
            if entry.is_folder() {
                return if entry.too_deep {
                    ControlFlow::Break(bad(dir, "its folders are nested too deeply"))
                } else {
                    ControlFlow::Continue(Next::Enter)
                };
            }
            // Links and pipes are no output.
            let path = entry.path.and_then(|path| ProjectPath::parse(path).ok());
            let Some(path) = path.filter(|_| entry.is_file()) else { return ControlFlow::Continue(Next::Skip) };
            match collect_one(entry, &path, &mut budget, limits) {
                Ok(bytes) => {
                    files.insert(path, bytes);
                    ControlFlow::Continue(Next::Skip)
                }
                Err(SandboxError::NotFound(_)) => ControlFlow::Continue(Next::Skip),
                Err(error) => ControlFlow::Break(error),
            }
        })
        .map_err(|error| failed("collecting files", error))?;
        match ended {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(files.into_iter().collect()),
        }
    }
}

fn collect_one(
    entry: &Entry<'_>,
    path: &ProjectPath,
    budget: &mut Budget,
    limits: ScanLimits,
) -> Result<Bytes, SandboxError> {
    let bytes = read_regular(entry.folder, entry.name, path, limits.file_bytes)?;
    budget.take(bytes.len() as u64)?;
    Ok(bytes)
}

fn is_projects_folder(entry: &Entry<'_>) -> bool {
    let name = entry.name.to_bytes();
    let other = NOT_THE_PROJECT.iter().any(|other| other.as_bytes() == name);
    !other && entry.path != Some(BUILD_OUTPUT)
}

fn read_regular<P: rustix::path::Arg + Copy>(
    folder: impl AsFd,
    name: P,
    path: &ProjectPath,
    most: u64,
) -> Result<Bytes, SandboxError> {
    // Without waiting: opening a pipe would hang until someone writes to it.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = retry(|| rustix::fs::openat2(folder.as_fd(), name, flags, Mode::empty(), BENEATH));
    let file = opened.map_err(|error| refused(path, error.into()))?;
    let stat = rustix::fs::fstat(&file).map_err(|error| refused(path, error.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(bad(path, "it is not a regular file"));
    }
    let too_large = || over(&format!("`{path}`"), most, "bytes");
    if size(&stat) > most {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size(&stat)).unwrap_or(0));
    // It may grow while it is read.
    File::from(file).take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| refused(path, error))?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes.into()) }
}

fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// A program may set a file's modification time, but not the time of its last change.
fn stamp(stat: &Stat) -> FileStamp {
    let changed =
        |seconds: i64, nanoseconds: u64| seconds.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(nanoseconds);
    FileStamp {
        bytes: size(stat),
        fingerprint: [
            stat.st_ino,
            changed(stat.st_mtime, stat.st_mtime_nsec),
            changed(stat.st_ctime, stat.st_ctime_nsec),
        ],
    }
}

/// What a look has left.
struct Budget {
    limits: ScanLimits,
    files: u64,
    bytes: u64,
    entries: u64,
}

impl Budget {
    fn new(limits: ScanLimits) -> Self {
        Self { limits, files: 0, bytes: 0, entries: 0 }
    }

    fn entries_used_up(&mut self) -> bool {
        self.entries += 1;
        self.entries > self.limits.files.saturating_mul(ENTRIES_PER_FILE)
    }

    fn take(&mut self, bytes: u64) -> Result<(), SandboxError> {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.files > self.limits.files {
            return Err(over("the number of files", self.limits.files, "files"));
        }
        if self.bytes > self.limits.bytes {
            return Err(over("all files together", self.limits.bytes, "bytes"));
        }
        Ok(())
    }
}

fn over(what: &str, most: u64, unit: &'static str) -> SandboxError {
    SandboxError::TooLarge { what: what.to_owned(), most, unit }
}

fn bad(path: &ProjectPath, reason: &str) -> SandboxError {
    SandboxError::BadPath { path: path.to_string(), reason: reason.to_owned() }
}

/// What the system said about a path, in the project's terms.
fn refused(path: &ProjectPath, error: std::io::Error) -> SandboxError {
    match Errno::from_io_error(&error) {
        Some(Errno::NOENT) => SandboxError::NotFound(path.clone()),
        Some(Errno::LOOP | Errno::XDEV) => bad(path, "a symbolic link is on the way"),
        Some(Errno::NOTDIR) => bad(path, "a file is where a folder must be"),
        Some(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => bad(path, "it is a folder"),
        Some(Errno::INVAL) => bad(path, "a folder cannot be moved into itself"),
        Some(Errno::NXIO) => bad(path, "it is not a regular file"),
        Some(Errno::NAMETOOLONG) => bad(path, "a name in it is too long"),
        Some(Errno::ACCESS | Errno::PERM) => bad(path, "its folder or file does not allow it"),
        _ => failed(&format!("handling `{path}`"), error),
    }
}

/// A failure that is not the caller's.
pub(super) fn failed(doing: &str, error: std::io::Error) -> SandboxError {
    SandboxError::Failed { doing: doing.to_owned(), cause: error.to_string() }
}
