//! What the parser hands out. The names and fields of the JSON form are what `baton parse` prints and what scripts rely on.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::Element;
use crate::event::Replacement;
use crate::path::{PathProblem, ProjectPath};

/// One thing that a model said. Content borrows from the response; all else is rare and owns its text.
///
/// Adjacent content may come in any number of frames, depending on how the response was chunked; [`Frame::merge`] undoes that.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Frame<'a> {
    /// Words for the person.
    Text {
        /// A piece of them.
        content: Cow<'a, str>,
    },
    /// Private reasoning begins.
    ThinkingStart,
    /// Private reasoning goes on.
    ThinkingContent {
        /// A piece of it.
        content: Cow<'a, str>,
    },
    /// Private reasoning is over.
    ThinkingEnd,
    /// The bracket round files opens.
    SandboxStart {
        /// What the model calls the project.
        #[serde(skip_serializing_if = "Option::is_none")]
        project: Option<String>,
        /// The base that the model asks for.
        #[serde(skip_serializing_if = "Option::is_none")]
        base: Option<String>,
    },
    /// The bracket round files closes.
    SandboxEnd,
    /// A whole file begins.
    FileStart {
        /// Which file.
        path: ProjectPath,
    },
    /// The file goes on.
    FileContent {
        /// A piece of it.
        content: Cow<'a, str>,
    },
    /// The file is over.
    FileEnd {
        /// Whether its end was seen; an incomplete file must not replace a good one.
        complete: bool,
    },
    /// Replacements in a file.
    Edit {
        /// Which file.
        path: ProjectPath,
        /// At least one, in order.
        blocks: Vec<Replacement>,
    },
    /// Delete a file.
    Delete {
        /// Which file.
        path: ProjectPath,
    },
    /// Rename a file.
    Rename {
        /// Its path so far.
        from: ProjectPath,
        /// Its path from now on.
        to: ProjectPath,
    },
    /// Add packages.
    Install {
        /// Names with versions and scopes, checked for form.
        packages: Vec<String>,
        /// The framework that the model believes it works with.
        #[serde(skip_serializing_if = "Option::is_none")]
        framework: Option<String>,
    },
    /// Run a command.
    Command {
        /// The program.
        command: String,
        /// Its arguments, each to be passed as it is.
        args: Vec<String>,
    },
    /// Search the web.
    WebSearch {
        /// The words.
        query: String,
        /// How many results at the most.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_results: Option<u32>,
    },
    /// Fetch a page.
    UrlScrape {
        /// The address, not checked.
        url: String,
    },
    /// Use a skill.
    Skill {
        /// Its name.
        name: String,
        /// A JSON object.
        input: serde_json::Value,
    },
    /// The model says that the work is finished.
    Done,
    /// Something that the model must be told; see [`ErrorCode`].
    Error(Fault),
}

impl<'a> Frame<'a> {
    /// The same frame, borrowing nothing.
    pub fn into_owned(self) -> Frame<'static> {
        let own = |content: Cow<'a, str>| Cow::Owned(content.into_owned());
        match self {
            Self::Text { content } => Frame::Text { content: own(content) },
            Self::ThinkingContent { content } => Frame::ThinkingContent { content: own(content) },
            Self::FileContent { content } => Frame::FileContent { content: own(content) },
            Self::ThinkingStart => Frame::ThinkingStart,
            Self::ThinkingEnd => Frame::ThinkingEnd,
            Self::SandboxStart { project, base } => Frame::SandboxStart { project, base },
            Self::SandboxEnd => Frame::SandboxEnd,
            Self::FileStart { path } => Frame::FileStart { path },
            Self::FileEnd { complete } => Frame::FileEnd { complete },
            Self::Edit { path, blocks } => Frame::Edit { path, blocks },
            Self::Delete { path } => Frame::Delete { path },
            Self::Rename { from, to } => Frame::Rename { from, to },
            Self::Install { packages, framework } => Frame::Install { packages, framework },
            Self::Command { command, args } => Frame::Command { command, args },
            Self::WebSearch { query, max_results } => Frame::WebSearch { query, max_results },
            Self::UrlScrape { url } => Frame::UrlScrape { url },
            Self::Skill { name, input } => Frame::Skill { name, input },
            Self::Done => Frame::Done,
            Self::Error(fault) => Frame::Error(fault),
        }
    }

    /// Takes in the next frame if both are content of the same thing; otherwise gives it back.
    pub fn merge<'b>(&mut self, next: Frame<'b>) -> Option<Frame<'b>> {
        match (self, next) {
            (Self::Text { content }, Frame::Text { content: more })
            | (Self::ThinkingContent { content }, Frame::ThinkingContent { content: more })
            | (Self::FileContent { content }, Frame::FileContent { content: more }) => {
                content.to_mut().push_str(&more);
                None
            }
            (_, next) => Some(next),
        }
    }
}

