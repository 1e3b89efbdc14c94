//! A slice selects evenly spaced indices of each axis of a tensor, like `start:stop:step` in numpy.
//! A slice is read like any other part of a tensor, as a block with longer strides. Only the needed
//! bytes are read.

use crate::copy_plan::{PlannedCopy, copies_of, tensor_of};
use crate::gather::{Scratch, StridedCopy};
use crate::logical::Logical;
use tensorferry_core::context::windows::size;
use tensorferry_sdk::{
    Block, ByteOrder, CatalogView, Context, Error, Order, Region, Result, TensorId, element_count,
};

/// The selected indices of an axis: `len` indices that begin at `start` and are `step` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AxisSlice {
    /// The first index.
    pub start: u64,
    /// The distance between indices. If the distance is negative, the indices decrease.
    pub step: i64,
    /// Number of indices.
    pub len: u64,
}

impl AxisSlice {
    /// Returns a slice of the whole axis.
    #[must_use]
    pub fn whole(len: u64) -> Self {
        Self { start: 0, step: 1, len }
    }

    /// Returns the index at a position in the slice. The position must be less than the length of
    /// the slice.
    #[must_use]
    pub fn index(&self, place: u64) -> u64 {
        let index = i128::from(self.start) + i128::from(place) * i128::from(self.step);
        u64::try_from(index).unwrap_or(u64::MAX)
    }

    /// Returns the part of this slice between two positions.
    #[must_use]
    pub fn part(&self, from: u64, to: u64) -> Self {
        Self { start: self.index(from), len: to - from, ..*self }
    }

    /// Returns the smallest index, and the length of the range from the smallest to the largest
    /// index.
    fn bounds(&self) -> (u64, u64) {
        let ends = (self.start, self.index(self.len.saturating_sub(1)));
        (ends.0.min(ends.1), if self.len == 0 { 0 } else { ends.0.abs_diff(ends.1) + 1 })
    }

    /// Returns the first position whose index is in `origin..origin + len`, and the number of such
    /// positions.
    fn within(&self, origin: u64, len: u64) -> (u64, u64) {
        let (start, step) = (i128::from(self.start), i128::from(self.step.unsigned_abs()).max(1));
        let (low, high) = (i128::from(origin), i128::from(origin) + i128::from(len) - 1);
        // Distances from the slice's first index to both ends of the range, in the direction of the
        // slice.
        let (near, far) =
            if self.step > 0 { (low - start, high - start) } else { (start - high, start - low) };
        let first = (-(-near).div_euclid(step)).max(0);
        let last = far.div_euclid(step).min(i128::from(self.len) - 1);
        let count = (last - first + 1).max(0);
        (u64::try_from(first).unwrap_or(0), u64::try_from(count).unwrap_or(0))
    }
}

/// Fills `buffer` with the elements of a slice in row-major, little-endian order. Elements must
/// consist of whole bytes. `axes` and the length of `buffer` must match the tensor.
pub fn read_slice(logical: &Logical<'_>, id: TensorId, axes: &[AxisSlice], buffer: &mut [u8]) -> Result<()> {
    let tensor = tensor_of(logical.catalog(), id)?;
    let info = logical.dtype_info(tensor.dtype)?;
    let shape: Vec<u64> = axes.iter().map(|axis| axis.len).collect();
    let (origin, spans) = axes.iter().map(AxisSlice::bounds).unzip();
    let bounds = Region { origin, shape: spans };
    let is_inside = axes.len() == tensor.shape.len()
        && (0..axes.len())
            .all(|d| bounds.shape[d] == 0 || bounds.origin[d] + bounds.shape[d] <= tensor.shape[d]);
    if !is_inside || info.bytes_of(element_count(&shape)?)? != buffer.len() as u64 {
        return Err(Error::plugin("a slice that does not match the tensor").tensor(&tensor.name));
    }
    let Some(width) = info.element_bytes() else {
        return Err(Error::unsupported("elements that share bytes cannot be sliced").tensor(&tensor.name));
    };
    if buffer.is_empty() {
        return Ok(());
    }
    let taken = Region::whole(&shape);
    let mut scratch = Scratch::default();
    for block in tensor.blocks_of(&bounds) {
        logical.stored().session().check_cancelled()?;
        let Some(block) = of_block(&block, axes, width) else { continue };
        let Some(copy) = StridedCopy::new(&block, &taken, Order::C, width) else { continue };
        let is_little = logical.stored().storage(block.storage)?.byte_order == ByteOrder::Little;
        let swap_unit = if is_little { 1 } else { info.swap_unit() };
        let write = &mut |to, run: &[u8]| {
            let to = size(to);
            buffer[to..to + run.len()].copy_from_slice(run);
            Ok(())
        };
        let copies: Vec<PlannedCopy> = copies_of(copy, block.storage, swap_unit).collect();
        for copy in &copies {
            logical.place(copy, &mut scratch, write).map_err(|error| error.tensor(&tensor.name))?;
        }
    }
    Ok(())
}

/// Returns the part of a block that is in the slice, as a block of the sliced tensor. `width` is
/// the size of an element in bytes.
fn of_block(block: &Block, axes: &[AxisSlice], width: u32) -> Option<Block> {
    let mut taken = block.clone();
    let mut offset = i128::from(block.offset);
    for (d, axis) in axes.iter().enumerate() {
        let (first, count) = axis.within(block.region.origin[d], block.region.shape[d]);
        if count == 0 {
            return None;
        }
        let skipped = axis.index(first) - block.region.origin[d];
        offset += i128::from(skipped) * i128::from(block.strides[d]) * i128::from(width);
        taken.region.origin[d] = first;
        taken.region.shape[d] = count;
        // The stride of a dimension of length 1 is never used.
        taken.strides[d] = if count == 1 { 0 } else { block.strides[d].checked_mul(axis.step)? };
    }
    taken.offset = u64::try_from(offset).ok()?;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_a_slice_are_found_in_a_stretch_of_the_axis() {
        let mut seen = 0;
        for (start, step, len) in [(0, 1, 10), (2, 3, 3), (9, -1, 10), (8, -3, 3), (5, 7, 1), (4, 1, 0)] {
            let axis = AxisSlice { start, step, len };
            for origin in 0..10 {
                for stretch in 1..=10 - origin {
                    let there = |place: &u64| (origin..origin + stretch).contains(&axis.index(*place));
                    let places: Vec<u64> = (0..len).filter(there).collect();
                    let (first, count) = axis.within(origin, stretch);
                    assert_eq!(count, places.len() as u64, "{axis:?} {origin} {stretch}");
                    assert!(
                        places.first().is_none_or(|place| *place == first),
                        "{axis:?} {origin} {stretch}"
                    );
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, 6 * 55);
    }
}
