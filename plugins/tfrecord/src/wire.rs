//! Protobuf's wire format: fields, each a tag and a value.
//!
//! ```text
//! varint tag    the field's number, shifted left by 3, and its wire type
//!   0 varint    seven bits a byte, the lowest first, the high bit set in all bytes but the last
//!   1 fixed64   8 bytes, little-endian
//!   2 len       a varint length, then as many bytes: a message, a string, packed numbers
//!   3, 4 group  fields up to the end tag of the same number: nobody writes it, all readers skip it
//!   5 fixed32   4 bytes, little-endian
//! ```
//!
//! Source: <https://protobuf.dev/programming-guides/encoding/>. As protobuf's own readers do, a field
//! whose wire type is not that of its declaration is an unknown one, and a tenth byte of a varint
//! loses the bits that do not fit.

use std::fmt;

/// How deep groups may lie in each other, as in protobuf's own readers.
const MOST_GROUPS: usize = 100;

/// What is wrong with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A length or a number goes past the end.
    Cut,
    /// A varint has more than ten bytes.
    Varint,
    /// A tag with no number, or a wire type that there is not.
    Tag,
    /// The end of a group that has not begun, or groups that are too deep.
    Group,
    /// A name that is not UTF-8.
    Text,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cut => "a field goes past the end",
            Self::Varint => "a varint of more than ten bytes",
            Self::Tag => "a field that cannot be",
            Self::Group => "a group that does not match",
            Self::Text => "a name that is not UTF-8",
        })
    }
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A varint.
    Varint(u64),
    /// Eight bytes.
    Fixed64,
    /// A message, a string, packed numbers.
    Len(&'a [u8]),
    /// Four bytes.
    Fixed32([u8; 4]),
    /// A group, which is skipped.
    Group,
}

/// The fields of a message, in order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next field's number and value.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Broken> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (number, kind) = self.tag()?;
        self.value(number, kind).map(|value| Some((number, value)))
    }

    #[inline]
    fn tag(&mut self) -> Result<(u32, u32), Broken> {
        let tag = take_varint(&mut self.0)?;
        // Protobuf's tags have 32 bits.
        let tag = u32::try_from(tag).map_err(|_| Broken::Tag)?;
        if tag >> 3 == 0 { Err(Broken::Tag) } else { Ok((tag >> 3, tag & 7)) }
    }

    #[inline]
    fn value(&mut self, number: u32, kind: u32) -> Result<Value<'a>, Broken> {
        match kind {
            0 => take_varint(&mut self.0).map(Value::Varint),
            1 => self.take(8).map(|_| Value::Fixed64),
            2 => take_len(&mut self.0).map(Value::Len),
            3 => self.skip_group(number).map(|()| Value::Group),
            5 => {
                let bytes = self.take(4)?;
                Ok(Value::Fixed32([bytes[0], bytes[1], bytes[2], bytes[3]]))
            }
            4 => Err(Broken::Group),
            _ => Err(Broken::Tag),
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Broken> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Broken::Cut)?;
        self.0 = rest;
        Ok(taken)
    }

    #[cold]
    fn skip_group(&mut self, number: u32) -> Result<(), Broken> {
        let mut open = vec![number];
        while let Some(&innermost) = open.last() {
            if self.0.is_empty() {
                return Err(Broken::Cut);
            }
            match self.tag()? {
                (number, 3) if open.len() < MOST_GROUPS => open.push(number),
                (_, 3) => return Err(Broken::Group),
                (number, 4) if number == innermost => drop(open.pop()),
                (number, kind) => drop(self.value(number, kind)?),
            }
        }
        Ok(())
    }
}

/// Takes a varint from the front.
#[inline]
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Result<u64, Broken> {
    match **bytes {
        [byte, ref rest @ ..] if byte < 0x80 => {
            *bytes = rest;
            Ok(u64::from(byte))
        }
        [low, high, ref rest @ ..] if high < 0x80 => {
            *bytes = rest;
            Ok(u64::from(low & 0x7f) | u64::from(high) << 7)
        }
        _ => take_long_varint(bytes),
    }
}

/// Takes varints one after the other, up to the end.
#[inline]
pub(crate) fn take_varints(mut bytes: &[u8], mut visit: impl FnMut(u64)) -> Result<(), Broken> {
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    // Eight bytes at once: how long each varint is cannot be foreseen, and hardly a branch asks.
    while let Some(eight) = bytes.first_chunk::<8>() {
        let word = u64::from_le_bytes(*eight);
        let ends = !word & HIGH_BITS;
        if ends == HIGH_BITS {
            eight.iter().for_each(|&byte| visit(u64::from(byte)));
            bytes = &bytes[8..];
        } else if ends == 0 {
            visit(take_long_varint(&mut bytes)?);
        } else {
            // Up to the first byte without the high bit, and from there up to the second: of two at
            // once the second need not wait for where the first one ends.
            let first = ends ^ (ends - 1);
            let others = ends & !first;
            visit(joined(word & first));
            if others == 0 {
                bytes = &bytes[(ends.trailing_zeros() / 8 + 1) as usize..];
            } else {
                let second = (others ^ (others - 1)) & !first;
                visit(joined((word & second) >> (ends.trailing_zeros() + 1)));
                bytes = &bytes[(others.trailing_zeros() / 8 + 1) as usize..];
            }
        }
    }
    while !bytes.is_empty() {
        visit(take_varint(&mut bytes)?);
    }
    Ok(())
}

