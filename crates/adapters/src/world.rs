//! The real clock and the operating system's randomness. The one place outside of tests that reads either.
#![expect(clippy::disallowed_methods, reason = "this is the room that owns the clock and the dice")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use runtime::ports::World;

/// The world as the operating system shows it.
#[derive(Debug, Clone, Copy)]
pub struct SystemWorld {
    start: Instant,
}

impl SystemWorld {
    /// The monotonic clock starts here.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemWorld {
    fn default() -> Self {
        Self::new()
    }
}

impl World for SystemWorld {
    fn now_ms(&self) -> u64 {
        // A clock that is set before 1970 shows 1970.
        millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    /// # Panics
    /// If the operating system has no randomness to give: ids and secrets made of anything else would be guessable.
    fn random(&self) -> u128 {
        let mut bytes = [0; 16];
        if let Err(error) = getrandom::fill(&mut bytes) {
            panic!("the operating system's source of randomness failed: {error}");
        }
        u128::from_ne_bytes(bytes)
    }

    fn monotonic_ms(&self) -> u64 {
        millis(self.start.elapsed())
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_the_real_world_are_version_7_and_differ() {
        let world = SystemWorld::new();
        let ids: [contract::RunId; 2] = std::array::from_fn(|_| runtime::ports::world::new_id(&world));
        assert_ne!(ids[0], ids[1]);
        for id in ids {
            assert_eq!(((id.bits() >> 76) & 0xf, (id.bits() >> 62) & 0b11), (7, 0b10), "the marks of RFC 9562");
            assert!((id.bits() >> 80).abs_diff(u128::from(world.now_ms())) < 60_000, "the time comes first");
        }
    }
}
