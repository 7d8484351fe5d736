//! What can go wrong in the runtime itself. What goes wrong in a run is an event of the run, not an error.

use contract::RunId;
use thiserror::Error;

use crate::ports::objects::ObjectsError;
use crate::ports::sandbox::SandboxError;
use crate::ports::store::{AppendError, StoreError};

/// Why the runtime could not do it.
#[derive(Debug, Error)]
pub enum RuntimeError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An append was refused.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The objects failed.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    /// The sandbox failed.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// An event in the log is not one that this version knows.
    #[error("event {seq} of {run} cannot be read: {reason}")]
    BadEvent {
        /// The run.
        run: RunId,
        /// Its place.
        seq: u64,
        /// What is wrong.
        reason: String,
    },
    /// The log says that a file has bytes that the objects do not hold.
    #[error("the bytes of `{path}` ({sha256}) are not in the object store")]
    LostObject {
        /// The file.
        path: String,
        /// The hash.
        sha256: String,
    },
    /// Something that worked for a run broke down; the run begins again from its log.
    #[error("an effect of the run broke down")]
    Broken,
    /// As many workers have taken the run as may, and none has brought it to its end.
    #[error("{claims} workers have taken the run and none has brought it to its end")]
    Hopeless {
        /// The limit `run_claims`.
        claims: u64,
    },
    /// A manifest is not one.
    #[error("manifest {0} cannot be read")]
    BadManifest(String),
}
