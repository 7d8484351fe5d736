//! The rehearsal: what every adapter of a port has to do, and stand-ins for the outside that fail on demand.
//!
//! `conformance` holds one suite per port, run on each real adapter and on the stand-in; `memory` holds the
//! stand-ins; `stage` puts a whole Baton together on them, to be killed and started again. Used by tests
//! alone: no product crate depends on this one.

pub mod conformance;
pub mod memory;
pub mod scribe;
pub mod servers;
pub mod stage;
