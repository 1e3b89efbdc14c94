//! Parses a page's header before the library reads it: what it claims decides how much is allocated to
//! decompress the page.
//!
//! ```text
//! PageHeader, a Thrift struct in compact protocol (parquet.thrift):
//!   1: i32 type    2: i32 uncompressed_page_size    3: i32 compressed_page_size    4: i32 crc
//!   5: DataPageHeader    7: DictionaryPageHeader    8: DataPageHeaderV2
//! each of these begins with 1: i32 num_values; DataPageHeaderV2 has the lengths of the levels, which are
//! not compressed: 5: i32 definition_levels_byte_length    6: i32 repetition_levels_byte_length
//! ```

use tensorferry_sdk::{Error, Result};

/// What a page's header claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// What it is.
    pub(super) kind: PageKind,
    /// Bytes once it is decompressed.
    pub(super) uncompressed: u64,
    /// Bytes in the file.
    pub(super) compressed: u64,
    /// Values, nulls among them.
    pub(super) values: u64,
    /// Bytes before those that are compressed.
    pub(super) levels: u64,
}

/// What a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    /// Values, or indices into the dictionary.
    Data,
    /// The chunk's dictionary.
    Dictionary,
    /// Something that readers skip.
    Other,
}

/// Structs inside structs: statistics in a data page's header are the deepest that there are.
const DEEPEST: u32 = 8;

const BOOL_TRUE: u8 = 1;
const BOOL_FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

/// Gives bytes in order, and knows how to pass over some.
pub(super) trait Bytes {
    /// The next one.
    fn byte(&mut self) -> Result<u8>;
    /// Passes over some.
    fn skip(&mut self, count: u64) -> Result<()>;
}

/// Reads as much of a header as is needed.
///
/// # Errors
/// Malformed: no such struct, negative lengths, or nothing that says how many values there are.
pub(super) fn page_header(bytes: &mut impl Bytes) -> Result<PageHeader> {
    let (mut kind, mut uncompressed, mut compressed, mut data) = (None, None, None, None);
    let mut id = 0;
    while let Some(field) = field(bytes, &mut id)? {
        match (id, field) {
            (1, I32) => kind = Some(number(bytes)?),
            (2, I32) => uncompressed = Some(number(bytes)?),
            (3, I32) => compressed = Some(number(bytes)?),
            (5 | 7, STRUCT) => data = Some((data_header(bytes)?.0, 0)),
            (8, STRUCT) => data = Some(data_header(bytes)?),
            _ => skip(bytes, field, DEEPEST)?,
        }
    }
    let kind = match kind {
        Some(0 | 3) => PageKind::Data,
        Some(2) => PageKind::Dictionary,
        Some(_) => PageKind::Other,
        None => return Err(malformed("a page without a type")),
    };
    let positive = |value: Option<i64>, what: &str| {
        value.and_then(|value| u64::try_from(value).ok()).ok_or_else(|| malformed(what))
    };
    Ok(PageHeader {
        kind,
        uncompressed: positive(uncompressed, "a page without a length, or a negative one")?,
        compressed: positive(compressed, "a page without a compressed length, or a negative one")?,
        values: match kind {
            PageKind::Other => 0,
            _ => positive(
                data.map(|(values, _)| values),
                "a page without a number of values, or a negative one",
            )?,
        },
        levels: positive(data.map(|(_, levels)| levels).or(Some(0)), "levels of negative length")?,
    })
}

/// The number of values of a page, and the sum of the fields that are the levels' lengths in version 2.
fn data_header(bytes: &mut impl Bytes) -> Result<(i64, i64)> {
    let (mut id, mut values, mut levels) = (0, None, 0_i64);
    while let Some(field) = field(bytes, &mut id)? {
        match (id, field) {
            (1, I32) => values = Some(number(bytes)?),
            (5 | 6, I32) => levels = levels.saturating_add(number(bytes)?.max(-1)),
            _ => skip(bytes, field, DEEPEST)?,
        }
    }
    Ok((values.ok_or_else(|| malformed("a page without a number of values"))?, levels))
}

