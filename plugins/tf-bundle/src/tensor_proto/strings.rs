//! Reads a `tensor_content` field of strings. The field contains the length of each string as a
//! varint, followed by the concatenated strings.
//!
//! Source: `EncodeStringList` in `tensorflow/core/platform/coding.cc` and `tstring`'s `Encode` in
//! `tensorflow/core/framework/tensor.cc`.

use super::emit::Emitter;
use std::ops::Range;
use tensorferry_proto_file::Wire;
use tensorferry_sdk::{ByteSink, Result};

/// Splits a `tensor_content` field, and returns the ranges of the lengths and of the concatenated
/// strings.
pub(super) fn split(
    wire: &mut Wire<'_>,
    content: &Range<u64>,
    elements: u64,
) -> Result<(Range<u64>, Range<u64>)> {
    let mut rest = content.clone();
    let mut sum = 0_u64;
    // This loop returns an error at the end of the field, even if the tensor claims more elements.
    for _ in 0..elements {
        sum = sum.saturating_add(wire.varint(&mut rest)?);
    }
    let left = rest.end - rest.start;
    if sum != left {
        return Err(wire
            .malformed(rest.start, "the strings of a tensor do not add up to the total of their lengths")
            .expected(format!("{sum} bytes"))
            .found(left));
    }
    Ok((content.start..rest.start, rest))
}

/// Writes each string, preceded by its length.
pub(super) fn write(
    wire: &mut Wire<'_>,
    lengths: &Range<u64>,
    bytes: &Range<u64>,
    output: &mut dyn ByteSink,
) -> Result<()> {
    let mut emitter = Emitter::new(0, output);
    let mut texts = wire.reopen();
    let mut lengths = lengths.clone();
    let mut start = bytes.start;
    while !lengths.is_empty() {
        let len = wire.varint(&mut lengths)?;
        emitter.push(&len.to_le_bytes())?;
        let end = start.checked_add(len).filter(|&end| end <= bytes.end);
        let end =
            end.ok_or_else(|| wire.malformed(start, "a string extends past the content of its tensor"))?;
        texts.each_chunk(&(start..end), &mut |chunk| emitter.push(chunk))?;
        start = end;
    }
    emitter.finish()
}
