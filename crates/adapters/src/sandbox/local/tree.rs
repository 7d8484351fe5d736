//! Looking through folders that a program may have filled with anything: links, pipes, endless depth, names that are no text.
//!
//! Everything goes through descriptors of folders, one level at a time, without following a link; nothing is opened to find out what it
//! is. Removing works on any tree, however deep, with two open folders.

use std::ffi::{CStr, CString};
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// Folders below each other that are looked into.
const DEPTH: usize = 64;
/// What a file or folder is taken to cost on the disk beside its content, in bytes.
pub(super) const ENTRY_BYTES: u64 = 4_096;
/// A block of `st_blocks`, in bytes.
const BLOCK_BYTES: u64 = 512;

/// Rules for every path that a program may have prepared: stay below, follow nothing, stay on the file system.
pub(super) const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Something in a folder.
pub(super) struct Entry<'a> {
    /// Its path from where the walk began, if its names are text.
    pub path: Option<&'a str>,
    /// The folder that it is in.
    pub folder: BorrowedFd<'a>,
    /// Its name.
    pub name: &'a CStr,
    /// What it is.
    pub stat: Stat,
    /// Whether it lies as deep as the walk goes, so that it is not looked into.
    pub too_deep: bool,
}

impl Entry<'_> {
    /// Whether it is a regular file.
    pub(super) fn is_file(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::RegularFile
    }

    /// Whether it is a folder.
    pub(super) fn is_folder(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory
    }
}

/// What to do after an entry.
pub(super) enum Next {
    /// Look into it if it is a folder.
    Enter,
    /// Leave it out.
    Skip,
}

/// Opens a folder by a path below another.
pub(super) fn open_folder<P: rustix::path::Arg + Copy>(base: impl AsFd, path: P) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    retry(|| rustix::fs::openat2(base.as_fd(), path, flags, Mode::empty(), BENEATH))
}

