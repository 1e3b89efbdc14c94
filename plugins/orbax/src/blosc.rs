//! Version 1 of Blosc. A buffer consists of blocks of shuffled bytes, which are compressed by one
//! of five codecs.
//!
//! ```text
//! 0   version, codec version, flags, bytes per element: u8 each
//! 4   decoded length, block length, encoded length with this header: u32 each, little-endian
//! 16  offset of each block, u32 each; or the raw data (flag 2)
//! ```
//!
//! Flag 1 means that bytes are shuffled, flag 2 that data is not compressed, flag 4 that bits are
//! shuffled, and flag 16 that blocks are not split. The upper three bits identify the codec. A
//! split block has one part for each byte of an element. Each part starts with its length as an
//! i32.

use crate::chunk_io::{SizedSink, SpanReader};
use std::io::Read;
use tensorferry_sdk::{Context, Error, Result};

fn malformed(what: &str) -> Error {
    Error::malformed(format!("invalid Blosc data: {what}"))
}

/// Decodes a chunk block by block.
pub(crate) fn decode(
    input: &mut SpanReader<'_>,
    output: &mut SizedSink<'_>,
    context: &dyn Context,
) -> Result<()> {
    let max = context.limits().memory_bytes;
    let mut bytes = Vec::new();
    // Blosc buffers are shorter than 2 GiB.
    let read = input.take(max.min(1 << 31) + 1).read_to_end(&mut bytes);
    read.map_err(|error| malformed("read error").found(error))?;
    if bytes.len() as u64 > max {
        return Err(Error::limit("a Blosc chunk is too long to hold in memory")
            .expected(format!("at most {max} bytes")));
    }
    let word = |at: usize| {
        let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes);
        word.and_then(|word| usize::try_from(word).ok()).ok_or_else(|| malformed("truncated"))
    };
    let &[_, _, flags, width, ..] = &*bytes else { return Err(malformed("truncated")) };
    let (len, block_len, packed) = (word(4)?, word(8)?, word(12)?);
    if packed != bytes.len() {
        return Err(malformed("wrong total length").expected(packed).found(bytes.len()));
    }
    if len as u64 != output.left {
        let error = Error::malformed("the length of a chunk does not match its shape");
        return Err(error.expected(format!("{} bytes", output.left)).found(len));
    }
    if flags & 2 != 0 {
        return output
            .write(bytes.get(16..).filter(|raw| raw.len() == len).ok_or_else(|| malformed("wrong length"))?);
    }
    if block_len == 0 || block_len > len.max(1) || width == 0 || block_len as u64 > max {
        return Err(malformed("invalid block length").found(block_len));
    }
    let width = usize::from(width);
    for block in 0..len.div_ceil(block_len) {
        context.check_cancelled()?;
        let size = block_len.min(len - block * block_len);
        let is_split = flags & 16 == 0 && width <= 16 && block_len / width >= 128 && size == block_len;
        let splits = if is_split { width } else { 1 };
        if !size.is_multiple_of(splits) {
            return Err(malformed("a block cannot be split evenly"));
        }
        let mut at = word(16 + 4 * block)?;
        let mut plain = vec![0; size];
        for part in plain.chunks_exact_mut(size / splits) {
            let packed = word(at)?;
            let start = at + 4;
            let end = start.checked_add(packed).ok_or_else(|| malformed("a part is too long"))?;
            let from = bytes.get(start..end).ok_or_else(|| malformed("a part extends past the end"))?;
            if from.len() == part.len() {
                part.copy_from_slice(from);
            } else {
                unpack(flags >> 5, from, part)?;
            }
            at = end;
        }
        output.write(&unshuffle(&plain, flags, width))?;
    }
    Ok(())
}

/// Decodes a part of a block. The decoded part must fill `to` exactly.
fn unpack(codec: u8, from: &[u8], to: &mut [u8]) -> Result<()> {
    let len = to.len();
    let written = match codec {
        0 => blosclz(from, to).ok_or_else(|| malformed("blosclz"))?,
        1 => lz4_flex::block::decompress_into(from, to).map_err(|error| malformed("lz4").found(error))?,
        2 => {
            let says = snap::raw::decompress_len(from).map_err(|error| malformed("snappy").found(error))?;
            if says != len {
                return Err(malformed("snappy").expected(len).found(says));
            }
            snap::raw::Decoder::new()
                .decompress(from, to)
                .map_err(|error| malformed("snappy").found(error))?
        }
        3 => read_all(&mut flate2::read::ZlibDecoder::new(from), to)?,
        4 => {
            let decoder = zstd::stream::read::Decoder::new(from);
            read_all(&mut decoder.map_err(|error| malformed("zstd").found(error))?, to)?
        }
        other => return Err(Error::unsupported("unknown Blosc codec").found(other)),
    };
    if written == len { Ok(()) } else { Err(malformed("a part is too short").expected(len).found(written)) }
}

fn read_all(from: &mut dyn Read, to: &mut [u8]) -> Result<usize> {
    from.read_exact(to).map_err(|error| malformed("a part").found(error))?;
    let more = from.read(&mut [0]).map_err(|error| malformed("a part").found(error))?;
    if more > 0 { Err(malformed("a part is too long")) } else { Ok(to.len()) }
}

/// Decodes Blosc's variant of FastLZ, which has longer match distances. Returns the decoded length.
fn blosclz(from: &[u8], to: &mut [u8]) -> Option<usize> {
    const MAX_DISTANCE: usize = 8191;
    let (mut input, mut at) = (from.iter().copied(), 0_usize);
    let mut control = usize::from(input.next()? & 31);
    loop {
        if control >= 32 {
            let mut len = (control >> 5) - 1;
            let mut distance = (control & 31) << 8;
            if len == 6 {
                loop {
                    let more = input.next()?;
                    len += usize::from(more);
                    if more != 255 {
                        break;
                    }
                }
            }
            let low = input.next()?;
            len += 3;
            if low == 255 && distance == 31 << 8 {
                distance = (usize::from(input.next()?) << 8) + usize::from(input.next()?) + MAX_DISTANCE;
            } else {
                distance += usize::from(low);
            }
            let start = at.checked_sub(distance + 1)?;
            let end = at.checked_add(len).filter(|end| *end <= to.len())?;
            // The bytes are copied one at a time, because the source may overlap the bytes that
            // have just been written.
            for place in at..end {
                to[place] = to[start + place - at];
            }
            at = end;
        } else {
            for _ in 0..=control {
                *to.get_mut(at)? = input.next()?;
                at += 1;
            }
        }
        match input.next() {
            Some(next) => control = usize::from(next),
            None => return Some(at),
        }
    }
}

/// Reverses the shuffling of bytes or bits.
fn unshuffle(block: &[u8], flags: u8, width: usize) -> Vec<u8> {
    let count = block.len() / width;
    let mut plain = block.to_vec();
    if flags & 1 != 0 && width > 1 {
        for byte in 0..width {
            for element in 0..count {
                plain[element * width + byte] = block[byte * count + element];
            }
        }
    } else if flags & 4 != 0 && count.is_multiple_of(8) {
        plain[..count * width].fill(0);
        for row in 0..width * 8 {
            for element in 0..count {
                let bit = block[row * (count / 8) + element / 8] >> (element % 8) & 1;
                plain[element * width + row / 8] |= bit << (row % 8);
            }
        }
    }
    plain
}