/// The lower seven bits of each byte, the first byte's lowest.
#[inline]
fn joined(word: u64) -> u64 {
    let word = (word & 0x007f_007f_007f_007f) | ((word & 0x7f00_7f00_7f00_7f00) >> 1);
    let word = (word & 0x0000_3fff_0000_3fff) | ((word & 0x3fff_0000_3fff_0000) >> 2);
    (word & 0x0fff_ffff) | ((word & 0x0fff_ffff_0000_0000) >> 4)
}

fn take_long_varint(bytes: &mut &[u8]) -> Result<u64, Broken> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Ok(value);
        }
    }
    Err(if bytes.len() < 10 { Broken::Cut } else { Broken::Varint })
}

/// Takes a length and as many bytes from the front.
#[inline]
pub(crate) fn take_len<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], Broken> {
    let len = usize::try_from(take_varint(bytes)?).map_err(|_| Broken::Cut)?;
    let (taken, rest) = bytes.split_at_checked(len).ok_or(Broken::Cut)?;
    *bytes = rest;
    Ok(taken)
}

/// Appends a varint.
#[inline]
pub(crate) fn put_varint(output: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        output.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    output.push(value.to_le_bytes()[0]);
}

/// How many bytes a varint takes.
#[inline]
pub(crate) fn varint_len(value: u64) -> usize {
    // One byte for each seven bits, and one for zero.
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
                assert_eq!(take_varint(&mut bytes.as_slice()), Ok(value));
                assert_eq!(take_varint(&mut &bytes[..bytes.len() - 1]), Err(Broken::Cut));
            }
        }
        assert_eq!(take_varint(&mut [0x80; 11].as_slice()), Err(Broken::Varint));
    }

    #[test]
    fn many_varints_are_those_that_come_one_by_one() {
        let mut random = 1_u64;
        let mut values = Vec::new();
        for count in 0..300 {
            // Of all lengths, in runs of the same and mixed.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            values.push(random >> if count < 100 { 57 } else { random >> 58 });
        }
        for first in 0..values.len() {
            let mut bytes = Vec::new();
            values[first..].iter().for_each(|&value| put_varint(&mut bytes, value));
            let mut found = Vec::new();
            take_varints(&bytes, |value| found.push(value)).unwrap();
            assert_eq!(found, values[first..]);
            put_varint(&mut bytes, u64::MAX);
            for len in 1..10 {
                assert_eq!(take_varints(&bytes[..bytes.len() - len], |_| ()), Err(Broken::Cut));
            }
        }
        assert_eq!(take_varints(&[0x80; 11], |_| ()), Err(Broken::Varint));
        // A tenth byte loses what does not fit.
        let mut found = Vec::new();
        take_varints(&[0xff; 9].into_iter().chain([0x7f]).collect::<Vec<_>>(), |value| found.push(value))
            .unwrap();
        assert_eq!(found, [u64::MAX]);
    }

    #[test]
    fn groups_are_skipped_and_bounded() {
        let mut group = Fields(&[0x0b, 0x13, 0x08, 1, 0x14, 0x0c, 0x10, 7]);
        assert_eq!(group.next(), Ok(Some((1, Value::Group))));
        assert_eq!(group.next(), Ok(Some((2, Value::Varint(7)))));
        assert_eq!(group.next(), Ok(None));
        assert_eq!(Fields(&[0x0b; 1000]).next(), Err(Broken::Group));
        assert_eq!(Fields(&[0x0b, 0x14]).next(), Err(Broken::Group));
        assert_eq!(Fields(&[0x0c]).next(), Err(Broken::Group));
        assert_eq!(Fields(&[0x0b]).next(), Err(Broken::Cut));
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
            assert_eq!(Fields(bytes).next(), Err(Broken::Cut), "{bytes:?}");
        }
        assert_eq!(Fields(&[0x00]).next(), Err(Broken::Tag));
        assert_eq!(Fields(&[0x0e]).next(), Err(Broken::Tag));
        assert_eq!(Fields(&[0xff, 0xff, 0xff, 0xff, 0x7f]).next().unwrap_err(), Broken::Tag);
    }
}
