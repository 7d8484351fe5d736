//! Is what is stored of a run what its log says? The log is read once more from its first event, folded, and everything that is
//! drawn from it is drawn again and compared: rows, published files, the snapshot. No model is asked and nothing is changed.

mod drawing;

use std::collections::BTreeMap;

use contract::api::{RunView, Verification};
use contract::event::{Author, Event, FileCompleted, NewEvent, VersionCreated};
use contract::{ProjectPath, RunId, UserId};
use engine::RunState;
use thiserror::Error;

use crate::ports::store::{Snapshot, StoreError, StoredEvent};
use crate::ports::{Objects, Store};
use crate::project::sha256;
use crate::recall::Recalled;
use crate::{Manifest, Project, Runtime, history, projection, replay};

use drawing::Drawing;

/// Differences that are told; there may be more.
const TOLD: usize = 100;

/// Why a run was not looked at.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// The user has no such run.
    #[error("there is no such run")]
    NoSuchRun,
    /// It has not ended: what is stored of it changes while one looks.
    #[error("the run has not ended")]
    Active,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A log that is being folded, and what was found.
struct Reading<'a> {
    store: &'a dyn Store,
    objects: &'a dyn Objects,
    view: &'a RunView,
    state: RunState,
    /// None once its files cannot be told any more.
    project: Option<Project>,
    base: BTreeMap<ProjectPath, String>,
    drawing: Drawing,
    snapshot: Option<Snapshot>,
    compared: Option<u64>,
    seq: u64,
    differences: Vec<String>,
}

impl Runtime {
    /// Compares what is stored of a run of the user that has ended with what its log says.
    pub async fn verify(&self, user: UserId, run: RunId) -> Result<Verification, VerifyError> {
        let store = self.ports.store.as_ref();
        let Some(view) = store.run(user, run).await? else { return Err(VerifyError::NoSuchRun) };
        if !view.status.is_terminal() {
            return Err(VerifyError::Active);
        }
        Ok(verification(store, self.ports.objects.as_ref(), user, &view).await?)
    }
}

/// Compares what is stored of a run that has ended with what its log says.
pub(crate) async fn verification(
    store: &dyn Store,
    objects: &dyn Objects,
    user: UserId,
    view: &RunView,
) -> Result<Verification, StoreError> {
    let run = view.id;
    let mut reading = Reading {
        store,
        objects,
        view,
        state: RunState::default(),
        project: None,
        base: BTreeMap::new(),
        drawing: Drawing::default(),
        snapshot: store.snapshot(run).await?,
        compared: None,
        seq: 0,
        differences: vec![],
    };
    reading.begin(user).await;
    'log: loop {
        let page = store.read_after(run, reading.seq, replay::PAGE).await?;
        if page.is_empty() {
            break;
        }
        for stored in page {
            if !reading.take(stored).await {
                break 'log;
            }
        }
    }
    let messages = store.chat(user, view.chat_id).await?.map(|chat| chat.messages).unwrap_or_default();
    let found = reading.drawing.differences(view, &reading.state, &messages, &store.drawn(run).await?);
    reading.differences.extend(found);
    reading.end();
    let Reading { seq, compared, mut differences, .. } = reading;
    differences.truncate(TOLD);
    Ok(Verification { run_id: run, events: seq, snapshot: compared, differences })
}

