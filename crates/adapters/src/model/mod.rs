//! Models behind the port [`runtime::ports::model::Model`]: one that speaks OpenAI's chat completions over HTTP, and a scripted one.
//!
//! `compatible` asks real servers. `scripted` answers by rules, in process or as such a server, so that everything above can be
//! exercised without a model; the built-in demo is one of its scripts. Nothing here knows what a run is, keeps a conversation or
//! tries a failed call again: the caller decides that.

pub mod compatible;
pub mod scripted;
pub mod secret;
pub mod sse;

use std::time::Duration;

use contract::Limits;

pub use compatible::{Compatible, CompatibleConfig};
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
