//! Where logs and rows are kept. One adapter per database; what they must have in common is `sim`'s conformance suite.

mod alike;
pub mod postgres;
pub mod sqlite;
