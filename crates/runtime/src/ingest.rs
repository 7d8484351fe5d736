//! From what the model said to events: one turn's frames, against the project as it is now.
//!
//! A change is judged here once (does the file exist, does the patch apply, is the file whole), and the event that results is
//! all that anyone else needs. Untrusted text chooses no path that the parser has not checked.

use contract::event::{
    Author, ElementRejected, Event, FileCompleted, FileDeleted, FileDelta, FileEdited, FileRejected, FileRenamed,
    FileStarted, Replacement, SandboxEnded, SandboxStarted, TextDelta, ThinkingDelta, ThinkingEnded, ThinkingStarted,
    ToolInput, ToolRequested, Warning,
};
use contract::protocol::{Element, Fault, Frame};
use contract::{CallId, Limits, ProjectPath, StepId};

use crate::Project;
use crate::project::sha256;

const INCOMPLETE: &str = "the file was cut off and dropped; write it again, whole";
/// Folders that belong to tools and are never written by a model.
const PROTECTED: [&str; 3] = ["node_modules", ".git", "dist"];

/// What one attempt of a turn has said so far.
pub(crate) struct Ingest {
    step: StepId,
    attempt: u32,
    calls: u32,
    file: Option<OpenFile>,
    /// Whether the model said that it is done.
    pub(crate) done: bool,
    /// Whether a former attempt's changes are still to be put back.
    pub(crate) stale: bool,
}

struct OpenFile {
    path: ProjectPath,
    bytes: u64,
    refused: bool,
}

impl Ingest {
    /// Begins an attempt.
    pub(crate) fn new(step: StepId, attempt: u32) -> Self {
        Self { step, attempt, calls: 0, file: None, done: false, stale: attempt > 1 }
    }

    /// The events of a frame. The project is changed as the events say.
    pub(crate) fn take(&mut self, limits: &Limits, project: &mut Project, frame: Frame<'static>) -> Vec<Event> {
        let events = self.events(limits, project, frame);
        for event in &events {
            // What the model writes never has to be fetched.
            let _ = project.fold(event);
        }
        events
    }

    fn events(&mut self, limits: &Limits, project: &Project, frame: Frame<'static>) -> Vec<Event> {
        match frame {
            Frame::Text { content } => vec![TextDelta { text: content.into_owned() }.into()],
            Frame::ThinkingStart => vec![ThinkingStarted {}.into()],
            Frame::ThinkingContent { content } => vec![ThinkingDelta { text: content.into_owned() }.into()],
            Frame::ThinkingEnd => vec![ThinkingEnded {}.into()],
            Frame::SandboxStart { project, base } => vec![SandboxStarted { project, base }.into()],
            Frame::SandboxEnd => vec![SandboxEnded {}.into()],
            Frame::FileStart { path } => self.file_started(limits, project, path),
            Frame::FileContent { content } => self.file_content(limits, content.into_owned()),
            Frame::FileEnd { complete } => self.file_ended(limits, project, complete),
            Frame::Edit { path, blocks } => edit(limits, project, path, blocks),
            Frame::Delete { path } => vec![match project.file(&path) {
                Some(_) => FileDeleted { path, by: Author::Model }.into(),
                None => rejected(&path, "no_such_file", "there is no such file"),
            }],
            Frame::Rename { from, to } => vec![rename(project, from, to)],
            Frame::Install { packages, framework } => self.call(ToolInput::Install { packages, framework }),
            Frame::Command { command, args } => self.call(ToolInput::Command { command, args }),
            Frame::WebSearch { query, max_results } => self.call(ToolInput::WebSearch { query, max_results }),
            Frame::UrlScrape { url } => self.call(ToolInput::UrlScrape { url }),
            Frame::Skill { name, input } => self.call(ToolInput::Skill { name, input }),
            Frame::Done => {
                self.done = true;
                vec![]
            }
            Frame::Error(fault) => vec![problem(fault)],
        }
    }

    fn call(&mut self, input: ToolInput) -> Vec<Event> {
        self.calls += 1;
        let call_id = CallId::new(format!("{}.{}.{}", self.step, self.attempt, self.calls));
        vec![ToolRequested { call_id, ordinal: self.calls, input }.into()]
    }

    fn file_started(&mut self, limits: &Limits, project: &Project, path: ProjectPath) -> Vec<Event> {
        // Begun anew after an answer that was cut off; another one instead leaves the former incomplete.
        let left = self.file.take().filter(|open| !open.refused && open.path != path);
        let left = left.map(|open| rejected(&open.path, "incomplete", INCOMPLETE));
        let full = project.file(&path).is_none() && project.files().len() as u64 >= limits.project_files;
        let refusal = if is_protected(&path) {
            Some(rejected(&path, "protected_path", "this folder belongs to tools and is not written by hand"))
        } else if project.conflicts(&path) {
            Some(rejected(
                &path,
                "path_conflict",
                "a folder has this name, or a file the name of a folder on the way; delete it first",
            ))
        } else if full {
            Some(rejected(
                &path,
                "too_many_files",
                &format!("the project has {} files, the most there may be", limits.project_files),
            ))
        } else {
            None
        };
        self.file = Some(OpenFile { path: path.clone(), bytes: 0, refused: refusal.is_some() });
        left.into_iter().chain([refusal.unwrap_or_else(|| FileStarted { path }.into())]).collect()
    }

