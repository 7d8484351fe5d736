//! What a person changes by hand: edits, uploads, deletions and restores, and any of them again, each a run of its own that takes the changes in, then
//! checks, builds and publishes them (promise 7). It does not wait for a run that has the project: it is refused.
//!
//! What is refused here is what the project as it is now does not allow. That it is still so when the run is admitted is checked by
//! the project's latest run: one that began and ended in between makes all of it be looked at again.

use bytes::Bytes;
use contract::api::{Accepted, RunView};
use contract::event::{Author, ChangedFile, Intent, Session, Work};
use contract::{ProjectId, ProjectPath, UserId, VersionId};
use thiserror::Error;

use crate::ingest::is_protected;
use crate::ports::store::{Admission, AdmitError, Door, ProjectRow, StoreError, run_title};
use crate::ports::world::new_id;
use crate::project::{fetch, is_sha256, sha256};
use crate::{Manifest, Project, Runtime, RuntimeError, replay};

/// How often a change is looked at again because another run came and went.
const TRIES: usize = 3;
/// Files that the words for a change name; the rest is counted.
const NAMED: usize = 3;

/// A file and what it is to be; none if it is to be gone.
pub type Edit = (ProjectPath, Option<Bytes>);

/// What a file must be for an edit to be made: that it is nothing newer than the person saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// There is such a file.
    Exists,
    /// Its bytes have this SHA-256, in hexadecimal.
    Is(String),
}

impl Guard {
    /// What an entity tag stands for: a SHA-256 in hexadecimal, in quotes, or `*` for any file.
    pub fn parse(tag: &str) -> Option<Self> {
        if tag == "*" {
            return Some(Self::Exists);
        }
        let hash = tag.strip_prefix('"')?.strip_suffix('"')?;
        is_sha256(hash).then(|| Self::Is(hash.to_owned()))
    }
}

/// Why a change was refused. No run was stored.
#[derive(Debug, Error)]
pub enum ChangeError {
    /// The user has no such project.
    #[error("there is no such project")]
    NoSuchProject,
    /// The project has no such version.
    #[error("there is no such version")]
    NoSuchVersion,
    /// The project has no such file.
    #[error("there is no file `{0}`")]
    NoSuchFile(ProjectPath),
    /// The files are like that already, or none were named.
    #[error("nothing would change")]
    Nothing,
    /// A file was named twice.
    #[error("`{0}` is named twice")]
    Twice(ProjectPath),
    /// The path belongs to tools.
    #[error("`{0}` is in a folder that belongs to tools")]
    Protected(ProjectPath),
    /// A folder has this name, or a file the name of a folder on the way.
    #[error("a folder has the name of `{0}`, or a file that of a folder on the way")]
    Conflict(ProjectPath),
    /// The file is not the one that was meant.
    #[error("`{0}` is another one by now")]
    Other(ProjectPath),
    /// What it was to become is not here: a run was imported without.
    #[error("what `{0}` was to become is not here")]
    BytesGone(ProjectPath),
    /// The project would pass a limit.
    #[error("{limit} would be passed: {value}")]
    TooMuch {
        /// The limit's name in the limits table.
        limit: &'static str,
        /// Its value.
        value: u64,
    },
    /// It was not admitted.
    #[error(transparent)]
    Admit(#[from] AdmitError),
    /// The files could not be read or stored.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

impl From<StoreError> for ChangeError {
    fn from(error: StoreError) -> Self {
        Self::Runtime(error.into())
    }
}

/// A change that is asked for.
struct Asked<'a> {
    user: UserId,
    project: ProjectId,
    door: Door,
    idempotency_key: Option<&'a str>,
    /// What the person is told to have done.
    words: String,
    what: What,
    /// Whether it was asked before, by a run that has ended: what is so already may still have to be built and published.
    again: bool,
}

/// What is to become of the files.
enum What {
    /// These are changed. A guard is for the first of them.
    Files(Vec<Edit>, Option<Guard>),
    /// They are what they were in a version.
    Version(VersionId, Manifest),
}

impl What {
    /// The files that change as it is asked, and the version that is restored; which files that are is known once it is judged.
    fn work(&self) -> Work {
        match self {
            Self::Files(edits, _) => Work::Change { files: edits.iter().map(changed).collect(), restores: None },
            Self::Version(version, _) => Work::Change { files: vec![], restores: Some(*version) },
        }
    }
}

fn changed((path, content): &Edit) -> ChangedFile {
    ChangedFile { path: path.clone(), sha256: content.as_ref().map(|content| sha256(content)) }
}

impl Runtime {
    /// Changes files of a project of the user. A guard is for the first of them. The run that takes the changes in is durable when
    /// this returns.
    pub async fn edit(
        &self,
        user: UserId,
        project: ProjectId,
        edits: Vec<Edit>,
        guard: Option<Guard>,
        idempotency_key: Option<&str>,
    ) -> Result<Accepted, ChangeError> {
        let (words, what) = (words(&edits), What::Files(edits, guard));
        self.change(Asked { user, project, door: Door::Edit, idempotency_key, words, what, again: false }).await
    }

