//! The bytes that the views of a slice refer to. A view contains a short value, or refers to a
//! value in one of several data buffers. Programs that filter rows leave values without views in
//! the buffers, so only the bytes that have views are read.

use super::stored::StoredBuffer;
use arrow_buffer::{Buffer, ScalarBuffer};
use std::ops::Range;
use tensorferry_sdk::{Error, Result};

/// Maximum length of a value in a view.
const SHORT: u32 = 12;
/// Ranges with at most this many bytes between them are read as one range.
const GAP: u64 = 4096;

pub(super) struct ViewRanges {
    views: ScalarBuffer<u128>,
    /// Ranges of each data buffer, in ascending order.
    ranges: Vec<Vec<Range<u64>>>,
}

/// A view of a long value. Its value is its length, its first 4 bytes, the number of a data buffer,
/// and an offset in this buffer.
#[derive(Clone, Copy)]
struct LongView(u128);

impl LongView {
    fn of(view: u128) -> Option<Self> {
        (part(view, 0) > SHORT).then_some(Self(view))
    }

    fn buffer(self) -> usize {
        usize::try_from(part(self.0, 64)).unwrap_or(usize::MAX)
    }

    fn range(self) -> Range<u64> {
        let start = u64::from(part(self.0, 96));
        start..start + u64::from(part(self.0, 0))
    }

    /// Returns the view of the same value at a new place.
    fn moved(self, buffer: u32, offset: u32) -> u128 {
        self.0 & u128::from(u64::MAX) | u128::from(buffer) << 64 | u128::from(offset) << 96
    }
}

/// Returns the 32-bit part of a view that starts at a bit.
fn part(view: u128, bit: u32) -> u32 {
    u32::try_from(view >> bit & u128::from(u32::MAX)).unwrap_or(0)
}

impl ViewRanges {
    /// Reads the views of a range of rows. The data buffers follow the buffers of nulls and views.
    pub(super) fn of(buffers: &mut [StoredBuffer], start: u64, len: u64) -> Result<Self> {
        let views = buffers[1].numbers::<u128>(start, len)?;
        let data = &buffers[2..];
        let mut ranges = vec![Vec::<Range<u64>>::new(); data.len()];
        for view in views.iter().filter_map(|view| LongView::of(*view)) {
            let range = view.range();
            let buffer = data.get(view.buffer()).filter(|buffer| range.end <= buffer.len());
            if buffer.is_none() {
                return Err(Error::malformed("a view refers to bytes outside its data buffers")
                    .found(format!("{range:?} of data buffer {}", view.buffer())));
            }
            match ranges[view.buffer()].last_mut() {
                Some(last) if last.start <= range.start && range.start <= last.end.saturating_add(GAP) => {
                    last.end = last.end.max(range.end);
                }
                _ => ranges[view.buffer()].push(range),
            }
        }
        ranges.iter_mut().for_each(merge);
        Ok(Self { views, ranges })
    }

    /// Returns the number of bytes in all ranges.
    pub(super) fn bytes(&self) -> u64 {
        let ranges = self.ranges.iter().flatten();
        ranges.fold(0, |all, range| all.saturating_add(range.end - range.start))
    }

    /// Returns views and data buffers that contain only the ranges.
    pub(super) fn read(self, buffers: &mut [StoredBuffer]) -> Result<(Buffer, Vec<Buffer>)> {
        let mut data = Vec::new();
        // For each data buffer of the file: the number of its new buffer, and the offset of each
        // range in the new buffer.
        let mut places = Vec::with_capacity(self.ranges.len());
        for (buffer, ranges) in buffers[2..].iter_mut().zip(&self.ranges) {
            let mut offsets = Vec::with_capacity(ranges.len());
            let mut end = 0_u64;
            for range in ranges {
                offsets.push(end);
                end += range.end - range.start;
            }
            places.push((data.len(), offsets));
            match ranges.as_slice() {
                [] => {}
                [only] => data.push(buffer.read(only.start, end)?),
                many => {
                    let mut bytes = Vec::with_capacity(usize::try_from(end).unwrap_or(0));
                    for range in many {
                        bytes.extend_from_slice(&buffer.read(range.start, range.end - range.start)?);
                    }
                    data.push(Buffer::from_vec(bytes));
                }
            }
        }
        let moved = self.views.iter().map(|&view| {
            let Some(long) = LongView::of(view) else { return Some(view) };
            let (ranges, (buffer, offsets)) = (self.ranges.get(long.buffer())?, places.get(long.buffer())?);
            let start = long.range().start;
            let number = ranges.partition_point(|range| range.start <= start).checked_sub(1)?;
            let offset = offsets.get(number)? + (start - ranges.get(number)?.start);
            Some(long.moved(u32::try_from(*buffer).ok()?, u32::try_from(offset).ok()?))
        });
        let moved: Option<Vec<u128>> = moved.collect();
        let moved =
            moved.ok_or_else(|| Error::limit("the values of a view are too long to hold in memory"))?;
        Ok((Buffer::from_vec(moved), data))
    }
}

/// Sorts ranges, and merges ranges that are close together.
fn merge(ranges: &mut Vec<Range<u64>>) {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let is_close = next.start <= last.end.saturating_add(GAP);
        if is_close {
            last.end = last.end.max(next.end);
        }
        is_close
    });
}