    fn file_content(&mut self, limits: &Limits, text: String) -> Vec<Event> {
        let Some(file) = self.file.as_mut().filter(|f| !f.refused) else { return vec![] };
        let offset = file.bytes;
        file.bytes += text.len() as u64;
        if file.bytes > limits.project_file_bytes {
            file.refused = true;
            let reason = format!("the file is larger than {} bytes", limits.project_file_bytes);
            return vec![rejected(&file.path, "file_too_large", &reason)];
        }
        vec![FileDelta { path: file.path.clone(), offset, text }.into()]
    }

    fn file_ended(&mut self, limits: &Limits, project: &Project, complete: bool) -> Vec<Event> {
        let Some(file) = self.file.take().filter(|f| !f.refused) else { return vec![] };
        if !complete {
            return vec![rejected(&file.path, "incomplete", INCOMPLETE)];
        }
        let text = project.open_text(&file.path).unwrap_or_default();
        let former = project.file(&file.path).map_or(0, |old| old.content.len() as u64);
        if project.bytes() - former + file.bytes > limits.project_bytes {
            let reason = format!("the project would be larger than {} bytes", limits.project_bytes);
            return vec![rejected(&file.path, "project_too_large", &reason)];
        }
        if let Some(line) = engine::edit::placeholder(text) {
            let reason =
                format!("the line `{line}` stands for code that is left out; write the whole file, or use <edit>");
            return vec![rejected(&file.path, "placeholder", &reason)];
        }
        let shrunk = project.file(&file.path).filter(|old| shrinks(old.content.len(), text.len())).map(|old| {
            let message = format!("{} went from {} to {} bytes", file.path, old.content.len(), text.len());
            Event::from(Warning { code: "file_shrunk".into(), message })
        });
        let sha256 = sha256(text.as_bytes());
        let done = FileCompleted { path: file.path, bytes: file.bytes, sha256, by: Author::Model };
        std::iter::once(done.into()).chain(shrunk).collect()
    }
}

/// A file that loses over 40 % of more than a few lines is worth a warning (contracts.md § 2).
fn shrinks(old: usize, new: usize) -> bool {
    const FEW: usize = 512;
    old > FEW && new * 10 < old * 6
}

/// Whether a path is in a folder of tools.
pub(crate) fn is_protected(path: &ProjectPath) -> bool {
    path.as_str().split('/').next().is_some_and(|first| PROTECTED.contains(&first))
}

fn edit(limits: &Limits, project: &Project, path: ProjectPath, blocks: Vec<Replacement>) -> Vec<Event> {
    let Some(text) = project.text(&path) else {
        let reason = "there is no such file, or it is not text; write it whole with <file>";
        return vec![rejected(&path, "no_such_file", reason)];
    };
    match engine::edit::apply(text, &blocks) {
        Ok(done) if done.text.len() as u64 > limits.project_file_bytes => vec![rejected(
            &path,
            "file_too_large",
            &format!("the file would be larger than {} bytes", limits.project_file_bytes),
        )],
        Ok(done) => {
            let (bytes, sha256) = (done.text.len() as u64, sha256(done.text.as_bytes()));
            let loose = done.loose.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let message = format!("{path}: block {loose} matched only without the blanks at the ends of its lines");
            let warning = Warning { code: "edit_matched_loosely".into(), message };
            let edited = FileEdited { path, blocks: done.blocks, bytes, sha256 };
            std::iter::once(edited.into()).chain((!loose.is_empty()).then(|| warning.into())).collect()
        }
        Err(bad) => vec![rejected(&path, bad.code, &bad.reason)],
    }
}

fn rename(project: &Project, from: ProjectPath, to: ProjectPath) -> Event {
    if project.file(&from).is_none() {
        rejected(&from, "no_such_file", "there is no such file")
    } else if is_protected(&to) || project.file(&to).is_some() || project.conflicts(&to) {
        rejected(&to, "target_exists", "the new name is taken or belongs to tools; delete what is there first")
    } else {
        FileRenamed { from, to }.into()
    }
}

fn rejected(path: &ProjectPath, code: &str, reason: &str) -> Event {
    FileRejected { path: path.to_string(), code: code.into(), reason: reason.into() }.into()
}

fn problem(fault: Fault) -> Event {
    let code = fault.code.as_str().to_owned();
    let reason = fault.message.into_owned();
    match fault.element {
        Element::File | Element::Edit | Element::Delete | Element::Rename => {
            FileRejected { path: fault.path.unwrap_or_default(), code, reason }.into()
        }
        Element::Thinking
        | Element::Sandbox
        | Element::Install
        | Element::Command
        | Element::WebSearch
        | Element::UrlScrape
        | Element::Skill
        | Element::Done => ElementRejected { element: fault.element.as_str().to_owned(), code, reason }.into(),
    }
}