/// What was wrong with an element. Nothing was done for it; the model can be told and try again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Which problem.
    pub code: ErrorCode,
    /// The problem in words for the model, with what to do.
    pub message: Cow<'static, str>,
    /// Which element.
    pub element: Element,
    /// The path as the model wrote it, shortened and not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Every problem that the parser reports. The names are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// An element that works on a file does not say on which.
    MissingPath,
    /// A path begins with `/` or with a drive.
    AbsolutePath,
    /// A path has a `..` segment.
    ParentPath,
    /// A path has a backslash, a control character or an empty segment.
    BadPath,
    /// A path is longer than 1,024 bytes, or one of its names than 255.
    PathTooLong,
    /// `command`, `query`, `url` or a skill's `name` is missing or empty.
    MissingAttribute,
    /// `max_results` is not a number of results.
    BadNumber,
    /// `args` is not a JSON array of strings; the command is not run without them.
    BadArgsJson,
    /// A skill's body is not one JSON object.
    BadJson,
    /// An edit's body is not a series of SEARCH/REPLACE blocks.
    BadEdit,
    /// An install's body names no package, or something that is not one.
    BadInstall,
    /// A `[FILE: path]` line is not followed by a fenced block. The line stays text.
    MissingBlock,
    /// A tag is broken off by a `<`, or a quote in it stands where no value begins: most often a quote was not closed.
    BadTag,
    /// A tag is longer than [`super::MAX_TAG_BYTES`]: most often a quote that was never closed.
    TagTooLong,
    /// A body is longer than [`super::MAX_BODY_BYTES`].
    BodyTooLong,
    /// The response ended within a tag that had attributes, or within a body that was held for its end. A file that is cut off is no error but
    /// [`Frame::FileEnd`] with `complete: false`.
    IncompleteElement,
}

impl ErrorCode {
    /// The stable name, as in the JSON form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MissingPath => "missing_path",
            Self::AbsolutePath => "absolute_path",
            Self::ParentPath => "parent_path",
            Self::BadPath => "bad_path",
            Self::PathTooLong => "path_too_long",
            Self::MissingAttribute => "missing_attribute",
            Self::BadNumber => "bad_number",
            Self::BadArgsJson => "bad_args_json",
            Self::BadJson => "bad_json",
            Self::BadEdit => "bad_edit",
            Self::BadInstall => "bad_install",
            Self::MissingBlock => "missing_block",
            Self::BadTag => "bad_tag",
            Self::TagTooLong => "tag_too_long",
            Self::BodyTooLong => "body_too_long",
            Self::IncompleteElement => "incomplete_element",
        }
    }
}

/// Most characters of a path that a fault repeats.
const SHOWN_CHARS: usize = 200;

impl Fault {
    pub(super) fn new(element: Element, code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), element, path: None }
    }

    pub(super) fn path(element: Element, written: &str, problem: PathProblem) -> Self {
        let code = match problem {
            PathProblem::Empty => ErrorCode::MissingPath,
            PathProblem::Absolute => ErrorCode::AbsolutePath,
            PathProblem::Parent => ErrorCode::ParentPath,
            PathProblem::Backslash | PathProblem::Control | PathProblem::EmptySegment => ErrorCode::BadPath,
            PathProblem::TooLong => ErrorCode::PathTooLong,
        };
        Self {
            path: Some(written.chars().take(SHOWN_CHARS).collect()),
            ..Self::new(element, code, problem.to_string())
        }
    }

    pub(super) fn bad_tag(element: Element) -> Self {
        Self::new(
            element,
            ErrorCode::BadTag,
            "the tag cannot be read; close the quotes of each attribute, and end it with >",
        )
    }

    pub(super) fn tag_too_long(element: Element) -> Self {
        Self::new(
            element,
            ErrorCode::TagTooLong,
            "the tag is longer than 64 KB; close its quotes, and put long text into a file",
        )
    }

    pub(super) fn body_too_long(element: Element) -> Self {
        Self::new(element, ErrorCode::BodyTooLong, "the body is longer than 1 MB; send less, or a whole <file>")
    }

    pub(super) fn incomplete(element: Element) -> Self {
        Self::new(
            element,
            ErrorCode::IncompleteElement,
            "the response ended before this element did; nothing was done for it, send it again",
        )
    }

    pub(super) fn missing_block(written: &str) -> Self {
        let message = "a [FILE: path] line must be followed by a fenced block with the file's content";
        let path = Some(written.chars().take(SHOWN_CHARS).collect());
        Self { path, ..Self::new(Element::File, ErrorCode::MissingBlock, message) }
    }
}
