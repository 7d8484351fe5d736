//! A real sandbox with the real binary as its launcher, and short ways to run things in it. Shared by the sandbox tests.

#![expect(clippy::disallowed_methods, reason = "tests prepare the host's side themselves")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test's own trouble ends the test")]
// Each test file uses its own part of this one.
#![expect(dead_code, reason = "shared by several test files")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use adapters::sandbox::local::{LocalSandbox, LocalSandboxConfig};
use contract::event::OutputStream;
use contract::{Limits, ProjectId, ProjectPath};
use runtime::ports::sandbox::{
    ExecOutcome, ExecSpec, IsolationLevel, OutputChunk, OutputLimits, Purpose, ResourceLimits, Sandbox, SandboxError,
    ScanLimits, Workspace, WorkspaceSpec,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Longest wait for something that must happen at once.
pub const SOON: Duration = Duration::from_secs(10);
/// Every file that a test makes fits.
pub const SCAN: ScanLimits = ScanLimits { files: 1_000, bytes: 10_000_000, file_bytes: 1_000_000 };

/// A sandbox on a data folder of its own, with one open workspace.
pub struct Room {
    pub workspace: Arc<dyn Workspace>,
    pub sandbox: LocalSandbox,
    pub data: tempfile::TempDir,
}

/// What a command did.
#[derive(Debug)]
pub struct Ran {
    pub outcome: ExecOutcome,
    pub stdout: String,
    pub stderr: String,
}

/// A set-up with the real launcher, below `data`.
pub fn config(data: &Path) -> LocalSandboxConfig {
    let mut config = LocalSandboxConfig::new(data);
    config.launcher = launcher();
    config
}

/// The program: a copy of it, if the test that runs this one made one.
pub fn launcher() -> PathBuf {
    std::env::var_os("SANDBOX_TEST_LAUNCHER").map_or_else(|| env!("CARGO_BIN_EXE_baton").into(), PathBuf::from)
}

/// Opens a sandbox; where the system refuses it, the test fails with what helps.
pub async fn sandbox(config: LocalSandboxConfig) -> LocalSandbox {
    let sandbox = LocalSandbox::new(config).await.expect("the sandbox's set-up");
    let report = sandbox.report();
    assert_ne!(report.level, IsolationLevel::Refused, "{:?} {:#?}", report.reason, report.remedy);
    sandbox
}

impl Room {
    /// A room with everything that this system gives.
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// A room with a changed set-up.
    pub async fn with(change: impl FnOnce(&mut LocalSandboxConfig)) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut config = config(data.path());
        change(&mut config);
        let sandbox = sandbox(config).await;
        let workspace = open(&sandbox, 1).await;
        Self { workspace, sandbox, data }
    }

    /// Runs a script.
    pub async fn sh(&self, script: &str) -> Ran {
        self.run(shell(script)).await.unwrap()
    }

    /// Runs a command.
    pub async fn run(&self, spec: ExecSpec) -> Result<Ran, SandboxError> {
        run(&*self.workspace, spec, CancellationToken::new()).await
    }

    /// Starts a command and waits until its output has `mark`; the rest goes on by itself.
    pub async fn start(&self, spec: ExecSpec, mark: &str) -> (CancellationToken, tokio::task::JoinHandle<ExecOutcome>) {
        let (output, mut chunks) = mpsc::channel(16);
        let (stop, workspace) = (CancellationToken::new(), Arc::clone(&self.workspace));
        let token = stop.clone();
        let running = tokio::spawn(async move { workspace.exec(spec, output, token).await.unwrap() });
        let mut seen = String::new();
        while !seen.contains(mark) {
            let chunk = tokio::time::timeout(SOON, chunks.recv()).await.expect("output in time").expect("output");
            seen.push_str(&String::from_utf8_lossy(&chunk.bytes));
        }
        // Nobody reads on; the command must not mind.
        drop(chunks);
        (stop, running)
    }
}

/// Opens a workspace.
pub async fn open(sandbox: &LocalSandbox, epoch: u64) -> Arc<dyn Workspace> {
    sandbox.open(WorkspaceSpec { project: ProjectId::from_bits(7), epoch }).await.unwrap()
}

/// Runs a command to its end and gathers its output.
pub async fn run(workspace: &dyn Workspace, spec: ExecSpec, cancel: CancellationToken) -> Result<Ran, SandboxError> {
    let (output, mut chunks) = mpsc::channel::<OutputChunk>(16);
    let gather = async {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        while let Some(chunk) = chunks.recv().await {
            match chunk.stream {
                OutputStream::Stdout => stdout.extend_from_slice(&chunk.bytes),
                OutputStream::Stderr => stderr.extend_from_slice(&chunk.bytes),
            }
        }
        (String::from_utf8_lossy(&stdout).into_owned(), String::from_utf8_lossy(&stderr).into_owned())
    };
    let (outcome, (stdout, stderr)) = tokio::join!(workspace.exec(spec, output, cancel), gather);
    outcome.map(|outcome| Ran { outcome, stdout, stderr })
}

/// A command with ample limits.
pub fn command(name: &str, args: &[&str]) -> ExecSpec {
    ExecSpec {
        command: name.into(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: Vec::new(),
        cwd: None,
        timeout: Duration::from_secs(30),
        limits: ResourceLimits::of(&Limits::default(), Purpose::Build),
        purpose: Purpose::Build,
        output: OutputLimits::total(1 << 20),
    }
}

/// A shell script with ample limits.
pub fn shell(script: &str) -> ExecSpec {
    command("bash", &["-c", script])
}

/// A path of the project.
pub fn path(text: &str) -> ProjectPath {
    ProjectPath::parse(text).unwrap()
}

/// Host processes whose command line holds a mark: what is left of a command.
pub fn processes_with(mark: &str) -> Vec<u32> {
    let holds = |process: &u32| {
        std::fs::read(format!("/proc/{process}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).replace('\0', " ").contains(mark))
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(|process| *process != std::process::id()).filter(holds).collect()
}

/// A duration for `sleep` that no other process on this machine has, and which shows in its command line.
pub fn mark() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    format!("98765.{}{now}", std::process::id())
}

/// Waits until a condition holds, looking often, and fails after [`SOON`].
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < SOON, "not in time: {what}");
        std::thread::yield_now();
    }
}
