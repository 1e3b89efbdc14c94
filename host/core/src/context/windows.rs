//! Windows: the stretches of a long run of bytes that are worked on one after the other.

use std::ops::Range;

/// The bytes that one thread fills, digests and writes at a time. Trial on two cores: 1 MiB stays in
/// the L2 cache, and larger buffers were slower.
pub const WINDOW_BYTES: usize = 1 << 20;

/// The windows of a range, in order: where each begins, and how long it is.
pub fn windows(range: Range<u64>) -> impl Iterator<Item = (u64, usize)> {
    let starts = range.clone().step_by(WINDOW_BYTES);
    starts.map(move |start| (start, size(range.end - start).min(WINDOW_BYTES)))
}

/// Bytes as the length of a buffer in memory.
#[must_use]
pub fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
