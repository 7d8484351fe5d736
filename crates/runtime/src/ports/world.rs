//! Time and randomness, so that a rehearsal can replay both.

use contract::{ChatId, MessageId, ProjectId, RunId, UserId, VersionId};

/// The clock and the dice.
pub trait World: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;

    /// 128 random bits, fit for secrets.
    fn random(&self) -> u128;

    /// Milliseconds of a clock that never goes back, from an arbitrary start: for leases and durations.
    fn monotonic_ms(&self) -> u64;
}

/// Bits of an id that are random; the 48 above are the time.
const RANDOM_BITS: u32 = 80;

/// A new id of any kind: 48 bits of time, then random bits with the marks of a UUID version 7 (RFC 9562).
pub fn new_id<T: From128>(world: &dyn World) -> T {
    let random = world.random() & ((1 << RANDOM_BITS) - 1);
    let marked = (random & !(0xf << 76) & !(0b11 << 62)) | (0x7 << 76) | (0b10 << 62);
    T::from_bits((u128::from(world.now_ms() & 0xffff_ffff_ffff) << RANDOM_BITS) | marked)
}

/// An id that can be made of 128 bits.
pub trait From128 {
    /// Takes the bits as they are.
    fn from_bits(bits: u128) -> Self;
}

macro_rules! from_128 {
    ($($id:ident),*) => {$(impl From128 for $id {
        fn from_bits(bits: u128) -> Self {
            $id::from_bits(bits)
        }
    })*};
}
from_128!(RunId, ChatId, MessageId, ProjectId, VersionId, UserId);