/// The type of the next field of a struct, whose id follows the last; none at the struct's end.
fn field(bytes: &mut impl Bytes, id: &mut i64) -> Result<Option<u8>> {
    let byte = bytes.byte()?;
    if byte == 0 {
        return Ok(None);
    }
    *id = match byte >> 4 {
        0 => number(bytes)?,
        delta => *id + i64::from(delta),
    };
    Ok(Some(byte & 0x0f))
}

fn skip(bytes: &mut impl Bytes, field: u8, depth: u32) -> Result<()> {
    let depth = depth.checked_sub(1).ok_or_else(|| malformed("a page's header nests too deep"))?;
    match field {
        BOOL_TRUE | BOOL_FALSE => Ok(()),
        BYTE => bytes.skip(1),
        I16 | I32 | I64 => varint(bytes).map(drop),
        DOUBLE => bytes.skip(8),
        BINARY => {
            let len = varint(bytes)?;
            bytes.skip(len)
        }
        LIST | SET => {
            let head = bytes.byte()?;
            let (element, short) = (head & 0x0f, u64::from(head >> 4));
            let count = if short == 15 { varint(bytes)? } else { short };
            for _ in 0..count {
                // In a list, unlike in a struct, a bool has a byte of its own.
                let element = if matches!(element, BOOL_TRUE | BOOL_FALSE) { BYTE } else { element };
                skip(bytes, element, depth)?;
            }
            Ok(())
        }
        STRUCT => {
            let mut id = 0;
            while let Some(field) = self::field(bytes, &mut id)? {
                skip(bytes, field, depth)?;
            }
            Ok(())
        }
        _ => Err(malformed("a page's header has a field of no known type")),
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
    Err(malformed("a page's header has a number that is too long"))
}

fn malformed(what: &str) -> Error {
    Error::malformed(what)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    struct Slice<'a>(&'a [u8]);

    impl Bytes for Slice<'_> {
        fn byte(&mut self) -> Result<u8> {
            let (&first, rest) = self.0.split_first().ok_or_else(|| malformed("the end"))?;
            self.0 = rest;
            Ok(first)
        }

        fn skip(&mut self, count: u64) -> Result<()> {
            let count = usize::try_from(count).unwrap();
            self.0 = self.0.get(count..).ok_or_else(|| malformed("the end"))?;
            Ok(())
        }
    }

    fn parse(bytes: &[u8]) -> Result<PageHeader> {
        page_header(&mut Slice(bytes))
    }

    #[test]
    fn claims_are_read_whatever_stands_between() {
        // type 0, 300 bytes from 20, a CRC, then a data page's header: 9 values, an encoding, statistics.
        let header = [
            0x15, 0, 0x15, 0xd8, 4, 0x15, 40, 0x15, 3, 0x1c, 0x15, 18, 0x15, 0, 0x3c, 0x18, 2, 7, 7, 0, 0, 0,
        ];
        let expected =
            PageHeader { kind: PageKind::Data, uncompressed: 300, compressed: 20, values: 9, levels: 0 };
        assert_eq!(parse(&header).unwrap(), expected);
        for len in 0..header.len() {
            assert!(parse(&header[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn levels_of_version_2_are_not_compressed() {
        // type 3, 300 bytes from 20, then 9 values, no nulls, 9 rows, an encoding, levels of 2 and 3 bytes.
        let header = [
            0x15, 6, 0x15, 0xd8, 4, 0x15, 40, 0x5c, 0x15, 18, 0x15, 0, 0x15, 18, 0x15, 0, 0x15, 4, 0x15, 6,
            0, 0,
        ];
        let expected =
            PageHeader { kind: PageKind::Data, uncompressed: 300, compressed: 20, values: 9, levels: 5 };
        assert_eq!(parse(&header).unwrap(), expected);
    }

    #[test]
    fn nesting_and_lists_end() {
        let nested = [vec![0x9c], vec![0x1c; 1000]].concat();
        assert!(parse(&nested).unwrap_err().to_string().contains("too deep"));
        // A list that claims 2^40 booleans.
        assert!(parse(&[0x99, 0xf1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20]).is_err());
        assert!(parse(&[0x15; 3]).is_err());
        assert!(parse(&[0x15, 0, 0x15, 1, 0x15, 40, 0]).unwrap_err().to_string().contains("negative"));
    }
}
