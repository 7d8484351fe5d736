//! The launcher: `baton` executed again as a small single-threaded process that isolates itself and then starts a command.
//!
//! A program of its own, because setting up isolation between `fork` and `exec` of a process with threads is unsafe; and
//! single-threaded, because namespaces and credentials belong to threads. Three processes of ours stand between Baton and a command:
//!
//! **The keeper** ([`keeper`]) joins a control group once and then forks a launcher for each command. Joining costs a grace period of the
//! kernel (about 6 ms, during which nothing on the machine can fork); a child of a member is a member for nothing.
//!
//! **The launcher** (this file), one for each command. The order of its steps is the whole design:
//!
//! 1. **Take folders.** Every host folder that the command may see becomes a detached mount, held by a descriptor. Root does this before
//!    it gives its rights up, so that folders below a 0700 home can be shown to a user who cannot reach them by name; an ordinary user does
//!    it after step 3, when the kernel lets them. Because sources are descriptors, nothing that is mounted later can hide them.
//! 2. **Become** the sandbox's user, if we are root: a single user is mapped inside, and that one must not be the host's root.
//! 3. **Leave** all namespaces and map the user.
//! 4. **Fork init.** When it ends, the kernel kills everything in its process namespace; no `setsid` or second `fork` escapes that.
//! 5. **Supervise**: wait until the host hangs up or init ends, kill init in the first case, reap it, and only then say so. A process 1
//!    can be reaped only when its whole namespace is dead, so that word *is* the proof that nothing is left.
//!
//! **Init** ([`init`]) builds the root folder, confines itself and starts the program.
//!
//! Should any of them be killed, those below die by their parent-death signal; should Baton be killed, the keeper does, and every
//! launcher sees the end of its socket too. This folder must not touch anything of the host but what the spec names.

#![expect(
    clippy::disallowed_methods,
    reason = "the launcher is a process of its own: it reads its arguments and ends itself"
)]

mod confine;
mod filter;
mod init;
mod keeper;
mod kernel;
mod look;
mod view;

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::exit;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions};
use rustix::thread::UnshareFlags;

use self::kernel::Forked;
use super::spec::{INSIDE_ID, LAUNCHER_WORD, LaunchSpec, Report, Stage, read_frame, write_frame};

/// Exit code of a process whose report tells what went wrong.
const FAILED: i32 = 70;
/// How much more willingly the kernel kills what runs inside when the host is out of memory (-1000 to 1000).
const OOM_SCORE: &str = "500";

/// A step that the system refused.
struct StageError {
    stage: Stage,
    errno: i32,
    what: String,
}

/// Names the step that an error belongs to.
trait At<T> {
    fn at(self, stage: Stage, what: impl AsRef<str>) -> Result<T, StageError>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, stage: Stage, what: impl AsRef<str>) -> Result<T, StageError> {
        self.map_err(|error| {
            let error: io::Error = error.into();
            let errno = error.raw_os_error().unwrap_or(0);
            let what = if errno == 0 { format!("{}: {error}", what.as_ref()) } else { what.as_ref().to_owned() };
            StageError { stage, errno, what }
        })
    }
}

/// Becomes a keeper if the first argument is the hidden word; otherwise returns at once. Call it first thing in `main`, before
/// anything starts a thread.
pub fn launcher_entry() {
    if std::env::args_os().nth(1).is_some_and(|word| word == LAUNCHER_WORD) {
        keeper::run()
    }
}

/// A launcher's whole life, after its keeper has connected its standard streams.
fn launch(mut control: UnixStream, dev_null: &File) -> ! {
    match isolate(&mut control, dev_null) {
        Ok(init) => supervise(init, &mut control),
        Err(error) => {
            let _ = write_frame(&mut control, &refusal(error));
            let _ = write_frame(&mut control, &Report::Gone);
            exit(FAILED)
        }
    }
}

