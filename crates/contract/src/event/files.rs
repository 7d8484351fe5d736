//! The files family: what happens to the project's files. The text of a file is in the log before it is anywhere else.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::path::ProjectPath;

/// See [`super::Event::SandboxStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SandboxStarted {
    /// What the model calls the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The base that the model asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

/// See [`super::Event::SandboxEnded`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SandboxEnded {}

/// See [`super::Event::FileStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileStarted {
    /// The file.
    pub path: ProjectPath,
}

/// See [`super::Event::FileDelta`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileDelta {
    /// The file.
    pub path: ProjectPath,
    /// Bytes of the file that came before.
    pub offset: u64,
    /// The piece.
    pub text: String,
}

/// Who changed a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// The model, as text in the log.
    Model,
    /// A command in the sandbox; the bytes are in the object store under their hash.
    Command,
    /// The template that the project was made from; likewise in the object store.
    Template,
    /// A person; likewise in the object store.
    Person,
    /// Baton, which put it back as it was before an attempt that was given up; likewise in the object store.
    Restored,
}

/// See [`super::Event::FileCompleted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileCompleted {
    /// The file.
    pub path: ProjectPath,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Who wrote it.
    pub by: Author,
}

/// One replacement in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Replacement {
    /// Text that occurs exactly once.
    pub search: String,
    /// What stands there afterwards.
    pub replace: String,
}

/// See [`super::Event::FileEdited`]. Holds the patch itself, so that the log alone gives the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileEdited {
    /// The file.
    pub path: ProjectPath,
    /// The replacements, in order.
    pub blocks: Vec<Replacement>,
    /// Its size afterwards.
    pub bytes: u64,
    /// SHA-256 of its bytes afterwards, in hexadecimal.
    pub sha256: String,
}

/// See [`super::Event::FileDeleted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileDeleted {
    /// The file that is gone.
    pub path: ProjectPath,
    /// Who deleted it.
    pub by: Author,
}

/// See [`super::Event::FileRenamed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileRenamed {
    /// Its former path.
    pub from: ProjectPath,
    /// Its path from now on.
    pub to: ProjectPath,
}

/// See [`super::Event::FileRejected`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileRejected {
    /// What the model called the file, shortened; not checked.
    pub path: String,
    /// Stable code, such as `incomplete`, `absolute_path`, `edit_no_match`, `placeholder`.
    pub code: String,
    /// What the model is told.
    pub reason: String,
}
