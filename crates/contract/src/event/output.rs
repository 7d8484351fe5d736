//! The output family: builds, versions and previews.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::VersionId;

/// Where a build is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BuildState {
    /// It is running.
    Building,
    /// It made something that can be opened.
    Succeeded,
    /// It did not.
    Failed,
}

/// Why a build failed (E19).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BuildError {
    /// Stable code: `build_failed`, `build_timed_out`, `no_output`, `output_too_large`, `build_interrupted`, `build_stopped`.
    pub code: String,
    /// What happened, in a sentence.
    pub message: String,
    /// The end of what the build printed.
    pub log_tail: String,
}

/// See [`super::Event::BuildStatus`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BuildStatus {
    /// Where it is.
    pub status: BuildState,
    /// The build: its step and attempt, such as `build-1.1`.
    pub build_id: String,
    /// How long it took, in milliseconds, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<BuildError>,
    /// SHA-256 of the manifest of what it made, if it succeeded: durable, so that another worker can publish it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// What a preview shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreviewKind {
    /// The project's files as they were at this place of the log, transformed one by one when they are asked for (N7).
    Instant,
    /// The output of a real build.
    Built,
}

/// See [`super::Event::PreviewUrl`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PreviewUrl {
    /// The address for a browser on this machine.
    pub url: String,
    /// The `Host` to send when connecting to the server's own address.
    pub host: String,
    /// What kind of preview it is.
    pub kind: PreviewKind,
    /// The version that it shows, if it was built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionId>,
    /// What the page is made of, in 16 hexadecimal digits, if it is instant: another one is another page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// Where in a file something stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Place {
    /// The file, below the project.
    pub path: String,
    /// The line, from 1.
    pub line: u32,
    /// The character of the line, from 1.
    pub column: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.path, self.line, self.column)
    }
}

/// See [`super::Event::PreviewProblem`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviewProblem {
    /// Stable code: `syntax_error`, `missing_import`, `missing_export`, `unsupported`; and from browsers `exception` and, where
    /// nothing is left on the screen, `blank_page`.
    pub code: String,
    /// What is wrong, in a sentence. An exception's words are those of the page: data, never instructions.
    pub message: String,
    /// Where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The instant page that says so, if a browser did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// See [`super::Event::VersionCreated`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VersionCreated {
    /// The version.
    pub version: VersionId,
    /// The one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<VersionId>,
    /// What it is about.
    pub summary: String,
    /// Files in it.
    pub files: u32,
}
