//! Reads protobuf's wire format, in which a message is a sequence of fields. Each field has a tag
//! and a value.
//!
//! ```text
//! varint tag    the field's number, shifted left by 3, and its wire type
//!   0 varint    seven bits per byte, lowest first; the high bit is set in all bytes except the last
//!   1 fixed64   8 bytes, little-endian
//!   2 len       the length as a varint, then that many bytes: a message, a string or packed numbers
//!   3, 4 group  fields up to the end tag with the same number; obsolete, and skipped by all readers
//!   5 fixed32   4 bytes, little-endian
//! ```
//!
//! [`Fields`] iterates over the fields of a message in memory. To read a message that is only
//! partly in memory, use the functions that remove tags and numbers from the front of a slice. A
//! nested message is the content of a field. The caller must limit the nesting depth.
//!
//! Source: <https://protobuf.dev/programming-guides/encoding/>. `Fields` handles two cases in the
//! same way as protobuf's own readers: it treats a field with an unexpected wire type as an unknown
//! field, and it drops the bits of a varint's tenth byte that exceed 64 bits.

use std::fmt;

/// Maximum nesting depth of groups, as in protobuf's own readers.
const MAX_GROUP_DEPTH: usize = 100;
/// Maximum length of a varint in bytes. A varint encodes up to 64 bits.
pub const MAX_VARINT_BYTES: usize = 10;
/// Maximum number of bytes before a field's content. These bytes are a tag and either a varint or a
/// length.
pub const MAX_HEAD_BYTES: usize = 2 * MAX_VARINT_BYTES;

/// Number of bytes in a block. One bit for each byte of a block fits in a `u64`.
const BLOCK: usize = 64;
const PADDED: usize = BLOCK + 8;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// An error in the encoding of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireError {
    /// A length or a number extends past the end of the input.
    Truncated,
    /// A varint is longer than ten bytes, or encodes more bits than the reader accepts.
    Varint,
    /// A tag has an invalid number or wire type.
    Tag(u64),
    /// A group ends without a start, or groups are nested too deeply.
    Group,
    /// A name is not valid UTF-8.
    Text,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "a field extends past the end",
            Self::Varint => "a varint has more than ten bytes",
            Self::Tag(_) => "invalid field tag",
            Self::Group => "mismatched group",
            Self::Text => "a name is not UTF-8",
        })
    }
}

/// Removes a tag from the front of `bytes` and returns the field's number and wire type. `take` is
/// the function that reads the varint: [`take_varint`] or [`take_exact_varint`].
#[inline]
pub fn take_tag(
    bytes: &mut &[u8],
    take: impl FnOnce(&mut &[u8]) -> Result<u64, WireError>,
) -> Result<(u32, u32), WireError> {
    let long = take(bytes)?;
    // Protobuf tags have at most 32 bits.
    let tag = u32::try_from(long).map_err(|_| WireError::Tag(long))?;
    if tag >> 3 == 0 { Err(WireError::Tag(long)) } else { Ok((tag >> 3, tag & 7)) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    Varint(u64),
    Fixed64,
    /// A field with a length: a message, a string or packed numbers.
    Len(&'a [u8]),
    Fixed32([u8; 4]),
    /// A group. The reader skips its content.
    Group,
}

/// The fields of a message, in file order.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// Returns the number and the value of the next field, or `None` at the end.
    #[expect(
        clippy::should_implement_trait,
        reason = "the type of an iterator does not express that an error ends the iteration"
    )]
    #[expect(
        clippy::inline_always,
        reason = "a call would pass the field through memory and take twice the time"
    )]
    #[inline(always)]
    pub fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, WireError> {
        match self.0 {
            [] => Ok(None),
            // Fast path: most fields have a low number and start with a length.
            [tag @ (0x08..0x80), rest @ ..] if tag & 7 == 2 => {
                let mut rest = rest;
                let content = take_len(&mut rest)?;
                self.0 = rest;
                Ok(Some((u32::from(tag >> 3), Value::Len(content))))
            }
            bytes => {
                let (number, value, rest) = field(bytes)?;
                self.0 = rest;
                Ok(Some((number, value)))
            }
        }
    }
}

