//! Models behind the port [`runtime::ports::model::Model`]: those of servers, and a scripted one.
//!
//! `remote` asks real servers: `call` sends and waits, `answer` reads, `failure` names what went wrong, `rates` reads what headers tell
//! of limits, `address` knows base URLs, and `wire` has one small file per format; only `call` does I/O. `scripted` answers by rules,
//! in process or as a server of all these formats, so that everything above can be exercised without a model; the built-in demo is
//! one of its scripts. Nothing here knows what a run is, keeps a conversation or tries a failed call again: the caller decides that.

mod address;
mod answer;
mod call;
mod failure;
mod rates;
pub mod remote;
pub mod scripted;
pub mod secret;
pub mod sse;
mod wire;

use std::time::Duration;

use contract::Limits;

pub use remote::{Remote, RemoteConfig, own_base_url};
pub use scripted::{ScriptedModel, Scripts};
pub use secret::Secret;

/// How long a model may take (contracts.md § 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Until the connection stands.
    pub connect: Duration,
    /// Any silence before the first piece of the answer.
    pub first_byte: Duration,
    /// Any silence after it.
    pub idle: Duration,
}

impl Patience {
    /// With a model somewhere else.
    pub fn remote(limits: &Limits) -> Self {
        Self {
            connect: Duration::from_millis(limits.model_connect_ms),
            first_byte: Duration::from_millis(limits.model_first_byte_ms),
            idle: Duration::from_millis(limits.model_idle_ms),
        }
    }

    /// With a model on this machine or network, which may still have to be loaded.
    pub fn local(limits: &Limits) -> Self {
        Self { first_byte: Duration::from_millis(limits.model_first_byte_local_ms), ..Self::remote(limits) }
    }
}
