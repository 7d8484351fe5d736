//! Chance that can be repeated: what is thrown depends on the seed and on nothing else.

/// A stream of chance.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The n-th stream of a seed.
    pub fn new(seed: u64, n: u64) -> Self {
        let mut dice = Self(seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.next();
        dice
    }

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `most` - 1.
    pub fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    /// A number of milliseconds.
    pub fn millis(&mut self, least: u64, most: u64) -> std::time::Duration {
        std::time::Duration::from_millis(least + self.below(most - least + 1))
    }

    /// True once in so many throws.
    pub fn once_in(&mut self, throws: u64) -> bool {
        self.below(throws) == 0
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, these: &[T]) -> T {
        these[usize::try_from(self.below(these.len() as u64)).unwrap()]
    }

    pub fn shuffle<T>(&mut self, these: &mut [T]) {
        for last in (1..these.len()).rev() {
            these.swap(last, usize::try_from(self.below(last as u64 + 1)).unwrap());
        }
    }
}