    /// Makes the files of a project of the user what they were in a version.
    pub async fn restore(
        &self,
        user: UserId,
        project: ProjectId,
        version: VersionId,
        idempotency_key: Option<&str>,
    ) -> Result<Accepted, ChangeError> {
        let owned = self.ports.store.project(project).await?.filter(|row| row.user == user);
        owned.ok_or(ChangeError::NoSuchProject)?;
        let meant = self.ports.store.version(project, version).await?.ok_or(ChangeError::NoSuchVersion)?;
        let words = format!("Restored the version “{}” ({version})", run_title(&meant.summary));
        let what = What::Version(version, Manifest::load(self.ports.objects.as_ref(), &meant.files).await?);
        self.change(Asked { user, project, door: Door::Restore, idempotency_key, words, what, again: false }).await
    }

    /// Changes what a run that has ended was asked to change, judged by the project as it is now.
    pub(crate) async fn change_again(
        &self,
        run: &RunView,
        asked: &Session,
        user: UserId,
        idempotency_key: Option<&str>,
    ) -> Result<Accepted, ChangeError> {
        let Work::Change { files, restores } = &asked.work else { return Err(ChangeError::Nothing) };
        let version = match restores {
            Some(version) => self.ports.store.version(run.project_id, *version).await?,
            None => None,
        };
        let what = match version {
            Some(version) => {
                What::Version(version.id, Manifest::load(self.ports.objects.as_ref(), &version.files).await?)
            }
            // A version that was restored elsewhere is not here; what that changed is.
            None => {
                let mut edits = vec![];
                for file in files {
                    let content = match &file.sha256 {
                        Some(sha256) => Some(self.content(&file.path, sha256).await?),
                        None => None,
                    };
                    edits.push((file.path.clone(), content));
                }
                What::Files(edits, None)
            }
        };
        let (door, words) = (Door::Retry(run.id), asked.request.clone());
        self.change(Asked { user, project: run.project_id, door, idempotency_key, words, what, again: true }).await
    }

    async fn content(&self, path: &ProjectPath, sha256: &str) -> Result<Bytes, ChangeError> {
        let found = self.ports.objects.get(sha256).await.map_err(RuntimeError::from)?;
        found.ok_or_else(|| ChangeError::BytesGone(path.clone()))
    }

    /// Admits the run that makes a change, if the project as it is now allows that, or gives what the same request was answered before.
    async fn change(&self, asked: Asked<'_>) -> Result<Accepted, ChangeError> {
        if let What::Files(edits, _) = &asked.what {
            self.look_at(edits)?;
        }
        let mut admission = self.prepare(&asked).await?;
        if let Some(answer) = self.answered_before(&admission).await? {
            return Ok(answer);
        }
        for _ in 0..TRIES {
            let (row, now) = self.free(&asked).await?;
            let files = self.judged(&asked, &row, &now).await?;
            if self.is_unchanged(&row).await? {
                if let Work::Change { restores, .. } = admission.session.work {
                    admission.session.work = Work::Change { files, restores };
                }
                // The same admission, made now.
                return Ok(self.admit(Admission { at: self.ports.world.now_ms(), ..admission }).await?);
            }
        }
        Err(self.busy(asked.project).await?)
    }

