//! The files of a project as they are now: a projection of a version and of the events since.
//!
//! The text of what the model writes is in the log; the bytes of everything else are objects. So the log and the objects give
//! every file exactly, whatever became of a sandbox.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use bytes::Bytes;
use contract::event::{Author, Event, StepStatus};
use contract::{CallId, ProjectPath};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ports::Objects;
use crate::{Manifest, RuntimeError};

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its bytes.
    pub content: Bytes,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Who wrote it last.
    pub by: Author,
}

/// The files of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Project {
    files: BTreeMap<ProjectPath, File>,
    open: BTreeMap<ProjectPath, String>,
    /// The files before the latest step, with what commands have changed since.
    before: BTreeMap<ProjectPath, File>,
    /// Everything that was put, by its hash: the model is shown what it wrote in former turns, also where it is gone.
    written: BTreeMap<String, Bytes>,
    commands: Commands,
}

/// What the commands of the latest step have changed, by their calls: a recorded result that a later attempt takes over brings it along.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Commands {
    running: Option<CallId>,
    changed: BTreeMap<CallId, Vec<Changed>>,
}

/// A file that a command changed: the hashes of what it was and of what it is then; none where there is no file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Changed {
    path: ProjectPath,
    from: Option<String>,
    to: Option<String>,
}

impl Commands {
    fn note(&mut self, path: &ProjectPath, from: Option<&File>, to: Option<&str>) {
        let Some(call) = &self.running else { return };
        let changed = Changed { path: path.clone(), from: from.map(|f| f.sha256.clone()), to: to.map(str::to_owned) };
        self.changed.entry(call.clone()).or_default().push(changed);
    }
}

/// A project without the bytes of its files.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    files: BTreeMap<ProjectPath, (String, Author)>,
    open: BTreeMap<ProjectPath, String>,
    before: BTreeMap<ProjectPath, (String, Author)>,
    written: Vec<String>,
    commands: Commands,
}

impl Kept {
    /// Hashes of the bytes that it needs.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = &String> {
        self.files.values().chain(self.before.values()).map(|(hash, _)| hash).chain(&self.written)
    }
}

