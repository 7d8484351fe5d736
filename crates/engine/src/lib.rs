//! Decisions: from the state of a run and one event, what to record and what to do next.
//!
//! Pure: no clock, randomness, threads or I/O, and no dependency that has them (architecture.md, idea 2). A fresh start is a
//! recovery from an empty log. A reader begins with `step`, then `playbook`.

#![warn(clippy::wildcard_enum_match_arm)]

pub mod catalogue;
pub mod check;
pub mod circle;
pub mod edit;
pub mod outcome;
pub mod playbook;
pub mod prompt;
pub mod retry;
pub mod state;
pub mod step;
pub mod tools;

pub use state::RunState;
pub use step::{Decision, Effect, step};
