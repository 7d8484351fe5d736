//! Reading a log back: events, the state that they fold to, and the project that they leave behind.

use contract::event::{Event, NewEvent};
use contract::{ProjectId, RunId};
use engine::RunState;

use crate::ports::store::{PublishedVersion, StoredEvent};
use crate::ports::{Objects, Store};
use crate::recall::Recalled;
use crate::{Project, RuntimeError};

/// Events that are read at once.
pub(crate) const PAGE: usize = 512;

/// An event as it was before it was stored.
pub(crate) fn decode(run: RunId, stored: StoredEvent) -> Result<NewEvent, RuntimeError> {
    let bad = |reason: String| RuntimeError::BadEvent { run, seq: stored.head.seq, reason };
    let event: Event = serde_json::from_slice(&stored.payload).map_err(|e| bad(e.to_string()))?;
    let step = stored.head.step_id.map(|id| (id, stored.head.attempt.unwrap_or(1)));
    Ok(NewEvent { at: stored.head.at, step, event })
}

/// Reads a whole log and folds it, from its first event: what the state has to be, whatever snapshots say. Also gives the events.
pub async fn replay(store: &dyn Store, run: RunId) -> Result<(RunState, Vec<NewEvent>), RuntimeError> {
    let mut state = RunState::default();
    let mut events = vec![];
    loop {
        let page = store.read_after(run, events.len() as u64, PAGE).await?;
        let last = page.is_empty();
        for stored in page {
            let entry = decode(run, stored)?;
            state.fold(&entry);
            events.push(entry);
        }
        if last {
            return Ok((state, events));
        }
    }
}

/// The project as it is now: the published version, then the logs since. With `until`, as it was before that run.
pub(crate) async fn project(
    store: &dyn Store,
    objects: &dyn Objects,
    id: ProjectId,
    until: Option<RunId>,
) -> Result<Project, RuntimeError> {
    let current = store.project(id).await?.and_then(|row| row.current);
    let mut runs = store.unpublished_runs(id).await?;
    if let Some(end) = runs.iter().position(|run| Some(*run) == until) {
        runs.truncate(end);
    }
    // A snapshot holds the whole project, so nothing before the latest of them has to be read.
    let mut start = None;
    for (n, run) in runs.iter().enumerate().rev() {
        if let Some(snapshot) = store.snapshot(*run).await?
            && let Some(recalled) = Recalled::restore(objects, snapshot).await?
        {
            start = Some((n, recalled));
            break;
        }
    }
    let (first, mut project, mut after) = match start {
        Some((n, recalled)) => (n, recalled.project, recalled.end),
        None => (0, published(objects, current.as_ref()).await?, 0),
    };
    for run in runs.into_iter().skip(first) {
        catch_up(store, objects, run, &mut after, &mut project, |_, _| {}).await?;
        after = 0;
    }
    Ok(project)
}

/// The files of the published version, or none if nothing is.
pub(crate) async fn published(
    objects: &dyn Objects,
    current: Option<&PublishedVersion>,
) -> Result<Project, RuntimeError> {
    match current {
        Some(version) => Project::of_version(objects, &version.files).await,
        None => Ok(Project::default()),
    }
}

/// Takes a run's events after a place into a project, up to the end of its log, which `after` is then. `seen` is called with each, and
/// the project as it is after it.
pub(crate) async fn catch_up(
    store: &dyn Store,
    objects: &dyn Objects,
    run: RunId,
    after: &mut u64,
    project: &mut Project,
    mut seen: impl FnMut(&Event, &Project),
) -> Result<(), RuntimeError> {
    loop {
        let page = store.read_after(run, *after, PAGE).await?;
        if page.is_empty() {
            return Ok(());
        }
        for stored in page {
            *after = stored.head.seq;
            let event = decode(run, stored)?.event;
            project.replay(objects, &event).await?;
            seen(&event, project);
        }
    }
}
