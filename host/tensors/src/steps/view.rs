//! Views: the blocks of a tensor after it is transposed, split, or joined. Only origins, shapes,
//! offsets and strides change. The storages do not change.

use std::collections::HashMap;
use tensorferry_sdk::{Block, Catalog, DtypeInfo, Error, Result, StorageId, Tensor};

/// Returns the layout of a tensor's dtype, or an error if its elements vary in length, as strings
/// do.
pub(super) fn info_of(catalog: &Catalog, tensor: &Tensor) -> Result<DtypeInfo> {
    match catalog.dtype_info(tensor.dtype).filter(|info| !info.is_variable()) {
        Some(info) => Ok(info.clone()),
        None => Err(Error::unsupported("strings cannot be split or joined").tensor(&tensor.name)),
    }
}

/// Returns the index of a dimension. Negative numbers count from the last dimension. `rank` is the
/// number of dimensions.
pub(super) fn axis_of(axis: Option<i64>, rank: usize, tensor: &Tensor) -> Result<usize> {
    let axis = axis.unwrap_or(0);
    let place = if axis < 0 { axis.checked_add_unsigned(rank as u64) } else { Some(axis) };
    let found = place.and_then(|place| usize::try_from(place).ok()).filter(|place| *place < rank);
    found.ok_or_else(|| {
        Error::usage(format!("no dimension {axis}"))
            .tensor(&tensor.name)
            .found(format!("shape {:?}", tensor.shape))
    })
}

/// Returns the number of bytes that `elements` elements occupy, or `None` if they do not fill whole
/// blocks of the dtype.
pub(super) fn bytes(info: &DtypeInfo, elements: i128) -> Option<i128> {
    let (per_block, block) = (i128::from(info.block_elements()), i128::from(info.block_bytes()));
    (elements % per_block == 0).then(|| elements / per_block * block)
}

/// Reorders the dimensions of a block. The new dimension `d` is the old dimension `axes[d]`.
pub(super) fn permute(block: &Block, axes: &[usize]) -> Block {
    let mut turned = block.clone();
    for (new, &old) in axes.iter().enumerate() {
        turned.region.origin[new] = block.region.origin[old];
        turned.region.shape[new] = block.region.shape[old];
        turned.strides[new] = block.strides[old];
    }
    turned
}

/// Returns the part of a block from index `start` to index `end` of a dimension. In the result, the
/// indices are relative to `start`.
pub(super) fn cut(block: &Block, axis: usize, start: u64, end: u64, info: &DtypeInfo) -> Result<Block> {
    let first = block.region.origin[axis].max(start);
    let last = (block.region.origin[axis] + block.region.shape[axis]).min(end);
    let skipped = first - block.region.origin[axis];
    let moved = bytes(info, i128::from(skipped) * i128::from(block.strides[axis]));
    let offset = moved.and_then(|moved| u64::try_from(i128::from(block.offset) + moved).ok());
    let offset = offset.ok_or_else(|| {
        Error::unsupported(format!("packed {} cannot be split at this position", info.name()))
    })?;
    let mut part = Block { offset, ..block.clone() };
    part.region.origin[axis] = first - start;
    part.region.shape[axis] = last.saturating_sub(first);
    Ok(part)
}

/// Inserts a dimension of length 1 before `axis`.
pub(super) fn with_axis(mut block: Block, axis: usize) -> Block {
    block.region.origin.insert(axis, 0);
    block.region.shape.insert(axis, 1);
    block.strides.insert(axis, 0);
    block
}

/// Removes a dimension of length 1.
pub(super) fn without_axis(mut block: Block, axis: usize) -> Block {
    block.region.origin.remove(axis);
    block.region.shape.remove(axis);
    block.strides.remove(axis);
    block
}

/// Merges blocks that are adjacent along a dimension if they are contiguous in their storage. As a
/// result, splitting a block and joining its parts restores the block.
pub(super) fn merge(mut blocks: Vec<Block>, axis: usize, info: &DtypeInfo) -> Vec<Block> {
    blocks.sort_by_key(|block| block.region.origin[axis]);
    let mut merged: Vec<Block> = Vec::with_capacity(blocks.len());
    // The last block of each row of neighboring blocks. The blocks' common properties identify the
    // row.
    let mut last: HashMap<NeighborKey, usize> = HashMap::new();
    for block in blocks.into_iter().filter(|block| !block.region.shape.contains(&0)) {
        let row = NeighborKey::of(&block, axis);
        match last
            .get(&row)
            .and_then(|&place| joined(&merged[place], &block, axis, info).map(|one| (place, one)))
        {
            Some((place, one)) => merged[place] = one,
            None => {
                last.insert(row, merged.len());
                merged.push(block);
            }
        }
    }
    merged
}

/// The common properties of blocks that are neighbors along a dimension.
#[derive(PartialEq, Eq, Hash)]
struct NeighborKey {
    storage: StorageId,
    origin: Vec<u64>,
    shape: Vec<u64>,
    strides: Vec<i64>,
}

impl NeighborKey {
    fn of(block: &Block, axis: usize) -> Self {
        let without = without_axis(block.clone(), axis);
        Self {
            storage: block.storage,
            origin: without.region.origin,
            shape: without.region.shape,
            strides: without.strides,
        }
    }
}

/// Joins two blocks. Returns `None` unless `next` begins at the end of `block` in both the tensor
/// and the storage.
fn joined(block: &Block, next: &Block, axis: usize, info: &DtypeInfo) -> Option<Block> {
    let (len, more) = (block.region.shape[axis], next.region.shape[axis]);
    if block.region.origin[axis] + len != next.region.origin[axis] {
        return None;
    }
    let apart = i128::from(next.offset) - i128::from(block.offset);
    // The stride of a dimension of length 1 does not contain information.
    let stride = if len > 1 {
        block.strides[axis]
    } else if more > 1 {
        next.strides[axis]
    } else {
        let width = i128::from(info.block_bytes());
        let elements = apart * i128::from(info.block_elements());
        (elements % width == 0).then(|| i64::try_from(elements / width).ok())??
    };
    let continues = (more == 1 || next.strides[axis] == stride)
        && bytes(info, i128::from(stride) * i128::from(len)) == Some(apart);
    if !continues {
        return None;
    }
    let mut one = block.clone();
    one.region.shape[axis] = len + more;
    one.strides[axis] = stride;
    Some(one)
}
