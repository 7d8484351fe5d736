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
    /// Stable code: `build_failed`, `build_timed_out`, `no_output`, `output_too_large`, `build_interrupted`.
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
    /// The version that it shows.
    pub version: VersionId,
    /// What kind of preview it is.
    pub kind: PreviewKind,
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
