//! Feeds anything to the protocol parser; what must hold is written once, in `contract::protocol::check`.
#![no_main]

use contract::protocol::check::check;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check(bytes));
