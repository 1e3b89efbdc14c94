//! Splits a region of a tensor into runs of elements that are contiguous in the whole tensor, in
//! row-major order.

use tensorferry_sdk::Region;

/// An iterator over runs. Each item contains the index of the run's first element in the tensor and
/// the number of elements in the run.
pub(crate) struct Runs<'a> {
    region: &'a Region,
    shape: &'a [u64],
    /// The outermost dimension that a run covers. A run also covers all later dimensions.
    inner: usize,
    /// The index of the next run in the dimensions before `inner`; `None` at the end.
    at: Option<Vec<u64>>,
}

impl<'a> Runs<'a> {
    /// Creates an iterator over the runs of a region in a tensor with the shape `shape`. The number
    /// of elements in the tensor must fit in a `u64`.
    pub(crate) fn new(region: &'a Region, shape: &'a [u64]) -> Self {
        let is_cut = |dim: &usize| region.shape[*dim] != shape[*dim];
        // The region fully covers every dimension after its last partially covered dimension. A run
        // therefore spans that dimension and all later dimensions.
        let inner = (0..shape.len()).rev().find(is_cut).unwrap_or(0);
        let at = (!region.shape.contains(&0)).then(|| vec![0; inner]);
        Self { region, shape, inner, at }
    }
}

impl Iterator for Runs<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at.as_mut()?;
        let index = |dim: usize| self.region.origin[dim] + at.get(dim).copied().unwrap_or_default();
        let start = (0..self.shape.len()).fold(0, |sum, dim| sum * self.shape[dim] + index(dim));
        let len = self.region.shape[self.inner..].iter().product();
        if !step(at, &self.region.shape) {
            self.at = None;
        }
        Some((start, len))
    }
}

/// Advances an index, with the last dimension changing fastest. Returns false after the last index.
fn step(at: &mut [u64], shape: &[u64]) -> bool {
    for (dim, index) in at.iter_mut().enumerate().rev() {
        *index += 1;
        if *index < shape[dim] {
            return true;
        }
        *index = 0;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(origin: &[u64], lengths: &[u64], shape: &[u64]) -> Vec<(u64, u64)> {
        Runs::new(&Region { origin: origin.to_vec(), shape: lengths.to_vec() }, shape).collect()
    }

    #[test]
    fn runs_are_as_long_as_can_be() {
        assert_eq!(runs(&[], &[], &[]), [(0, 1)]);
        assert_eq!(runs(&[0, 0], &[2, 3], &[2, 3]), [(0, 6)]);
        assert_eq!(runs(&[1, 0], &[2, 3], &[4, 3]), [(3, 6)]);
        assert_eq!(runs(&[0, 1], &[2, 2], &[2, 4]), [(1, 2), (5, 2)]);
        assert_eq!(runs(&[0, 1, 0], &[2, 1, 2], &[2, 2, 2]), [(2, 2), (6, 2)]);
        assert_eq!(runs(&[1, 0, 1], &[1, 2, 1], &[2, 2, 2]), [(5, 1), (7, 1)]);
        assert_eq!(runs(&[0, 0], &[0, 3], &[2, 3]), []);
        assert_eq!(runs(&[0, 0], &[2, 0], &[2, 0]), []);
    }
}
