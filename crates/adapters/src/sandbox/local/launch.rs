//! Keepers and the launchers that they fork, seen from the host.
//!
//! One long-lived thread starts all keepers: a keeper asks the kernel to be killed when its parent *thread* ends, and threads of the async
//! runtime come and go. A keeper serves one command at a time and is then kept for the next one, so that there are as many as there
//! were commands at once, up to a limit.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the room that starts the sandbox's processes, and their thread"
)]

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf, pipe};
use tokio::sync::oneshot;

use super::cgroup::{ControlGroups, Group};
use super::spec::{LAUNCHER_WORD, LaunchSpec, Prepare, Report, STREAMS, encode_frame, frame_length};

/// Requests that wait for the starting thread; more are refused. Starting takes about a millisecond.
const START_QUEUE: usize = 256;

/// A started process, as it comes from the thread.
struct Started {
    child: Child,
    control: StdUnixStream,
}

type StartRequest = oneshot::Sender<io::Result<Started>>;

/// Starts and keeps keepers.
pub(super) struct Keepers {
    groups: ControlGroups,
    next_group: AtomicU64,
    requests: Option<SyncSender<StartRequest>>,
    thread: Option<JoinHandle<()>>,
    idle: Mutex<Vec<Keeper>>,
    most_idle: usize,
}

impl Keepers {
    /// Starts the thread. `program` is executed as keeper; it must call [`super::launcher_entry`] first thing.
    pub(super) fn new(program: PathBuf, groups: ControlGroups, most_idle: usize) -> io::Result<Self> {
        let (requests, received) = sync_channel(START_QUEUE);
        let thread =
            std::thread::Builder::new().name("sandbox-start".into()).spawn(move || start_all(&program, &received))?;
        Ok(Self {
            groups,
            next_group: AtomicU64::new(0),
            requests: Some(requests),
            thread: Some(thread),
            idle: Mutex::new(Vec::new()),
            most_idle,
        })
    }

    /// The control groups that keepers join.
    pub(super) fn groups(&self) -> &ControlGroups {
        &self.groups
    }

    /// A keeper that waits for a command. One that has died meanwhile is replaced.
    pub(super) async fn take(&self) -> io::Result<Keeper> {
        while let Some(mut keeper) = self.pop() {
            if keeper.is_alive() {
                return Ok(keeper);
            }
        }
        self.start().await
    }

    /// Takes a keeper back whose command is gone.
    pub(super) fn keep(&self, keeper: Keeper) {
        let mut idle = self.idle();
        if idle.len() < self.most_idle {
            idle.push(keeper);
        }
    }

    fn pop(&self) -> Option<Keeper> {
        self.idle().pop()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Keeper>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn start(&self) -> io::Result<Keeper> {
        let group = self.groups.create(&self.next_group.fetch_add(1, Ordering::Relaxed).to_string())?;
        let (reply, started) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or_else(stopped)?;
        requests.try_send(reply).map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
        let Started { child, control } = started.await.map_err(|_| stopped())??;
        let mut keeper = Keeper { child, control: UnixStream::from_std(control)?, group };
        let prepare = encode_frame(&Prepare { join: keeper.group.to_join() })?;
        keeper.control.write_all(&prepare).await?;
        match read_report(&mut keeper.control).await? {
            Some(Report::Ready) => Ok(keeper),
            Some(Report::Refused { errno, what, .. }) => {
                let cause = io::Error::from_raw_os_error(errno);
                Err(io::Error::new(cause.kind(), format!("{what}: {cause}")))
            }
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Drop for Keepers {
    fn drop(&mut self) {
        self.idle().clear();
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // It waits for requests only, and there can be no more.
            let _ = thread.join();
        }
    }
}

fn stopped() -> io::Error {
    io::Error::other("the thread that starts keepers has ended")
}

fn start_all(program: &Path, requests: &Receiver<StartRequest>) {
    while let Ok(reply) = requests.recv() {
        if let Err(Ok(mut unwanted)) = reply.send(start_one(program)) {
            // Whoever asked is gone.
            end(&mut unwanted.child);
        }
    }
}

fn start_one(program: &Path) -> io::Result<Started> {
    let (control, theirs) = StdUnixStream::pair()?;
    control.set_nonblocking(true)?;
    let child = Command::new(program)
        .arg0("baton")
        .arg(LAUNCHER_WORD)
        .env_clear()
        // Ctrl-C at the terminal is for Baton, which then stops its commands in order.
        .process_group(0)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(Started { child, control })
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// A keeper process, and the control group that it is in.
pub(super) struct Keeper {
    child: Child,
    control: UnixStream,
    /// Declared last, so that it goes when its members are gone.
    pub(super) group: Group,
}

impl Keeper {
    /// Its process id.
    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Has a launcher forked, and gives it its command.
    pub(super) async fn launch(&mut self, spec: &LaunchSpec) -> io::Result<Launched> {
        let frame = encode_frame(spec)?;
        let (ours, theirs) = UnixStream::pair()?;
        let (stdout, stdout_end) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, stderr_end) = pipe_with(PipeFlags::CLOEXEC)?;
        // The launcher waits for its frames; only our end is non-blocking.
        let theirs = theirs.into_std()?;
        theirs.set_nonblocking(false)?;
        self.hand_over([theirs.into(), stdout_end, stderr_end])?;
        let (reports, mut control) = ours.into_split();
        control.write_all(&frame).await?;
        Ok(Launched {
            control: Control(control),
            reports: Reports(reports),
            stdout: pipe::Receiver::from_owned_fd(stdout)?,
            stderr: pipe::Receiver::from_owned_fd(stderr)?,
        })
    }

    fn hand_over(&self, streams: [OwnedFd; STREAMS]) -> io::Result<()> {
        let descriptors = streams.each_ref().map(AsFd::as_fd);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STREAMS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // One byte to an empty socket: this never has to wait.
        sendmsg(&self.control, &[IoSlice::new(&[1])], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // A command that it has forked dies with it.
        end(&mut self.child);
    }
}

/// A launcher with its command.
pub(super) struct Launched {
    /// To stop it.
    pub(super) control: Control,
    /// What it tells.
    pub(super) reports: Reports,
    /// The command's standard output.
    pub(super) stdout: pipe::Receiver,
    /// The command's standard error.
    pub(super) stderr: pipe::Receiver,
}

/// The host's end of a launcher's socket, for telling.
pub(super) struct Control(OwnedWriteHalf);

impl Control {
    /// Tells the launcher to kill everything.
    pub(super) async fn hang_up(&mut self) -> io::Result<()> {
        self.0.shutdown().await
    }
}

/// The host's end of a launcher's socket, for listening.
pub(super) struct Reports(OwnedReadHalf);

impl Reports {
    /// The next report; none when every process that could report has ended. Not to be dropped before it is done.
    pub(super) async fn next(&mut self) -> io::Result<Option<Report>> {
        read_report(&mut self.0).await
    }
}

async fn read_report(from: &mut (impl AsyncReadExt + Unpin)) -> io::Result<Option<Report>> {
    let mut prefix = [0; 4];
    match from.read_exact(&mut prefix).await {
        Ok(_) => {}
        Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    }
    let mut body = vec![0; frame_length(prefix)?];
    from.read_exact(&mut body).await?;
    Ok(Some(serde_json::from_slice(&body)?))
}
