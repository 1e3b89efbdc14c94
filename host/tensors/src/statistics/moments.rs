//! Moments: the number of values, the mean, and the sum of the squared differences from the mean.

/// The moments of a sequence of finite numbers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moments {
    count: u64,
    /// One of the numbers, or a value close to them. The mean is stored as a difference from this
    /// base. If the mean itself were stored as F64, rounding could hide the difference between two
    /// large means that are close together.
    base: f64,
    beyond: f64,
    squares: f64,
}

impl Moments {
    /// Computes the moments of `count` numbers. `sum` adds up the numbers' differences from `base`,
    /// and `squares` adds up the squared differences. `base` must be one of the numbers, so that
    /// the result of the subtraction is at least `squares / count`.
    pub fn of_differences(count: u64, base: f64, sum: f64, squares: f64) -> Self {
        if count == 0 {
            return Self::default();
        }
        let beyond = sum / count as f64;
        Self { count, base, beyond, squares: (squares - sum * beyond).max(0.0) }
    }

    /// Computes the moments of numbers, each of which is passed with its number of occurrences.
    pub(crate) fn of_counted(numbers: impl Iterator<Item = (f64, u64)> + Clone) -> Self {
        let count: u64 = numbers.clone().map(|(_, times)| times).sum();
        if count == 0 {
            return Self::default();
        }
        let beyond = numbers.clone().map(|(number, times)| number * times as f64).sum::<f64>() / count as f64;
        let square = |(number, times): (f64, u64)| (number - beyond) * (number - beyond) * times as f64;
        Self { count, base: 0.0, beyond, squares: numbers.map(square).sum() }
    }

    /// Computes the moments of numbers whose differences, or sums of squared differences, exceed
    /// the range of F64.
    pub(crate) fn of_wide(numbers: &[f64]) -> Self {
        let count = numbers.len() as f64;
        let mean: f64 = numbers.iter().map(|number| number / count).sum();
        let squares = numbers.iter().map(|number| (number - mean) * (number - mean)).sum();
        Self { count: numbers.len() as u64, base: mean, beyond: 0.0, squares }
    }

    /// Adds the moments of another sequence of numbers.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (mine, theirs) = (self.count as f64, other.count as f64);
        let all = mine + theirs;
        let apart = (other.base - self.base) + (other.beyond - self.beyond);
        let squares = self.squares + other.squares + apart * apart * (mine * (theirs / all));
        if apart.is_finite() {
            self.beyond += apart * (theirs / all);
        } else {
            let mean = self.mean() * (mine / all) + other.mean() * (theirs / all);
            (self.base, self.beyond) = (mean, 0.0);
        }
        self.squares = squares;
        self.count += other.count;
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn mean(&self) -> f64 {
        self.base + self.beyond
    }

    /// Returns the population standard deviation.
    pub fn deviation(&self) -> f64 {
        if self.count == 0 { 0.0 } else { (self.squares / self.count as f64).sqrt() }
    }
}