/// `openat2` asks to be called again when something is renamed meanwhile. A program that renames for ever gets an error.
pub(super) fn retry<T>(call: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    const TIMES: usize = 32;
    for _ in 1..TIMES {
        match call() {
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
    call()
}

struct Level {
    entries: Dir,
    /// Length of the path up to this folder; none if it is not text.
    path: Option<usize>,
}

/// Visits everything below a folder, parents before children. What vanishes meanwhile is left out.
pub(super) fn walk<B>(
    root: OwnedFd,
    mut visit: impl FnMut(&Entry<'_>) -> ControlFlow<B, Next>,
) -> io::Result<ControlFlow<B>> {
    let mut path = String::new();
    let mut levels = vec![Level { entries: Dir::new(root)?, path: Some(0) }];
    loop {
        let too_deep = levels.len() >= DEPTH;
        let Some(level) = levels.last_mut() else { return Ok(ControlFlow::Continue(())) };
        let Some(entry) = level.entries.next() else {
            levels.pop();
            continue;
        };
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let folder = level.entries.fd()?;
        let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let text = level.path.zip(name.to_str().ok()).map(|(length, name)| {
            path.truncate(length);
            if length > 0 {
                path.push('/');
            }
            path.push_str(name);
            path.len()
        });
        let visited = Entry { path: text.map(|_| path.as_str()), folder, name, stat, too_deep };
        match visit(&visited) {
            ControlFlow::Break(value) => return Ok(ControlFlow::Break(value)),
            ControlFlow::Continue(Next::Enter) if visited.is_folder() && !too_deep => {
                if let Ok(inner) = open_folder(folder, name) {
                    levels.push(Level { entries: Dir::new(inner)?, path: text });
                }
            }
            ControlFlow::Continue(Next::Enter | Next::Skip) => {}
        }
    }
}

/// What a tree takes on the disk, in bytes; the greatest number if it is too deep to tell.
pub(super) fn usage(root: OwnedFd) -> io::Result<u64> {
    let mut bytes: u64 = 0;
    let ended = walk(root, |entry| {
        if entry.is_folder() && entry.too_deep {
            return ControlFlow::Break(());
        }
        let blocks = u64::try_from(entry.stat.st_blocks).unwrap_or(0);
        bytes = bytes.saturating_add(blocks.saturating_mul(BLOCK_BYTES)).saturating_add(ENTRY_BYTES);
        ControlFlow::Continue(Next::Enter)
    })?;
    Ok(if ended.is_break() { u64::MAX } else { bytes })
}

/// Gives everything in a tree to a user, the root last, so that its owner tells whether the work was finished.
pub(super) fn give_to(root: OwnedFd, id: u32) -> io::Result<()> {
    let (uid, gid) = (rustix::fs::Uid::from_raw(id), rustix::fs::Gid::from_raw(id));
    let whole = rustix::io::dup(&root)?;
    let failed = walk(root, |entry| {
        match rustix::fs::chownat(entry.folder, entry.name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(()) => ControlFlow::Continue(Next::Enter),
            Err(error) => ControlFlow::Break(error),
        }
    })?;
    if let ControlFlow::Break(error) = failed {
        return Err(error.into());
    }
    Ok(rustix::fs::fchown(whole, Some(uid), Some(gid))?)
}

/// Removes a folder with everything in it. No program may be at work in it any more.
///
/// Depth costs nothing: folders inside folders are moved up to the top until none is left.
pub(super) fn remove(parent: impl AsFd, name: &CStr) -> io::Result<()> {
    let top = match open_to_empty(parent.as_fd(), name) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    let mut next_name = 0u64;
    loop {
        let mut found = false;
        for entry in names(&top)? {
            found = true;
            if unlink(top.as_fd(), &entry)? {
                continue;
            }
            let folder = open_to_empty(top.as_fd(), &entry)?;
            for inner in names(&folder)? {
                if !unlink(folder.as_fd(), &inner)? {
                    move_up(&folder, &inner, &top, &mut next_name)?;
                }
            }
            match rustix::fs::unlinkat(&top, &entry, AtFlags::REMOVEDIR) {
                // Filled while it was read; the next round does the rest.
                Ok(()) | Err(Errno::NOTEMPTY) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if !found {
            return Ok(rustix::fs::unlinkat(parent.as_fd(), name, AtFlags::REMOVEDIR)?);
        }
    }
}

/// Names that are read from a folder at once, so that one with millions of entries needs little memory.
const NAMES: usize = 4_096;

fn names(folder: &OwnedFd) -> io::Result<Vec<CString>> {
    let is_entry = |name: &CStr| !matches!(name.to_bytes(), b"." | b"..");
    let entries = Dir::read_from(folder)?.map(|entry| entry.map(|entry| entry.file_name().to_owned()));
    let named = entries.filter(|name| name.as_ref().map_or(true, |name| is_entry(name)));
    Ok(named.take(NAMES).collect::<Result<_, _>>()?)
}

/// Removes anything but a folder; false if it is one.
fn unlink(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR | Errno::PERM) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a folder so that its entries may be removed, whatever its mode was.
fn open_to_empty(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let folder = match open_folder(parent, name) {
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
            open_folder(parent, name)?
        }
        opened => opened?,
    };
    rustix::fs::fchmod(&folder, Mode::RWXU)?;
    Ok(folder)
}

fn move_up(from: &OwnedFd, name: &CStr, top: &OwnedFd, next_name: &mut u64) -> io::Result<()> {
    loop {
        let new_name = format!(".removed-{next_name}");
        *next_name += 1;
        match rustix::fs::renameat_with(from, name, top, &new_name, rustix::fs::RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            // Moving a folder changes its "..", so it must be writable itself.
            Err(Errno::ACCESS) => rustix::fs::chmodat(from, name, Mode::RWXU, AtFlags::empty())?,
            result => return Ok(result?),
        }
    }
}
