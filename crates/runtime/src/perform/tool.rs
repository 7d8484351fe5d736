//! A call of a tool in the workspace: installs and commands. Tools that this Baton has not set up say so.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use contract::CallId;
use contract::event::{OutputStream, ToolFinished, ToolInput, ToolOutput, ToolStatus, Warning};
use tokio::sync::mpsc;

use super::workspace::Actor;
use super::{Report, StepRef};
use crate::ports::Workspace;
use crate::ports::sandbox::{
    ExecEnd, ExecOutcome, ExecSpec, OutputChunk, OutputLimits, Purpose, ResourceLimits, SandboxError, Scan,
};

/// How a call ended.
struct Ended {
    status: ToolStatus,
    exit_code: Option<i32>,
    output: String,
    error: Option<String>,
}

impl Ended {
    fn without_running(status: ToolStatus, why: impl Into<String>) -> Self {
        Self { status, exit_code: None, output: String::new(), error: Some(why.into()) }
    }
}

/// Performs a call and reports its result, whatever happens.
pub(super) async fn perform(actor: &mut Actor, step: StepRef, call: CallId, input: ToolInput) {
    let started = actor.runtime.ports.world.monotonic_ms();
    let ended = match &input {
        _ if actor.stop.is_cancelled() => Ended::without_running(ToolStatus::Cancelled, "the run is being stopped"),
        ToolInput::Install { packages, .. } => install(actor, packages),
        ToolInput::Command { command, args } => run(actor, &step, &call, command, args).await,
        ToolInput::WebSearch { .. } => {
            Ended::without_running(ToolStatus::Unavailable, "no web search is set up on this server")
        }
        ToolInput::UrlScrape { .. } => Ended::without_running(ToolStatus::Unavailable, "this server fetches no pages"),
        ToolInput::Skill { name, .. } => {
            Ended::without_running(ToolStatus::Unavailable, format!("there is no skill named {name}"))
        }
    };
    let finished = ToolFinished {
        call_id: call,
        status: ended.status,
        exit_code: ended.exit_code,
        output: ended.output,
        error: ended.error,
        duration_ms: actor.runtime.ports.world.monotonic_ms().saturating_sub(started),
        replayed: false,
    };
    actor.report(Report::Events(step, vec![finished.into()], None)).await;
}

/// Packages that the template holds are there already; there is no registry to take others from.
fn install(actor: &Actor, packages: &[String]) -> Ended {
    let held = &actor.runtime.template.packages;
    let (present, missing): (Vec<_>, Vec<_>) = packages.iter().partition(|p| held.contains_key(name_of(p)));
    let mut output: String = present
        .iter()
        .map(|p| format!("{} {} already present\n", name_of(p), held.get(name_of(p)).map_or("", String::as_str)))
        .collect();
    if missing.is_empty() {
        return Ended { status: ToolStatus::Succeeded, exit_code: None, output, error: None };
    }
    for package in &missing {
        output.push_str(&format!("{} is not in the template\n", name_of(package)));
    }
    let names: Vec<&str> = held.keys().map(String::as_str).collect();
    let error =
        format!("packages outside the template cannot be installed here; use what there is: {}", names.join(", "));
    Ended { status: ToolStatus::Unavailable, exit_code: None, output, error: Some(error) }
}

/// The name in `name@version` or `@scope/name@version`.
fn name_of(package: &str) -> &str {
    let from = usize::from(package.starts_with('@'));
    package[from..].find('@').map_or(package, |at| &package[..from + at])
}

