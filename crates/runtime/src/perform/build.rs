//! A build: the project's own build script in the sandbox, with what it made stored under its hash (E19).

use std::time::Duration;

use contract::CallId;
use contract::event::{BuildError, BuildState, BuildStatus, Error, Event, StepState, StepStatus};

use super::workspace::Actor;
use super::{Report, StepRef, tool};
use crate::Manifest;
use crate::ports::Workspace;
use crate::ports::sandbox::{ExecEnd, ExecSpec, OutputLimits, Purpose, ResourceLimits, SandboxError, ScanLimits};

/// Where Vite begins; the script `vite build` is run without npm in between, which would only cost time.
const VITE: &str = "node_modules/vite/bin/vite.js";

/// How a build did not succeed.
enum Failure {
    /// The project is at fault: the model can mend it.
    Project(BuildError),
    /// The sandbox or the object store is: trying again may help.
    Here(Error),
    /// The run is being stopped.
    Stopped,
}

/// Builds, and reports how it ended.
pub(super) async fn perform(actor: &mut Actor, step: StepRef) {
    let build_id = format!("{}.{}", step.0, step.1);
    let started = actor.runtime.ports.world.monotonic_ms();
    let begun = BuildStatus {
        status: BuildState::Building,
        build_id: build_id.clone(),
        duration_ms: None,
        error: None,
        output: None,
    };
    actor.report(Report::Events(step.clone(), vec![begun.into()], None)).await;
    let result = build(actor, &step, &CallId::new(build_id.clone())).await;
    let duration_ms = Some(actor.runtime.ports.world.monotonic_ms().saturating_sub(started));
    let ended = |state, reason| StepState { id: step.0.clone(), state, attempt: step.1, reason, output: None };
    let events: Vec<Event> = match result {
        Ok(output) => {
            let status =
                BuildStatus { status: BuildState::Succeeded, build_id, duration_ms, error: None, output: Some(output) };
            vec![status.into(), ended(StepStatus::Completed, None).into()]
        }
        Err(Failure::Project(error)) => {
            let reason = Some(error.message.clone());
            let status =
                BuildStatus { status: BuildState::Failed, build_id, duration_ms, error: Some(error), output: None };
            vec![status.into(), ended(StepStatus::Failed, reason).into()]
        }
        Err(Failure::Here(error)) => {
            let told = BuildError { code: error.code.clone(), message: error.message.clone(), log_tail: String::new() };
            let status =
                BuildStatus { status: BuildState::Failed, build_id, duration_ms, error: Some(told), output: None };
            vec![status.into(), error.into()]
        }
        Err(Failure::Stopped) => {
            let message = "The build was stopped.".to_owned();
            let error = Some(BuildError { code: "build_stopped".into(), message, log_tail: String::new() });
            let status = BuildStatus { status: BuildState::Failed, build_id, duration_ms, error, output: None };
            actor.report(Report::Events(step.clone(), vec![status.into()], None)).await;
            return actor.report(Report::Stopped(step)).await;
        }
    };
    actor.report(Report::Events(step, events, None)).await;
}

async fn build(actor: &mut Actor, step: &StepRef, call: &CallId) -> Result<String, Failure> {
    if actor.stop.is_cancelled() {
        return Err(Failure::Stopped);
    }
    let workspace = actor.ready().await.map_err(here)?;
    let (command, args) = command(workspace.as_ref()).await;
    let limits = &actor.runtime.limits;
    let spec = ExecSpec {
        command,
        args,
        env: vec![("NO_COLOR".into(), "1".into())],
        cwd: None,
        timeout: Duration::from_millis(limits.build_ms),
        limits: ResourceLimits::of(limits, Purpose::Build),
        purpose: Purpose::Build,
        output: OutputLimits::total(limits.command_output_bytes),
    };
    let ran = tool::exec(actor, &spec, step, call).await.map_err(here)?;
    let (workspace, outcome, log) = (ran.workspace, ran.outcome.map_err(here)?, ran.output);
    let limits = &actor.runtime.limits;
    let most = usize::try_from(limits.build_log_tail_bytes).unwrap_or(usize::MAX);
    let log_tail = log[log.ceil_char_boundary(log.len().saturating_sub(most))..].to_owned();
    let failed = |code: &str, message: String| {
        Err(Failure::Project(BuildError { code: code.into(), message, log_tail: log_tail.clone() }))
    };
    match outcome.end {
        ExecEnd::Exited(0) => {}
        ExecEnd::Exited(code) => return failed("build_failed", format!("the build ended with exit code {code}")),
        ExecEnd::Signalled(signal) => return failed("build_failed", format!("the build was ended by signal {signal}")),
        ExecEnd::TimedOut => {
            return failed("build_timed_out", format!("the build was not done after {} s", limits.build_ms / 1_000));
        }
        ExecEnd::OutOfMemory => return failed("build_failed", "the build needed more memory than it may use".into()),
        ExecEnd::OutOfDisk => return failed("build_failed", "the build needed more disk than it may use".into()),
        ExecEnd::Cancelled => return Err(Failure::Stopped),
    }
    let dir = &actor.runtime.template.output_dir;
    let most = ScanLimits {
        files: limits.build_output_files,
        bytes: limits.build_output_bytes,
        file_bytes: limits.build_output_bytes,
    };
    let files = match workspace.collect(dir, most).await {
        Ok(files) => files,
        Err(error @ SandboxError::TooLarge { .. }) => return failed("output_too_large", error.to_string()),
        Err(SandboxError::NotFound(_)) => vec![],
        Err(error) => return Err(here(error)),
    };
    if !files.iter().any(|(path, _)| path.as_str() == "index.html") {
        return failed("no_output", format!("the build wrote no {dir}/index.html"));
    }
    Manifest::store(actor.runtime.ports.objects.as_ref(), files).await.map_err(|error| {
        Failure::Here(Error {
            code: "objects_failed".into(),
            message: error.to_string(),
            retryable: true,
            action: "Make sure that the data folder has room.".into(),
            retry_after_ms: None,
        })
    })
}

/// What builds the project: its script named `build`.
async fn command(workspace: &dyn Workspace) -> (String, Vec<String>) {
    const PACKAGE_BYTES: u64 = 1024 * 1024;
    let script = match contract::ProjectPath::parse("package.json") {
        Ok(path) => workspace.read(&path, PACKAGE_BYTES).await.ok().flatten(),
        Err(_never) => None,
    };
    let script = script
        .and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok())
        .and_then(|package| package.pointer("/scripts/build").and_then(|s| s.as_str().map(str::to_owned)));
    let words = |line: &[&str]| line.iter().map(|w| (*w).to_owned()).collect();
    if script.as_deref().map(str::trim) == Some("vite build") {
        ("node".into(), words(&[VITE, "build"]))
    } else {
        ("npm".into(), words(&["run", "build", "--silent"]))
    }
}

fn here(error: SandboxError) -> Failure {
    if let SandboxError::Closed = error {
        return Failure::Stopped;
    }
    Failure::Here(Error {
        code: error.code().into(),
        message: error.to_string(),
        retryable: error.retryable(),
        action: error.action(),
        retry_after_ms: None,
    })
}
