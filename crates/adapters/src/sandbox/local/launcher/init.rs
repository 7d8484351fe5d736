//! Process 1 inside: builds the root folder, confines itself, starts the program, reaps what it leaves behind, and reports its end.
//!
//! It runs as the sandbox's user with the same walls as the program, but cannot be inspected by it (not dumpable) nor signalled (the
//! kernel protects process 1 of a namespace from its own). It must not outlive the program: its end ends everything else.

#![expect(
    clippy::disallowed_methods,
    reason = "init is a process of its own: it starts the program, reads /proc and ends itself"
)]

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};

use super::super::spec::{LaunchSpec, Payload, Report, Stage, write_frame};
use super::kernel::Forked;
use super::{At, StageError, confine, filter, kernel, look, view};

/// Exit code of a process whose program could not be started; nobody sees it, the report tells.
const NOT_STARTED: i32 = 127;
/// How often memory is added up where no control group does it.
const WATCH_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Name of the machine inside.
const HOST_NAME: &[u8] = b"sandbox";

/// Does all of it and ends.
pub(super) fn run(
    control: &mut UnixStream,
    dev_null: &File,
    lifeline: &OwnedFd,
    spec: &LaunchSpec,
    folders: view::Folders,
) -> ! {
    match start(control, dev_null, lifeline, spec, folders) {
        Ok(program) => {
            let report = wait_for(program, spec.limits.watched_memory_bytes);
            // If the host is gone, nobody needs to know.
            let _ = write_frame(control, &report);
            exit(0)
        }
        Err(error) => super::refuse(control, error),
    }
}

fn start(
    control: &mut UnixStream,
    dev_null: &File,
    lifeline: &OwnedFd,
    spec: &LaunchSpec,
    folders: view::Folders,
) -> Result<Pid, StageError> {
    super::die_with_parent().at(Stage::StartInit, "parent-death signal")?;
    parent_lives(lifeline).at(Stage::StartInit, "the launcher is gone")?;
    rustix::system::sethostname(HOST_NAME).at(Stage::Network, "sethostname")?;
    kernel::loopback_up().at(Stage::Network, "loopback")?;
    view::build_and_enter(folders)?;

    confine::drop_capabilities()?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).at(Stage::DropCapabilities, "dumpable")?;
    confine::landlock()?;
    filter::install(spec.limits.watched_memory_bytes.is_some())?;

    match kernel::fork().at(Stage::StartPayload, "fork")? {
        Forked::Child => become_program(control, spec),
        Forked::Parent(program) => {
            super::close_output(dev_null).at(Stage::StartPayload, "output")?;
            Ok(program)
        }
    }
}

/// The launcher may have died before [`super::die_with_parent`] took effect; then its end of the pipe is closed.
fn parent_lives(lifeline: &OwnedFd) -> io::Result<()> {
    let mut events = [PollFd::new(lifeline, PollFlags::IN)];
    match poll(&mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? {
        0 => Ok(()),
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Process 2: its own session without a terminal, its limits, nothing open but three descriptors, and then the program.
fn become_program(control: &mut UnixStream, spec: &LaunchSpec) -> ! {
    let prepared = rustix::process::setsid()
        .at(Stage::StartPayload, "setsid")
        .and_then(|_| confine::limit(&spec.limits))
        .and_then(|()| kernel::close_all_on_exec().at(Stage::StartPayload, "close_range"));
    if let Err(error) = prepared {
        super::refuse(control, error);
    }
    let report = match &spec.payload {
        Payload::Probe(probe) => Report::Found(look::around(probe)),
        Payload::Command { command, args, env, cwd } => match std::env::set_current_dir(cwd) {
            Err(error) => Report::NotStarted { errno: error.raw_os_error().unwrap_or(0), folder: true },
            Ok(()) => {
                let variables = env.iter().map(|(name, value)| (name, value));
                let error = Command::new(command).args(args).env_clear().envs(variables).exec();
                Report::NotStarted { errno: error.raw_os_error().unwrap_or(0), folder: false }
            }
        },
    };
    let _ = write_frame(control, &report);
    exit(NOT_STARTED)
}

/// Reaps everything that ends, until the program does.
fn wait_for(program: Pid, most_memory: Option<u64>) -> Report {
    let pidfd = rustix::process::pidfd_open(program, PidfdFlags::empty());
    // Without a descriptor to wait on, a watch would spin; it is there since Linux 5.3.
    let watch = most_memory.zip(pidfd.as_ref().ok());
    let options = if watch.is_some() { WaitOptions::NOHANG } else { WaitOptions::empty() };
    loop {
        match rustix::process::wait(options) {
            Ok(Some((pid, status))) if pid == program => return ended(status, false),
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => continue,
            Ok(None) => {}
            Err(_) => return Report::Ended { code: None, signal: None, over_memory: false },
        }
        let Some((most, pidfd)) = watch else { continue };
        let _ = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&WATCH_EVERY));
        if memory_of_all().is_ok_and(|bytes| bytes > most) {
            return Report::Ended { code: None, signal: Some(Signal::KILL.as_raw()), over_memory: true };
        }
    }
}

fn ended(status: WaitStatus, over_memory: bool) -> Report {
    Report::Ended { code: status.exit_status(), signal: status.terminating_signal(), over_memory }
}

/// What all processes inside hold that cannot be thrown away: anonymous and shared memory, in memory or swapped. A page that several
/// share is counted for each, so the sum is never too small.
fn memory_of_all() -> io::Result<u64> {
    let mut kilobytes: u64 = 0;
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        // A process that has just ended holds nothing.
        let Ok(status) = fs::read_to_string(entry.path().join("status")) else { continue };
        kilobytes = kilobytes.saturating_add(held_kilobytes(&status));
    }
    Ok(kilobytes.saturating_mul(1024))
}

fn held_kilobytes(status: &str) -> u64 {
    let field = |line: &str| -> Option<u64> {
        let rest = ["RssAnon:", "RssShmem:", "VmSwap:"].iter().find_map(|name| line.strip_prefix(name))?;
        rest.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    status.lines().filter_map(field).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_a_process_holds_is_anonymous_shared_and_swapped() {
        let status = "Name:\tnode\nVmRSS:\t  900 kB\nRssAnon:\t     100 kB\nRssFile:\t 700 kB\nRssShmem:\t      20 kB\nVmSwap:\t       3 kB\n";
        assert_eq!(held_kilobytes(status), 123);
        assert_eq!(held_kilobytes("Name:\tRssAnon: 5 kB\n"), 0);
    }
}
