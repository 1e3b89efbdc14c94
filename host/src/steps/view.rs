//! Views: what becomes of a tensor's blocks when it is turned, cut, or joined. Only origins, shapes,
//! offsets and strides change; storages stay.

use super::spec::Field;
use std::collections::HashMap;
use std::ops::Range;
use tensorferry_sdk::{
    Block, Catalog, DtypeInfo, Error, Region, Result, StorageId, Tensor, row_major_strides,
};

/// The facts of a tensor's dtype, where elements have places of their own.
///
/// # Errors
/// Unsupported, for strings.
pub(super) fn info_of(catalog: &Catalog, tensor: &Tensor) -> Result<DtypeInfo> {
    match catalog.dtype_info(tensor.dtype).filter(|info| !info.is_variable()) {
        Some(info) => Ok(info.clone()),
        None => Err(Error::unsupported("strings cannot be cut or joined").tensor(&tensor.name)),
    }
}

/// A dimension by its number; a negative one counts from the end. `rank` is how many there are.
///
/// # Errors
/// Usage, if there is no such dimension.
pub(super) fn axis_of(axis: Option<i64>, rank: usize, tensor: &Tensor) -> Result<usize> {
    let axis = axis.unwrap_or(0);
    let place = if axis < 0 { axis.checked_add_unsigned(rank as u64) } else { Some(axis) };
    let found = place.and_then(|place| usize::try_from(place).ok()).filter(|place| *place < rank);
    found.ok_or_else(|| {
        Error::usage(format!("there is no dimension {axis}"))
            .tensor(&tensor.name)
            .found(format!("shape {:?}", tensor.shape))
    })
}

/// The number of a dimension, if it is given.
///
/// # Errors
/// Usage.
pub(super) fn axis(field: Option<&Field>) -> Result<Option<i64>> {
    field.map(Field::number).transpose()
}

/// Bytes from one element to another one that lies so many after it, where it begins with a byte.
fn bytes(info: &DtypeInfo, elements: i128) -> Option<i128> {
    let (per_block, block) = (i128::from(info.block_elements()), i128::from(info.block_bytes()));
    (elements % per_block == 0).then(|| elements / per_block * block)
}

/// The tensor with its dimensions in another order: the new dimension `d` is the old `axes[d]`.
pub(super) fn permute(block: &Block, axes: &[usize]) -> Block {
    let mut turned = block.clone();
    for (new, &old) in axes.iter().enumerate() {
        turned.region.origin[new] = block.region.origin[old];
        turned.region.shape[new] = block.region.shape[old];
        turned.strides[new] = block.strides[old];
    }
    turned
}

/// What a block has of the indices from `start` to `end` of a dimension; the part begins at 0 there.
///
/// # Errors
/// Unsupported, where elements share bytes and the cut goes through one.
pub(super) fn cut(block: &Block, axis: usize, start: u64, end: u64, info: &DtypeInfo) -> Result<Block> {
    let first = block.region.origin[axis].max(start);
    let last = (block.region.origin[axis] + block.region.shape[axis]).min(end);
    let skipped = first - block.region.origin[axis];
    let moved = bytes(info, i128::from(skipped) * i128::from(block.strides[axis]));
    let offset = moved.and_then(|moved| u64::try_from(i128::from(block.offset) + moved).ok());
    let offset =
        offset.ok_or_else(|| Error::unsupported(format!("packed {} cannot be cut there", info.name())))?;
    let mut part = Block { offset, ..block.clone() };
    part.region.origin[axis] = first - start;
    part.region.shape[axis] = last.saturating_sub(first);
    Ok(part)
}

/// A block of a tensor that gets a dimension of length 1 before `axis`.
pub(super) fn with_axis(mut block: Block, axis: usize) -> Block {
    block.region.origin.insert(axis, 0);
    block.region.shape.insert(axis, 1);
    block.strides.insert(axis, 0);
    block
}

/// A block of a tensor that loses a dimension of length 1.
pub(super) fn without_axis(mut block: Block, axis: usize) -> Block {
    block.region.origin.remove(axis);
    block.region.shape.remove(axis);
    block.strides.remove(axis);
    block
}

