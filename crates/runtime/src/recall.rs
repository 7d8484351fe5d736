//! What the owner of a run begins with: everything that is folded from its log. A fresh start, a recovery and a replay are this one
//! path (architecture.md, idea 2).
//!
//! A snapshot is the same, kept at a place of the log, so that a long log need not be read again from its beginning. It holds no
//! bytes of files: those are objects, put there before it. One that cannot be read is ignored, since the log is enough.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use contract::event::{Author, Event, FileCompleted, NewEvent, PreviewKind, PreviewProblem};
use contract::{ProjectPath, RunId};
use engine::RunState;
use serde::{Deserialize, Serialize};

use crate::ports::objects::ObjectsError;
use crate::ports::store::Snapshot;
use crate::ports::{Objects, Store};
use crate::project::{File, Kept};
use crate::{Project, RuntimeError, replay};

/// Version of the form of snapshots: raised with every change of what is folded, so that an older one is ignored.
const VERSION: u32 = 2;

/// What a run's log comes to, up to a place.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Recalled {
    /// What decisions are made from.
    pub(crate) state: RunState,
    /// The files.
    pub(crate) project: Project,
    /// The files as they were when the run began.
    pub(crate) base: BTreeMap<ProjectPath, File>,
    /// What was told of why the files cannot be shown at once.
    pub(crate) told: Vec<PreviewProblem>,
    /// The last event that is in it.
    pub(crate) end: u64,
    /// What was read after the snapshot.
    pub(crate) tail: Tail,
}

/// What has been appended since the last snapshot, and how large that is: when the next is due.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Tail {
    /// Events since.
    pub(crate) events: u64,
    /// Bytes of their payloads.
    pub(crate) bytes: u64,
    /// Bytes of the snapshot; 0 without one.
    pub(crate) snapshot: u64,
}

/// A snapshot's body: files by their hashes.
#[derive(Debug, Serialize, Deserialize)]
struct Body {
    version: u32,
    state: RunState,
    project: Kept,
    base: BTreeMap<ProjectPath, (String, Author)>,
    told: Vec<PreviewProblem>,
}

impl Body {
    fn hashes(&self) -> impl Iterator<Item = &String> {
        self.project.hashes().chain(self.base.values().map(|(hash, _)| hash))
    }
}

impl Recalled {
    /// Reads a run's log, from its newest snapshot on.
    pub(crate) async fn of(store: &dyn Store, objects: &dyn Objects, run: RunId) -> Result<Self, RuntimeError> {
        let recalled = match store.snapshot(run).await? {
            Some(snapshot) => Self::restore(objects, snapshot).await?.unwrap_or_default(),
            None => Self::default(),
        };
        recalled.read_on(store, objects, run).await
    }

    /// Takes in what the log has after it.
    async fn read_on(mut self, store: &dyn Store, objects: &dyn Objects, run: RunId) -> Result<Self, RuntimeError> {
        loop {
            let page = store.read_after(run, self.end, replay::PAGE).await?;
            if page.is_empty() {
                return Ok(self);
            }
            for stored in page {
                let seq = stored.head.seq;
                self.tail.events += 1;
                self.tail.bytes += stored.payload.len() as u64;
                let entry = replay::decode(run, stored)?;
                self.take(store, objects, run, &entry).await?;
                self.end = seq;
            }
        }
    }

    async fn take(
        &mut self,
        store: &dyn Store,
        objects: &dyn Objects,
        run: RunId,
        entry: &NewEvent,
    ) -> Result<(), RuntimeError> {
        self.state.fold(entry);
        self.project.replay(objects, &entry.event).await?;
        still_told(&mut self.told, &entry.event);
        if let Event::Session(session) = &entry.event {
            self.project = replay::project(store, objects, session.project_id, Some(run)).await?;
            self.base = self.project.files().clone();
        } else if let Event::FileCompleted(FileCompleted { path, by: Author::Template | Author::Restored, .. }) =
            &entry.event
            && entry.step.is_none()
        {
            // A fork begins with the files that its source began with.
            self.base.extend(self.project.file(path).map(|file| (path.clone(), file.clone())));
        }
        Ok(())
    }

