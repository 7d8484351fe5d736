//! A sandbox in memory, with a handful of programs that do what their names say, and a ledger of what ran.
//!
//! Programs: `ls`, `write PATH TEXT`, `add PATH TEXT` (which appends), `remove PATH`, `print LINES`, `sleep SECONDS`, `fail`, and
//! `node … build` or `npm run build`, which fails as long as a file holds the words `BREAK THE BUILD` and otherwise writes a page that
//! depends on every file.

use std::collections::{BTreeMap, hash_map::DefaultHasher};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use contract::event::OutputStream;
use contract::{ProjectId, ProjectPath};
use runtime::ports::sandbox::{
    ExecEnd, ExecOutcome, ExecSpec, FileStamp, IsolationLevel, IsolationReport, OutputChunk, Purpose, Sandbox,
    SandboxError, Scan, ScanLimits, Workspace, WorkspaceSpec,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::gate::{self, Failure, Gate, WHY};
use super::plan::Trouble;

/// Something that ran, and how it ended; none if the process was killed meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// The project.
    pub project: ProjectId,
    /// Program and arguments.
    pub line: String,
    /// How it ended.
    pub end: Option<ExecEnd>,
}

type Files = BTreeMap<ProjectPath, Bytes>;
type Room = Arc<Mutex<Files>>;

/// What outlives every process: what ran. Of files nothing does: each opening is a place of its own, as the port demands.
#[derive(Debug, Clone, Default)]
pub(super) struct Grounds(Arc<Mutex<Vec<Executed>>>);

impl Grounds {
    fn begin(&self, project: ProjectId, line: String) -> usize {
        let mut ran = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ran.push(Executed { project, line, end: None });
        ran.len() - 1
    }

    fn end(&self, number: usize, end: ExecEnd) {
        if let Some(ran) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(number) {
            ran.end = Some(end);
        }
    }

    /// All that ran, in order.
    pub(super) fn all(&self) -> Vec<Executed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The sandbox of one process.
pub struct StageSandbox {
    report: IsolationReport,
    grounds: Grounds,
    gate: Arc<Gate>,
}

impl Default for StageSandbox {
    /// One that nothing happens to.
    fn default() -> Self {
        Self::new(Grounds::default(), Arc::new(Gate::calm()))
    }
}

impl StageSandbox {
    pub(super) fn new(grounds: Grounds, gate: Arc<Gate>) -> Self {
        let report = IsolationReport {
            backend: "stage".into(),
            level: IsolationLevel::Full,
            reason: None,
            remedy: vec![],
            features: vec![],
        };
        Self { report, grounds, gate }
    }
}

#[async_trait]
impl Sandbox for StageSandbox {
    fn report(&self) -> &IsolationReport {
        &self.report
    }

    async fn open(&self, spec: WorkspaceSpec) -> Result<Arc<dyn Workspace>, SandboxError> {
        let (gate, grounds) = (self.gate.clone(), self.grounds.clone());
        let open = || {
            let (files, gate, grounds) = (Room::default(), gate.clone(), grounds.clone());
            async move { Ok(Arc::new(StageWorkspace { project: spec.project, files, grounds, gate }) as Arc<dyn Workspace>) }
        };
        self.gate.call("open", failed, open).await
    }
}

struct StageWorkspace {
    project: ProjectId,
    files: Room,
    grounds: Grounds,
    gate: Arc<Gate>,
}

fn bad(what: &str) -> SandboxError {
    SandboxError::BadCommand(what.to_owned())
}

fn failed(_: Failure) -> SandboxError {
    SandboxError::Failed { doing: "working".into(), cause: WHY.into() }
}

fn locked(files: &Mutex<Files>) -> MutexGuard<'_, Files> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StageWorkspace {
    /// Does something with the files, past the gate.
    async fn with<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Fn(&mut Files) -> Result<T, SandboxError> + Clone + Send + Sync + 'static,
    ) -> Result<T, SandboxError> {
        let done = || {
            let (files, work) = (self.files.clone(), work.clone());
            async move { work(&mut locked(&files)) }
        };
        self.gate.call(name, failed, done).await
    }

    fn path(text: Option<&String>) -> Result<ProjectPath, SandboxError> {
        ProjectPath::parse(text.map_or("", String::as_str)).map_err(|problem| bad(&problem.to_string()))
    }

    async fn program(&self, spec: &ExecSpec) -> Result<(i32, String), SandboxError> {
        let args = &spec.args;
        let text = || args.get(1).cloned().unwrap_or_default();
        let number = || args.first().and_then(|s| s.parse().ok()).unwrap_or(1);
        match spec.command.as_str() {
            "ls" => Ok((0, locked(&self.files).keys().map(|path| format!("{path}\n")).collect())),
            "write" => {
                locked(&self.files).insert(Self::path(args.first())?, text().into());
                Ok((0, String::new()))
            }
            "add" => {
                let path = Self::path(args.first())?;
                let mut files = locked(&self.files);
                let former = files.get(&path).map(|content| String::from_utf8_lossy(content).into_owned());
                files.insert(path, (former.unwrap_or_default() + &text()).into());
                Ok((0, String::new()))
            }
            "remove" => {
                locked(&self.files).remove(&Self::path(args.first())?);
                Ok((0, String::new()))
            }
            "print" => Ok((0, (1..=number()).map(|n| format!("line {n} of what is printed\n")).collect())),
            "sleep" => {
                tokio::time::sleep(Duration::from_secs(number())).await;
                Ok((0, String::new()))
            }
            "fail" => Ok((1, "it failed\n".into())),
            "node" | "npm" => {
                tokio::time::sleep(Duration::from_millis(600)).await;
                Ok(self.build())
            }
            other => Err(SandboxError::CommandNotFound(other.to_owned())),
        }
    }

    fn build(&self) -> (i32, String) {
        let mut files = locked(&self.files);
        let contains = |content: &Bytes| String::from_utf8_lossy(content).contains("BREAK THE BUILD");
        if let Some((path, _)) = files.iter().find(|(_, content)| contains(content)) {
            return (1, format!("error in {path}: BREAK THE BUILD\n"));
        }
        let mut page = String::from("<!doctype html>\n");
        for (path, content) in files.iter().filter(|(path, _)| !path.as_str().starts_with("dist/")) {
            let mut hash = DefaultHasher::new();
            content.hash(&mut hash);
            page.push_str(&format!("{path} {:x}\n", hash.finish()));
        }
        if let Ok(index) = ProjectPath::parse("dist/index.html") {
            files.insert(index, page.into());
        }
        (0, "built\n".into())
    }
}

