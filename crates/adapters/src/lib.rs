//! The outside, behind the ports of `runtime`: databases, models, sandboxes, wake-ups, objects, time.
//!
//! Each module is a room that knows its own outside and no other room. What a port promises is `sim`'s conformance suite; nothing
//! here decides what an event means.

pub mod bus;
pub mod model;
pub mod objects;
pub mod sandbox;
pub mod store;
pub mod world;
