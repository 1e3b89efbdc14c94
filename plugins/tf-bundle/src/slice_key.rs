//! A slice key identifies a part of a tensor in a bundle or a V1 checkpoint. It encodes the name of
//! the tensor and the extents of the part. Keys are sorted by name, and then by extents.
//!
//! ```text
//! key     num(0)  string(name)  num(rank)  rank x { signed(start)  signed(length) }
//! num     the number of bytes that follow, then the value in as few bytes as possible, big-endian
//! string  00 as 00 ff, ff as ff 00, other bytes unchanged; ends with 00 01
//! signed  n bytes, n from 1 to 10 the fewest with -2^(7n-1) <= v < 2^(7n-1): v in 8n bits, sign
//!         extended, big-endian, with the first n bits flipped
//! ```
//! A length of -1 represents the whole dimension. A key that contains -1 differs from a key with
//! the explicit length. ferry therefore computes keys from exactly the extents that the tensor's
//! entry contains.
//!
//! Sources: `EncodeTensorNameSlice` in tensorflow/core/util/saved_tensor_slice_util.cc and
//! tensorflow/core/lib/strings/ordered_code.cc.

use crate::names::key_text::key_text;
use tensorferry_proto::TensorSliceProto;
use tensorferry_proto::tensor_slice_proto::Extent;
use tensorferry_proto::tensor_slice_proto::extent::HasLength;

/// The length that represents the whole dimension.
const WHOLE: i64 = -1;

/// The name of a tensor, and the extents of one of its parts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SliceKey {
    pub(crate) name: Vec<u8>,
    pub(crate) slice: TensorSliceProto,
}

/// Returns the key of a tensor slice.
pub(crate) fn encode(name: &[u8], slice: &TensorSliceProto) -> Vec<u8> {
    let mut key = Vec::with_capacity(name.len() + 8 + 4 * slice.extent.len());
    push_num(0, &mut key);
    push_string(name, &mut key);
    push_num(slice.extent.len() as u64, &mut key);
    for extent in &slice.extent {
        push_signed(extent.start, &mut key);
        push_signed(length_of(extent).unwrap_or(WHOLE), &mut key);
    }
    key
}

/// Parses a slice key, or returns `None` for any other key. A key that does not start with a zero
/// byte is rejected quickly.
pub(crate) fn decode(key: &[u8]) -> Option<SliceKey> {
    let mut rest = key;
    if take_num(&mut rest)? != 0 {
        return None;
    }
    let name = take_string(&mut rest)?;
    let rank = take_num(&mut rest)?;
    let mut slice = TensorSliceProto::default();
    // Each dimension occupies at least two bytes, so parsing an excessive rank fails at the end of
    // the key.
    for _ in 0..rank {
        let start = take_signed(&mut rest)?;
        let length = take_signed(&mut rest)?;
        let has_length = (length != WHOLE).then_some(HasLength::Length(length));
        slice.extent.push(Extent { start, has_length });
    }
    rest.is_empty().then_some(SliceKey { name, slice })
}

/// Returns the explicit length of an extent, or `None` for the whole dimension.
pub(crate) fn length_of(extent: &Extent) -> Option<i64> {
    extent.has_length.as_ref().map(|HasLength::Length(length)| *length)
}

/// Formats a slice as TensorFlow does: `0,2:-` selects all of rows 0 and 1.
pub(crate) fn text(slice: &TensorSliceProto) -> String {
    let extents = slice.extent.iter().map(|extent| match length_of(extent) {
        Some(length) => format!("{},{length}", extent.start),
        None => "-".to_owned(),
    });
    extents.collect::<Vec<_>>().join(":")
}

/// Formats any key as a string. A slice key becomes `name 0,2:-`.
pub(crate) fn describe(key: &[u8]) -> String {
    match decode(key) {
        Some(found) => format!("{} {}", key_text(&found.name), text(&found.slice)),
        None => key_text(key).into_owned(),
    }
}

fn push_num(value: u64, key: &mut Vec<u8>) {
    let bytes = value.to_be_bytes();
    let used = &bytes[value.leading_zeros() as usize / 8..];
    key.extend(u8::try_from(used.len()));
    key.extend(used);
}