/// What there is to run.
const PROGRAMS: [&str; 9] = ["ls", "write", "add", "remove", "print", "sleep", "fail", "node", "npm"];
/// Bytes of one piece of output.
const PIECE: usize = 4_096;

#[async_trait]
impl Workspace for StageWorkspace {
    async fn write(&self, files: &[(ProjectPath, Bytes)]) -> Result<(), SandboxError> {
        let new = files.to_vec();
        self.with("write", move |files| {
            files.extend(new.iter().cloned());
            Ok(())
        })
        .await
    }

    async fn remove(&self, path: &ProjectPath) -> Result<bool, SandboxError> {
        let path = path.clone();
        self.with("remove", move |files| Ok(files.remove(&path).is_some())).await
    }

    async fn rename(&self, from: &ProjectPath, to: &ProjectPath) -> Result<(), SandboxError> {
        let (from, to) = (from.clone(), to.clone());
        self.with("rename", move |files| {
            let content = files.remove(&from).ok_or_else(|| SandboxError::NotFound(from.clone()))?;
            files.insert(to.clone(), content);
            Ok(())
        })
        .await
    }

    async fn read(&self, path: &ProjectPath, _max_bytes: u64) -> Result<Option<Bytes>, SandboxError> {
        let path = path.clone();
        self.with("read", move |files| Ok(files.get(&path).cloned())).await
    }

    async fn scan(&self, _limits: ScanLimits) -> Result<Scan, SandboxError> {
        self.with("scan", |files| {
            let stamp = |content: &Bytes| {
                let mut hash = DefaultHasher::new();
                content.hash(&mut hash);
                FileStamp { bytes: content.len() as u64, fingerprint: [hash.finish(), 0, 0] }
            };
            let own = files.iter().filter(|(path, _)| !path.as_str().starts_with("dist/"));
            let files = own.map(|(path, content)| (path.clone(), stamp(content))).collect();
            Ok(Scan { files, skipped: 0, truncated: false })
        })
        .await
    }

    async fn exec(
        &self,
        spec: ExecSpec,
        output: mpsc::Sender<OutputChunk>,
        cancel: CancellationToken,
    ) -> Result<ExecOutcome, SandboxError> {
        let troubles = self.gate.begin("exec").await;
        if let Some(failure) = gate::failure(&troubles) {
            return Err(failed(failure));
        }
        tokio::time::sleep(gate::late(&troubles)).await;
        if !PROGRAMS.contains(&spec.command.as_str()) {
            return Err(SandboxError::CommandNotFound(spec.command));
        }
        let line = std::iter::once(&spec.command).chain(&spec.args).cloned().collect::<Vec<_>>().join(" ");
        if troubles.contains(&Trouble::Repeat) && spec.purpose == Purpose::Build {
            // A command that were run twice would be a sandbox's fault. A build may be.
            let _ = self.program(&spec).await;
        }
        let number = self.grounds.begin(self.project, line);
        let end = tokio::select! {
            biased;
            () = cancel.cancelled() => ExecEnd::Cancelled,
            () = tokio::time::sleep(spec.timeout) => ExecEnd::TimedOut,
            done = self.program(&spec) => {
                let (code, text) = done.unwrap_or_else(|error| (2, format!("{error}\n")));
                for piece in text.as_bytes().chunks(PIECE) {
                    let bytes = Bytes::copy_from_slice(piece);
                    // Nobody who listens means that nobody wants it.
                    let _ = output.send(OutputChunk { stream: OutputStream::Stdout, skipped: 0, bytes }).await;
                }
                ExecEnd::Exited(code)
            }
        };
        self.grounds.end(number, end);
        self.gate.finish(&troubles).await;
        match gate::is_lost(&troubles) {
            true => Err(failed(Failure::Broken)),
            false => Ok(ExecOutcome { end, output_capped: false, duration: Duration::ZERO }),
        }
    }

    async fn collect(&self, dir: &ProjectPath, _limits: ScanLimits) -> Result<Vec<(ProjectPath, Bytes)>, SandboxError> {
        let prefix = format!("{dir}/");
        self.with("collect", move |files| {
            let inside =
                |path: &ProjectPath| path.as_str().strip_prefix(&prefix).and_then(|p| ProjectPath::parse(p).ok());
            Ok(files.iter().filter_map(|(path, content)| Some((inside(path)?, content.clone()))).collect())
        })
        .await
    }

    async fn close(&self) -> Result<(), SandboxError> {
        self.with("close", |_| Ok(())).await
    }
}