async fn run(actor: &mut Actor, step: &StepRef, call: &CallId, command: &str, args: &[String]) -> Ended {
    let failed = |error: &SandboxError| {
        let status = if error.retryable() { ToolStatus::Failed } else { ToolStatus::Refused };
        Ended::without_running(status, format!("{error}. {}", error.action()))
    };
    let limits = &actor.runtime.limits;
    let spec = ExecSpec {
        command: command.to_owned(),
        args: args.to_vec(),
        env: vec![("NO_COLOR".into(), "1".into())],
        cwd: None,
        timeout: Duration::from_millis(limits.command_ms),
        limits: ResourceLimits::of(limits, Purpose::Command),
        purpose: Purpose::Command,
        output: OutputLimits::total(limits.command_output_bytes),
    };
    let ran = match exec(actor, &spec, step, call).await {
        Ok(ran) => ran,
        Err(error) => return failed(&error),
    };
    report_changes(actor, ran.workspace.as_ref(), step, ran.before).await;
    match ran.outcome {
        Ok(outcome) => {
            let (status, error) = told(&outcome, limits_text(actor));
            let exit_code = if let ExecEnd::Exited(code) = outcome.end { Some(code) } else { None };
            Ended { status, exit_code, output: ran.output, error }
        }
        Err(error) => Ended { output: ran.output, ..failed(&error) },
    }
}

/// A command that was run.
pub(super) struct Ran {
    pub(super) workspace: Arc<dyn Workspace>,
    before: Result<Scan, SandboxError>,
    pub(super) outcome: Result<ExecOutcome, SandboxError>,
    pub(super) output: String,
}

/// Runs a command in the workspace, with every change in it. If an earlier command has spoilt the workspace so that nothing can be
/// started in it any more, it is made anew, once.
pub(super) async fn exec(
    actor: &mut Actor,
    spec: &ExecSpec,
    step: &StepRef,
    call: &CallId,
) -> Result<Ran, SandboxError> {
    loop {
        let workspace = actor.ready().await?;
        let before = workspace.scan(actor.scan_limits()).await;
        let (outcome, output) = watch(actor, workspace.as_ref(), spec.clone(), step, call).await;
        if actor.worked && matches!(outcome, Err(SandboxError::Refused { .. } | SandboxError::BadPath { .. })) {
            actor.renew().await;
            continue;
        }
        actor.worked |= outcome.is_ok();
        return Ok(Ran { workspace, before, outcome, output });
    }
}

fn limits_text(actor: &Actor) -> u64 {
    actor.runtime.limits.command_ms / 1_000
}

fn told(outcome: &ExecOutcome, seconds: u64) -> (ToolStatus, Option<String>) {
    match outcome.end {
        ExecEnd::Exited(0) => (ToolStatus::Succeeded, None),
        ExecEnd::Exited(_) => (ToolStatus::Failed, None),
        ExecEnd::Signalled(signal) => (ToolStatus::Failed, Some(format!("ended by signal {signal}"))),
        ExecEnd::TimedOut => {
            (ToolStatus::TimedOut, Some(format!("not done after {seconds} s; its processes are gone")))
        }
        ExecEnd::Cancelled => (ToolStatus::Cancelled, Some("the run was stopped; its processes are gone".into())),
        ExecEnd::OutOfMemory => (ToolStatus::Failed, Some("it needed more memory than a command may use".into())),
        ExecEnd::OutOfDisk => (ToolStatus::Failed, Some("it needed more disk than the sandbox may use".into())),
    }
}

/// Runs a command and reports what it prints as it comes. Gives the same, within the limit, for the model.
async fn watch(
    actor: &Actor,
    workspace: &dyn Workspace,
    spec: ExecSpec,
    step: &StepRef,
    call: &CallId,
) -> (Result<ExecOutcome, SandboxError>, String) {
    /// Chunks that wait to be reported; the command's pipes are the buffer behind it.
    const WAITING: usize = 64;
    let (chunks, mut printed) = mpsc::channel::<OutputChunk>(WAITING);
    let mut whole = String::new();
    let mut partial: [Vec<u8>; 2] = [vec![], vec![]];
    let exec = workspace.exec(spec, chunks, actor.stop.child_token());
    let listen = async {
        while let Some(chunk) = printed.recv().await {
            let held = &mut partial[usize::from(chunk.stream == OutputStream::Stderr)];
            let mut text = String::new();
            if chunk.skipped > 0 {
                text.push_str(&String::from_utf8_lossy(&std::mem::take(held)));
                text.push_str(&format!("\n[… {} bytes left out …]\n", chunk.skipped));
            }
            text.push_str(&decode(held, &chunk.bytes));
            if text.is_empty() {
                continue;
            }
            whole.push_str(&text);
            let event = ToolOutput { call_id: call.clone(), stream: chunk.stream, text };
            actor.report(Report::Events(step.clone(), vec![event.into()], None)).await;
        }
    };
    let (outcome, ()) = tokio::join!(exec, listen);
    for rest in partial {
        whole.push_str(&String::from_utf8_lossy(&rest));
    }
    (outcome, whole)
}