    /// Whether edits can be made in some project.
    fn look_at(&self, edits: &[Edit]) -> Result<(), ChangeError> {
        if edits.is_empty() {
            return Err(ChangeError::Nothing);
        }
        for (n, (path, content)) in edits.iter().enumerate() {
            if edits[..n].iter().any(|(other, _)| other == path) {
                return Err(ChangeError::Twice(path.clone()));
            }
            if is_protected(path) {
                return Err(ChangeError::Protected(path.clone()));
            }
            let (bytes, value) = (content.as_ref().map_or(0, Bytes::len) as u64, self.limits.project_file_bytes);
            if bytes > value {
                return Err(ChangeError::TooMuch { limit: "project_file_bytes", value });
            }
        }
        Ok(())
    }

    /// What the run will be.
    async fn prepare(&self, asked: &Asked<'_>) -> Result<Admission, ChangeError> {
        let world = self.ports.world.as_ref();
        let row = self.ports.store.project(asked.project).await?.filter(|row| row.user == asked.user);
        let row = row.ok_or(ChangeError::NoSuchProject)?;
        let session = Session {
            chat_id: row.chat_id,
            project_id: asked.project,
            user_message_id: new_id(world),
            assistant_message_id: new_id(world),
            is_new_chat: false,
            request: asked.words.clone(),
            intent: Intent::Edit,
            follow_up: true,
            template: self.template.name.clone(),
            model: self.model(),
            work: asked.what.work(),
            fork: None,
        };
        let admission = self.admission(asked.user, new_id(world), session);
        let idempotency_key = asked.idempotency_key.map(str::to_owned);
        Ok(Admission { door: asked.door, alone: true, idempotency_key, ..admission })
    }

    /// What changes in the project as it is now, if that allows it; its bytes are objects then.
    async fn judged(
        &self,
        asked: &Asked<'_>,
        row: &ProjectRow,
        now: &Project,
    ) -> Result<Vec<ChangedFile>, ChangeError> {
        let objects = self.ports.objects.as_ref();
        let (files, changes): (Vec<ChangedFile>, bool) = match &asked.what {
            What::Files(edits, guard) => {
                let differs = |(path, content): &&Edit| now.file(path).map(|file| &file.content) != content.as_ref();
                // What was done the first time need not be possible once more.
                let open: Vec<Edit> = edits.iter().filter(|edit| !asked.again || differs(edit)).cloned().collect();
                if let Some((first, _)) = open.first() {
                    self.judge(now, &open, guard.as_ref().map(|guard| (first, guard)))?;
                }
                for content in open.iter().filter_map(|(_, content)| content.clone()) {
                    objects.put(content).await.map_err(RuntimeError::from)?;
                }
                (edits.iter().map(changed).collect(), !open.is_empty())
            }
            What::Version(_, manifest) => {
                let gone = now.files().keys().filter(|path| !manifest.files.contains_key(*path));
                let mut files: Vec<_> = gone.map(|path| ChangedFile { path: path.clone(), sha256: None }).collect();
                for (path, entry) in &manifest.files {
                    if now.file(path).is_none_or(|file| file.sha256 != entry.sha256) {
                        fetch(objects, path, &entry.sha256).await?;
                        files.push(ChangedFile { path: path.clone(), sha256: Some(entry.sha256.clone()) });
                    }
                }
                let changes = !files.is_empty();
                (files, changes)
            }
        };
        if !changes && (!asked.again || self.is_published(row, now).await?) {
            return Err(ChangeError::Nothing);
        }
        Ok(files)
    }

