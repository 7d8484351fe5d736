//! A sandbox in memory, with a handful of programs that do what their names say, and a ledger of what ran.
//!
//! Programs: `ls`, `write PATH TEXT`, `remove PATH`, `sleep SECONDS`, `fail`, and `node … build`, which fails as long as a file
//! holds the words `BREAK THE BUILD` and otherwise writes a page that depends on every file.

use std::collections::{BTreeMap, hash_map::DefaultHasher};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use contract::ProjectPath;
use contract::event::OutputStream;
use runtime::ports::sandbox::{
    ExecEnd, ExecOutcome, ExecSpec, FileStamp, IsolationLevel, IsolationReport, OutputChunk, Sandbox, SandboxError,
    Scan, ScanLimits, Workspace, WorkspaceSpec,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Something that ran, and how it ended; none if the process was killed meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// Program and arguments.
    pub line: String,
    /// How it ended.
    pub end: Option<ExecEnd>,
}

/// What ran, over all processes of a rehearsal.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger(Arc<Mutex<Vec<Executed>>>);

impl Ledger {
    fn begin(&self, line: String) -> usize {
        let mut ran = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ran.push(Executed { line, end: None });
        ran.len() - 1
    }

    fn end(&self, number: usize, end: ExecEnd) {
        if let Some(ran) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(number) {
            ran.end = Some(end);
        }
    }

    pub(super) fn all(&self) -> Vec<Executed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Sandboxes that share a ledger.
pub struct StageSandbox {
    report: IsolationReport,
    ledger: Ledger,
}

impl Default for StageSandbox {
    /// One with a ledger of its own.
    fn default() -> Self {
        Self::new(Ledger::default())
    }
}

impl StageSandbox {
    pub(super) fn new(ledger: Ledger) -> Self {
        let report = IsolationReport {
            backend: "stage".into(),
            level: IsolationLevel::Full,
            reason: None,
            remedy: vec![],
            features: vec![],
        };
        Self { report, ledger }
    }
}

#[async_trait]
impl Sandbox for StageSandbox {
    fn report(&self) -> &IsolationReport {
        &self.report
    }

    async fn open(&self, _spec: WorkspaceSpec) -> Result<Arc<dyn Workspace>, SandboxError> {
        Ok(Arc::new(StageWorkspace { files: Mutex::default(), ledger: self.ledger.clone() }))
    }
}

struct StageWorkspace {
    files: Mutex<BTreeMap<ProjectPath, Bytes>>,
    ledger: Ledger,
}

fn bad(what: &str) -> SandboxError {
    SandboxError::BadCommand(what.to_owned())
}

impl StageWorkspace {
    fn files(&self) -> std::sync::MutexGuard<'_, BTreeMap<ProjectPath, Bytes>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(text: Option<&String>) -> Result<ProjectPath, SandboxError> {
        ProjectPath::parse(text.map_or("", String::as_str)).map_err(|problem| bad(&problem.to_string()))
    }

    async fn program(&self, spec: &ExecSpec) -> Result<(i32, String), SandboxError> {
        let args = &spec.args;
        match spec.command.as_str() {
            "ls" => Ok((0, self.files().keys().map(|path| format!("{path}\n")).collect())),
            "write" => {
                let text = args.get(1).cloned().unwrap_or_default();
                self.files().insert(Self::path(args.first())?, text.into());
                Ok((0, String::new()))
            }
            "remove" => {
                self.files().remove(&Self::path(args.first())?);
                Ok((0, String::new()))
            }
            "sleep" => {
                let seconds = args.first().and_then(|s| s.parse().ok()).unwrap_or(1);
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok((0, String::new()))
            }
            "fail" => Ok((1, "it failed\n".into())),
            "node" if args.iter().any(|arg| arg == "build") => {
                tokio::time::sleep(Duration::from_millis(600)).await;
                Ok(self.build())
            }
            other => Err(SandboxError::CommandNotFound(other.to_owned())),
        }
    }

    fn build(&self) -> (i32, String) {
        let mut files = self.files();
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

#[async_trait]
impl Workspace for StageWorkspace {
    async fn write(&self, files: &[(ProjectPath, Bytes)]) -> Result<(), SandboxError> {
        self.files().extend(files.iter().cloned());
        Ok(())
    }

    async fn remove(&self, path: &ProjectPath) -> Result<bool, SandboxError> {
        Ok(self.files().remove(path).is_some())
    }

    async fn rename(&self, from: &ProjectPath, to: &ProjectPath) -> Result<(), SandboxError> {
        let mut files = self.files();
        let content = files.remove(from).ok_or_else(|| SandboxError::NotFound(from.clone()))?;
        files.insert(to.clone(), content);
        Ok(())
    }

    async fn read(&self, path: &ProjectPath, _max_bytes: u64) -> Result<Option<Bytes>, SandboxError> {
        Ok(self.files().get(path).cloned())
    }

    async fn scan(&self, _limits: ScanLimits) -> Result<Scan, SandboxError> {
        let stamp = |content: &Bytes| {
            let mut hash = DefaultHasher::new();
            content.hash(&mut hash);
            FileStamp { bytes: content.len() as u64, fingerprint: [hash.finish(), 0, 0] }
        };
        let files = self.files();
        let own = files.iter().filter(|(path, _)| !path.as_str().starts_with("dist/"));
        Ok(Scan {
            files: own.map(|(path, content)| (path.clone(), stamp(content))).collect(),
            skipped: 0,
            truncated: false,
        })
    }

    async fn exec(
        &self,
        spec: ExecSpec,
        output: mpsc::Sender<OutputChunk>,
        cancel: CancellationToken,
    ) -> Result<ExecOutcome, SandboxError> {
        let line = std::iter::once(&spec.command).chain(&spec.args).cloned().collect::<Vec<_>>().join(" ");
        let number = self.ledger.begin(line);
        let end = tokio::select! {
            () = cancel.cancelled() => ExecEnd::Cancelled,
            () = tokio::time::sleep(spec.timeout) => ExecEnd::TimedOut,
            done = self.program(&spec) => {
                let (code, text) = done?;
                if !text.is_empty() {
                    let chunk = OutputChunk { stream: OutputStream::Stdout, skipped: 0, bytes: text.into() };
                    // Nobody who listens means that nobody wants it.
                    let _ = output.send(chunk).await;
                }
                ExecEnd::Exited(code)
            }
        };
        self.ledger.end(number, end);
        Ok(ExecOutcome { end, output_capped: false, duration: Duration::ZERO })
    }

    async fn collect(&self, dir: &ProjectPath, _limits: ScanLimits) -> Result<Vec<(ProjectPath, Bytes)>, SandboxError> {
        let prefix = format!("{dir}/");
        let inside = |path: &ProjectPath| path.as_str().strip_prefix(&prefix).and_then(|p| ProjectPath::parse(p).ok());
        Ok(self.files().iter().filter_map(|(path, content)| Some((inside(path)?, content.clone()))).collect())
    }

    async fn close(&self) -> Result<(), SandboxError> {
        Ok(())
    }
}
