//! Wake-ups. One adapter per carrier.

pub mod local;
pub mod redis;

pub use local::LocalBus;
pub use redis::{OpenBusError, RedisBus};
