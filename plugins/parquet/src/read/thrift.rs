//! Reads a Thrift struct in the compact protocol before the `parquet` crate parses it, and compares
//! it with the expected shape.
//!
//! ```text
//! struct:  fields, then 0
//! field:   a byte: the distance from the previous id (0: the id follows), and its type; then its value
//! integer: zigzag varint    binary: varint length, bytes    bool: no bytes, the type has the value
//! list:    a byte: the number of elements (15: a varint follows), and their type; then the elements
//! ```
//!
//! The `parquet` crate identifies fields only by their IDs. It parses a field with a known ID as
//! the expected type, regardless of the type in the file. If two fields have the same ID, the last
//! field is used. This module must find the same values as the library. The module therefore
//! requires that known fields have the expected type and that IDs are in ascending order, as in the
//! output of real writers. This module also rejects maps and lists of booleans, because the library
//! does not support such fields or skips them incorrectly.

use tensorferry_sdk::{Error, Result};

/// Expected type of a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    Bool,
    Byte,
    /// An integer of any encoded width. Its value must fit into this number of bits.
    Integer(u32),
    Double,
    /// Bytes or a string.
    Binary,
    List(&'static Shape),
    /// A struct. Its unlisted fields are skipped.
    Struct(Fields),
}

/// Known fields of a struct, by field ID.
pub(super) type Fields = &'static [(i64, Shape)];

/// A value found by [`walk`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    Number(i64),
    /// Number of bytes or list elements that follow.
    Len(u64),
    /// A boolean.
    Flag(bool),
    /// The end of a struct.
    End,
}

/// Maximum nesting of skipped structs. Statistics have the deepest nesting in the format.
const MAX_SKIPPED_DEPTH: u32 = 8;

const BOOL_TRUE: u8 = 1;
const BOOL_FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
const SET: u8 = 10;
/// Type code of a struct, both for fields and for list elements.
pub(super) const STRUCT: u8 = 12;

/// A sequential source of bytes.
pub(super) trait Bytes {
    /// Returns the next byte.
    fn byte(&mut self) -> Result<u8>;
    /// Skips bytes.
    fn skip(&mut self, count: u64) -> Result<()>;
}

impl Bytes for &[u8] {
    fn byte(&mut self) -> Result<u8> {
        let (&first, rest) = self.split_first().ok_or_else(truncated)?;
        *self = rest;
        Ok(first)
    }

    fn skip(&mut self, count: u64) -> Result<()> {
        let count = usize::try_from(count).map_err(|_| truncated())?;
        *self = self.get(count..).ok_or_else(truncated)?;
        Ok(())
    }
}

/// Reads a struct that has these known fields. Calls `see` for the value of each known field and
/// for the end of each struct. The arguments of `see` include the path of field IDs.
pub(super) fn walk(
    bytes: &mut impl Bytes,
    fields: Fields,
    see: &mut dyn FnMut(&[i64], Event) -> Result<()>,
) -> Result<()> {
    Walk { bytes, see, path: Vec::new() }.fields(fields)
}

struct Walk<'a, B> {
    bytes: &'a mut B,
    see: &'a mut dyn FnMut(&[i64], Event) -> Result<()>,
    path: Vec<i64>,
}

impl<B: Bytes> Walk<'_, B> {
    fn fields(&mut self, fields: Fields) -> Result<()> {
        let mut last = 0;
        while let Some((id, wire)) = field(self.bytes, last)? {
            if id <= last || id > i64::from(i16::MAX) {
                return Err(malformed("fields are repeated or not in the order of their ids").found(id));
            }
            last = id;
            match fields.iter().find(|(known, _)| *known == id) {
                Some((_, shape)) => {
                    self.path.push(id);
                    self.value(*shape, wire)?;
                    self.path.pop();
                }
                None => skip(self.bytes, wire, MAX_SKIPPED_DEPTH)?,
            }
        }
        (self.see)(&self.path, Event::End)
    }

    fn value(&mut self, shape: Shape, wire: u8) -> Result<()> {
        match (shape, wire) {
            (Shape::Bool, BOOL_TRUE | BOOL_FALSE) => (self.see)(&self.path, Event::Flag(wire == BOOL_TRUE)),
            (Shape::Byte, BYTE) => self.bytes.skip(1),
            (Shape::Integer(bits), I16 | I32 | I64) => {
                let value = number(self.bytes)?;
                let unused = 64 - bits;
                if value << unused >> unused != value {
                    let error = malformed("a number is too large for its field");
                    return Err(error.expected(format!("{bits} bits")).found(value));
                }
                (self.see)(&self.path, Event::Number(value))
            }
            (Shape::Double, DOUBLE) => self.bytes.skip(8),
            (Shape::Binary, BINARY) => {
                let len = varint(self.bytes)?;
                (self.see)(&self.path, Event::Len(len))?;
                self.bytes.skip(len)
            }
            (Shape::List(element), LIST) => {
                let (wire, count) = list(self.bytes)?;
                (self.see)(&self.path, Event::Len(count))?;
                for _ in 0..count {
                    self.value(*element, wire)?;
                }
                Ok(())
            }
            (Shape::Struct(fields), STRUCT) => self.fields(fields),
            // The file is valid, because a Thrift reader would skip such a field. However, the
            // `parquet` crate would misread the field.
            _ => Err(Error::unsupported("a field of the footer or of a page header has the wrong type")
                .expected(format!("{shape:?}").split('(').next().unwrap_or_default())
                .found(format!("type {wire} for field {:?}", self.path))),
        }
    }
}

