//! Limits the number of bytes that a reader copies out of a graph. A pickle may store a string once
//! and refer to it a million times. The graph contains the string only once, but a copy for each
//! reference would use too much memory.

use tensorferry_sdk::{Error, Limits, Result};

/// Overhead of each copy in bytes, in addition to its content. It covers an entry in a list and the
/// allocator's overhead.
const OVERHEAD: u64 = 48;

/// The number of bytes that may still be copied out of a graph.
#[derive(Debug)]
pub struct Budget {
    left: u64,
    name_bytes: u64,
}

impl Budget {
    /// Creates a budget whose size is the limit for the length of a header.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self { left: limits.header_bytes, name_bytes: limits.name_bytes }
    }

    /// Copies a name. Fails if the name is too long or the budget is exhausted.
    pub fn name(&mut self, text: &str) -> Result<String> {
        if text.len() as u64 > self.name_bytes {
            return Err(Error::limit("a name is too long")
                .hint("raise the limit with --limit name_bytes=N")
                .expected(format!("at most {} bytes", self.name_bytes))
                .found(text.len()));
        }
        self.spend(text.len() as u64)?;
        Ok(text.to_owned())
    }

    /// Counts a list of numbers, such as a shape, against the budget. Fails if the budget is
    /// exhausted.
    pub fn numbers(&mut self, numbers: Vec<u64>) -> Result<Vec<u64>> {
        self.spend(8 * numbers.len() as u64)?;
        Ok(numbers)
    }

    fn spend(&mut self, bytes: u64) -> Result<()> {
        match self.left.checked_sub(bytes.saturating_add(OVERHEAD)) {
            Some(left) => self.left = left,
            None => return Err(Error::limit("the names and shapes in a pickle expand to too many bytes")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn what_is_copied_again_and_again_is_bounded() {
        let mut limits = Limits::default();
        (limits.header_bytes, limits.name_bytes) = (30 + 2 * OVERHEAD, 8);
        let mut budget = Budget::new(&limits);
        assert_eq!(budget.name("weight").unwrap(), "weight");
        assert!(budget.name("too long a name").is_err());
        assert_eq!(budget.numbers(vec![2, 3]).unwrap(), [2, 3]);
        assert!(budget.numbers(vec![4, 5]).is_err());
    }
}
