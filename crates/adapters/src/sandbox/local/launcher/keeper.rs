//! The keeper: a member of one control group that forks a launcher for each command, one command at a time.
//!
//! It keeps the host's user, holds nothing of any command, and runs no code but this. It must not parse anything that a command can
//! influence: a command's spec goes to its launcher, over a socket of its own.

#![expect(
    clippy::disallowed_methods,
    reason = "the keeper is a process of its own: it joins its groups and ends itself"
)]

use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::exit;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::WaitOptions;

use super::super::spec::{Prepare, Report, STREAMS, Stage, read_frame, write_frame};
use super::kernel::{self, Forked};
use super::{At, FAILED, StageError, die_with_parent, launch, refuse};

/// Joins its groups, then forks launchers until the host hangs up.
pub(super) fn run() -> ! {
    let Ok((mut control, dev_null)) = take_descriptors() else { exit(FAILED) };
    if let Err(error) = prepare(&mut control) {
        refuse(&mut control, error);
    }
    loop {
        let Ok(Some(streams)) = receive_streams(&control) else { exit(0) };
        match kernel::fork() {
            Ok(Forked::Child) => {
                drop(control);
                let Ok(own) = connect(streams) else { exit(FAILED) };
                launch(own, &dev_null)
            }
            // The host sees that its ends of the streams are closed.
            Err(_) => drop(streams),
            Ok(Forked::Parent(launcher)) => {
                drop(streams);
                while let Err(rustix::io::Errno::INTR) = rustix::process::waitpid(Some(launcher), WaitOptions::empty())
                {
                }
            }
        }
    }
}

/// Moves the socket away from standard input, which becomes empty, as every program inside will find it.
fn take_descriptors() -> io::Result<(UnixStream, File)> {
    let control = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    let dev_null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&dev_null)?;
    // What commands make is not to depend on who started Baton.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    // It outlives many commands, and must not keep the host's folder busy.
    std::env::set_current_dir("/")?;
    Ok((control, dev_null))
}

fn prepare(control: &mut UnixStream) -> Result<(), StageError> {
    die_with_parent().at(Stage::ReadSpec, "parent-death signal")?;
    // Baton may have died before that; then this is the end of the socket.
    let prepare: Prepare = read_frame(control).at(Stage::ReadSpec, "first frame")?;
    for group in &prepare.join {
        let mut file = OpenOptions::new().write(true).open(group).at(Stage::JoinGroups, group.to_string_lossy())?;
        // "0" is the process that writes.
        file.write_all(b"0").at(Stage::JoinGroups, group.to_string_lossy())?;
    }
    write_frame(control, &Report::Ready).at(Stage::ReadSpec, "ready")
}

/// The streams of the next command; none when there is none to come.
fn receive_streams(control: &UnixStream) -> io::Result<Option<[OwnedFd; STREAMS]>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STREAMS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut received = Vec::with_capacity(STREAMS);
    let message = recvmsg(control, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = part {
            received.extend(descriptors);
        }
    }
    if message.bytes == 0 {
        return Ok(None);
    }
    received.try_into().map(Some).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Output goes to the command's own pipes; its socket is what is left.
fn connect([control, stdout, stderr]: [OwnedFd; STREAMS]) -> io::Result<UnixStream> {
    rustix::stdio::dup2_stdout(&stdout)?;
    rustix::stdio::dup2_stderr(&stderr)?;
    Ok(UnixStream::from(control))
}
