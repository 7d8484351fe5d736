//! The store in PostgreSQL on a real server: what every store promises, and what comes with many processes and a network.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod counters;
mod crash;
mod families;
mod opening;
mod promises;
mod room;
