//! A flat vector whose elements are in several runs. Each run is contiguous in one storage. A
//! tensor is a range of the vector, so its storage is joined from the runs in this range.

use std::cmp::min;
use tensorferry_sdk::{Error, Result, StorageId};
use tensorferry_torch_file::Location;

/// Contiguous elements in a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) storage: StorageId,
    /// Byte offset of the first element.
    pub(crate) offset: u64,
    /// Number of elements, which is never 0.
    pub(crate) len: u64,
}

/// The runs that together form one vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SplitVector {
    /// Bytes per element.
    width: u64,
    runs: Vec<Run>,
    /// For each run, the index of its first element in the vector.
    starts: Vec<u64>,
    len: u64,
}

impl SplitVector {
    /// Creates an empty vector for elements of `width` bytes.
    pub(crate) fn new(width: u32) -> Self {
        Self { width: width.into(), runs: Vec::new(), starts: Vec::new(), len: 0 }
    }

    /// Returns the number of elements.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Appends the first `len` elements of a vector.
    pub(crate) fn push(&mut self, vector: &Location, len: u64) -> Result<()> {
        if vector.shape.len() != 1 || vector.strides.is_some() || vector.shape.iter().any(|&have| have < len)
        {
            return Err(Error::malformed("a piece of a flat vector has an unexpected shape")
                .expected(format!("at least {len} contiguous elements"))
                .found(format!("shape {:?}", vector.shape)));
        }
        let Some((storage, offset)) = vector.start.filter(|_| len > 0) else { return Ok(()) };
        self.starts.push(self.len);
        self.runs.push(Run { storage, offset, len });
        self.len =
            self.len.checked_add(len).ok_or_else(|| Error::malformed("a length does not fit in 64 bits"))?;
        Ok(())
    }

    /// Returns the runs that contain the `len` elements starting at `start`, or `None` if the
    /// vector is too short.
    pub(crate) fn range(&self, start: u64, len: u64) -> Option<Vec<Run>> {
        let end = start.checked_add(len).filter(|&end| end <= self.len)?;
        let first = self.starts.partition_point(|&run| run <= start).saturating_sub(1);
        let mut runs = Vec::new();
        for (run, &begin) in self.runs.iter().zip(&self.starts).skip(first) {
            let from = start.max(begin);
            let to = min(end, begin + run.len);
            if from >= to {
                break;
            }
            let offset = run.offset + (from - begin) * self.width;
            runs.push(Run { offset, len: to - from, ..*run });
        }
        Some(runs)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::Dtype;

    fn vector(storage: u32, len: u64) -> Location {
        let start = (len > 0).then_some((StorageId(storage), 8));
        Location { dtype: Dtype::F32, shape: vec![len], start, strides: None }
    }

    #[test]
    fn a_range_takes_the_runs_that_it_touches() {
        let mut spread = SplitVector::new(4);
        for (storage, len) in [(0, 5), (1, 0), (2, 3)] {
            spread.push(&vector(storage, len), len).unwrap();
        }
        let run = |storage, offset, len| Run { storage: StorageId(storage), offset, len };
        assert_eq!(spread.range(0, 8).unwrap(), [run(0, 8, 5), run(2, 8, 3)]);
        assert_eq!(spread.range(4, 2).unwrap(), [run(0, 24, 1), run(2, 8, 1)]);
        assert_eq!(spread.range(5, 1).unwrap(), [run(2, 8, 1)]);
        assert_eq!(spread.range(8, 0).unwrap(), []);
        assert!(spread.range(8, 1).is_none() && spread.range(u64::MAX, 2).is_none());
        assert!(spread.push(&vector(3, 2), 3).is_err());
        assert_eq!(SplitVector::new(4).range(0, 0).unwrap(), []);
    }
}
