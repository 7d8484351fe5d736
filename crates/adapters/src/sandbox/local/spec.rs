//! What the host and its helper processes say to each other. Nothing goes through the argument vector or the environment.
//!
//! A frame is its length (four bytes, little-endian) and JSON. To a **keeper**, whose socket is its standard input: one [`Prepare`], which it
//! answers with [`Report::Ready`]; then for each command one byte with [`STREAMS`] descriptors. To a **launcher**, whose socket is the first of
//! those: one [`LaunchSpec`], then silence; any further byte, or the end of the stream, means "kill everything". It answers with
//! [`Report`]s, of which [`Report::Gone`] is the last.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The hidden first argument that turns `baton` into a launcher.
pub(super) const LAUNCHER_WORD: &str = "__sandbox";
/// Largest frame in bytes: 60 arguments of 1 KB, the environment and the paths fit many times.
pub(super) const FRAME_BYTES: usize = 512 * 1024;
/// Descriptors of one command: its launcher's socket, standard output, standard error.
pub(super) const STREAMS: usize = 3;
/// Inside, every process is this user and group.
pub(super) const INSIDE_ID: u32 = 1000;
/// Where the project is mounted.
pub(super) const PROJECT_DIR: &str = "/workspace";
/// Where a Node installation that lies outside the system's folders is mounted.
pub(super) const NODE_DIR: &str = "/opt/node";
/// The only home there is.
pub(super) const HOME_DIR: &str = "/tmp/home";

/// A keeper's only frame.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Prepare {
    /// `cgroup.procs` files to join.
    pub join: Vec<PathBuf>,
}

/// A launcher's only frame: everything about one command.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LaunchSpec {
    /// Host user and group to become first. Without it the launcher stays who it is, which must not be the host's root.
    pub become_id: Option<u32>,
    /// What the command sees of the file system.
    pub view: FileView,
    /// What each of its processes may use.
    pub limits: ProcessLimits,
    /// What runs.
    pub payload: Payload,
}

/// The file system inside.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FileView {
    /// Host folder that becomes [`PROJECT_DIR`], writable.
    pub project: PathBuf,
    /// Dependencies over the project's `node_modules`.
    pub dependencies: Option<DependencyLayer>,
    /// Host folder that becomes [`NODE_DIR`], read-only.
    pub node: Option<PathBuf>,
    /// Size of `/tmp` in bytes.
    pub tmp_bytes: u64,
}

/// A read-only folder with a small writable layer over it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DependencyLayer {
    /// The template's `node_modules`, never written.
    pub lower: PathBuf,
    /// Folder that holds `upper` and the work folder; they must lie on one mount.
    pub layer: PathBuf,
    /// Name of the work folder in `layer`: empty, and used for one command.
    pub work: String,
}

/// Limits that each process carries (`setrlimit`).
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct ProcessLimits {
    /// Largest file in bytes.
    pub file_bytes: u64,
    /// Processes and threads inside, all together: the kernel counts them per user namespace.
    pub pids: u64,
    /// Processor seconds of one process.
    pub cpu_seconds: u64,
    /// Set where no control group limits memory: the launcher's init adds up what all processes hold and kills them above this.
    pub watched_memory_bytes: Option<u64>,
}

/// What runs inside.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Payload {
    /// A program.
    Command {
        /// Name or path.
        command: String,
        /// Arguments.
        args: Vec<String>,
        /// The whole environment.
        env: Vec<(String, String)>,
        /// Start folder.
        cwd: PathBuf,
    },
    /// The launcher itself looks round as a program would, and reports what it finds.
    Probe(ProbeSpec),
}

/// What the probe must find different from, or unable to reach on, the host.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ProbeSpec {
    /// The host's namespaces, as `/proc/self/ns` names them.
    pub host_namespaces: Vec<(String, PathBuf)>,
    /// Port of a listener on the host's loopback.
    pub host_port: u16,
    /// Host paths that must not exist inside.
    pub hidden: Vec<PathBuf>,
    /// Whether a Node must be there.
    pub node: bool,
}

/// A step of the launcher, in order. A failure names its step, which tells what the system refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// Reading the frames.
    ReadSpec,
    /// Joining control groups.
    JoinGroups,
    /// Taking hold of the host's folders.
    TakeFolders,
    /// Becoming the sandbox's user.
    BecomeUser,
    /// Leaving the host's namespaces.
    LeaveNamespaces,
    /// Mapping the user.
    MapUser,
    /// Starting the first process of the new process namespace.
    StartInit,
    /// Setting up the empty network.
    Network,
    /// Putting the root folder together.
    BuildRoot,
    /// Mounting `/proc`.
    MountProc,
    /// Mounting the dependencies.
    MountDependencies,
    /// Leaving the host's root folder.
    SwitchRoot,
    /// Dropping capabilities.
    DropCapabilities,
    /// Landlock.
    Landlock,
    /// System call filter.
    FilterCalls,
    /// Starting the program's process.
    StartPayload,
}

/// What the launcher tells.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// The keeper has joined its groups and waits for commands.
    Ready,
    /// The system refused a step; nothing has run.
    Refused {
        /// The step.
        stage: Stage,
        /// The system's error number; 0 if it was not the system.
        errno: i32,
        /// What exactly, such as a path.
        what: String,
    },
    /// The program could not be started.
    NotStarted {
        /// The system's error number.
        errno: i32,
        /// Whether it is the start folder that is missing, and not the program.
        folder: bool,
    },
    /// What the probe found.
    Found(Vec<Finding>),
    /// The program ended.
    Ended {
        /// Its exit code, if it ended by itself.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
        /// Whether init killed everything because of [`ProcessLimits::watched_memory_bytes`].
        over_memory: bool,
    },
    /// Every process of the command is gone: its process namespace is dead.
    Gone,
}

/// One claim that was looked at from inside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Finding {
    /// The claim.
    pub feature: String,
    /// Whether it holds.
    pub holds: bool,
    /// What was seen.
    pub detail: String,
}

/// Writes one frame in one piece.
pub(super) fn write_frame<T: Serialize>(to: &mut impl Write, frame: &T) -> io::Result<()> {
    to.write_all(&encode_frame(frame)?)
}

/// A frame's bytes.
pub(super) fn encode_frame<T: Serialize>(frame: &T) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, frame)?;
    let length = bytes.len() - 4;
    match u32::try_from(length) {
        Ok(prefix) if length <= FRAME_BYTES => bytes[..4].copy_from_slice(&prefix.to_le_bytes()),
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "frame over the limit")),
    }
    Ok(bytes)
}

/// The length in a frame's first four bytes, checked.
pub(super) fn frame_length(prefix: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(prefix) as usize;
    if length > FRAME_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "frame over the limit"));
    }
    Ok(length)
}

/// Reads one frame.
pub(super) fn read_frame<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut prefix = [0; 4];
    from.read_exact(&mut prefix)?;
    let mut body = vec![0; frame_length(prefix)?];
    from.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}
