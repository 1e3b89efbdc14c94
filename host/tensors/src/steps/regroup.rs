//! Describes a tensor's block in the tensor's new shape after reshaping, which does not change the
//! order of the elements. Adjacent dimensions that have the same number of elements in both shapes
//! form a group, and groups are processed one by one. If the elements of a group are not evenly
//! spaced in their storage, the block becomes several blocks.

use super::view::bytes;
use std::ops::Range;
use tensorferry_sdk::{Block, DtypeInfo, Error, Region, Result, row_major_strides};

/// Maximum number of blocks into which one block may be divided. Each block needs memory and a
/// separate read in the copy.
const MAX_BLOCKS: usize = 1 << 16;

/// A part of a block, described in the new dimensions that have been processed so far. It contains
/// the origin, shape and strides in these dimensions, and the offset of the part's first element
/// from the block's first element.
#[derive(Clone, Default)]
struct PartialBlock {
    origin: Vec<u64>,
    shape: Vec<u64>,
    strides: Vec<i64>,
    first: i128,
}

impl PartialBlock {
    /// Returns this part extended by the dimensions of another group, in which the part covers a
    /// rectangle.
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

/// Describes a block of a tensor after the tensor is reshaped from `old` to `new`, which must have
/// the same number of elements. Adds the resulting blocks to `into`.
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
    let mut partials = vec![PartialBlock::default()];
    for (from, to) in groups(old, new) {
        let runs = runs(block, old, from)?;
        let mut next = Vec::new();
        for partial in &partials {
            for run in &runs {
                let found = rectangles(&new[to.clone()], run.start..run.start + run.len);
                next.extend(found.into_iter().map(|rectangle| partial.with(rectangle, run)));
            }
            if next.len() + into.len() > MAX_BLOCKS {
                return Err(too_many());
            }
        }
        partials = next;
    }
    for PartialBlock { origin, shape, strides, first } in partials {
        let offset =
            bytes(info, first).and_then(|moved| u64::try_from(i128::from(block.offset) + moved).ok());
        let offset = offset.ok_or_else(|| {
            Error::unsupported(format!("packed {} cannot be split at this position", info.name()))
        })?;
        into.push(Block { region: Region { origin, shape }, storage: block.storage, offset, strides });
    }
    Ok(())
}

fn too_many() -> Error {
    Error::unsupported(format!(
        "in this shape, the tensor would consist of more than {MAX_BLOCKS} pieces of its storage: \
         convert the tensor first, then reshape the result"
    ))
}

/// Splits the dimensions of both shapes into as many groups as possible. In each group, the
/// adjacent dimensions of both shapes have the same number of elements.
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

/// A run of elements that are consecutive in a group of dimensions, and evenly spaced in the
/// storage.
struct Run {
    /// Position of the first element in the group's row-major order.
    start: u64,
    len: u64,
    /// Offset in the storage of the first element, relative to the first element of the block. The
    /// next field is the distance between elements in the storage.
    first: i128,
    stride: i64,
}

/// Describes a block's extent in a group of dimensions with as few runs as possible.
fn runs(block: &Block, old: &[u64], dims: Range<usize>) -> Result<Vec<Run>> {
    let Region { origin, shape } = &block.region;
    let mut run = Run { start: 0, len: 1, first: 0, stride: 1 };
    // `weight` is the number of elements per index of the current dimension. `is_full` is whether
    // the run covers all of these elements. `others` contains the dimensions that the run cannot
    // include.
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
    if count.is_none_or(|count| count > MAX_BLOCKS as u64) {
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

/// A hyper-rectangle in a shape, and the position of its first element. Its elements are
/// consecutive in row-major order.
struct Rectangle {
    region: Region,
    start: u64,
}

/// Splits a range of consecutive elements in a shape into rectangles. There are at most two
/// rectangles per dimension.
fn rectangles(shape: &[u64], elements: Range<u64>) -> Vec<Rectangle> {
    let mut found = Vec::new();
    // The ranges that have not been split yet. Each item contains indices in the outer dimensions,
    // the number of elements before these indices, and a range of elements at these indices.
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
