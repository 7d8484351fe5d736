//! What readers ask of a project or a run beyond its events: drawn from the store and the objects, for the doors to show.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use contract::api::{FileView, GraphView, ProjectFiles, StepView};
use contract::event::Intent;
use contract::{ProjectId, ProjectPath, RunId, UserId, VersionId};

use crate::ports::store::ProjectRow;
use crate::{Manifest, Project, Runtime, RuntimeError, replay};

impl Runtime {
    /// The graph of a run of the user, or none if there is no such run.
    pub async fn graph(&self, user: UserId, run: RunId) -> Result<Option<GraphView>, RuntimeError> {
        if self.ports.store.run(user, run).await?.is_none() {
            return Ok(None);
        }
        let (state, _) = replay::replay(self.ports.store.as_ref(), run).await?;
        let intent = state.session.as_ref().map_or(Intent::Generate, |s| s.intent);
        let view = |step: engine::state::Step| StepView {
            id: step.id,
            kind: step.kind,
            title: step.title,
            depends_on: step.depends_on,
            state: step.status,
            attempt: step.attempt,
        };
        Ok(Some(GraphView { run_id: run, intent, steps: state.steps.into_iter().map(view).collect() }))
    }

    /// The files of a project of the user as they are now, or none if there is no such project.
    pub async fn files(&self, user: UserId, project: ProjectId) -> Result<Option<ProjectFiles>, RuntimeError> {
        let Some((row, now)) = self.project_now(user, project).await? else { return Ok(None) };
        let view = |(path, file): (&ProjectPath, &crate::project::File)| FileView {
            path: path.clone(),
            bytes: file.content.len() as u64,
            sha256: file.sha256.clone(),
            by: file.by,
        };
        let files = now.files().iter().map(view).collect();
        Ok(Some(ProjectFiles { project_id: project, version: row.current.map(|v| v.id), files }))
    }

    /// A file of a project of the user as it is now, or none if there is no such project or file.
    pub async fn file(
        &self,
        user: UserId,
        project: ProjectId,
        path: &ProjectPath,
    ) -> Result<Option<Bytes>, RuntimeError> {
        let now = self.project_now(user, project).await?;
        Ok(now.and_then(|(_, now)| now.file(path).map(|f| f.content.clone())))
    }

    async fn project_now(&self, user: UserId, id: ProjectId) -> Result<Option<(ProjectRow, Project)>, RuntimeError> {
        let Some(row) = self.ports.store.project(id).await?.filter(|row| row.user == user) else { return Ok(None) };
        let now = replay::project(self.ports.store.as_ref(), self.ports.objects.as_ref(), id, None).await?;
        Ok(Some((row, now)))
    }

    /// What the preview with this slug shows, or none if nothing is published there.
    pub async fn published(&self, slug: &str) -> Result<Option<(VersionId, Arc<Manifest>)>, RuntimeError> {
        let row = self.ports.store.project_by_slug(slug).await?;
        let Some(version) = row.and_then(|row| row.current) else { return Ok(None) };
        if let Some(kept) = self.published.get(&version.output) {
            return Ok(Some((version.id, kept)));
        }
        let manifest = Arc::new(Manifest::load(self.ports.objects.as_ref(), &version.output).await?);
        self.published.keep(version.output, manifest.clone(), self.limits.manifests_kept);
        Ok(Some((version.id, manifest)))
    }
}

/// Manifests that were read lately, since a page asks for many files of one. A manifest is named by its hash, so it never gets stale.
#[derive(Default)]
pub(crate) struct Published(Mutex<VecDeque<(String, Arc<Manifest>)>>);

impl Published {
    fn kept(&self) -> MutexGuard<'_, VecDeque<(String, Arc<Manifest>)>> {
        // The list is whole between its calls, so a panic elsewhere leaves it usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, sha256: &str) -> Option<Arc<Manifest>> {
        self.kept().iter().find(|(name, _)| name == sha256).map(|(_, manifest)| manifest.clone())
    }

    fn keep(&self, sha256: String, manifest: Arc<Manifest>, most: u64) {
        let mut kept = self.kept();
        kept.push_front((sha256, manifest));
        kept.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    }
}