    /// The snapshot, and the bytes that have to be objects before it is kept.
    pub(crate) fn snapshot(
        state: &RunState,
        project: &Project,
        base: &BTreeMap<ProjectPath, File>,
        told: &[PreviewProblem],
        seq: u64,
    ) -> Result<(Snapshot, HashMap<String, Bytes>), serde_json::Error> {
        let (kept, mut bytes) = project.kept();
        bytes.extend(base.values().map(|file| (file.sha256.clone(), file.content.clone())));
        let base = base.iter().map(|(path, file)| (path.clone(), (file.sha256.clone(), file.by))).collect();
        let body = Body { version: VERSION, state: state.clone(), project: kept, base, told: told.to_vec() };
        Ok((Snapshot { seq, body: serde_json::to_vec(&body)?.into() }, bytes))
    }

    /// Hashes of the objects that a snapshot needs; none if it is not one that this version made.
    pub(crate) fn named(snapshot: &Snapshot) -> BTreeSet<String> {
        match serde_json::from_slice::<Body>(&snapshot.body) {
            Ok(body) if body.version == VERSION => body.hashes().cloned().collect(),
            Ok(_) | Err(_) => BTreeSet::new(),
        }
    }

    /// What a snapshot holds; none if it is not one that this version made.
    pub(crate) async fn restore(objects: &dyn Objects, snapshot: Snapshot) -> Result<Option<Self>, RuntimeError> {
        let tail = Tail { snapshot: snapshot.body.len() as u64, ..Tail::default() };
        let body = match serde_json::from_slice::<Body>(&snapshot.body) {
            Ok(body) if body.version == VERSION => body,
            Ok(_) | Err(_) => return Ok(None),
        };
        let hashes: BTreeSet<&String> = body.hashes().collect();
        let mut bytes = HashMap::new();
        for hash in hashes {
            match objects.get(hash).await {
                Ok(Some(content)) => bytes.insert(hash.clone(), content),
                // What a snapshot needs is not always what the log needs.
                Ok(None) | Err(ObjectsError::Damaged(_)) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
        }
        let file = |(sha256, by): &(String, Author)| {
            bytes.get(sha256).map(|content| File { content: content.clone(), sha256: sha256.clone(), by: *by })
        };
        let base = body.base.iter().map(|(path, kept)| Some((path.clone(), file(kept)?))).collect::<Option<_>>();
        let (Some(base), Some(project)) = (base, Project::of_kept(&body.project, &bytes)) else { return Ok(None) };
        Ok(Some(Self { state: body.state, project, base, told: body.told, end: snapshot.seq, tail }))
    }
}

/// Takes an event into what was told of why the files cannot be shown at once, as far as it still holds.
pub(crate) fn still_told(told: &mut Vec<PreviewProblem>, event: &Event) {
    if let Event::PreviewProblem(problem) = event {
        // What a browser says is about one page, and told each time.
        if problem.revision.is_none() && !told.contains(problem) {
            told.push(problem.clone());
        }
    } else if let Event::PreviewUrl(shown) = event
        && shown.kind == PreviewKind::Instant
    {
        told.clear();
    } else {
        // A file that was written again deserves to be told of again.
        for path in event.changed_paths() {
            told.retain(|known| known.place.as_ref().is_none_or(|at| at.path != path.as_str()));
        }
    }
}

/// Whether a run's newest snapshot and its log agree: what is recalled with the snapshot is what the log alone comes to. True if there
/// is no snapshot that this version can read.
pub async fn snapshot_agrees(store: &dyn Store, objects: &dyn Objects, run: RunId) -> Result<bool, RuntimeError> {
    let Some(snapshot) = store.snapshot(run).await? else { return Ok(true) };
    let Some(kept) = Recalled::restore(objects, snapshot).await? else { return Ok(true) };
    let kept = kept.read_on(store, objects, run).await?;
    let folded = Recalled { tail: kept.tail, ..Recalled::default().read_on(store, objects, run).await? };
    // Its owner may have gone on in between.
    Ok(kept.end != folded.end || kept == folded)
}
