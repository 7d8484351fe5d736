//! The few system calls of the launcher that no safe wrapper offers. Everything unsafe of the sandbox is in this file.
//!
//! Each function is sound for any argument in a single-threaded process; the launcher is one, because it is entered before anything
//! could have started a thread.

#![expect(unsafe_code, reason = "system calls without a safe wrapper; each block carries its argument")]

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

/// What [`fork`] gives to each side.
pub(super) enum Forked {
    /// To the one that forked: the new process.
    Parent(Pid),
    /// To the new process.
    Child,
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Splits the process in two.
pub(super) fn fork() -> io::Result<Forked> {
    // SAFETY: a child of a process with several threads may use async-signal-safe functions only, because locks that other
    // threads held stay locked. This process has one thread.
    let raw = checked(unsafe { libc::fork() }.into())?;
    let raw = i32::try_from(raw).map_err(io::Error::other)?;
    Ok(Pid::from_raw(raw).map_or(Forked::Child, Forked::Parent))
}

/// Leaves the given namespaces of the host.
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: only `FILES` is dangerous, by taking descriptors away from other threads; there are none.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags.difference(UnshareFlags::FILES)) }?)
}

/// Adds attributes (`MOUNT_ATTR_*`) to a mount and, if asked, to all mounts below it, and makes it private: what is mounted on it later
/// must not appear on the host, whose mounts are often shared.
pub(super) fn restrict_mount(mount: impl AsFd, attributes: u64, below_too: bool) -> io::Result<()> {
    let request = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: libc::MS_PRIVATE, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if below_too { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a C string, `request` outlives the call, and the size is that of `request`.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const request,
            mem::size_of_val(&request),
        )
    };
    checked(result).map(drop)
}

/// Makes every descriptor from 3 on close when a program is started.
pub(super) fn close_all_on_exec() -> io::Result<()> {
    // SAFETY: marks descriptors; closes none, so none that is owned in Rust becomes dangling.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    checked(result).map(drop)
}

/// Switches the loopback interface of the current network namespace on.
pub(super) fn loopback_up() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: `ifreq` is plain data for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
        *to = from.cast_signed() as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads an `ifreq`, which lives until the call returns.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    checked(result.into()).map(drop)
}

/// A system call that the filter must refuse, for the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forbidden {
    /// `unshare`.
    Unshare,
    /// `mount`.
    Mount,
    /// `ptrace`.
    Ptrace,
    /// `keyctl`.
    Keyctl,
    /// `bpf`.
    Bpf,
    /// `io_uring_setup`.
    IoUring,
    /// `userfaultfd`.
    Userfaultfd,
    /// `clone3`.
    Clone3,
}

/// Tries a forbidden call with all arguments zero and gives the error number, or 0 if it went through.
pub(super) fn attempt(call: Forbidden) -> i32 {
    let number = match call {
        Forbidden::Unshare => libc::SYS_unshare,
        Forbidden::Mount => libc::SYS_mount,
        Forbidden::Ptrace => libc::SYS_ptrace,
        Forbidden::Keyctl => libc::SYS_keyctl,
        Forbidden::Bpf => libc::SYS_bpf,
        Forbidden::IoUring => libc::SYS_io_uring_setup,
        Forbidden::Userfaultfd => libc::SYS_userfaultfd,
        Forbidden::Clone3 => libc::SYS_clone3,
    };
    // SAFETY: with all arguments zero none of the listed calls touches this process's memory: a null pointer gives EFAULT,
    // a size of 0 gives EINVAL, `unshare(0)` does nothing and `ptrace(PTRACE_TRACEME)` only sets a flag of this process.
    let result = unsafe { libc::syscall(number, 0, 0, 0, 0, 0, 0) };
    checked(result).err().and_then(|error| error.raw_os_error()).unwrap_or(0)
}
