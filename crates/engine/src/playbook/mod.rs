//! Playbooks decide which steps come next, and that is all that they do. Everything that happens to a step is written once,
//! in `step`.

pub mod app;