    /// Whether the files as they are now are those of the version that the preview shows.
    async fn is_published(&self, row: &ProjectRow, now: &Project) -> Result<bool, ChangeError> {
        let Some(version) = &row.current else { return Ok(false) };
        let shown = Manifest::load(self.ports.objects.as_ref(), &version.files).await?;
        let shown = shown.files.iter().map(|(path, entry)| (path, &entry.sha256));
        Ok(shown.eq(now.files().iter().map(|(path, file)| (path, &file.sha256))))
    }

    /// The project as it is now, if no run has it.
    async fn free(&self, asked: &Asked<'_>) -> Result<(ProjectRow, Project), ChangeError> {
        let row = self.ports.store.project(asked.project).await?.ok_or(ChangeError::NoSuchProject)?;
        let latest = match row.latest_run {
            Some(run) => self.ports.store.run(asked.user, run).await?,
            None => None,
        };
        if let Some(RunView { id, .. }) = latest.filter(|run| !run.status.is_terminal()) {
            return Err(AdmitError::ProjectBusy { run: id }.into());
        }
        let (store, objects) = (self.ports.store.as_ref(), self.ports.objects.as_ref());
        Ok((row, replay::project(store, objects, asked.project, None).await?))
    }

    /// Whether no run of the project has begun since. One that has begun by now and has not ended is found when this one is admitted.
    async fn is_unchanged(&self, row: &ProjectRow) -> Result<bool, ChangeError> {
        let now = self.ports.store.project(row.id).await?;
        Ok(now.is_some_and(|now| now.latest_run == row.latest_run))
    }

    /// The project has no moment of rest.
    async fn busy(&self, project: ProjectId) -> Result<ChangeError, ChangeError> {
        let latest = self.ports.store.project(project).await?.and_then(|row| row.latest_run);
        Ok(latest.map_or(ChangeError::NoSuchProject, |run| AdmitError::ProjectBusy { run }.into()))
    }

    /// Whether the project as it is now allows the edits.
    fn judge(&self, now: &Project, edits: &[Edit], guard: Option<(&ProjectPath, &Guard)>) -> Result<(), ChangeError> {
        if let Some((path, guard)) = guard {
            let holds = match (guard, now.file(path)) {
                (_, None) => false,
                (Guard::Exists, Some(_)) => true,
                (Guard::Is(sha256), Some(file)) => file.sha256 == *sha256,
            };
            if !holds {
                return Err(ChangeError::Other(path.clone()));
            }
        }
        let mut after = now.clone();
        for (path, _) in edits.iter().filter(|(_, content)| content.is_none()) {
            if !after.remove(path) {
                return Err(ChangeError::NoSuchFile(path.clone()));
            }
        }
        for (path, content) in edits {
            let Some(content) = content else { continue };
            if after.conflicts(path) {
                return Err(ChangeError::Conflict(path.clone()));
            }
            after.put(path.clone(), content.clone(), sha256(content), Author::Person);
        }
        let same = |(path, content): &Edit| now.file(path).map(|file| &file.content) == content.as_ref();
        if edits.iter().all(same) {
            return Err(ChangeError::Nothing);
        }
        for (used, limit, value) in [
            (after.files().len() as u64, "project_files", self.limits.project_files),
            (after.bytes(), "project_bytes", self.limits.project_bytes),
        ] {
            if used > value {
                return Err(ChangeError::TooMuch { limit, value });
            }
        }
        Ok(())
    }
}

/// What a person did, as the chat tells it.
fn words(edits: &[Edit]) -> String {
    let names: Vec<_> = edits.iter().take(NAMED).map(|(path, _)| path.as_str()).collect();
    let names = names.join(", ");
    match edits {
        [(_, None)] => format!("Deleted {names}"),
        [(_, Some(_))] => format!("Edited {names}"),
        _ if edits.len() > NAMED => format!("Uploaded {names} and {} more", edits.len() - NAMED),
        _ => format!("Uploaded {names}"),
    }
}
