//! What a command sees of the file system: taking hold of the host's folders, and the root folder that is put together from them.
//!
//! Nothing is copied. The root is a tiny read-only tmpfs with mount points and a handful of generated files in `/etc`; the system's
//! folders are read-only, the project and `/tmp` are writable, and the project's `node_modules` is a small writable layer over the
//! template's. No other part of the host has a name inside.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};

use super::super::spec::{DependencyLayer, FileView, HOME_DIR, INSIDE_ID, NODE_DIR, PROJECT_DIR, Stage};
use super::{At, StageError, kernel};

/// Folders of the system, read-only. On most systems all but `/usr` are links into it, and links stay links.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];
/// What programs need of `/etc`: the linker's cache, and where Debian's links in `/usr/bin` lead.
const ETC: &[&str] = &["/etc/ld.so.cache", "/etc/alternatives"];
/// The devices there are.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// Where the new root is put together. Hides what was there from the launcher alone, which holds all that it needs by descriptor.
const STAGING: &str = "/tmp";
/// The new root, in [`STAGING`].
const ROOT: &str = "root";
/// Where the parts of the dependencies' overlay are attached, in [`STAGING`]: beside the new root, so that they have no name in it, and go
/// with the host's root.
const LAYERS: &str = "layers";
/// Where the template's dependencies are attached in the layer's folder, so that both are one tree.
const LOWER: &str = "lower";
/// The root holds mount points, links and small files only.
const ROOT_OPTIONS: &str = "mode=755,size=256k,nr_inodes=256";
/// Files and folders in `/tmp`.
const TMP_INODES: u32 = 65_536;

const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const WRITABLE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const DEVICE: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;

/// A part of the host, held without a name.
enum Held {
    /// A link stays a link.
    Link(PathBuf),
    /// A folder.
    Folder(OwnedFd),
    /// A file or device.
    File(OwnedFd),
}

/// Everything of the host that will be seen, with its place inside.
pub(super) struct Folders {
    places: Vec<(PathBuf, Held)>,
    layers: Option<Layers>,
    tmp_bytes: u64,
}

struct Layers {
    lower: OwnedFd,
    over: OwnedFd,
    work: String,
}

/// Takes hold of the host's folders, with their final attributes. Needs the right to mount in the current namespace.
pub(super) fn take(view: &FileView) -> Result<Folders, StageError> {
    let mut places = Vec::new();
    let groups = [(SYSTEM, READ_ONLY), (ETC, READ_ONLY), (DEVICES, DEVICE)];
    for (path, attributes) in groups.into_iter().flat_map(|(paths, a)| paths.iter().map(move |path| (*path, a))) {
        if let Some(held) = hold_if_there(Path::new(path), attributes).at(Stage::TakeFolders, path)? {
            places.push((PathBuf::from(path), held));
        }
    }
    let folder = |path: &Path, attributes| hold(path, attributes).at(Stage::TakeFolders, path.to_string_lossy());
    if let Some(node) = &view.node {
        places.push((PathBuf::from(NODE_DIR), Held::Folder(folder(node, READ_ONLY)?)));
    }
    places.push((PathBuf::from(PROJECT_DIR), Held::Folder(folder(&view.project, WRITABLE)?)));
    let layers = match &view.dependencies {
        Some(DependencyLayer { lower, layer, work }) => {
            Some(Layers { lower: folder(lower, READ_ONLY)?, over: folder(layer, WRITABLE)?, work: work.clone() })
        }
        None => None,
    };
    Ok(Folders { places, layers, tmp_bytes: view.tmp_bytes })
}

fn hold_if_there(path: &Path, attributes: u64) -> io::Result<Option<Held>> {
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if kind.is_symlink() {
        return fs::read_link(path).map(|to| Some(Held::Link(to)));
    }
    let mount = hold(path, attributes)?;
    Ok(Some(if kind.is_dir() {
        Held::Folder(mount)
    } else if kind.is_file() || kind.is_char_device() {
        Held::File(mount)
    } else {
        return Err(io::Error::other("neither folder, file nor device"));
    }))
}

/// A detached copy of the mount at a path, with everything mounted below it: a user namespace may not look under a mount.
fn hold(path: &Path, attributes: u64) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let mount = rustix::mount::open_tree(CWD, path, flags)?;
    kernel::restrict_mount(&mount, attributes, true)?;
    Ok(mount)
}

