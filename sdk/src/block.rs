//! Defines blocks. A block is a hyper-rectangle of a tensor, together with its location in a
//! storage.

use crate::{Region, StorageId};
use std::ops::Range;

/// A hyper-rectangle of a tensor, together with its location in a storage.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Block {
    /// Part of the tensor covered by the block.
    pub region: Region,
    /// Storage that contains the block.
    pub storage: StorageId,
    /// Offset of the block's first element in the storage, in bytes.
    pub offset: u64,
    /// Stride of each dimension, in elements. A stride of 0 repeats one element.
    pub strides: Vec<i64>,
}

/// Returns the strides of a row-major tensor of this shape, in elements.
#[must_use]
pub fn row_major_strides(shape: &[u64]) -> Vec<i64> {
    let mut strides = vec![1_i64; shape.len()];
    for dim in (0..shape.len().saturating_sub(1)).rev() {
        let below = i64::try_from(shape[dim + 1]).unwrap_or(i64::MAX);
        strides[dim] = strides[dim + 1].saturating_mul(below);
    }
    strides
}

impl Block {
    /// Returns the range of the storage, in bytes, that contains all elements of the block.
    /// `element_bytes` is the element size of the dtype. `packed_bytes` is the length of the block
    /// if elements share bytes or vary in length.
    #[must_use]
    pub fn extent(&self, element_bytes: Option<u32>, packed_bytes: u64) -> Range<u64> {
        let Some(width) = element_bytes else {
            return self.offset..self.offset + packed_bytes;
        };
        if self.region.shape.contains(&0) {
            return self.offset..self.offset;
        }
        // The extents of a catalog's blocks never overflow.
        let (before, after) = reach(self, width).unwrap_or((0, 0));
        self.offset - before..self.offset + after
    }
}

/// Returns how many bytes the elements of a block extend before and after the block's offset. The
/// second number includes the last element.
pub(crate) fn reach(block: &Block, width: u32) -> Option<(u64, u64)> {
    let mut before = 0_u64;
    let mut after = u64::from(width);
    for (&len, &stride) in block.region.shape.iter().zip(&block.strides) {
        let bytes = (len - 1).checked_mul(stride.unsigned_abs())?.checked_mul(width.into())?;
        let side = if stride < 0 { &mut before } else { &mut after };
        *side = side.checked_add(bytes)?;
    }
    before.checked_add(after)?;
    Some((before, after))
}

/// Returns whether a block that covers its whole tensor has the layout of [`Data::Whole`]. Strides
/// of dimensions of length 1 are ignored, because they are never used and may contain arbitrary
/// values.
pub(crate) fn is_row_major(block: &Block) -> bool {
    let plain = row_major_strides(&block.region.shape);
    let shape = &block.region.shape;
    (0..shape.len()).all(|dim| shape[dim] == 1 || block.strides[dim] == plain[dim])
}
