//! The door of Baton: HTTP, event streams, the web UI and previews, on one port.
//!
//! A door turns a request into one call of `runtime` and an answer into bytes. It decides nothing about runs, appends nothing
//! to a log, and holds no state that a restart may not forget.

mod asset;
mod bounds;
mod bundles;
mod chats;
mod connection;
mod edits;
mod guard;
mod health;
mod observe;
mod preview;
mod projects;
mod reply;
mod router;
mod runs;
mod schema;
mod serve;
mod session;
mod sse;
mod stream;
mod system;
mod ui;

pub use guard::OwnerToken;
pub use schema::{event_schema, openapi};
pub use serve::{Server, ServerConfig};
