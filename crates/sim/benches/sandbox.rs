//! How long the embedded sandbox takes: to open a workspace and start its first command, to start further ones, and to build, each beside
//! the same program started without a sandbox.
//!
//! Prints one JSON line for each case and quantile, in milliseconds. `BATON_BENCH_BINARY` names the launcher (`baton`; without it this
//! program is its own); `BATON_BENCH_TEMPLATES` a folder with a prepared `react-vite`, which adds its layer and the cases that need
//! Node. `cargo bench -p sim --bench sandbox [-- FILTER]` runs the cases whose name has FILTER in it.
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark starts programs, and reads the clock, the load and its arguments"
)]
#![expect(clippy::print_stdout, reason = "its lines are the result")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use adapters::sandbox::local::{LocalSandbox, LocalSandboxConfig, launcher_entry};
use bytes::Bytes;
use contract::{Limits, ProjectId, ProjectPath};
use runtime::ports::sandbox::{
    ExecSpec, OutputChunk, OutputLimits, Purpose, ResourceLimits, Sandbox, SandboxError, Workspace, WorkspaceSpec,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Measurements of one case; of builds, fewer.
const TIMES: usize = 200;
const BUILDS: usize = 10;
/// Pause before each, as between a person's commands: a sandbox that is only quick when it was just used is not.
const PAUSE: Duration = Duration::from_millis(20);
/// Commands at once, each in a workspace of its own.
const AT_ONCE: usize = 16;

type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    launcher_entry();
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(all(&filter))
}

async fn all(filter: &str) -> Result<(), Failed> {
    let data = tempfile::tempdir()?;
    let template = std::env::var_os("BATON_BENCH_TEMPLATES").map(|folder| PathBuf::from(folder).join("react-vite"));
    let node = node();
    let mut config = LocalSandboxConfig::new(data.path());
    config.launcher = std::env::var_os("BATON_BENCH_BINARY").map_or_else(|| "/proc/self/exe".into(), PathBuf::from);
    config.template_dir.clone_from(&template);
    config.node_dir = node.as_deref().and_then(Path::parent).and_then(Path::parent).map(Path::to_owned);
    let sandbox = LocalSandbox::new(config).await?;
    let level = format!("{:?}", sandbox.report().level).to_lowercase();
    let user = if is_root() { "root" } else { "user" };
    let layer = if template.is_some() { "with" } else { "without" };
    let bench = Bench { sandbox, filter, setting: format!("level {level}, as {user}, {layer} dependencies' layer") };

    bench.bare("bare true", "true", &[]).await?;
    bench.first_command().await?;
    bench.command("true", "true", &[]).await?;
    bench.write().await?;
    bench.many_at_once().await?;
    let Some(node) = node else { return Ok(()) };
    bench.bare("bare node -e 0", node, &["-e", "0"]).await?;
    bench.command("node -e 0", "node", &["-e", "0"]).await?;
    match template {
        Some(template) => bench.build(&template).await,
        None => Ok(()),
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// The first Node of the search path.
fn node() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("node")).find_map(|node| node.canonicalize().ok())
}

struct Bench<'a> {
    sandbox: LocalSandbox,
    filter: &'a str,
    setting: String,
}