/// Makes one block of neighbours along a dimension that lie in their storage as if they were one, so that
/// what was cut and is joined again is what it was.
pub(super) fn merge(mut blocks: Vec<Block>, axis: usize, info: &DtypeInfo) -> Vec<Block> {
    blocks.sort_by_key(|block| block.region.origin[axis]);
    let mut merged: Vec<Block> = Vec::with_capacity(blocks.len());
    // The last block of each row of neighbours, by what they have in common.
    let mut last: HashMap<Row, usize> = HashMap::new();
    for block in blocks.into_iter().filter(|block| !block.region.shape.contains(&0)) {
        let row = Row::of(&block, axis);
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

/// What neighbours along a dimension have in common.
#[derive(PartialEq, Eq, Hash)]
struct Row {
    storage: StorageId,
    origin: Vec<u64>,
    shape: Vec<u64>,
    strides: Vec<i64>,
}

impl Row {
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

/// Both blocks as one, if `next` begins where `block` ends, in the tensor and in the storage.
fn joined(block: &Block, next: &Block, axis: usize, info: &DtypeInfo) -> Option<Block> {
    let (len, more) = (block.region.shape[axis], next.region.shape[axis]);
    if block.region.origin[axis] + len != next.region.origin[axis] {
        return None;
    }
    let apart = i128::from(next.offset) - i128::from(block.offset);
    // The stride of a dimension of length 1 says nothing.
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

/// So many blocks may a block become: each costs memory, and a read of its own in the copy.
const MOST_BLOCKS: usize = 1 << 16;

/// A part of a block in other dimensions, as far as they are done: origin, shape and strides of these, and
/// its first element, counted from the block's own.
#[derive(Clone, Default)]
struct Partial {
    origin: Vec<u64>,
    shape: Vec<u64>,
    strides: Vec<i64>,
    first: i128,
}

impl Partial {
    /// With the dimensions of a group, of which it has a rectangle.
    fn with(&self, Rectangle { region, start }: Rectangle, run: &Run) -> Self {
        let mut partial = self.clone();
        let strides = row_major_strides(&region.shape);
        partial.strides.extend(strides.into_iter().map(|stride| stride.saturating_mul(run.stride)));
        partial.origin.extend(region.origin);
        partial.shape.extend(region.shape);
        partial.first += run.first + i128::from(start - run.start) * i128::from(run.stride);
        partial
    }
}

/// What a block of a tensor of one shape is in another shape of as many elements; added to `into`.
///
/// # Errors
/// Unsupported, where that takes too many blocks, or elements share bytes.
pub(super) fn reshaped(
    block: &Block,
    old: &[u64],
    new: &[u64],
    info: &DtypeInfo,
    into: &mut Vec<Block>,
) -> Result<()> {
    if block.region.shape.contains(&0) {
        return Ok(());
    }
    let mut partials = vec![Partial::default()];
    for (from, to) in groups(old, new) {
        let runs = runs(block, old, from)?;
        let mut next = Vec::new();
        for partial in &partials {
            for run in &runs {
                let found = rectangles(&new[to.clone()], run.start..run.start + run.len);
                next.extend(found.into_iter().map(|rectangle| partial.with(rectangle, run)));
            }
            if next.len() + into.len() > MOST_BLOCKS {
                return Err(too_many());
            }
        }
        partials = next;
    }
    for Partial { origin, shape, strides, first } in partials {
        let offset =
            bytes(info, first).and_then(|moved| u64::try_from(i128::from(block.offset) + moved).ok());
        let offset = offset
            .ok_or_else(|| Error::unsupported(format!("packed {} cannot be cut there", info.name())))?;
        into.push(Block { region: Region { origin, shape }, storage: block.storage, offset, strides });
    }
    Ok(())
}

fn too_many() -> Error {
    Error::unsupported(format!(
        "it lies in another order, so that it would be more than {MOST_BLOCKS} pieces in that shape; \
         convert it first, and reshape what was written"
    ))
}

/// Neighbouring dimensions of both shapes that have as many elements, in as many groups as there can be.
fn groups(old: &[u64], new: &[u64]) -> Vec<(Range<usize>, Range<usize>)> {
    let mut groups = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        let start = (i, j);
        let (mut a, mut b) = (1, 1);
        loop {
            if a <= b && i < old.len() {
                a *= old[i];
                i += 1;
            } else if j < new.len() {
                b *= new[j];
                j += 1;
            } else {
                break;
            }
            if a == b {
                break;
            }
        }
        groups.push((start.0..i, start.1..j));
    }
    groups
}

/// Elements of a group of dimensions that lie one after the other in it, and evenly in their storage.
struct Run {
    /// The first one in the group's row-major order.
    start: u64,
    len: u64,
    /// The first one, counted from the block's own, and from each to the next, as they are stored.
    first: i128,
    stride: i64,
}

/// What a block has of a group of dimensions, in as few runs as it takes.
fn runs(block: &Block, old: &[u64], dims: Range<usize>) -> Result<Vec<Run>> {
    let Region { origin, shape } = &block.region;
    let mut run = Run { start: 0, len: 1, first: 0, stride: 1 };
    // Elements in one index of the dimension, whether the run has all of these, and what it cannot follow.
    let (mut weight, mut is_full, mut others) = (1_u64, true, Vec::new());
    for d in dims.rev() {
        let (len, stride) = (shape[d], block.strides[d]);
        let follows = run.len == 1 || i128::from(stride) == i128::from(run.stride) * i128::from(run.len);
        if len == 1 {
            run.start += origin[d] * weight;
        } else if others.is_empty() && is_full && follows {
            run.stride = if run.len == 1 { stride } else { run.stride };
            run.start += origin[d] * weight;
            run.len *= len;
        } else {
            others.push((origin[d] * weight, weight, len, stride));
        }
        is_full &= len == old[d];
        weight *= old[d];
    }
    let count = others.iter().try_fold(1_u64, |count, (_, _, len, _)| count.checked_mul(*len));
    if count.is_none_or(|count| count > MOST_BLOCKS as u64) {
        return Err(too_many());
    }
    let mut runs = vec![run];
    for (start, weight, len, stride) in others {
        let at = |run: &Run, index: u64| Run {
            start: run.start + start + index * weight,
            first: run.first + i128::from(index) * i128::from(stride),
            ..*run
        };
        runs = runs.iter().flat_map(|run| (0..len).map(move |index| at(run, index))).collect();
    }
    Ok(runs)
}

/// A hyper-rectangle of a shape whose elements are neighbours in its row-major order, and the first of them.
struct Rectangle {
    region: Region,
    start: u64,
}

/// The rectangles of a shape that some neighbours in its row-major order are: at most two for each dimension.
fn rectangles(shape: &[u64], elements: Range<u64>) -> Vec<Rectangle> {
    let mut found = Vec::new();
    // What is left to do: the indices of the dimensions before, and the elements within these.
    let mut open = vec![(Vec::new(), 0, elements)];
    while let Some((indices, before, elements)) = open.pop() {
        let Some((_, inner)) = shape[indices.len()..].split_first() else {
            found.push(Rectangle {
                region: Region { shape: vec![1; indices.len()], origin: indices },
                start: before,
            });
            continue;
        };
        let row: u64 = inner.iter().product();
        let (first, last) = (elements.start.div_ceil(row), elements.end / row);
        let mut descend = |part: Range<u64>| {
            if !part.is_empty() {
                let index = part.start / row;
                let mut indices: Vec<u64> = indices.clone();
                indices.push(index);
                open.push((indices, before + index * row, part.start - index * row..part.end - index * row));
            }
        };
        if first > last {
            descend(elements);
            continue;
        }
        descend(elements.start..first * row);
        descend(last * row..elements.end);
        if first < last {
            let mut region = Region { shape: vec![1; indices.len()], origin: indices };
            region.origin.push(first);
            region.shape.push(last - first);
            region.origin.resize(shape.len(), 0);
            region.shape.extend(inner);
            found.push(Rectangle { region, start: before + first * row });
        }
    }
    found
}