/// Returns the first field and the bytes after it. This function and the other non-inlined
/// functions receive the slice by value and return the rest. This lets their callers keep the slice
/// in registers.
#[inline(never)]
fn field(mut bytes: &[u8]) -> Result<(u32, Value<'_>, &[u8]), WireError> {
    let (number, wire_type) = take_tag(&mut bytes, take_varint)?;
    let value = take_value(&mut bytes, number, wire_type)?;
    Ok((number, value, bytes))
}

fn take_value<'a>(bytes: &mut &'a [u8], number: u32, wire_type: u32) -> Result<Value<'a>, WireError> {
    match wire_type {
        0 => take_varint(bytes).map(Value::Varint),
        1 => take_array::<8>(bytes).map(|_| Value::Fixed64),
        2 => take_len(bytes).map(Value::Len),
        3 => skip_group(bytes, number).map(|()| Value::Group),
        5 => take_array(bytes).map(Value::Fixed32),
        4 => Err(WireError::Group),
        _ => Err(WireError::Tag((number << 3 | wire_type).into())),
    }
}

#[cold]
fn skip_group(bytes: &mut &[u8], number: u32) -> Result<(), WireError> {
    let mut open = vec![number];
    while let Some(&innermost) = open.last() {
        match take_tag(bytes, take_varint)? {
            (number, 3) if open.len() < MAX_GROUP_DEPTH => open.push(number),
            (_, 3) => return Err(WireError::Group),
            (number, 4) if number == innermost => drop(open.pop()),
            (number, wire_type) => drop(take_value(bytes, number, wire_type)?),
        }
    }
    Ok(())
}

/// Removes `N` bytes from the front of `bytes` and returns them.
#[inline]
pub fn take_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], WireError> {
    let (array, rest) = bytes.split_first_chunk().ok_or(WireError::Truncated)?;
    *bytes = rest;
    Ok(*array)
}

/// Removes a varint from the front of `bytes` and returns its value. Bits of the tenth byte that
/// exceed 64 bits are dropped.
#[inline]
pub fn take_varint(bytes: &mut &[u8]) -> Result<u64, WireError> {
    match **bytes {
        [byte, ref rest @ ..] if byte < 0x80 => {
            *bytes = rest;
            Ok(u64::from(byte))
        }
        [low, high, ref rest @ ..] if high < 0x80 => {
            *bytes = rest;
            Ok(u64::from(low & 0x7f) | u64::from(high) << 7)
        }
        _ => {
            let (value, len) = long_varint(bytes)?;
            *bytes = &bytes[len..];
            Ok(value)
        }
    }
}

/// Removes a varint from the front of `bytes` like [`take_varint`], but rejects varints of more
/// than 64 bits.
#[inline]
pub fn take_exact_varint(bytes: &mut &[u8]) -> Result<u64, WireError> {
    let mut rest = *bytes;
    let value = take_varint(&mut rest)?;
    let taken = bytes.len() - rest.len();
    if taken == MAX_VARINT_BYTES && bytes[taken - 1] > 1 {
        return Err(WireError::Varint);
    }
    *bytes = rest;
    Ok(value)
}

/// Appends all varints in `bytes` as signed integers. If decoding fails, `values` may contain some
/// of the numbers.
#[inline]
pub fn take_varints(bytes: &[u8], values: &mut Vec<i64>) -> Result<(), WireError> {
    let place = take_short_varints(bytes, values);
    take_any_varints(&bytes[place..], |some| values.extend(some.iter().map(|value| value.cast_signed())))
}

