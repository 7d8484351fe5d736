//! A check: what can be seen wrong with a project before a build is tried, in its structure and in its code.

use std::sync::Arc;

use contract::ProjectPath;
use contract::event::{Error, Event, PreviewProblem, StepState, StepStatus};
use source::Problem;
use tokio::sync::mpsc;

use super::{Report, StepRef, report};
use crate::instant::told;
use crate::{Project, Runtime};

/// Problems of the code that one check tells.
const FINDINGS: usize = 20;

/// What is looked at.
pub(crate) struct Examination {
    /// The files.
    pub(crate) project: Project,
    /// Problems that the person was told already.
    pub(crate) told: Vec<PreviewProblem>,
    /// Why a browser saw nothing, if it did.
    pub(crate) blank: Option<String>,
}

/// Checks, and reports how it ended.
pub(super) async fn perform(
    runtime: Arc<Runtime>,
    step: StepRef,
    examined: Examination,
    reports: mpsc::Sender<Report>,
) {
    let Examination { project, told: known, blank } = examined;
    let read = |path: &str| project.text(&ProjectPath::parse(path).ok()?).map(str::to_owned);
    let structure: Vec<String> =
        engine::check::project(project.files().keys(), &read).into_iter().map(|finding| finding.message).collect();
    let problems = match runtime.check(project).await {
        Ok(problems) => problems,
        Err(error) => {
            let error = Error {
                code: "check_failed".into(),
                message: error.to_string(),
                retryable: true,
                action: "Send the message again.".into(),
                retry_after_ms: None,
            };
            report(&reports, Report::Events(step, vec![error.into()], None)).await;
            return;
        }
    };
    let blank = blank.map(|why| format!("The app loads and shows nothing. The browser says: {why}"));
    let code = problems.iter().take(FINDINGS).map(Problem::to_string);
    let findings: Vec<String> = structure.into_iter().chain(code).chain(blank).collect();
    let (state, reason) = match findings.is_empty() {
        true => (StepStatus::Completed, None),
        false => (StepStatus::Failed, Some(findings.join("\n"))),
    };
    let fresh = problems.iter().take(FINDINGS).map(told).filter(|problem| !known.contains(problem)).map(Event::from);
    let ended = StepState { id: step.0.clone(), state, attempt: step.1, reason, output: None }.into();
    let events = fresh.chain([ended]).collect();
    report(&reports, Report::Events(step, events, None)).await;
}
