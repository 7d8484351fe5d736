//! Projects in, pages and problems out. What `vite build` says of the same files was looked up for every row of the tables.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod checks;
mod files;
mod pages;
mod problems;
mod properties;
mod serving;