/// Appends the values of varints block by block. Stops at a block that contains a varint of more
/// than four bytes, which is rare. Appends nothing if there are fewer than 64 bytes. Returns the
/// position of the remaining bytes.
///
/// The start of a varint depends on the lengths of the varints before it. In a 64-byte block, the
/// high bits mark the ends of all varints. Decoding a varint therefore does not have to wait for
/// the previous varint. This function needs only two thirds of the time of [`take_any_varints`].
#[inline]
fn take_short_varints(bytes: &[u8], values: &mut Vec<i64>) -> usize {
    let Some(last) = bytes.len().checked_sub(BLOCK) else { return 0 };
    // Each varint is read as a group of four bytes that starts in the block, so the last group may
    // extend past the block.
    let mut padded = [0; PADDED];
    let mut short = [0; BLOCK];
    let mut place = 0;
    while place < bytes.len() {
        // The last block may overlap the previous block.
        let from = place.min(last);
        let mut start = place - from;
        let block = match bytes[from..].first_chunk() {
            Some(block) => block,
            None => {
                padded[..BLOCK].copy_from_slice(&bytes[from..from + BLOCK]);
                &padded
            }
        };
        let all = ends(block);
        let is_long = !all & (!all >> 1) & (!all >> 2) & (!all >> 3) != 0;
        let mut ends = all & (u64::MAX << start);
        if is_long || ends == 0 {
            break;
        }
        if ends == u64::MAX {
            values.extend(block[..BLOCK].iter().map(|&byte| i64::from(byte)));
            place += BLOCK;
            continue;
        }
        let count = ends.count_ones() as usize;
        place = from + BLOCK - ends.leading_zeros() as usize;
        // Decode eight varints per iteration, because the processor predicts the end of a loop with
        // a fixed count better.
        for group in short.as_chunks_mut::<8>().0.iter_mut().take(count.div_ceil(8)) {
            start %= BLOCK;
            for value in group {
                *value = short_varint(block[start..].first_chunk().copied().unwrap_or_default());
                // After the last varint, `start` is an arbitrary position. The value read at this
                // position is discarded.
                start = (ends | 1 << (BLOCK - 1)).trailing_zeros() as usize + 1;
                ends &= ends.wrapping_sub(1);
            }
        }
        values.extend(short[..count].iter().map(|&value| i64::from(value)));
    }
    place
}

/// Returns one bit per byte of the block, lowest bit first. A set bit means that a varint ends in
/// that byte.
#[inline]
fn ends(block: &[u8; PADDED]) -> u64 {
    let words = block[..BLOCK].as_chunks().0.iter().enumerate();
    let goes_on = words.fold(0, |bits, (index, word)| {
        // The highest byte of the product contains the high bit of each byte.
        let word = (u64::from_le_bytes(*word) & HIGH_BITS).wrapping_mul(0x0002_0408_1020_4081);
        bits | word >> 56 << (8 * index)
    });
    !goes_on
}

/// Returns the first varint in `bytes`, which must end within these four bytes.
#[inline]
fn short_varint(bytes: [u8; 4]) -> u32 {
    let word = u32::from_le_bytes(bytes);
    let ends = !word & 0x8080_8080;
    let word = word & (ends ^ ends.wrapping_sub(1));
    let word = (word & 0x007f_007f) | ((word & 0x7f00_7f00) >> 1);
    (word & 0x0000_3fff) | ((word & 0x3fff_0000) >> 2)
}

