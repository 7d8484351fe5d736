//! Wake-ups. One adapter per carrier.

pub mod local;

pub use local::LocalBus;
