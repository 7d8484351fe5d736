//! A log without its secrets that still fits together: what is replaced in a file changes the file's hash and the places of its
//! pieces, and all that names these is changed with it.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use contract::event::{Author, Event, FileEdited, NewEvent, OutputStream, Session, Warning, Work};
use contract::{CallId, ProjectPath};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::redact::Redactor;
use crate::project::sha256;
use crate::{Project, RuntimeError};

/// Paths of files are checked and shown everywhere; one that is changed in one place names nothing.
const PATHS: &[&str] = &["path", "from", "to"];

/// Text that came in pieces.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stream {
    Prose(Step),
    Thinking(Step),
    /// A file, and how often it had been begun before.
    File(Step, ProjectPath, usize),
    Output(CallId, bool),
}

type Step = Option<(contract::StepId, u32)>;

/// Cleans one log and what it names.
pub(super) struct Cleaner {
    redactor: Redactor,
    /// The new hash and bytes of contents by their old hash; none for those that are not stored any more.
    contents: HashMap<String, Option<(String, Bytes)>>,
}

impl Cleaner {
    /// Looks for these words, and for the hosts that the log's workers name.
    pub(super) fn new<'a>(
        private: impl IntoIterator<Item = &'a str>,
        log: &'a [NewEvent],
        contents: BTreeMap<String, Option<Bytes>>,
    ) -> Self {
        // A worker is called by its host, its process, and a chance number.
        let host = |name: &'a str| name.rsplitn(3, '-').nth(2);
        let hosts = log.iter().filter_map(|entry| {
            if let Event::RunStarted(started) = &entry.event { host(&started.worker) } else { None }
        });
        let mut words: Vec<&str> = private.into_iter().chain(hosts).collect();
        words.sort_unstable();
        words.dedup();
        let mut redactor = Redactor::new(words);
        let clean = |(hash, bytes): (String, Option<Bytes>)| {
            let clean = bytes.map(|bytes| match std::str::from_utf8(&bytes) {
                Ok(text) => {
                    let text = Bytes::from(redactor.text(text));
                    (sha256(&text), text)
                }
                Err(_) => (hash.clone(), bytes),
            });
            (hash, clean)
        };
        let contents = contents.into_iter().map(clean).collect();
        Self { redactor, contents }
    }

    /// The hash of what a content has become.
    pub(super) fn hash(&self, former: &str) -> String {
        match self.contents.get(former) {
            Some(Some((now, _))) => now.clone(),
            Some(None) | None => former.to_owned(),
        }
    }

    /// A value without secrets in its texts.
    pub(super) fn plain<T: Serialize + DeserializeOwned>(&mut self, value: &T) -> Result<T, RuntimeError> {
        self.redactor.value(value, &[]).ok_or_else(|| RuntimeError::BadManifest("of a bundle".into()))
    }

    /// Contents that are there, hashes of those that are not, and how much was replaced.
    pub(super) fn rest(self) -> (BTreeMap<String, Bytes>, Vec<String>, u64) {
        let (mut there, mut missing) = (BTreeMap::new(), vec![]);
        for (hash, content) in self.contents {
            match content {
                Some((hash, bytes)) => drop(there.insert(hash, bytes)),
                None => missing.push(hash),
            }
        }
        missing.sort_unstable();
        (there, missing, self.redactor.replaced())
    }

    /// The log without secrets; without `files`, also without what files hold.
    pub(super) fn log(&mut self, log: Vec<NewEvent>, base: &Project, files: bool) -> Vec<NewEvent> {
        let mut texts = self.texts(&log);
        let mut project = Project::default();
        for (path, file) in base.files() {
            self.put(&mut project, path, &file.sha256, file.by);
        }
        let mut clean = Vec::with_capacity(log.len());
        for (n, entry) in log.into_iter().enumerate() {
            let event = self.event(entry.event, texts.remove(&n), &mut project, files);
            clean.push(NewEvent { event, ..entry });
        }
        clean
    }

    /// The clean pieces of every text that came in pieces, by the places of their events.
    fn texts(&mut self, log: &[NewEvent]) -> HashMap<usize, String> {
        let mut streams: HashMap<Stream, Vec<(usize, &str)>> = HashMap::new();
        let mut order = vec![];
        let mut begun: HashMap<(Step, &ProjectPath), usize> = HashMap::new();
        for (n, entry) in log.iter().enumerate() {
            let step = entry.step.clone();
            let (stream, text) = if let Event::TextDelta(delta) = &entry.event {
                (Stream::Prose(step), &delta.text)
            } else if let Event::ThinkingDelta(delta) = &entry.event {
                (Stream::Thinking(step), &delta.text)
            } else if let Event::FileDelta(delta) = &entry.event {
                let times = begun.get(&(step.clone(), &delta.path)).copied().unwrap_or_default();
                (Stream::File(step, delta.path.clone(), times), &delta.text)
            } else if let Event::ToolOutput(output) = &entry.event {
                (Stream::Output(output.call_id.clone(), output.stream == OutputStream::Stderr), &output.text)
            } else {
                if let Event::FileStarted(start) = &entry.event {
                    *begun.entry((step, &start.path)).or_default() += 1;
                }
                continue;
            };
            let pieces = streams.entry(stream.clone()).or_default();
            if pieces.is_empty() {
                order.push(stream);
            }
            pieces.push((n, text));
        }
        let mut clean = HashMap::new();
        for stream in order {
            let Some(pieces) = streams.remove(&stream) else { continue };
            let texts: Vec<&str> = pieces.iter().map(|(_, text)| *text).collect();
            clean.extend(pieces.iter().map(|(n, _)| *n).zip(self.redactor.pieces(&texts)));
        }
        clean
    }

    fn put(&self, project: &mut Project, path: &ProjectPath, former: &str, by: Author) {
        if let Some(Some((hash, bytes))) = self.contents.get(former) {
            project.put(path.clone(), bytes.clone(), hash.clone(), by);
        }
    }

    /// One event, given its own text if it is a piece of one. The project is what the clean log makes of it.
    fn event(&mut self, event: Event, text: Option<String>, project: &mut Project, files: bool) -> Event {
        let text = text.unwrap_or_default();
        let clean = match event {
            Event::TextDelta(_) => contract::event::TextDelta { text }.into(),
            Event::ThinkingDelta(_) => contract::event::ThinkingDelta { text }.into(),
            Event::ToolOutput(output) => contract::event::ToolOutput { text, ..output }.into(),
            Event::FileDelta(delta) if files => {
                let offset = project.open_text(&delta.path).map_or(delta.offset, |open| open.len() as u64);
                contract::event::FileDelta { offset, text, ..delta }.into()
            }
            Event::FileDelta(delta) => contract::event::FileDelta { text: String::new(), ..delta }.into(),
            Event::FileEdited(edit) if files => self.edit(edit, project),
            Event::FileEdited(edit) => FileEdited { blocks: vec![], ..edit }.into(),
            Event::FileCompleted(done) if files => self.completed(done, project),
            Event::FileStarted(_) | Event::FileCompleted(_) | Event::FileDeleted(_) | Event::FileRenamed(_) => event,
            Event::Session(session) => self.session(session),
            Event::RunQueued(_) | Event::RunStarted(_) | Event::CancelRequested(_) | Event::TimerFired(_) => {
                self.redacted(&event)
            }
            Event::PhaseChange(_) | Event::Status(_) | Event::StepAdded(_) | Event::StepState(_) => {
                self.redacted(&event)
            }
            Event::RunCompleted(_) | Event::RunFailed(_) | Event::RunCancelled(_) => self.redacted(&event),
            Event::StepRetry(_) | Event::TurnStarted(_) | Event::TurnCompleted(_) => self.redacted(&event),
            Event::ThinkingStarted(_) | Event::ThinkingEnded(_) | Event::ElementRejected(_) => self.redacted(&event),
            Event::SandboxStarted(_) | Event::SandboxEnded(_) | Event::FileRejected(_) => self.redacted(&event),
            Event::ToolRequested(_) | Event::ToolStarted(_) | Event::ToolFinished(_) => self.redacted(&event),
            Event::BuildStatus(_) | Event::PreviewUrl(_) | Event::PreviewProblem(_) => self.redacted(&event),
            Event::VersionCreated(_) | Event::Usage(_) | Event::Budget(_) => self.redacted(&event),
            Event::RateLimit(_) | Event::LoopBroken(_) | Event::Warning(_) | Event::Error(_) => self.redacted(&event),
        };
        // What has to be fetched is put by `completed`.
        let _ = project.fold(&clean);
        clean
    }

    fn edit(&mut self, mut edit: FileEdited, project: &Project) -> Event {
        for block in &mut edit.blocks {
            (block.search, block.replace) = (self.redactor.text(&block.search), self.redactor.text(&block.replace));
        }
        // What was replaced may keep the patch from applying; it then stands for itself.
        if let Some(text) = project.text(&edit.path)
            && let Ok(engine::edit::Edited { text, .. }) = engine::edit::apply(text, &edit.blocks)
        {
            (edit.bytes, edit.sha256) = (text.len() as u64, sha256(text.as_bytes()));
        }
        edit.into()
    }

    fn completed(&self, mut done: contract::event::FileCompleted, project: &mut Project) -> Event {
        let open = project.open_text(&done.path).filter(|_| done.by == Author::Model);
        if let Some(text) = open {
            (done.bytes, done.sha256) = (text.len() as u64, sha256(text.as_bytes()));
        } else if let Some(Some((hash, bytes))) = self.contents.get(&done.sha256) {
            (done.bytes, done.sha256) = (bytes.len() as u64, hash.clone());
            project.put(done.path.clone(), bytes.clone(), hash.clone(), done.by);
        }
        done.into()
    }

    fn session(&mut self, mut session: Session) -> Event {
        if let Work::Change { files, .. } = &mut session.work {
            for file in files {
                file.sha256 = file.sha256.as_ref().map(|hash| self.hash(hash));
            }
        }
        self.redacted(&session.into())
    }

    /// An event without secrets in its texts.
    fn redacted(&mut self, event: &Event) -> Event {
        // What the model called a file is no path that was checked.
        let keep = if matches!(event, Event::FileRejected(_)) { &[] } else { PATHS };
        self.redactor.value(event, keep).unwrap_or_else(|| {
            let message = format!("An event of type {} could not be made clean and is left out.", event.kind());
            Warning { code: "not_clean".into(), message }.into()
        })
    }
}