/// Decodes all varints in `bytes` in order, and passes one or more values at a time to `visit`.
#[inline]
fn take_any_varints(bytes: &[u8], mut visit: impl FnMut(&[u64])) -> Result<(), WireError> {
    // Read eight bytes at a time. The length of a varint is unpredictable, so the code avoids
    // branches that depend on it.
    let mut place = 0;
    while let Some(eight) = bytes[place..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*eight);
        let ends = !word & HIGH_BITS;
        let others = ends & ends.wrapping_sub(1);
        if ends == HIGH_BITS {
            visit(&eight.map(u64::from));
            place += 8;
        } else if others > 0 {
            // The first varint ends at the first byte without the high bit, and the second varint
            // ends at the next such byte. Both ends are computed from `ends`, so decoding the
            // second varint does not have to wait for the first.
            let first = up_to(ends);
            let second = (word & up_to(others) & !first) >> (ends.trailing_zeros() + 1);
            visit(&[join_septets(word & first), join_septets(second)]);
            place += (others.trailing_zeros() / 8 + 1) as usize;
        } else {
            let (value, len) = long_varint(&bytes[place..])?;
            visit(&[value]);
            place += len;
        }
    }
    let mut left = bytes.len() - place;
    // If fewer than eight bytes remain, they are in the lower bytes of the word, and none of the
    // bytes above them ends a varint.
    let mut word = match bytes.last_chunk::<8>() {
        Some(last) if left > 0 => shift_in_ones(u64::from_le_bytes(*last), 64 - 8 * left),
        _ => bytes[place..].iter().rev().fold(u64::MAX, |word, &byte| word << 8 | u64::from(byte)),
    };
    while left > 0 {
        let ends = !word & HIGH_BITS;
        if ends == 0 {
            return Err(WireError::Truncated);
        }
        let taken = ends.trailing_zeros() as usize + 1;
        visit(&[join_septets(word & up_to(ends))]);
        word = shift_in_ones(word, taken);
        left -= taken / 8;
    }
    Ok(())
}

/// Returns a mask that contains the lowest set bit and all bits below it.
#[inline]
fn up_to(bits: u64) -> u64 {
    bits ^ bits.wrapping_sub(1)
}

/// Shifts the word to the right and fills the upper bits with ones.
#[inline]
fn shift_in_ones(word: u64, by: usize) -> u64 {
    word >> by | !(u64::MAX >> by)
}

/// Joins the lower seven bits of all bytes. The first byte contains the lowest bits of the result.
#[inline]
fn join_septets(word: u64) -> u64 {
    let word = (word & 0x007f_007f_007f_007f) | ((word & 0x7f00_7f00_7f00_7f00) >> 1);
    let word = (word & 0x0000_3fff_0000_3fff) | ((word & 0x3fff_0000_3fff_0000) >> 2);
    (word & 0x0fff_ffff) | ((word & 0x0fff_ffff_0000_0000) >> 4)
}

/// Returns the value of the first varint, and its encoded length in bytes.
#[inline(never)]
fn long_varint(bytes: &[u8]) -> Result<(u64, usize), WireError> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().enumerate().take(MAX_VARINT_BYTES) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Ok((value, index + 1));
        }
    }
    Err(if bytes.len() < MAX_VARINT_BYTES { WireError::Truncated } else { WireError::Varint })
}

/// Removes a length and that many bytes from the front of `bytes`, and returns those bytes.
#[inline]
pub fn take_len<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], WireError> {
    let len = usize::try_from(take_varint(bytes)?).map_err(|_| WireError::Truncated)?;
    let (taken, rest) = bytes.split_at_checked(len).ok_or(WireError::Truncated)?;
    *bytes = rest;
    Ok(taken)
}

#[inline]
pub fn put_varint(output: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        output.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    output.push(value.to_le_bytes()[0]);
}