/// Decodes bytes of which a character may be split; what is incomplete stays in `held`.
fn decode(held: &mut Vec<u8>, bytes: &Bytes) -> String {
    held.extend_from_slice(bytes);
    let whole = match std::str::from_utf8(held) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Ok(_) | Err(_) => held.len(),
    };
    let rest = held.split_off(whole);
    let text = String::from_utf8_lossy(held).into_owned();
    *held = rest;
    text
}

/// Tells the run which files a command changed, so that a lost workspace can be made again exactly. What cannot be taken into the
/// project (too large, no regular file, too many) is told too, and never taken for deleted.
async fn report_changes(
    actor: &mut Actor,
    workspace: &dyn Workspace,
    step: &StepRef,
    before: Result<Scan, SandboxError>,
) {
    let (before, after) = match (before, workspace.scan(actor.scan_limits()).await) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(error), _) | (_, Err(error)) => return not_recorded(actor, step, &error.to_string()).await,
    };
    let most = actor.runtime.limits.project_file_bytes;
    let mut changes = vec![];
    let mut left_out = vec![];
    for (path, _) in after.files.iter().filter(|(path, stamp)| before.files.get(*path) != Some(stamp)) {
        match workspace.read(path, most).await {
            Ok(Some(content)) => changes.push((path.clone(), Some(content))),
            Ok(None) => {}
            Err(_) => left_out.push(path.as_str()),
        }
    }
    for path in before.files.keys().filter(|path| !after.files.contains_key(*path)) {
        match workspace.read(path, most).await {
            Ok(None) => changes.push((path.clone(), None)),
            Ok(Some(_)) | Err(_) => left_out.push(path.as_str()),
        }
    }
    for (path, content) in &changes {
        actor.note(path, content.as_ref());
    }
    if !changes.is_empty() {
        actor.report(Report::Changed(step.clone(), changes)).await;
    }
    if after.truncated || after.skipped > before.skipped || !left_out.is_empty() {
        not_recorded(actor, step, &format!("over the project's limits or not regular files: {}", left_out.join(", ")))
            .await;
    }
}

async fn not_recorded(actor: &Actor, step: &StepRef, why: &str) {
    let message =
        format!("Some files that the command changed are in the sandbox only and not part of the project ({why}).");
    let warning = Warning { code: "changes_not_recorded".into(), message };
    actor.report(Report::Events(step.clone(), vec![warning.into()], None)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_is_split_between_chunks_stays_whole() {
        let text = "aé漢🎉z";
        for size in 1..text.len() {
            let mut held = vec![];
            let got: String =
                text.as_bytes().chunks(size).map(|c| decode(&mut held, &Bytes::copy_from_slice(c))).collect();
            assert_eq!((got.as_str(), held.len()), (text, 0), "chunks of {size}");
        }
        let mut held = vec![];
        assert_eq!(decode(&mut held, &Bytes::from_static(b"a\xff\xfeb")), "a\u{fffd}\u{fffd}b");
    }

    #[test]
    fn a_package_is_known_by_its_name() {
        for (given, name) in [("react", "react"), ("react@19", "react"), ("@a/b", "@a/b"), ("@a/b@^1.2", "@a/b")] {
            assert_eq!(name_of(given), name);
        }
    }
}