impl Bench<'_> {
    async fn open(&self) -> Result<Arc<dyn Workspace>, SandboxError> {
        self.sandbox.open(WorkspaceSpec { project: ProjectId::from_bits(1), epoch: 1 }).await
    }

    /// The same program on the host, for comparison.
    async fn bare(&self, case: &str, program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Result<(), Failed> {
        let mut times = Times::default();
        while times.wanted(case, self.filter, TIMES).await {
            let start = Instant::now();
            let status = Command::new(&program).args(args).env_clear().stdin(Stdio::null()).status()?;
            times.add(start);
            assert!(status.success(), "{case}");
        }
        times.report(case, "no sandbox");
        Ok(())
    }

    /// From nothing to a command's end.
    async fn first_command(&self) -> Result<(), Failed> {
        let (case, mut times) = ("create and first command", Times::default());
        while times.wanted(case, self.filter, TIMES).await {
            let start = Instant::now();
            let workspace = self.open().await?;
            run(&*workspace, command("true", &[])).await?;
            times.add(start);
            workspace.close().await?;
        }
        times.report(case, &self.setting);
        Ok(())
    }

    async fn command(&self, case: &str, program: &str, args: &[&str]) -> Result<(), Failed> {
        let (workspace, mut times) = (self.open().await?, Times::default());
        while times.wanted(case, self.filter, TIMES).await {
            let start = Instant::now();
            run(&*workspace, command(program, args)).await?;
            times.add(start);
        }
        times.report(case, &self.setting);
        Ok(workspace.close().await?)
    }

    async fn write(&self) -> Result<(), Failed> {
        let (case, mut times) = ("write 20 files of 4 KB", Times::default());
        let workspace = self.open().await?;
        let paths = (0..20).map(|i| ProjectPath::parse(&format!("src/part{}/file{i}.ts", i % 4)));
        let files: Vec<_> =
            paths.map(|path| path.map(|path| (path, Bytes::from_static(&[b'x'; 4_096])))).collect::<Result<_, _>>()?;
        while times.wanted(case, self.filter, TIMES).await {
            let start = Instant::now();
            workspace.write(&files).await?;
            times.add(start);
        }
        times.report(case, &self.setting);
        Ok(workspace.close().await?)
    }

    /// All of them done, divided by their number.
    async fn many_at_once(&self) -> Result<(), Failed> {
        let (case, mut times) = ("true, 16 at once, each", Times::default());
        let mut workspaces = Vec::new();
        for _ in 0..AT_ONCE {
            workspaces.push(self.open().await?);
        }
        while times.wanted(case, self.filter, TIMES / AT_ONCE).await {
            let start = Instant::now();
            let all = workspaces.iter().map(|workspace| run(&**workspace, command("true", &[])));
            futures::future::try_join_all(all).await?;
            times.0.push(start.elapsed() / AT_ONCE as u32);
        }
        times.report(case, &self.setting);
        for workspace in workspaces {
            workspace.close().await?;
        }
        Ok(())
    }

    /// `vite build` of the template as it is.
    async fn build(&self, template: &Path) -> Result<(), Failed> {
        let (case, mut times) = ("vite build", Times::default());
        let (workspace, mut files) = (self.open().await?, Vec::new());
        project_files(template, "", &mut files)?;
        workspace.write(&files).await?;
        while times.wanted(case, self.filter, BUILDS).await {
            let start = Instant::now();
            run(&*workspace, command("node", &["node_modules/vite/bin/vite.js", "build"])).await?;
            times.add(start);
        }
        times.report(case, &self.setting);
        Ok(workspace.close().await?)
    }
}

fn project_files(folder: &Path, below: &str, files: &mut Vec<(ProjectPath, Bytes)>) -> Result<(), Failed> {
    for entry in std::fs::read_dir(folder.join(below))? {
        let name = entry?.file_name().into_string().map_err(|_| "a name that is no text")?;
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        if matches!(name.as_str(), "node_modules" | "dist") {
            continue;
        }
        if folder.join(&path).is_dir() {
            project_files(folder, &path, files)?;
        } else {
            files.push((ProjectPath::parse(&path)?, std::fs::read(folder.join(&path))?.into()));
        }
    }
    Ok(())
}

fn command(program: &str, args: &[&str]) -> ExecSpec {
    ExecSpec {
        command: program.into(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: Vec::new(),
        cwd: None,
        timeout: Duration::from_secs(60),
        limits: ResourceLimits::of(&Limits::default(), Purpose::Build),
        purpose: Purpose::Build,
        output: OutputLimits::total(1 << 20),
    }
}

async fn run(workspace: &dyn Workspace, spec: ExecSpec) -> Result<(), Failed> {
    let (output, mut chunks) = mpsc::channel::<OutputChunk>(16);
    let drain = async {
        let mut said = Vec::new();
        while let Some(chunk) = chunks.recv().await {
            said.extend_from_slice(&chunk.bytes);
        }
        said
    };
    let (outcome, said) = tokio::join!(workspace.exec(spec, output, CancellationToken::new()), drain);
    let outcome = outcome?;
    if outcome.succeeded() { Ok(()) } else { Err(format!("{outcome:?} {}", String::from_utf8_lossy(&said)).into()) }
}

/// The durations of one case.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    /// Whether another one is wanted; pauses before it.
    async fn wanted(&self, case: &str, filter: &str, times: usize) -> bool {
        let wanted = self.0.len() < times && case.contains(filter);
        if wanted {
            tokio::time::sleep(PAUSE).await;
        }
        wanted
    }

    fn add(&mut self, start: Instant) {
        self.0.push(start.elapsed());
    }

    fn report(mut self, case: &str, setting: &str) {
        self.0.sort_unstable();
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load1: Option<f64> = load.split(' ').next().and_then(|load| load.parse().ok());
        let setting = format!("{setting}, {} times", self.0.len());
        for (quantile, per_mille) in [("min", 0), ("p50", 500), ("p99", 990)] {
            let Some(time) = self.0.get(self.0.len() * per_mille / 1_000) else { return };
            let value = (time.as_secs_f64() * 1e6).round() / 1e3;
            let line = serde_json::json!({
                "bench": "sandbox", "case": format!("{case}, {quantile}"), "value": value, "unit": "ms",
                "setting": setting, "load1": load1,
            });
            println!("{line}");
        }
    }
}
