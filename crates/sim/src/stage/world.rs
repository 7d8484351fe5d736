//! A world whose clock is tokio's, which a rehearsal pauses, and whose dice are a seed.

use std::sync::{Mutex, PoisonError};

use runtime::ports::World;
use tokio::time::Instant;

/// Time from a start that is given, and randomness that repeats.
#[derive(Debug)]
pub struct SeededWorld {
    start: Instant,
    epoch_ms: u64,
    dice: Mutex<u64>,
}

impl SeededWorld {
    /// A world in which it is `epoch_ms` now. The same seed at another time rolls other dice, as another process would.
    pub fn new(seed: u64, epoch_ms: u64) -> Self {
        Self { start: Instant::now(), epoch_ms, dice: Mutex::new(seed ^ epoch_ms.rotate_left(17) | 1) }
    }

    fn roll(&self) -> u64 {
        let mut state = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        // Marsaglia's xorshift: fit for a rehearsal, and for nothing else.
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }
}

impl World for SeededWorld {
    fn now_ms(&self) -> u64 {
        self.epoch_ms + self.monotonic_ms()
    }

    fn random(&self) -> u128 {
        (u128::from(self.roll()) << 64) | u128::from(self.roll())
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
