//! Reading a log back: events, the state that they fold to, and the project that they leave behind.

use contract::event::{Event, NewEvent};
use contract::{ProjectId, RunId};
use engine::RunState;

use crate::ports::store::StoredEvent;
use crate::ports::{Objects, Store};
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

/// Reads a whole log and folds it: the state that every owner of the run begins with. Also gives the events.
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
    let mut project = match store.project(id).await?.and_then(|row| row.current) {
        Some(version) => Project::of_version(objects, &version.files).await?,
        None => Project::default(),
    };
    for run in store.unpublished_runs(id).await? {
        if Some(run) == until {
            break;
        }
        for entry in replay(store, run).await?.1 {
            project.replay(objects, &entry.event).await?;
        }
    }
    Ok(project)
}
