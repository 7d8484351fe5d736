//! A world whose clock is tokio's, which a rehearsal pauses and sets, and whose dice are a seed.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use runtime::ports::World;
use tokio::time::Instant;

/// Dice that fall the same way again: Marsaglia's xorshift, fit for a rehearsal and for nothing else.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Dice made from a seed.
    pub fn new(seed: u64) -> Self {
        // Spread, so that seeds that follow each other have nothing in common.
        let spread = (seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Self((spread ^ (spread >> 31)) | 1)
    }

    /// 64 bits.
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `most`, or 0.
    pub fn below(&mut self, most: u64) -> u64 {
        // The high bits are the better ones.
        (self.roll() >> 16).checked_rem(most).unwrap_or(0)
    }

    /// Whether something happens that happens so many times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn one_of<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(usize::try_from(self.below(of.len() as u64)).unwrap_or(0)).copied()
    }
}

/// Time from a start that is given, and randomness that repeats.
#[derive(Debug)]
pub struct SeededWorld {
    start: Instant,
    epoch_ms: u64,
    /// By how much the machine's clock is wrong, in milliseconds.
    wrong: Arc<AtomicI64>,
    dice: Mutex<Dice>,
}

impl SeededWorld {
    /// A world in which it is `epoch_ms` now. The same seed at another time rolls other dice, as another process would.
    pub fn new(seed: u64, epoch_ms: u64) -> Self {
        let dice = Mutex::new(Dice::new(seed ^ epoch_ms.rotate_left(17)));
        Self { start: Instant::now(), epoch_ms, wrong: Arc::default(), dice }
    }

    /// The same on a machine whose clock may be wrong.
    pub(super) fn on(self, wrong: Arc<AtomicI64>) -> Self {
        Self { wrong, ..self }
    }

    /// Sets the clock by so many milliseconds.
    pub(super) fn set(&self, by: i64) {
        self.wrong.fetch_add(by, Ordering::SeqCst);
    }
}

impl World for SeededWorld {
    fn now_ms(&self) -> u64 {
        (self.epoch_ms + self.monotonic_ms()).saturating_add_signed(self.wrong.load(Ordering::SeqCst))
    }

    fn random(&self) -> u128 {
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        (u128::from(dice.roll()) << 64) | u128::from(dice.roll())
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
