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
/// Folders at that depth that wait, open, until their usage is added up.
const DEEP_FOLDERS: usize = 256;
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

    /// Whether it is a pipe, a socket or a device, which has no end.
    pub(super) fn is_endless(&self) -> bool {
        let kind = FileType::from_raw_mode(self.stat.st_mode);
        matches!(kind, FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice)
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

/// What a tree takes on the disk, in bytes. The greatest number if it is so deep in so many places that it cannot be told.
pub(super) fn usage(root: OwnedFd) -> io::Result<u64> {
    let mut bytes: u64 = 0;
    // Where a walk reaches its depth, another one begins.
    let mut roots = vec![root];
    while let Some(root) = roots.pop() {
        let ended = walk(root, |entry| {
            let blocks = u64::try_from(entry.stat.st_blocks).unwrap_or(0);
            bytes = bytes.saturating_add(blocks.saturating_mul(BLOCK_BYTES)).saturating_add(ENTRY_BYTES);
            if entry.is_folder() && entry.too_deep {
                if roots.len() == DEEP_FOLDERS {
                    return ControlFlow::Break(());
                }
                roots.extend(open_folder(entry.folder, entry.name));
            }
            ControlFlow::Continue(Next::Enter)
        })?;
        if ended.is_break() {
            return Ok(u64::MAX);
        }
    }
    Ok(bytes)
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

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests make trees")]
mod tests {
    use super::*;

    const NAME: &str = "a-name-that-makes-a-path-of-these-longer-than-any-path-may-be-0123456789";
    const LEVELS: u64 = 300;

    fn open(path: &std::path::Path) -> OwnedFd {
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    /// A folder `top` with folders far beyond what a path can name and a walk looks into, and a file at the bottom.
    fn deep_tree() -> (tempfile::TempDir, OwnedFd) {
        let base = tempfile::tempdir().unwrap();
        let base_folder = open(base.path());
        rustix::fs::mkdirat(&base_folder, "top", Mode::RWXU).unwrap();
        let mut folder = open_folder(&base_folder, "top").unwrap();
        for _ in 0..LEVELS {
            rustix::fs::mkdirat(&folder, NAME, Mode::RWXU).unwrap();
            folder = open_folder(&folder, NAME).unwrap();
        }
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let file = rustix::fs::openat(&folder, "bottom", flags, Mode::RUSR | Mode::WUSR).unwrap();
        rustix::io::write(&file, &[b'x'; 100_000]).unwrap();
        (base, base_folder)
    }

    #[test]
    fn depth_hides_nothing_from_the_count_and_nothing_from_removal() {
        let (base, base_folder) = deep_tree();
        let bytes = usage(open_folder(&base_folder, "top").unwrap()).unwrap();
        let least = 100_000 + LEVELS * ENTRY_BYTES;
        assert!((least..least * 4).contains(&bytes), "{bytes}");

        let top = base.path().join("top");
        for (name, mode) in [("locked/inner/innermost", 0o000), ("read-only/inner", 0o500), ("-rf/new\nline", 0o777)] {
            std::fs::create_dir_all(top.join(name)).unwrap();
            std::fs::write(top.join(name).join("file"), "x").unwrap();
            let outer = top.join(name.split('/').next().unwrap());
            for folder in [top.join(name), outer] {
                std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            }
        }
        std::os::unix::fs::symlink(base.path(), top.join("link")).unwrap();
        std::fs::write(base.path().join("kept"), "x").unwrap();
        remove(&base_folder, c"top").unwrap();
        assert!(!top.exists() && base.path().join("kept").exists());
        remove(&base_folder, c"top").unwrap();
    }

    #[test]
    fn a_walk_ends_at_its_depth_and_says_so() {
        let (_base, base_folder) = deep_tree();
        let mut seen = Vec::new();
        let ended = walk::<()>(open_folder(&base_folder, "top").unwrap(), |entry| {
            seen.push(entry.too_deep);
            ControlFlow::Continue(Next::Enter)
        });
        assert!(ended.unwrap().is_continue());
        assert_eq!((seen.len(), seen.iter().position(|deep| *deep)), (DEPTH, Some(DEPTH - 1)));
    }
}
