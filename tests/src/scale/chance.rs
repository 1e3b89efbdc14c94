//! Chance for simulations: random numbers of which every machine draws the same, bit for bit.
//!
//! Logarithms differ between C libraries in their last bit, and a simulation that orders events by time would differ in
//! everything after it. So the exponential distribution is drawn by comparing uniform numbers alone (von Neumann, "Various
//! techniques used in connection with random digits", 1951).

use crate::random::Random;

/// One, for [`Chance::exponential`]: so many parts.
const UNIT: u64 = 1 << 32;

#[derive(Debug, Clone)]
pub(super) struct Chance(Random);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // Seeds that differ in few bits give first words that do.
        for _ in 0..8 {
            random.word();
        }
        Self(random)
    }

    /// Whether something happens that happens to so many in a thousand.
    pub(super) fn happens(&mut self, per_mille: u64) -> bool {
        self.uniform() * 1000 / UNIT < per_mille
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.uniform()) * u128::from(bound) / u128::from(UNIT);
        u64::try_from(wide).expect("it is less than the bound")
    }

    /// An exponentially distributed number with this mean.
    pub(super) fn exponential(&mut self, mean: u64) -> u64 {
        scaled(self.standard_exponential(), mean)
    }

    /// Half the square of an exponentially distributed number, with this mean: most are small, one in a hundred is ten times the mean.
    pub(super) fn skewed(&mut self, mean: u64) -> u64 {
        let root = self.standard_exponential();
        scaled(scaled(root, root) / 2, mean)
    }

    /// In parts of [`UNIT`].
    fn standard_exponential(&mut self) -> u64 {
        let mut whole = 0;
        loop {
            let first = self.uniform();
            let (mut last, mut falls) = (first, 0);
            loop {
                let next = self.uniform();
                if next >= last {
                    break;
                }
                (last, falls) = (next, falls + 1);
            }
            if falls % 2 == 0 {
                return whole + first;
            }
            whole += UNIT;
        }
    }

    /// Less than [`UNIT`].
    fn uniform(&mut self) -> u64 {
        self.0.word() >> 32
    }
}

fn scaled(part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(part) * u128::from(whole) / u128::from(UNIT)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_what_was_asked_for() {
        let mut chance = Chance::new(1);
        let mean = |draw: &mut dyn FnMut() -> u64| (0..100_000).map(|_| draw()).sum::<u64>() / 100_000;
        let exponential = mean(&mut || chance.exponential(1_000_000));
        assert!(exponential.abs_diff(1_000_000) < 20_000, "{exponential}");
        let skewed = mean(&mut || chance.skewed(1_000_000));
        assert!(skewed.abs_diff(1_000_000) < 40_000, "{skewed}");
        let below = mean(&mut || chance.below(2_000_000));
        assert!(below.abs_diff(1_000_000) < 20_000, "{below}");
        let happened = (0..100_000).filter(|_| chance.happens(10)).count();
        assert!(happened.abs_diff(1000) < 150, "{happened}");
    }
}
