//! Sandboxes: where generated code runs. Each file or folder here is one way to isolate it, behind `runtime`'s `Sandbox` port.
//!
//! None of them may weaken a promise of the port in silence: what a system does not give is refused or reported.

pub mod absent;
pub mod local;

pub use absent::AbsentSandbox;