/// Steps 1 to 4. Gives the process id of init; in init itself it does not return.
fn isolate(control: &mut UnixStream, dev_null: &File) -> Result<Pid, StageError> {
    let spec: LaunchSpec = read_frame(control).at(Stage::ReadSpec, "spec")?;
    // Some systems do not allow even this; it only makes the kernel's choice better.
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);

    let early = match spec.become_id {
        Some(id) => {
            let folders = view::take(&spec.view)?;
            become_user(id)?;
            Some(folders)
        }
        None => None,
    };
    leave_namespaces()?;
    let folders = match early {
        Some(folders) => folders,
        None => view::take(&spec.view)?,
    };
    die_with_parent().at(Stage::StartInit, "parent-death signal")?;
    start_init(control, dev_null, &spec, folders)
}

fn become_user(id: u32) -> Result<(), StageError> {
    let (uid, gid) = (rustix::process::Uid::from_raw(id), rustix::process::Gid::from_raw(id));
    rustix::thread::set_thread_groups(&[]).at(Stage::BecomeUser, "setgroups")?;
    rustix::thread::set_thread_res_gid(gid, gid, gid).at(Stage::BecomeUser, format!("setresgid {id}"))?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).at(Stage::BecomeUser, format!("setresuid {id}"))?;
    // Changing the user made our files in /proc root's; the next step must write the user map there.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).at(Stage::BecomeUser, "dumpable")
}

fn leave_namespaces() -> Result<(), StageError> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    kernel::unshare(UnshareFlags::NEWUSER).at(Stage::LeaveNamespaces, "user")?;
    let map = |file: &str, text: String| fs::write(Path::new("/proc/self").join(file), text).at(Stage::MapUser, file);
    map("setgroups", "deny".into())?;
    map("uid_map", format!("{INSIDE_ID} {uid} 1"))?;
    map("gid_map", format!("{INSIDE_ID} {gid} 1"))?;
    let others = UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    kernel::unshare(others).at(Stage::LeaveNamespaces, "mount, pid, net, ipc, uts and cgroup")
}

/// Asks the kernel for SIGKILL when the parent ends. Comes after every change of user or namespaces, since those may clear it.
fn die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}

fn start_init(
    control: &mut UnixStream,
    dev_null: &File,
    spec: &LaunchSpec,
    folders: view::Folders,
) -> Result<Pid, StageError> {
    let (lifeline, held) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).at(Stage::StartInit, "pipe")?;
    match kernel::fork().at(Stage::StartInit, "fork")? {
        Forked::Child => {
            drop(held);
            init::run(control, dev_null, &lifeline, spec, folders)
        }
        Forked::Parent(init) => {
            // Kept open until this process ends: init sees by it that its parent lived when it asked to die with it.
            std::mem::forget(held);
            close_output(dev_null).at(Stage::StartInit, "output")?;
            Ok(init)
        }
    }
}

/// Lets go of the command's output, so that its end is seen when the command's processes are gone.
fn close_output(dev_null: &File) -> io::Result<()> {
    rustix::stdio::dup2_stdout(dev_null)?;
    rustix::stdio::dup2_stderr(dev_null)?;
    Ok(())
}

/// Step 5.
fn supervise(init: Pid, control: &mut UnixStream) -> ! {
    let pidfd = rustix::process::pidfd_open(init, PidfdFlags::empty());
    let ended_by_itself = pidfd.is_ok_and(|pidfd| wait_for_end(&pidfd, control));
    if !ended_by_itself {
        // Not reaped yet, so the number still means init.
        let _ = rustix::process::kill_process(init, Signal::KILL);
    }
    let reaped = loop {
        match rustix::process::waitpid(Some(init), WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) => {}
            result => break result.is_ok(),
        }
    };
    if reaped {
        let _ = write_frame(control, &Report::Gone);
    }
    exit(0)
}

/// Waits until init has ended; false if the host hung up, or anything else is not as it should be.
fn wait_for_end(init: &OwnedFd, control: &UnixStream) -> bool {
    let mut events =
        [PollFd::new(init, PollFlags::IN), PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN | PollFlags::RDHUP)];
    loop {
        match poll(&mut events, None) {
            Ok(_) => return events[1].revents().is_empty(),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Reports a refused step and ends.
fn refuse(control: &mut UnixStream, error: StageError) -> ! {
    // If Baton is gone, nobody needs to know.
    let _ = write_frame(control, &refusal(error));
    exit(FAILED)
}

fn refusal(StageError { stage, errno, what }: StageError) -> Report {
    Report::Refused { stage, errno, what }
}
