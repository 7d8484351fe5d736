//! Doors: the real program over real HTTP, with a scripted model that speaks a provider's wire format and checks every request.
//!
//! Here stands what a script or a person relies on from outside: the command line, its exit codes, and what survives a crash.
//! What happens inside is told by other tests. Nothing here sleeps: each wait is for a line, an event, or the end of a process.

#![expect(clippy::disallowed_methods, reason = "starts programs and reads what they leave behind")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod commands;
mod endings;
mod house;
mod looking;
mod roles;
mod runs;
mod survival;