/// Returns the encoded length of a varint, in bytes.
#[must_use]
#[inline]
pub fn varint_len(value: u64) -> usize {
    // Each byte stores seven bits, and zero needs one byte.
    (70 - (value | 1).leading_zeros() as usize) / 7
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn varints_come_back_and_have_the_length_that_is_said() {
        for shift in 0..64 {
            for value in [(1_u64 << shift) - 1, 1 << shift, (1 << shift) + 1, u64::MAX] {
                let mut bytes = Vec::new();
                put_varint(&mut bytes, value);
                assert_eq!(bytes.len(), varint_len(value), "{value}");
                for take in [take_varint, take_exact_varint] {
                    let mut rest = &[&bytes[..], &[7]].concat()[..];
                    assert_eq!((take(&mut rest), rest), (Ok(value), &[7][..]));
                }
                assert_eq!(take_varint(&mut &bytes[..bytes.len() - 1]), Err(WireError::Truncated));
            }
        }
        for take in [take_varint, take_exact_varint] {
            assert_eq!(take(&mut [].as_slice()), Err(WireError::Truncated));
            assert_eq!(take(&mut [0x80, 0x80].as_slice()), Err(WireError::Truncated));
            assert_eq!(take(&mut [0x80; 11].as_slice()), Err(WireError::Varint));
        }
    }

    #[test]
    fn many_varints_are_those_that_come_one_by_one() {
        let mut random = 1_u64;
        let mut values = Vec::new();
        for count in 0..500 {
            // Test varints of one byte, of up to four bytes and of all lengths, and short varints
            // mixed with a few longer ones.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            values.push(
                random
                    >> match count {
                        0..100 => 57,
                        100..200 => 36 + random % 28,
                        200..300 => random >> 58,
                        _ if count % 90 == 0 => 1,
                        _ => 36 + random % 28,
                    },
            );
        }
        for first in 0..values.len() {
            let mut bytes = Vec::new();
            values[first..].iter().for_each(|&value| put_varint(&mut bytes, value));
            let mut found = Vec::new();
            take_varints(&bytes, &mut found).unwrap();
            assert!(found.iter().map(|value| value.cast_unsigned()).eq(values[first..].iter().copied()));
            put_varint(&mut bytes, u64::MAX);
            for len in 1..10 {
                assert_eq!(
                    take_varints(&bytes[..bytes.len() - len], &mut Vec::new()),
                    Err(WireError::Truncated)
                );
            }
        }
        assert_eq!(take_varints(&[0x80; 11], &mut Vec::new()), Err(WireError::Varint));
        // Bits of the tenth byte that exceed 64 bits are dropped.
        let mut found = Vec::new();
        let over: Vec<u8> = [0xff; 9].into_iter().chain([0x7f]).collect();
        take_varints(&over, &mut found).unwrap();
        assert_eq!(found, [-1]);
        let mut over = [0xff; 10];
        over[9] = 2;
        assert_eq!(take_exact_varint(&mut over.as_slice()), Err(WireError::Varint));
    }

    #[test]
    fn groups_are_skipped_and_bounded() {
        let mut group = Fields(&[0x0b, 0x13, 0x08, 1, 0x14, 0x0c, 0x10, 7]);
        assert_eq!(group.next(), Ok(Some((1, Value::Group))));
        assert_eq!(group.next(), Ok(Some((2, Value::Varint(7)))));
        assert_eq!(group.next(), Ok(None));
        assert_eq!(Fields(&[0x0b; 1000]).next(), Err(WireError::Group));
        assert_eq!(Fields(&[0x0b, 0x14]).next(), Err(WireError::Group));
        assert_eq!(Fields(&[0x0c]).next(), Err(WireError::Group));
        assert_eq!(Fields(&[0x0b]).next(), Err(WireError::Truncated));
    }

    #[test]
    fn what_goes_past_the_end_is_an_error() {
        for bytes in [
            &[0x0a, 5, 1][..],
            &[0x0a],
            &[0x0d, 1, 2, 3],
            &[0x09, 1],
            &[0x08],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f],
        ] {
            assert_eq!(Fields(bytes).next(), Err(WireError::Truncated), "{bytes:?}");
        }
        assert_eq!(Fields(&[0x00]).next(), Err(WireError::Tag(0)));
        assert_eq!(Fields(&[0x0e]).next(), Err(WireError::Tag(0x0e)));
        assert_eq!(Fields(&[0xff, 0xff, 0xff, 0xff, 0x7f]).next(), Err(WireError::Tag(0x7_ffff_ffff)));
    }
}
