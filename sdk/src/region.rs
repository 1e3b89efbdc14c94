//! A region is a hyper-rectangle of a tensor. A set of regions tiles a tensor if the regions cover
//! it exactly once.

use crate::{Error, Result, element_count};

/// A hyper-rectangle of a tensor, given by its start and length in each dimension, in elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Region {
    /// First index in each dimension.
    pub origin: Vec<u64>,
    /// Length in each dimension.
    pub shape: Vec<u64>,
}

/// Maximum number of pairs of regions that [`check_tiling`] compares.
const MAX_COMPARISONS: u64 = 100_000_000;

impl Region {
    /// Creates the region that covers a whole tensor of this shape.
    #[must_use]
    pub fn whole(shape: &[u64]) -> Self {
        Self { origin: vec![0; shape.len()], shape: shape.to_vec() }
    }

    /// Returns whether the region covers a whole tensor of this shape.
    #[must_use]
    pub fn is_whole(&self, shape: &[u64]) -> bool {
        self.shape == shape && self.origin.iter().all(|&start| start == 0)
    }

    /// Returns the run of elements that the region covers in the row-major order of a tensor of
    /// `shape`. The result is the first element of the run, and the length of the run. Returns
    /// `None` if the elements are not contiguous.
    #[must_use]
    pub fn row_major_run(&self, shape: &[u64]) -> Option<(u64, u64)> {
        // In a contiguous region, dimensions with a single index are followed by one range, and
        // then by whole dimensions.
        let outer = self.shape.iter().position(|&len| len != 1).unwrap_or(shape.len());
        if (outer + 1..shape.len()).any(|dim| self.shape[dim] != shape[dim]) {
            return None;
        }
        let start = self.origin.iter().zip(shape).fold(0_u64, |sum, (&start, &dim)| sum * dim + start);
        Some((start, self.shape.iter().product()))
    }

    pub(crate) fn check_inside(&self, shape: &[u64]) -> Result<()> {
        let inside = self.origin.len() == shape.len()
            && self.shape.len() == shape.len()
            && self
                .origin
                .iter()
                .zip(&self.shape)
                .zip(shape)
                .all(|((&start, &len), &dim)| start.checked_add(len).is_some_and(|end| end <= dim));
        if inside {
            return Ok(());
        }
        Err(Error::malformed("a block is outside its tensor")
            .expected(format!("inside {shape:?}"))
            .found(format!("origin {:?}, shape {:?}", self.origin, self.shape)))
    }

    fn overlaps(&self, other: &Self) -> bool {
        (0..self.shape.len()).all(|dim| {
            self.origin[dim] < other.origin[dim] + other.shape[dim]
                && other.origin[dim] < self.origin[dim] + self.shape[dim]
        })
    }
}

/// Checks that `regions` cover a tensor of `shape` exactly once, without gaps or overlaps.
///
/// # Errors
/// Returns a malformed-data error with the overlapping regions or the size of the gap. Returns a
/// limit error if comparing the regions would take minutes.
pub fn check_tiling(shape: &[u64], regions: &[Region]) -> Result<()> {
    let mut covered = 0_u64;
    for region in regions {
        region.check_inside(shape)?;
        covered = covered.saturating_add(element_count(&region.shape)?);
    }
    let total = element_count(shape)?;
    if covered < total {
        return Err(Error::malformed("the blocks leave a gap in the tensor")
            .expected(format!("{total} elements"))
            .found(covered));
    }
    check_disjoint(shape.len(), regions)?;
    debug_assert_eq!(covered, total, "disjoint regions inside the shape cannot exceed it");
    Ok(())
}

/// Sweeps along the dimension in which the regions have the most distinct start positions.
fn check_disjoint(rank: usize, regions: &[Region]) -> Result<()> {
    let mut by_start: Vec<&Region> = regions.iter().filter(|r| !r.shape.contains(&0)).collect();
    if by_start.len() < 2 {
        return Ok(());
    }
    let distinct = |dim: usize| {
        let mut starts: Vec<u64> = by_start.iter().map(|r| r.origin[dim]).collect();
        starts.sort_unstable();
        starts.dedup();
        starts.len()
    };
    let Some(sweep) = (0..rank).max_by_key(|&dim| distinct(dim)) else {
        return Err(Error::malformed("two blocks hold the same scalar"));
    };
    by_start.sort_by_key(|r| r.origin[sweep]);
    let mut open: Vec<&Region> = Vec::new();
    let mut comparisons = 0_u64;
    for region in by_start {
        open.retain(|other| other.origin[sweep] + other.shape[sweep] > region.origin[sweep]);
        comparisons += open.len() as u64;
        if comparisons > MAX_COMPARISONS {
            return Err(Error::limit("too many blocks to compare").found(regions.len()));
        }
        if let Some(other) = open.iter().find(|other| other.overlaps(region)) {
            return Err(Error::malformed("two blocks of the tensor overlap").found(format!(
                "origin {:?}, shape {:?} and origin {:?}, shape {:?}",
                other.origin, other.shape, region.origin, region.shape
            )));
        }
        open.push(region);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(origin: &[u64], shape: &[u64]) -> Region {
        Region { origin: origin.to_vec(), shape: shape.to_vec() }
    }

    #[test]
    fn a_tiling_has_no_gap_and_no_overlap() {
        let halves = [region(&[0, 0], &[2, 3]), region(&[2, 0], &[2, 3])];
        assert!(check_tiling(&[4, 3], &halves).is_ok());
        assert!(check_tiling(&[5, 3], &halves).is_err());
        let crossed = [region(&[0, 0], &[3, 3]), region(&[2, 0], &[2, 3])];
        assert!(check_tiling(&[4, 3], &crossed).is_err());
        assert!(check_tiling(&[], &[region(&[], &[]), region(&[], &[])]).is_err());
        assert!(check_tiling(&[0, 3], &[]).is_ok());
        assert!(check_tiling(&[4], &[region(&[u64::MAX], &[4])]).is_err());
    }

    #[test]
    fn runs_are_found_in_row_major_order() {
        assert_eq!(region(&[1, 0], &[2, 3]).row_major_run(&[4, 3]), Some((3, 6)));
        assert_eq!(region(&[1, 1], &[1, 2]).row_major_run(&[4, 3]), Some((4, 2)));
        assert_eq!(region(&[0, 1], &[2, 2]).row_major_run(&[4, 3]), None);
        assert_eq!(region(&[], &[]).row_major_run(&[]), Some((0, 1)));
        assert_eq!(region(&[3, 2], &[1, 1]).row_major_run(&[4, 3]), Some((11, 1)));
    }
}