/// SHA-256 of bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether a text is a SHA-256 as Baton writes it.
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Project {
    /// The files of a stored version.
    pub async fn of_version(objects: &dyn Objects, manifest: &str) -> Result<Self, RuntimeError> {
        let mut project = Self::default();
        for (path, entry) in Manifest::load(objects, manifest).await?.files {
            let content = fetch(objects, &path, &entry.sha256).await?;
            project.files.insert(path, File { content, sha256: entry.sha256, by: Author::Model });
        }
        Ok(project)
    }

    /// The files, sorted by path.
    pub fn files(&self) -> &BTreeMap<ProjectPath, File> {
        &self.files
    }

    /// A file.
    pub fn file(&self, path: &ProjectPath) -> Option<&File> {
        self.files.get(path)
    }

    /// The text of a file, if it is one and is UTF-8.
    pub fn text(&self, path: &ProjectPath) -> Option<&str> {
        std::str::from_utf8(&self.files.get(path)?.content).ok()
    }

    /// The text with a hash that was put at any time.
    pub fn written(&self, sha256: &str) -> Option<&str> {
        std::str::from_utf8(self.written.get(sha256)?).ok()
    }

    /// Whether a file at this path would stand where a folder is, or below a file.
    pub fn conflicts(&self, path: &ProjectPath) -> bool {
        let below = format!("{path}/");
        let folder = self
            .files
            .range::<str, _>((Bound::Included(below.as_str()), Bound::Unbounded))
            .next()
            .is_some_and(|(p, _)| p.as_str().starts_with(&below));
        let mut parents = path.as_str().match_indices('/').map(|(at, _)| &path.as_str()[..at]);
        folder || parents.any(|parent| self.files.contains_key(parent))
    }

    /// Size of all files together, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|f| f.content.len() as u64).sum()
    }

    /// Puts a file whose bytes are known.
    pub fn put(&mut self, path: ProjectPath, content: Bytes, sha256: String, by: Author) {
        let file = File { content, sha256, by };
        self.written.insert(file.sha256.clone(), file.content.clone());
        if by == Author::Command {
            self.commands.note(&path, self.files.get(&path), Some(&file.sha256));
            self.before.insert(path.clone(), file.clone());
        }
        self.files.insert(path, file);
    }

    /// Takes a file away; gives whether it was there.
    pub(crate) fn remove(&mut self, path: &ProjectPath) -> bool {
        self.files.remove(path).is_some()
    }

    /// What has to be put back so that the files are as the model believes them to be when a step is attempted again: what it
    /// itself changed in the attempt that was given up. What commands changed stays, since their results are not made again.
    pub fn undo(&self) -> Vec<(ProjectPath, Option<Bytes>)> {
        let changed =
            self.before.iter().filter(|(path, file)| self.files.get(*path).map(|f| &f.sha256) != Some(&file.sha256));
        let added = self.files.keys().filter(|path| !self.before.contains_key(*path));
        changed
            .map(|(path, file)| (path.clone(), Some(file.content.clone())))
            .chain(added.map(|path| (path.clone(), None)))
            .collect()
    }

    /// What a call changes once more whose recorded result is taken over: its command is not run again, and the model may have written
    /// the same files again meanwhile. What is neither as the command found it nor as it left it was written otherwise, and stays.
    pub(crate) fn again(&self, call: &CallId) -> Vec<(ProjectPath, Option<(Bytes, String)>)> {
        let changes = self.commands.changed.get(call).into_iter().flatten().filter(|change| {
            let now = self.files.get(&change.path).map(|file| &file.sha256);
            now == change.from.as_ref() || now == change.to.as_ref()
        });
        let content = |sha256: &String| Some((self.written.get(sha256)?.clone(), sha256.clone()));
        changes.map(|change| (change.path.clone(), change.to.as_ref().and_then(content))).collect()
    }

    /// The text so far of a file that is being written.
    pub fn open_text(&self, path: &ProjectPath) -> Option<&str> {
        self.open.get(path).map(String::as_str)
    }

    /// Takes in an event whose bytes are in the event or already here. Gives the path and hash of a file that has to be fetched.
    pub fn fold(&mut self, event: &Event) -> Option<(ProjectPath, String, Author)> {
        match event {
            Event::FileStarted(start) => {
                self.open.insert(start.path.clone(), String::new());
            }
            Event::FileDelta(delta) => {
                if let Some(text) = self.open.get_mut(&delta.path) {
                    text.push_str(&delta.text);
                }
            }
            // What a command made of a file leaves open what the model is writing there.
            Event::FileCompleted(done) => {
                let text = match done.by {
                    Author::Model => self.open.remove(&done.path),
                    Author::Command | Author::Template | Author::Person | Author::Restored => None,
                };
                match text {
                    Some(text) => self.put(done.path.clone(), text.into(), done.sha256.clone(), done.by),
                    None => return Some((done.path.clone(), done.sha256.clone(), done.by)),
                }
            }
            Event::FileEdited(edit) => {
                let edited =
                    self.text(&edit.path).and_then(|text| Some(engine::edit::apply(text, &edit.blocks).ok()?.text));
                if let Some(text) = edited {
                    self.put(edit.path.clone(), text.into(), edit.sha256.clone(), Author::Model);
                }
            }
            Event::FileDeleted(gone) => {
                let former = self.files.remove(&gone.path);
                if gone.by == Author::Command {
                    self.commands.note(&gone.path, former.as_ref(), None);
                    self.before.remove(&gone.path);
                }
            }
            Event::FileRenamed(renamed) => {
                if let Some(file) = self.files.remove(&renamed.from) {
                    self.files.insert(renamed.to.clone(), file);
                }
            }
            // What a stream left open when its attempt ended is dropped: an incomplete file never replaces a good one.
            Event::StepState(state) if state.state == StepStatus::Running => {
                self.open.clear();
                if state.attempt == 1 {
                    self.before.clone_from(&self.files);
                    self.commands = Commands::default();
                }
            }
            Event::ToolStarted(started) => self.commands.running = Some(started.call_id.clone()),
            Event::ToolFinished(finished) => {
                self.commands.running.take_if(|running| *running == finished.call_id);
            }
            Event::TurnCompleted(_) => self.open.clear(),
            Event::FileRejected(no) => {
                self.open.retain(|path, _| path.as_str() != no.path);
            }
            Event::RunQueued(_) | Event::RunStarted(_) | Event::CancelRequested(_) | Event::TimerFired(_) => {}
            Event::PhaseChange(_) | Event::Status(_) | Event::Session(_) | Event::StepAdded(_) => {}
            Event::RunCompleted(_) | Event::RunFailed(_) | Event::RunCancelled(_) | Event::StepState(_) => {}
            Event::TurnStarted(_) | Event::TextDelta(_) | Event::ElementRejected(_) => {}
            Event::ThinkingStarted(_) | Event::ThinkingDelta(_) | Event::ThinkingEnded(_) => {}
            Event::SandboxStarted(_) | Event::SandboxEnded(_) | Event::ToolRequested(_) => {}
            Event::StepRetry(_) | Event::ToolOutput(_) | Event::BuildStatus(_) => {}
            Event::PreviewUrl(_) | Event::PreviewProblem(_) => {}
            Event::VersionCreated(_) | Event::Usage(_) | Event::Budget(_) => {}
            Event::RateLimit(_) | Event::LoopBroken(_) | Event::Warning(_) | Event::Error(_) => {}
        }
        None
    }

    /// The project without the bytes of its files, and these by their hashes.
    pub(crate) fn kept(&self) -> (Kept, HashMap<String, Bytes>) {
        let without = |files: &BTreeMap<ProjectPath, File>| {
            files.iter().map(|(path, file)| (path.clone(), (file.sha256.clone(), file.by))).collect()
        };
        let kept = Kept {
            files: without(&self.files),
            open: self.open.clone(),
            before: without(&self.before),
            written: self.written.keys().cloned().collect(),
            commands: self.commands.clone(),
        };
        let files = self.files.values().chain(self.before.values());
        let bytes = files.map(|file| (file.sha256.clone(), file.content.clone()));
        let written = self.written.iter().map(|(hash, content)| (hash.clone(), content.clone()));
        (kept, bytes.chain(written).collect())
    }

    /// A project as it was kept; none if some of its bytes are missing.
    pub(crate) fn of_kept(kept: &Kept, bytes: &HashMap<String, Bytes>) -> Option<Self> {
        let with = |files: &BTreeMap<ProjectPath, (String, Author)>| -> Option<BTreeMap<ProjectPath, File>> {
            let file = |(path, (sha256, by)): (&ProjectPath, &(String, Author))| {
                let file = File { content: bytes.get(sha256)?.clone(), sha256: sha256.clone(), by: *by };
                Some((path.clone(), file))
            };
            files.iter().map(file).collect()
        };
        let written = kept.written.iter().map(|hash| Some((hash.clone(), bytes.get(hash)?.clone())));
        Some(Self {
            files: with(&kept.files)?,
            open: kept.open.clone(),
            before: with(&kept.before)?,
            written: written.collect::<Option<_>>()?,
            commands: kept.commands.clone(),
        })
    }

    /// Takes in an event, fetching bytes that are objects.
    pub async fn replay(&mut self, objects: &dyn Objects, event: &Event) -> Result<(), RuntimeError> {
        if let Some((path, sha256, by)) = self.fold(event) {
            let content = fetch(objects, &path, &sha256).await?;
            self.put(path, content, sha256, by);
        }
        Ok(())
    }
}

/// Bytes that the log names.
pub(crate) async fn fetch(objects: &dyn Objects, path: &ProjectPath, sha256: &str) -> Result<Bytes, RuntimeError> {
    let lost = || RuntimeError::LostObject { path: path.to_string(), sha256: sha256.to_owned() };
    objects.get(sha256).await?.ok_or_else(lost)
}
