//! Passes a [`Region`] across the boundary, as its origin followed by its shape.

use crate::{Error, Region, Result};

pub(super) fn encode_region(region: Option<&Region>) -> Vec<u64> {
    region.map_or_else(Vec::new, |region| region.origin.iter().chain(&region.shape).copied().collect())
}

pub(super) fn decode_region(is_region: bool, numbers: &[u64]) -> Result<Option<Region>> {
    if !numbers.len().is_multiple_of(2) {
        return Err(Error::plugin("the origin and the shape of a region differ in rank"));
    }
    let (origin, shape) = numbers.split_at(numbers.len() / 2);
    Ok(is_region.then(|| Region { origin: origin.to_vec(), shape: shape.to_vec() }))
}