/// Reads the ID and the type of the next field, or returns `None` at the end of the struct.
fn field(bytes: &mut impl Bytes, last: i64) -> Result<Option<(i64, u8)>> {
    let byte = bytes.byte()?;
    if byte == 0 {
        return Ok(None);
    }
    let id = match byte >> 4 {
        0 => number(bytes)?,
        delta => last + i64::from(delta),
    };
    Ok(Some((id, byte & 0x0f)))
}

/// Reads the element type and the length of a list.
fn list(bytes: &mut impl Bytes) -> Result<(u8, u64)> {
    let head = bytes.byte()?;
    let short = u64::from(head >> 4);
    Ok((head & 0x0f, if short == 15 { varint(bytes)? } else { short }))
}

fn skip(bytes: &mut impl Bytes, wire: u8, depth: u32) -> Result<()> {
    let depth = depth.checked_sub(1).ok_or_else(|| malformed("structs nest too deep"))?;
    match wire {
        BOOL_TRUE | BOOL_FALSE => Ok(()),
        BYTE => bytes.skip(1),
        I16 | I32 | I64 => varint(bytes).map(drop),
        DOUBLE => bytes.skip(8),
        BINARY => {
            let len = varint(bytes)?;
            bytes.skip(len)
        }
        LIST | SET => {
            let (element, count) = list(bytes)?;
            // When the `parquet` crate skips such a list, it does not skip the bytes of its
            // elements.
            if count > 0 && matches!(element, BOOL_TRUE | BOOL_FALSE) {
                return Err(malformed("unexpected list of booleans"));
            }
            (0..count).try_for_each(|_| skip(bytes, element, depth))
        }
        STRUCT => {
            while let Some((_, wire)) = field(bytes, 0)? {
                skip(bytes, wire, depth)?;
            }
            Ok(())
        }
        _ => Err(malformed("a field has an unknown type").found(wire)),
    }
}

fn number(bytes: &mut impl Bytes) -> Result<i64> {
    let value = varint(bytes)?;
    Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

fn varint(bytes: &mut impl Bytes) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes.byte()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(malformed("a number is too long"))
}

fn truncated() -> Error {
    malformed("the data ends too early")
}

fn malformed(what: &str) -> Error {
    Error::malformed(what)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    static FIELDS: Fields = &[(1, Shape::Integer(32)), (2, Shape::List(&Shape::Binary))];

    fn seen(mut bytes: &[u8]) -> Result<Vec<String>> {
        let mut all = Vec::new();
        walk(&mut bytes, FIELDS, &mut |path, seen| {
            all.push(format!("{path:?} {seen:?}"));
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn known_fields_are_seen_and_others_passed_over() {
        // The fields are: 1, the number 3; 2, a list of "ab" and ""; 4, a struct; 5, true; and 9, a
        // list of two bytes whose field ID is explicit.
        let bytes = [0x15, 6, 0x19, 0x28, 2, b'a', b'b', 0, 0x2c, 0x18, 1, 7, 0, 0x11, 9, 18, 0x23, 8, 8, 0];
        let expected = ["[1] Number(3)", "[2] Len(2)", "[2] Len(2)", "[2] Len(0)", "[] End"];
        assert_eq!(seen(&bytes).unwrap(), expected);
        for len in 0..bytes.len() {
            assert!(seen(&bytes[..len]).is_err(), "{len} bytes");
        }
        // An integer may have a different encoded width.
        assert_eq!(seen(&[0x16, 6, 0]).unwrap(), ["[1] Number(3)", "[] End"]);
    }

    #[test]
    fn what_the_library_would_see_otherwise_is_refused() {
        for (bytes, why) in [
            (&[0x15, 6, 0x05, 2, 8, 0][..], "repeated"),
            (&[0x25, 6, 0x05, 2, 8, 0], "wrong type"),
            (&[0x45, 6, 0x05, 2, 8, 0], "order"),
            // ID 65537 becomes 1 when it is truncated to 16 bits.
            (&[0x05, 0x82, 0x80, 0x08, 8, 0], "order"),
            (&[0x18, 6, 0], "wrong type"),
            // The value 2^32 becomes 0 when it is truncated to 32 bits.
            (&[0x15, 0x80, 0x80, 0x80, 0x80, 0x20, 0], "too large"),
            (&[0x49, 0x21, 1, 1, 0], "booleans"),
            (&[0x4b, 0, 0], "unknown type"),
            (&[0x10, 0], "unknown type"),
        ] {
            let error = seen(bytes).unwrap_err().to_string();
            let fits = error.contains(why) || (why == "unknown type" && error.contains("wrong type"));
            assert!(fits, "{bytes:?}: {error}");
        }
    }
}
