//! What every adapter of a port has to do: one suite per port, run on each real adapter and on the stand-in of `memory`.
//!
//! A suite is a plain async function that takes a maker of fresh subjects and panics where a promise is broken. It knows the port
//! and nothing of what is behind it.

pub mod bus;
pub mod model;
mod objects;
pub mod store;

pub use bus::{bus, buses};
pub use objects::objects;
pub use store::{store, store_keeps};
