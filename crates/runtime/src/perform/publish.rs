//! Publishing: the version's files are stored under their hash, then one append switches the project to it.
//!
//! The switch is a row of that append, so it is refused to a worker that has lost the run, and the former version stays until
//! the new one is whole (E20).

use std::sync::Arc;

use bytes::Bytes;
use contract::event::{Error, PreviewKind, PreviewUrl, StepState, StepStatus, VersionCreated};
use contract::{ProjectId, ProjectPath, RunId, VersionId};
use tokio::sync::mpsc;

use super::{Report, StepRef, report};
use crate::ports::store::{PublishedVersion, RowChange};
use crate::ports::world::new_id;
use crate::{Manifest, Runtime, RuntimeError};

/// What is to be published.
pub(crate) struct Edition {
    /// The project.
    pub(crate) project: ProjectId,
    /// The run.
    pub(crate) run: RunId,
    /// Its files.
    pub(crate) files: Vec<(ProjectPath, Bytes)>,
    /// Hash of the manifest of the build's output.
    pub(crate) output: String,
    /// What it is about.
    pub(crate) summary: String,
}

/// Publishes, and reports how it ended.
pub(super) async fn perform(runtime: Arc<Runtime>, step: StepRef, edition: Edition, reports: mpsc::Sender<Report>) {
    let what = match publish(&runtime, &step, edition).await {
        Ok(published) => published,
        Err(error) => {
            let error = Error {
                code: "publish_failed".into(),
                message: error.to_string(),
                retryable: true,
                action: "Make sure that the data folder has room, then send the message again.".into(),
                retry_after_ms: None,
            };
            Report::Events(step, vec![error.into()], None)
        }
    };
    report(&reports, what).await;
}

async fn publish(runtime: &Runtime, step: &StepRef, edition: Edition) -> Result<Report, RuntimeError> {
    let ports = &runtime.ports;
    let lost = || RuntimeError::BadManifest(edition.output.clone());
    let row = ports.store.project(edition.project).await?.ok_or_else(lost)?;
    let count = u32::try_from(edition.files.len()).unwrap_or(u32::MAX);
    let files = Manifest::store(ports.objects.as_ref(), edition.files).await?;
    let id: VersionId = new_id(ports.world.as_ref());
    let parent = row.current.map(|version| version.id);
    let version = PublishedVersion {
        id,
        project_id: edition.project,
        run_id: edition.run,
        parent,
        summary: edition.summary.clone(),
        files,
        output: edition.output,
        at: ports.world.now_ms(),
    };
    let host = runtime.preview.host(&row.slug);
    let url = runtime.preview.url(&row.slug);
    let events = vec![
        VersionCreated { version: id, parent, summary: edition.summary, files: count }.into(),
        PreviewUrl { url, host, kind: PreviewKind::Built, version: Some(id), revision: None }.into(),
        StepState { id: step.0.clone(), state: StepStatus::Completed, attempt: step.1, reason: None, output: None }
            .into(),
    ];
    Ok(Report::Events(step.clone(), events, Some(RowChange::Publish(version))))
}
