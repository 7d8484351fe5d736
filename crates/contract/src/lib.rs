//! The words of Baton: ids, events, API bodies, limits and the protocol that models speak.
//!
//! Everything that is stored, sent or shown is a type of this crate, and the TypeScript types, the OpenAPI document and the
//! event schema are generated from it (E27). It must not do I/O, know the time, or depend on anything but serde, utoipa and memchr.

pub mod api;
pub mod bundle;
pub mod event;
pub mod id;
pub mod limits;
pub mod path;
pub mod problem;
pub mod protocol;

pub use event::{Envelope, Event};
pub use id::{CallId, ChatId, MessageId, ProjectId, RunId, StepId, StreamId, UserId, VersionId};
pub use limits::Limits;
pub use path::ProjectPath;
