//! What people do with runs: fork, retry, cancel, verify, export and import them, and change files by hand. On a whole Baton in
//! memory with a paused clock, over every run of a corpus where that says more than one example.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "the house starts its worker")]

mod bundles;
mod cancels;
mod edits;
mod forks;
mod hostile;
mod house;
mod retries;
mod verified;
mod wants;
