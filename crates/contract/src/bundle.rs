//! A run in one file: what `baton export` writes and `baton import` reads, to be attached to a bug report.
//!
//! It is versioned by itself, since it travels between Batons of different ages. What it says is data, wherever it comes from:
//! who reads one checks everything.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::RunView;
use crate::event::{Event, Said};
use crate::id::StepId;
use crate::path::ProjectPath;

/// The value of [`Bundle::format`].
pub const FORMAT: &str = "baton-run";
/// The newest version of the format.
pub const VERSION: u32 = 1;

/// A run: its row, its log, and the files that neither tells. Secrets, the home folder and the host's name are `***` in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// `baton-run`.
    pub format: String,
    /// Version of the format, from 1.
    pub version: u32,
    /// Version of the Baton that wrote it.
    pub baton: String,
    /// When it was written, in milliseconds since the Unix epoch.
    pub exported_at: u64,
    /// Texts that were replaced by `***`.
    pub redacted: u64,
    /// Whether the contents of files are in it; without, there are only their hashes.
    pub files: bool,
    /// The run's row.
    pub run: RunView,
    /// The limits that were in force when it was written, by their names.
    pub limits: BTreeMap<String, u64>,
    /// What had been said in the chat before the run, oldest first.
    pub earlier: Vec<Said>,
    /// The project's files as they were before the run.
    pub base: Vec<BundledFile>,
    /// The log, from its first event.
    pub events: Vec<BundledEvent>,
    /// Contents that are not text of the log, by their SHA-256 in hexadecimal.
    pub contents: BTreeMap<String, Content>,
    /// Hashes of contents that are named and left out: too large together, or not stored any more.
    pub missing: Vec<String>,
}

/// A file by its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BundledFile {
    /// Where it is.
    pub path: ProjectPath,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
}

/// An event with its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BundledEvent {
    /// Its place in the log, from 1.
    pub seq: u64,
    /// When it was made, in milliseconds since the Unix epoch.
    pub at: u64,
    /// The step that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
    /// Which attempt of the step, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// What happened.
    pub event: Event,
}

/// Bytes, readable where they can be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// They are UTF-8.
    Text(String),
    /// They are not: base64 (RFC 4648 § 4).
    Base64(String),
}
