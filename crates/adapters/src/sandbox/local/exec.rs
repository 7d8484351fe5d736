//! One command from start to end: a launcher gets its spec, output is passed on, and whichever comes first ends it: the program itself,
//! its time, the caller, or a limit.
//!
//! There is one way out: everything is waited for. A command that is stopped is told so through its launcher, and this returns when
//! the launcher has said that the last process is gone.

use std::io;
use std::time::Duration;

use contract::event::OutputStream;
use runtime::ports::sandbox::{ExecEnd, ExecOutcome, OutputChunk, OutputLimits, ResourceLimits, SandboxError};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cgroup::Group;
use super::disk::DiskWatch;
use super::files::failed;
use super::launch::{Keeper, Keepers, Launched, Reports};
use super::output::pass_on;
use super::refusal::{HostFacts, explain};
use super::spec::{Finding, LaunchSpec, Payload, Report};

/// How long the kernel may take to end the processes of a stopped command. More means that one hangs in the kernel.
const KILL_WITHIN: Duration = Duration::from_secs(10);
/// How often a control group is asked whether it is empty, when nobody is left to say so.
const ASK_EVERY: Duration = Duration::from_millis(5);
/// Reports of one launcher: a refusal, finding or failed start, an end, and that it is gone.
const REPORTS: usize = 8;

/// A command that is ready to run.
pub(super) struct Job {
    /// For the launcher.
    pub spec: LaunchSpec,
    /// For its control group.
    pub limits: ResourceLimits,
    /// Its whole time.
    pub timeout: Duration,
    /// How much output is passed on.
    pub output: OutputLimits,
    /// Watches the workspace's folders.
    pub disk: DiskWatch,
}

/// Why a command was stopped from outside.
#[derive(Clone, Copy)]
enum Stopped {
    TimedOut,
    Cancelled,
    OutOfDisk,
}

/// Runs a command.
pub(super) async fn run(
    keepers: &Keepers,
    facts: &HostFacts,
    job: Job,
    output: mpsc::Sender<OutputChunk>,
    cancel: CancellationToken,
) -> Result<ExecOutcome, SandboxError> {
    let started = Instant::now();
    let mut keeper = keepers.take().await.map_err(|error| failed("starting a keeper", error))?;
    keeper.group.limit(&job.limits).map_err(|error| failed("limiting a control group", error))?;
    let killed_before = keeper.group.memory_kills();
    let launched = keeper.launch(&job.spec).await.map_err(|error| bad_spec(&error))?;

    let deadline = started + job.timeout;
    let followed = follow(launched, deadline, job.disk, job.output, &output, &cancel).await.map_err(lost)?;
    let memory_killed = keeper.group.memory_kills() > killed_before;
    let gone = followed.heard.iter().any(|report| matches!(report, Report::Gone));
    if gone {
        keepers.keep(keeper);
    } else {
        gone_without_a_word(keeper, memory_killed).await?;
    }

    let end = match followed.stopped {
        Some(Stopped::Cancelled) => ExecEnd::Cancelled,
        Some(Stopped::TimedOut) => ExecEnd::TimedOut,
        Some(Stopped::OutOfDisk) => ExecEnd::OutOfDisk,
        None => ended(followed.heard, memory_killed, facts, &job.spec)?,
    };
    Ok(ExecOutcome { end, output_capped: followed.output_capped, duration: started.elapsed() })
}

/// A launcher that did not say that all is gone has been killed, and its command with it. Seen where the kernel kills a control group
/// as one for its memory. Waits until the group is empty.
async fn gone_without_a_word(mut keeper: Keeper, memory_killed: bool) -> Result<(), SandboxError> {
    let group: Group = std::mem::take(&mut keeper.group);
    drop(keeper);
    let empty = async {
        while !group.is_empty() {
            tokio::time::sleep(ASK_EVERY).await;
        }
    };
    match tokio::time::timeout(KILL_WITHIN, empty).await {
        Ok(()) if memory_killed => Ok(()),
        Ok(()) => Err(lost(io::Error::other("the launcher was killed"))),
        Err(_) => Err(lost(io::ErrorKind::TimedOut.into())),
    }
}

/// What was seen of a command.
struct Followed {
    heard: Vec<Report>,
    stopped: Option<Stopped>,
    output_capped: bool,
}