impl Reading<'_> {
    fn differs(&mut self, what: impl Into<String>) {
        self.differences.push(what.into());
    }

    /// The files that the run began with.
    async fn begin(&mut self, user: UserId) {
        match history::files_before(self.store, self.objects, user, self.view).await {
            Ok(project) => {
                self.base = hashes(&project);
                self.project = Some(project);
            }
            Err(error) => self.differs(format!("the files that the run began with cannot be told: {error}")),
        }
    }

    /// Takes in the next event. Gives false if nothing after it can be judged.
    async fn take(&mut self, stored: StoredEvent) -> bool {
        let (seq, kind) = (stored.head.seq, stored.kind.clone());
        if seq != self.seq + 1 {
            self.differs(format!("event {seq} follows event {}", self.seq));
            return false;
        }
        self.seq = seq;
        if self.state.ended {
            self.differs(format!("event {seq} ({kind}) follows the end of the run"));
        }
        let entry = match replay::decode(self.view.id, stored) {
            Ok(entry) => entry,
            Err(error) => {
                self.differs(error.to_string());
                return false;
            }
        };
        if entry.event.kind() != kind {
            self.differs(format!("event {seq} is {}, and its row says {kind}", entry.event.kind()));
        }
        self.state.fold(&entry);
        for row in projection::rows(&self.state, &entry) {
            self.drawing.take(&row);
        }
        self.fold_files(&entry).await;
        if let Event::VersionCreated(created) = &entry.event {
            self.compare_version(created).await;
        }
        self.drawing.note(&entry);
        if self.snapshot.as_ref().is_some_and(|snapshot| snapshot.seq == seq) {
            self.compare_snapshot().await;
        }
        true
    }

    /// What a file is has to have the hash that the log says.
    async fn fold_files(&mut self, entry: &NewEvent) {
        let Some(mut project) = self.project.take() else { return };
        if let Err(error) = project.replay(self.objects, &entry.event).await {
            return self.differs(format!("event {}: {error}", self.seq));
        }
        let mut written = None;
        if let Event::FileCompleted(FileCompleted { path, sha256, by, .. }) = &entry.event {
            match by {
                Author::Model => written = Some((path, sha256)),
                Author::Template | Author::Restored if entry.step.is_none() => {
                    self.base.extend(project.file(path).map(|file| (path.clone(), file.sha256.clone())));
                }
                Author::Template | Author::Restored | Author::Command | Author::Person => {}
            }
        } else if let Event::FileEdited(edit) = &entry.event {
            written = Some((&edit.path, &edit.sha256));
        }
        if let Some((path, told)) = written
            && project.file(path).is_none_or(|file| sha256(&file.content) != *told)
        {
            self.differs(format!("event {}: `{path}` is not what its hash says", self.seq));
        }
        self.project = Some(project);
    }

    /// A published version is the project as it was, and what the last build made.
    async fn compare_version(&mut self, created: &VersionCreated) {
        let (seq, version) = (self.seq, created.version);
        let row = match self.store.version(self.view.project_id, version).await {
            Ok(Some(row)) => row,
            Ok(None) => return self.differs(format!("event {seq}: there is no version {version}")),
            Err(error) => return self.differs(format!("event {seq}: {error}")),
        };
        if (row.parent, &row.summary, row.run_id) != (created.parent, &created.summary, self.view.id) {
            self.differs(format!("event {seq}: the row of {version} has another parent, summary or run"));
        }
        if self.state.build_output.as_ref() != Some(&row.output) {
            self.differs(format!("event {seq}: {version} shows what the last build did not make"));
        }
        match Manifest::load(self.objects, &row.files).await {
            Ok(manifest) => {
                let stored: BTreeMap<_, _> = manifest.files.into_iter().map(|(path, e)| (path, e.sha256)).collect();
                if self.project.as_ref().is_some_and(|project| hashes(project) != stored) {
                    self.differs(format!("event {seq}: the files of {version} are not the project's"));
                }
            }
            Err(error) => self.differs(format!("event {seq}: {error}")),
        }
    }

    /// A snapshot is the fold up to its place. What is told of pages that cannot be shown is the task's own memory and not compared.
    async fn compare_snapshot(&mut self) {
        let Some(snapshot) = self.snapshot.take() else { return };
        let recalled = match Recalled::restore(self.objects, snapshot).await {
            Ok(Some(recalled)) => recalled,
            // One that this version cannot read is ignored by everybody.
            Ok(None) => return,
            Err(error) => return self.differs(format!("the snapshot at {}: {error}", self.seq)),
        };
        self.compared = Some(self.seq);
        for field in differing(&self.state, &recalled.state) {
            self.differs(format!("the snapshot at {} has another `{field}` than the log up to there", self.seq));
        }
        if self.project.as_ref().is_some_and(|project| hashes(project) != hashes(&recalled.project)) {
            self.differs(format!("the snapshot at {} has other files than the log up to there", self.seq));
        }
        let base: BTreeMap<_, _> = recalled.base.into_iter().map(|(path, file)| (path, file.sha256)).collect();
        if self.project.is_some() && base != self.base {
            self.differs(format!("the snapshot at {} has other first files than the log", self.seq));
        }
    }

    fn end(&mut self) {
        if !self.state.ended {
            self.differs(format!("the log ends with event {} and the run does not", self.seq));
        }
        if self.view.last_seq != self.seq {
            self.differs(format!(
                "the row says that the log ends at {}, and it ends at {}",
                self.view.last_seq, self.seq
            ));
        }
    }
}

fn hashes(project: &Project) -> BTreeMap<ProjectPath, String> {
    project.files().iter().map(|(path, file)| (path.clone(), file.sha256.clone())).collect()
}

/// Names of the fields in which two states differ.
fn differing(one: &RunState, other: &RunState) -> Vec<String> {
    if one == other {
        return vec![];
    }
    let fields = |state| match serde_json::to_value(state) {
        Ok(serde_json::Value::Object(fields)) => fields,
        Ok(_) | Err(_) => serde_json::Map::new(),
    };
    let (one, other) = (fields(one), fields(other));
    one.iter().filter(|(name, value)| other.get(*name) != Some(value)).map(|(name, _)| name.clone()).collect()
}
