//! The tools family: calls of tools, each under a key that makes it happen once (E11).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::CallId;

/// A tool that the model can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolName {
    /// Add packages to the project.
    Install,
    /// Run a command in the sandbox.
    Command,
    /// Search the web.
    WebSearch,
    /// Fetch a page as text.
    UrlScrape,
    /// Use a skill.
    Skill,
}

/// What a tool was asked, told apart by `tool`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "tool", rename_all = "snake_case")]
pub enum ToolInput {
    /// Add packages.
    Install {
        /// Names with versions and scopes.
        packages: Vec<String>,
        /// The framework that the model believes it works with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        framework: Option<String>,
    },
    /// Run a command.
    Command {
        /// The program.
        command: String,
        /// Its arguments, each passed as it is: there is no shell in between.
        args: Vec<String>,
    },
    /// Search the web.
    WebSearch {
        /// The words.
        query: String,
        /// How many results at the most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_results: Option<u32>,
    },
    /// Fetch a page.
    UrlScrape {
        /// The address.
        url: String,
    },
    /// Use a skill.
    Skill {
        /// Its name.
        name: String,
        /// Its input.
        input: serde_json::Value,
    },
}

impl ToolInput {
    /// The tool.
    pub fn tool(&self) -> ToolName {
        match self {
            Self::Install { .. } => ToolName::Install,
            Self::Command { .. } => ToolName::Command,
            Self::WebSearch { .. } => ToolName::WebSearch,
            Self::UrlScrape { .. } => ToolName::UrlScrape,
            Self::Skill { .. } => ToolName::Skill,
        }
    }
}

/// See [`super::Event::ToolRequested`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolRequested {
    /// The call.
    pub call_id: CallId,
    /// Which call of the turn, from 1.
    pub ordinal: u32,
    /// The tool and what it was asked.
    pub input: ToolInput,
}

/// See [`super::Event::ToolStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolStarted {
    /// The call.
    pub call_id: CallId,
}

/// Where a tool's output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// See [`super::Event::ToolOutput`]. Also carries what a build prints, under the build's own call id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolOutput {
    /// The call.
    pub call_id: CallId,
    /// Where it came from.
    pub stream: OutputStream,
    /// The piece; bytes that are not UTF-8 became U+FFFD.
    pub text: String,
}

/// How a call of a tool ended. True by construction: only the hands that saw it say so (promise 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It did what was asked.
    Succeeded,
    /// It ran and failed.
    Failed,
    /// It was not run: policy, budget or bad input.
    Refused,
    /// This Baton has no such tool set up.
    Unavailable,
    /// Its time was up and its processes are gone.
    TimedOut,
    /// The run was stopped and its processes are gone.
    Cancelled,
    /// Its worker stopped or died while it ran; what it did is not known.
    Interrupted,
}

/// See [`super::Event::ToolFinished`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolFinished {
    /// The call.
    pub call_id: CallId,
    /// How it ended.
    pub status: ToolStatus,
    /// Exit code of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Output kept for the model: head and tail, within the limit.
    pub output: String,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Whether this is the recorded result of an earlier attempt of the same call.
    pub replayed: bool,
}