/// Puts the root together and makes it the only one: afterwards the host's files have no name. Needs the new process namespace,
/// for `/proc`.
pub(super) fn build_and_enter(folders: Folders) -> Result<(), StageError> {
    rustix::mount::mount_change(
        "/",
        rustix::mount::MountPropagationFlags::PRIVATE | rustix::mount::MountPropagationFlags::REC,
    )
    .at(Stage::BuildRoot, "private mounts")?;
    stage().at(Stage::BuildRoot, "tmpfs")?;

    for (place, held) in folders.places {
        attach(&place, held).at(Stage::BuildRoot, place.to_string_lossy())?;
    }
    generated_files().at(Stage::BuildRoot, "/etc and /dev")?;
    mount_tmp(folders.tmp_bytes).at(Stage::BuildRoot, "/tmp")?;
    mount_proc().at(Stage::MountProc, "/proc")?;
    if let Some(layers) = folders.layers {
        mount_dependencies(layers).at(Stage::MountDependencies, "overlay over node_modules")?;
    }
    enter().at(Stage::SwitchRoot, "pivot_root")
}

/// The current folder becomes the new root.
fn stage() -> io::Result<()> {
    mount_tmpfs(STAGING, ROOT_OPTIONS)?;
    std::env::set_current_dir(STAGING)?;
    fs::create_dir(ROOT)?;
    mount_tmpfs(ROOT, ROOT_OPTIONS)?;
    std::env::set_current_dir(ROOT)
}

fn inside(place: &Path) -> &Path {
    place.strip_prefix("/").unwrap_or(place)
}

fn attach(place: &Path, held: Held) -> io::Result<()> {
    let place = inside(place);
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    let mount = match held {
        Held::Link(to) => return symlink(to, place),
        Held::Folder(mount) => {
            fs::create_dir(place)?;
            mount
        }
        Held::File(mount) => {
            fs::write(place, "")?;
            mount
        }
    };
    move_to(&mount, place)
}

fn move_to(mount: &OwnedFd, place: &Path) -> io::Result<()> {
    Ok(rustix::mount::move_mount(mount, "", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

fn mount_tmpfs(at: &str, options: &str) -> io::Result<()> {
    let options = std::ffi::CString::new(options)?;
    Ok(rustix::mount::mount("tmpfs", at, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(options.as_c_str()))?)
}

fn generated_files() -> io::Result<()> {
    fs::create_dir_all("etc")?;
    fs::write(
        "etc/passwd",
        format!("user:x:{INSIDE_ID}:{INSIDE_ID}::{HOME_DIR}:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"),
    )?;
    fs::write("etc/group", format!("user:x:{INSIDE_ID}:\nnogroup:x:65534:\n"))?;
    fs::write("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n")?;
    fs::write("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")?;
    for (name, to) in [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        symlink(Path::new("/proc/self").join(to), Path::new("dev").join(name))?;
    }
    symlink("/tmp/shm", "dev/shm")
}

fn mount_tmp(bytes: u64) -> io::Result<()> {
    fs::create_dir("tmp")?;
    mount_tmpfs("tmp", &format!("mode=1777,size={bytes},nr_inodes={TMP_INODES}"))?;
    fs::create_dir("tmp/shm")?;
    fs::create_dir(inside(Path::new(HOME_DIR)))
}

fn mount_proc() -> io::Result<()> {
    fs::create_dir("proc")?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    Ok(rustix::mount::mount("proc", "proc", "proc", flags, None)?)
}

/// The upper layer lasts as long as the workspace, so `volatile` (no flush at unmounting) loses nothing that is not lost anyway.
fn mount_dependencies(layers: Layers) -> io::Result<()> {
    let base = Path::new("..").join(LAYERS);
    fs::create_dir(&base)?;
    move_to(&layers.over, &base)?;
    move_to(&layers.lower, &base.join(LOWER))?;
    let target = inside(Path::new(PROJECT_DIR)).join("node_modules");
    // The project is written by programs: what stands there must be a folder, and not lead anywhere.
    rustix::fs::openat2(CWD, &target, OFlags::PATH | OFlags::DIRECTORY, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let options = std::ffi::CString::new(format!(
        "lowerdir={base}/{LOWER},upperdir={base}/upper,workdir={base}/{work},userxattr,index=off,volatile",
        base = base.display(),
        work = layers.work,
    ))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(rustix::mount::mount("overlay", &target, "overlay", flags, Some(options.as_c_str()))?)
}

/// The current folder becomes the root, for good and read-only; the host's root is let go.
fn enter() -> io::Result<()> {
    let root = rustix::fs::open(".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    kernel::restrict_mount(&root, READ_ONLY, false)?;
    std::env::set_current_dir("/")?;
    rustix::fs::accessat(CWD, PROJECT_DIR, rustix::fs::Access::WRITE_OK, AtFlags::empty())?;
    Ok(())
}
