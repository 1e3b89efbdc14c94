//! Checks the row counts and buffer positions in a message before the Arrow library relies on them.

use super::message::MessageExtent;
use arrow_buffer::Buffer;
use arrow_ipc::{CompressionType, RecordBatch};
use std::ops::Range;
use tensorferry_sdk::{Error, Result};

/// Maximum number of values per byte of a message. The limit is high because nulls and runs of
/// equal values take almost no space.
const MAX_VALUES_PER_BYTE: u64 = 1 << 16;
/// Maximum compression ratio of an LZ4 block.
const LZ4_RATIO: u64 = 255;
/// Maximum compression ratio of Zstandard. A compressed block takes at least 3 bytes, and expands
/// to at most 128 KiB.
const ZSTD_RATIO: u64 = 44_000;
/// Number of decompressed bytes that are allowed beyond the ratio, because short frames may exceed
/// it.
const FEW: u64 = 128 << 10;

/// Checks the lengths of arrays and the positions of buffers. Returns the number of rows.
pub(super) fn check(batch: RecordBatch<'_>, place: &MessageExtent) -> Result<u64> {
    let max = (place.metadata_len + place.body_len).saturating_mul(MAX_VALUES_PER_BYTE);
    let count = |value: i64, what: &str| {
        u64::try_from(value).ok().filter(|count| *count <= max).ok_or_else(|| {
            Error::malformed(format!("impossible {what}")).expected(format!("0 to {max}")).found(value)
        })
    };
    let rows = count(batch.length(), "number of rows")?;
    for node in batch.nodes().into_iter().flatten() {
        let len = count(node.length(), "number of values")?;
        let nulls = count(node.null_count(), "number of nulls")?;
        if nulls > len {
            return Err(Error::malformed("more nulls than values").expected(len).found(nulls));
        }
    }
    let mut places = Vec::new();
    for buffer in batch.buffers().into_iter().flatten() {
        let (offset, len) = (u64::try_from(buffer.offset()), u64::try_from(buffer.length()));
        let end = offset.ok().zip(len.ok()).and_then(|(offset, len)| offset.checked_add(len));
        places.push(offset.unwrap_or(0)..end.unwrap_or(0));
        if end.is_none_or(|end| end > place.body_len) {
            return Err(Error::malformed("a buffer is outside its message")
                .expected(format!("within {} bytes", place.body_len))
                .found(format!("{} bytes at {}", buffer.length(), buffer.offset())));
        }
    }
    check_disjoint(places, "buffers of a message")?;
    Ok(rows)
}

/// Checks that ranges of a file do not overlap. No writer stores two references to the same bytes.
/// A file with such references could expand to far more than its size.
pub(super) fn check_disjoint(mut ranges: Vec<Range<u64>>, what: &str) -> Result<()> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    match ranges.windows(2).find(|pair| pair[1].start < pair[0].end) {
        Some(pair) => Err(Error::malformed(format!("{what} share the same bytes"))
            .offset(pair[1].start)
            .found(format!("{:?} and {:?}", pair[0], pair[1]))),
        None => Ok(()),
    }
}

/// Returns the total size of a batch's buffers after decompression. The caller must have checked
/// the positions of the buffers.
pub(super) fn decompressed(batch: RecordBatch<'_>, body: &Buffer) -> Result<u64> {
    let Some(compression) = batch.compression() else { return Ok(body.len() as u64) };
    let mut all = 0_u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let place = |value: i64| usize::try_from(value).unwrap_or(usize::MAX);
        let start = place(buffer.offset());
        let bytes = body.get(start..start.saturating_add(place(buffer.length()))).unwrap_or_default();
        if !bytes.is_empty() {
            all = all.saturating_add(claimed(compression.codec(), bytes, bytes.len() as u64)?.0);
        }
    }
    Ok(all)
}

/// Returns the size of a buffer after decompression, and whether the buffer is compressed. `head`
/// contains the beginning of the buffer, which takes up `stored` bytes.
pub(super) fn claimed(codec: CompressionType, head: &[u8], stored: u64) -> Result<(u64, bool)> {
    let ratio = if codec == CompressionType::LZ4_FRAME { LZ4_RATIO } else { ZSTD_RATIO };
    let short = || Error::malformed("a compressed buffer is shorter than 8 bytes").found(stored);
    let claim = i64::from_le_bytes(*head.first_chunk::<8>().ok_or_else(short)?);
    let len = stored.saturating_sub(8);
    // -1 marks an uncompressed buffer.
    let (held, max) = match claim {
        -1 => (len, len),
        _ => (u64::try_from(claim).unwrap_or(u64::MAX), len.saturating_mul(ratio).saturating_add(FEW)),
    };
    if held > max {
        return Err(Error::malformed("a compressed buffer claims more bytes than it can contain")
            .expected(format!("at most {max} bytes from {len}"))
            .found(claim));
    }
    Ok((held, claim != -1))
}