fn take_num(rest: &mut &[u8]) -> Option<u64> {
    let (&len, _) = rest.split_first()?;
    let used = rest.get(1..=usize::from(len))?;
    if used.len() > 8 || used.first() == Some(&0) {
        return None;
    }
    *rest = &rest[1 + used.len()..];
    Some(used.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

fn push_string(text: &[u8], key: &mut Vec<u8>) {
    for &byte in text {
        key.push(byte);
        match byte {
            0x00 => key.push(0xff),
            0xff => key.push(0x00),
            _ => {}
        }
    }
    key.extend([0x00, 0x01]);
}

fn take_string(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        if byte != 0x00 && byte != 0xff {
            text.push(byte);
            continue;
        }
        let (&second, after) = rest.split_first()?;
        *rest = after;
        match (byte, second) {
            (0x00, 0x01) => return Some(text),
            (0x00, 0xff) | (0xff, 0x00) => text.push(byte),
            _ => return None,
        }
    }
}

/// Maximum number of bytes in an encoded signed number.
const MAX_SIGNED: usize = 10;

fn push_signed(value: i64, key: &mut Vec<u8>) {
    let bound = |len: usize| 1_i128 << (7 * len - 1);
    let fits = |&len: &usize| (-bound(len)..bound(len)).contains(&i128::from(value));
    let len = (1..=MAX_SIGNED).find(fits).unwrap_or(MAX_SIGNED);
    let extended = i128::from(value).to_be_bytes();
    let at = key.len();
    key.extend(&extended[extended.len() - len..]);
    flip_first_bits(&mut key[at..]);
}

fn take_signed(rest: &mut &[u8]) -> Option<i64> {
    let (&first, after) = rest.split_first()?;
    let second = after.first().copied().unwrap_or_default();
    let start = u16::from_be_bytes([first, second]);
    // The first bits are copies of the inverted sign, and the next bit is the sign.
    let len = if first & 0x80 == 0 { start.leading_zeros() } else { start.leading_ones() };
    let len = usize::try_from(len).ok().filter(|&len| len <= MAX_SIGNED)?;
    let coded = rest.get(..len)?;
    *rest = &rest[len..];
    let mut bytes = [0; MAX_SIGNED];
    let bytes = &mut bytes[..len];
    bytes.copy_from_slice(coded);
    flip_first_bits(bytes);
    let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
    let value = bytes.iter().fold(sign, |value: i128, &byte| value << 8 | i128::from(byte));
    i64::try_from(value).ok()
}

/// Flips the first n bits of n bytes.
fn flip_first_bits(bytes: &mut [u8]) {
    let header = (!(u16::MAX >> bytes.len())).to_be_bytes();
    for (byte, flipped) in bytes.iter_mut().zip(header) {
        *byte ^= flipped;
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::testing::slice;

    #[test]
    fn keys_are_those_of_tensorflow() {
        let key = encode(b"part/w", &slice(&[(0, 2), (0, -1)]));
        assert_eq!(key, b"\x00part/w\x00\x01\x01\x02\x80\x82\x80\x7f");
        assert_eq!(encode(b"s", &slice(&[])), b"\x00s\x00\x01\x00");
        // A key with an explicit length differs from the key for the whole dimension.
        assert_ne!(encode(b"a", &slice(&[(0, 100)])), encode(b"a", &slice(&[(0, -1)])));
    }

    #[test]
    fn signed_numbers_have_the_published_bytes() {
        let coded: [(i64, &[u8]); 8] = [
            (0, b"\x80"),
            (2, b"\x82"),
            (-1, b"\x7f"),
            (63, b"\xbf"),
            (64, b"\xc0\x40"),
            (100, b"\xc0\x64"),
            (334, b"\xc1\x4e"),
            (-65, b"\x3f\xbf"),
        ];
        for (value, bytes) in coded {
            let mut key = Vec::new();
            push_signed(value, &mut key);
            assert_eq!(key, bytes, "{value}");
            assert_eq!(take_signed(&mut &key[..]), Some(value));
        }
    }

    #[test]
    fn signed_numbers_sort_by_value_and_come_back() {
        let mut values = vec![0, i64::MIN, i64::MAX];
        for bit in 0..63 {
            let power = 1_i64 << bit;
            values.extend([power - 1, power, power + 1, -power - 1, -power, 1 - power]);
        }
        values.sort_unstable();
        values.dedup();
        let mut last = Vec::new();
        for value in values {
            let mut key = Vec::new();
            push_signed(value, &mut key);
            assert!(key > last, "{value}");
            assert_eq!(take_signed(&mut &key[..]), Some(value));
            last = key;
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for name in [&b"a\x00b\xff\x00\x01"[..], b"", b"plain/name"] {
            for slice in [slice(&[]), slice(&[(3, 1 << 40), (0, -1), (i64::MAX, i64::MIN)])] {
                let key = encode(name, &slice);
                assert_eq!(decode(&key).unwrap(), SliceKey { name: name.to_vec(), slice });
            }
        }
    }

    #[test]
    fn other_bytes_are_no_key() {
        let key = encode(b"a\xffb", &slice(&[(0, 334), (0, -1)]));
        for len in 0..key.len() {
            assert_eq!(decode(&key[..len]), None, "the first {len} bytes");
        }
        assert_eq!(decode(&[&key[..], b"\x80"].concat()), None);
        for bad in [&b"name"[..], b"\x01\x00a\x00\x01\x00", b"\x00a\x00\x02\x00", b"\x00\xffa\x00\x01\x00"] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
        // A key whose rank is 2^64 - 1, and a key that contains a 16-byte number.
        assert_eq!(decode(b"\x00a\x00\x01\x08\xff\xff\xff\xff\xff\xff\xff\xff\x80\x80"), None);
        assert_eq!(decode(b"\x00a\x00\x01\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), None);
    }
}
