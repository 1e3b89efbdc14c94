//! A shard is a chunk that contains inner chunks and an index of these chunks.
//!
//! ```text
//! offset u64, length u64    of each chunk, in row-major order; both 2^64 - 1 if the chunk is missing
//! crc32c u32                of the entries
//! ```
//!
//! Numbers are little-endian. The index is at the end or at the start of the shard.

use crate::span::Span;
use tensorferry_sdk::{Context, Error, Result, Source, crc32c};

/// Number of bytes in an index entry.
const ENTRY: u64 = 16;

/// The index of a shard. Chunks do not overlap, so their total length does not exceed the length of
/// the shard.
pub(crate) struct Index {
    shard: Span,
    entries: Vec<u8>,
}

impl Index {
    /// Reads and checks the index of a shard with `count` chunks.
    pub(crate) fn of(
        shard: &Span,
        count: u64,
        at_start: bool,
        source: &dyn Source,
        context: &dyn Context,
    ) -> Result<Self> {
        let file = |error: Error| match shard {
            Span::File { file, .. } => error.file(source.name(*file)),
            Span::Inline { .. } => error,
        };
        let index_len = count * ENTRY + 4;
        let index_at = if at_start { Some(0) } else { shard.len().checked_sub(index_len) };
        let index = index_at.and_then(|at| shard.part(at, index_len));
        let index = index.ok_or_else(|| {
            let error = Error::malformed("a shard is shorter than its index");
            file(error.expected(format!("{index_len} bytes")).found(shard.len()))
        })?;
        let mut entries = index.bytes(source, context.limits())?;
        let stored = entries.split_off(entries.len().saturating_sub(4));
        let stored = stored.try_into().map(u32::from_le_bytes).unwrap_or_default();
        let computed = crc32c(&entries);
        if stored != computed {
            let error = Error::malformed("the index of a shard has a wrong crc32c");
            return Err(file(error.expected(format!("{stored:#010x}")).found(format!("{computed:#010x}"))));
        }
        // All chunks of the shard must be within this range.
        let within = if at_start { index_len..shard.len() } else { 0..shard.len() - index_len };
        let mut there = Vec::new();
        for (offset, len) in parse_entries(&entries).flatten() {
            let end = offset.checked_add(len).filter(|end| offset >= within.start && *end <= within.end);
            let end = end.ok_or_else(|| {
                let error = Error::malformed("a chunk extends past the shard or into its index");
                file(error.offset(offset).found(format!("{len} bytes")))
            })?;
            there.push((offset, end));
        }
        context.check_cancelled()?;
        there.sort_unstable();
        if let Some(pair) = there.windows(2).find(|pair| pair[1].0 < pair[0].1) {
            return Err(file(Error::malformed("two chunks of a shard overlap").offset(pair[1].0)));
        }
        Ok(Self { shard: shard.clone(), entries })
    }

    /// Returns the location of each chunk, or `None` for a missing chunk.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = Option<Span>> + '_ {
        parse_entries(&self.entries).map(|place| place.and_then(|(offset, len)| self.shard.part(offset, len)))
    }
}

/// Returns the offset and the length of each chunk, or `None` for a missing chunk.
fn parse_entries(entries: &[u8]) -> impl Iterator<Item = Option<(u64, u64)>> + '_ {
    let (numbers, _) = entries.as_chunks::<8>();
    let (pairs, _) = numbers.as_chunks::<2>();
    pairs.iter().map(|pair| {
        let [offset, len] = pair.map(u64::from_le_bytes);
        Some((offset, len)).filter(|place| *place != (u64::MAX, u64::MAX))
    })
}