/// Passes output on until the command has ended or is stopped, and its processes are gone.
async fn follow(
    launched: Launched,
    deadline: Instant,
    disk: DiskWatch,
    limits: OutputLimits,
    output: &mpsc::Sender<OutputChunk>,
    cancel: &CancellationToken,
) -> io::Result<Followed> {
    // From then on nobody waits for a receiver of output who takes none.
    let hurry = CancellationToken::new();
    let Launched { mut control, mut reports, stdout, stderr } = launched;
    let watch = async {
        let listening = listen(&mut reports);
        tokio::pin!(listening);
        let stopped = tokio::select! {
            biased;
            () = cancel.cancelled() => Stopped::Cancelled,
            heard = &mut listening => return (heard, None),
            () = tokio::time::sleep_until(deadline) => Stopped::TimedOut,
            () = disk.over() => Stopped::OutOfDisk,
        };
        hurry.cancel();
        let told = control.hang_up().await;
        let heard = tokio::time::timeout(KILL_WITHIN, &mut listening).await;
        (told.and(heard.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))), Some(stopped))
    };
    let passing = async {
        let (stdout, stderr) = tokio::join!(
            pass_on(stdout, OutputStream::Stdout, limits, output, &hurry),
            pass_on(stderr, OutputStream::Stderr, limits, output, &hurry),
        );
        stdout || stderr
    };
    tokio::pin!(watch, passing);
    let mut output_capped = None;
    let (heard, stopped) = loop {
        tokio::select! {
            ended = &mut watch => break ended,
            capped = &mut passing, if output_capped.is_none() => output_capped = Some(capped),
        }
    };
    let heard = heard?;
    let output_capped = match output_capped {
        Some(capped) => capped,
        // The processes are gone, so this ends; only a receiver can make it wait, and not for longer than the command might have.
        None => tokio::select! {
            capped = &mut passing => capped,
            () = cancel.cancelled() => { hurry.cancel(); passing.await }
            () = tokio::time::sleep_until(deadline) => { hurry.cancel(); passing.await }
        },
    };
    Ok(Followed { heard, stopped, output_capped })
}

/// Runs the probe and gives what it found.
pub(super) async fn look(
    keeper: &mut Keeper,
    facts: &HostFacts,
    spec: &LaunchSpec,
    timeout: Duration,
) -> Result<Vec<Finding>, SandboxError> {
    let mut launched = keeper.launch(spec).await.map_err(|error| bad_spec(&error))?;
    let heard = tokio::time::timeout(timeout, listen(&mut launched.reports)).await;
    let heard = heard.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(lost)?;
    for report in heard {
        match report {
            Report::Found(findings) => return Ok(findings),
            Report::Refused { stage, errno, what } => return Err(explain(stage, errno, &what, facts)),
            Report::Ready | Report::NotStarted { .. } | Report::Ended { .. } | Report::Gone => {}
        }
    }
    Err(lost(io::ErrorKind::UnexpectedEof.into()))
}

/// Everything that a launcher reports, until its last process has ended.
async fn listen(reports: &mut Reports) -> io::Result<Vec<Report>> {
    let mut heard = Vec::new();
    while let Some(report) = reports.next().await? {
        if heard.len() == REPORTS {
            return Err(io::Error::other("more reports than a launcher makes"));
        }
        heard.push(report);
    }
    Ok(heard)
}

/// How a command ended that nobody stopped.
fn ended(
    heard: Vec<Report>,
    memory_killed: bool,
    facts: &HostFacts,
    spec: &LaunchSpec,
) -> Result<ExecEnd, SandboxError> {
    let mut end = None;
    for report in heard {
        match report {
            Report::Refused { stage, errno, what } => return Err(explain(stage, errno, &what, facts)),
            Report::NotStarted { errno, folder } => return Err(not_started(errno, folder, &spec.payload)),
            Report::Ended { code, signal, over_memory } => end = Some((code, signal, over_memory)),
            Report::Ready | Report::Found(_) | Report::Gone => {}
        }
    }
    match end {
        // What the kernel killed for memory may have been a part that the program can do without.
        Some((Some(0), _, false)) => Ok(ExecEnd::Exited(0)),
        Some((_, _, true)) => Ok(ExecEnd::OutOfMemory),
        _ if memory_killed => Ok(ExecEnd::OutOfMemory),
        Some((Some(code), _, _)) => Ok(ExecEnd::Exited(code)),
        Some((None, Some(signal), _)) => Ok(ExecEnd::Signalled(signal)),
        Some((None, None, _)) | None => Err(lost(io::ErrorKind::UnexpectedEof.into())),
    }
}

fn not_started(errno: i32, folder: bool, payload: &Payload) -> SandboxError {
    let Payload::Command { command, cwd, .. } = payload else {
        return lost(io::Error::from_raw_os_error(errno));
    };
    if folder {
        return SandboxError::BadCommand(format!("its folder {} is not there", cwd.display()));
    }
    match errno {
        libc::ENOENT | libc::EACCES | libc::ENOTDIR | libc::ENOEXEC => SandboxError::CommandNotFound(command.clone()),
        _ => SandboxError::BadCommand(io::Error::from_raw_os_error(errno).to_string()),
    }
}

fn bad_spec(error: &io::Error) -> SandboxError {
    if error.kind() == io::ErrorKind::InvalidInput {
        SandboxError::BadCommand("its arguments and variables are too long".into())
    } else {
        SandboxError::Failed { doing: "telling a launcher its command".into(), cause: error.to_string() }
    }
}

fn lost(error: io::Error) -> SandboxError {
    failed("waiting for a command's processes", error)
}
