//! A block is a hyper-rectangle of a tensor, and where it is read from.

use crate::{Region, StorageId};
use std::ops::Range;

/// A hyper-rectangle of a tensor, and where it is read from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Block {
    /// The part of the tensor.
    pub region: Region,
    /// The storage that holds it.
    pub storage: StorageId,
    /// Bytes from the storage's start to the block's first element.
    pub offset: u64,
    /// For each dimension, how many elements lie from one index to the next; 0 repeats one.
    pub strides: Vec<i64>,
}

/// The strides of a row-major tensor of this shape, in elements.
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
    /// The bytes of its storage that the block reaches. `element_bytes` is that of the dtype;
    /// `packed_bytes` is the block's length where elements share bytes or lengths vary.
    #[must_use]
    pub fn extent(&self, element_bytes: Option<u32>, packed_bytes: u64) -> Range<u64> {
        let Some(width) = element_bytes else {
            return self.offset..self.offset + packed_bytes;
        };
        if self.region.shape.contains(&0) {
            return self.offset..self.offset;
        }
        // A catalog holds no block whose reach does not fit.
        let (before, after) = reach(self, width).unwrap_or((0, 0));
        self.offset - before..self.offset + after
    }
}

/// How far a block reaches before and after its offset, in bytes; the last element is inside.
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

/// Whether a block that is its whole tensor lies as [`Data::Whole`] does. Strides of dimensions of
/// length 1 are never used, and frameworks write anything there.
pub(crate) fn is_row_major(block: &Block) -> bool {
    let plain = row_major_strides(&block.region.shape);
    let shape = &block.region.shape;
    (0..shape.len()).all(|dim| shape[dim] == 1 || block.strides[dim] == plain[dim])
}
