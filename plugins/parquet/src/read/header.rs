//! Parses a page header before the `parquet` crate reads it. The header's claims determine the
//! amount of memory that the library allocates for decompression.
//!
//! ```text
//! PageHeader, a Thrift struct in compact protocol (parquet.thrift):
//!   1: i32 type    2: i32 uncompressed_page_size    3: i32 compressed_page_size    4: i32 crc
//!   5: DataPageHeader    7: DictionaryPageHeader    8: DataPageHeaderV2
//! each of these begins with 1: i32 num_values; 2: (DataPageHeader) and 4: (DataPageHeaderV2) i32 encoding
//! DataPageHeaderV2 has the lengths of the levels, which are
//! not compressed: 5: i32 definition_levels_byte_length    6: i32 repetition_levels_byte_length
//! ```
//!
//! A header must contain exactly one of the structs 5, 7 and 8, which must match the page type.
//! Otherwise, the `parquet` crate would combine claims from different structs.

use super::thrift::{self, Bytes, Event, Fields, Shape};
use std::cell::Cell;
use tensorferry_sdk::{Error, Result};

/// Claims of a page header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageHeader {
    pub(super) kind: PageKind,
    /// Number of bytes after decompression.
    pub(super) uncompressed: u64,
    /// Number of bytes in the file.
    pub(super) compressed: u64,
    /// Number of values, including nulls.
    pub(super) values: u64,
    /// Size of the levels before the compressed bytes, in bytes.
    pub(super) levels: u64,
    /// Whether the values are delta-encoded.
    pub(super) is_delta: bool,
    /// Offset of the flag that marks a version 2 page as not compressed, relative to the header.
    pub(super) uncompressed_flag: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    /// A page of values, or of indices into the dictionary.
    Data,
    Dictionary,
    /// A page that readers skip.
    Other,
}

const I32: Shape = Shape::Integer(32);
static PAGE_HEADER: Fields = &[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, I32),
    (DATA, Shape::Struct(&[(1, I32), (2, I32), (3, I32), (4, I32)])),
    (INDEX, Shape::Struct(&[])),
    (DICTIONARY, Shape::Struct(&[(1, I32), (2, I32), (3, Shape::Bool)])),
    (DATA_V2, Shape::Struct(&[(1, I32), (2, I32), (3, I32), (4, I32), (5, I32), (6, I32), (7, Shape::Bool)])),
];
const DATA: i64 = 5;
const INDEX: i64 = 6;
const DICTIONARY: i64 = 7;
const DATA_V2: i64 = 8;
/// DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY and DELTA_BYTE_ARRAY.
const DELTA: [i64; 3] = [5, 6, 7];

/// Reads the required fields of a page header.
pub(super) fn page_header(bytes: &mut impl Bytes) -> Result<PageHeader> {
    let (mut kind, mut uncompressed, mut compressed, mut values) = (None, None, None, None);
    let (mut levels, mut own, mut uncompressed_flag, mut is_delta) = (0, None, None, false);
    let read = Cell::new(0);
    let mut bytes = CountedBytes { bytes, read: &read };
    let walked = thrift::walk(&mut bytes, PAGE_HEADER, &mut |path, seen| {
        match (path, seen) {
            ([DATA_V2, 7], Event::Flag(false)) => uncompressed_flag = Some(read.get() - 1),
            ([1], Event::Number(number)) => kind = Some(number),
            ([2], Event::Number(number)) => uncompressed = Some(number),
            ([3], Event::Number(number)) => compressed = Some(number),
            ([_, 1], Event::Number(number)) => values = Some(number),
            ([DATA, 2] | [DATA_V2, 4], Event::Number(number)) => is_delta = DELTA.contains(&number),
            ([DATA_V2, 5 | 6], Event::Number(number)) => {
                levels +=
                    u64::try_from(number).map_err(|_| Error::malformed("levels have a negative length"))?;
            }
            ([id], Event::End) if own.replace(*id).is_some() => {
                return Err(Error::malformed("a page has headers of two page types"));
            }
            _ => {}
        }
        Ok(())
    });
    walked.map_err(|error| error.context("a page's header"))?;
    let (page_kind, header) = match kind {
        Some(0) => (PageKind::Data, DATA),
        Some(1) => (PageKind::Other, INDEX),
        Some(2) => (PageKind::Dictionary, DICTIONARY),
        Some(3) => (PageKind::Data, DATA_V2),
        Some(other) => return Err(Error::malformed("a page has an unknown type").found(other)),
        None => return Err(Error::malformed("a page has no type")),
    };
    if own.is_some_and(|own| own != header) {
        return Err(Error::malformed("a page has the header of a different page type"));
    }
    let positive = |value: Option<i64>, what: &str| {
        value.and_then(|value| u64::try_from(value).ok()).ok_or_else(|| Error::malformed(what))
    };
    Ok(PageHeader {
        kind: page_kind,
        uncompressed: positive(uncompressed, "the length of a page is missing or negative")?,
        compressed: positive(compressed, "the compressed length of a page is missing or negative")?,
        values: match page_kind {
            PageKind::Other => 0,
            _ => positive(values, "the number of values in a page is missing or negative")?,
        },
        levels,
        is_delta,
        uncompressed_flag,
    })
}

/// A byte source that counts the bytes read.
struct CountedBytes<'a, B> {
    bytes: &'a mut B,
    read: &'a Cell<u64>,
}

impl<B: Bytes> Bytes for CountedBytes<'_, B> {
    fn byte(&mut self) -> Result<u8> {
        self.read.set(self.read.get() + 1);
        self.bytes.byte()
    }

    fn skip(&mut self, count: u64) -> Result<()> {
        self.read.set(self.read.get().saturating_add(count));
        self.bytes.skip(count)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn parse(bytes: &[u8]) -> Result<PageHeader> {
        page_header(&mut &*bytes)
    }

    #[test]
    fn claims_are_read_whatever_stands_between() {
        // The header contains type 0, 300 bytes compressed to 20, a CRC, and a data page header
        // with 9 values, an encoding and statistics.
        let header = [
            0x15, 0, 0x15, 0xd8, 4, 0x15, 40, 0x15, 3, 0x1c, 0x15, 18, 0x15, 0, 0x3c, 0x18, 2, 7, 7, 0, 0, 0,
        ];
        let expected = PageHeader {
            kind: PageKind::Data,
            uncompressed: 300,
            compressed: 20,
            values: 9,
            levels: 0,
            is_delta: false,
            uncompressed_flag: None,
        };
        assert_eq!(parse(&header).unwrap(), expected);
        for len in 0..header.len() {
            assert!(parse(&header[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn levels_of_version_2_are_not_compressed() {
        // The header contains type 3, 300 bytes compressed to 20, 9 values, no nulls, 9 rows, an
        // encoding, and levels of 2 and 3 bytes.
        let header = [
            0x15, 6, 0x15, 0xd8, 4, 0x15, 40, 0x5c, 0x15, 18, 0x15, 0, 0x15, 18, 0x15, 0, 0x15, 4, 0x15, 6,
            0, 0,
        ];
        let expected = PageHeader {
            kind: PageKind::Data,
            uncompressed: 300,
            compressed: 20,
            values: 9,
            levels: 5,
            is_delta: false,
            uncompressed_flag: None,
        };
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

    #[test]
    fn a_claim_that_the_library_would_not_see_is_refused() {
        // A dictionary page of 2^29 values. A reader would find no values in this page if it used
        // the header of a different page type, the first of two equal fields, or a field of a
        // different type.
        let parts = |parts: &[&[u8]]| parse(&parts.concat());
        let page = [0x15, 4, 0x15, 8, 0x15, 8];
        let (many, none) = ([0x15, 0x80, 0x80, 0x80, 0x80, 0x04, 0x15, 0], [0x15, 0, 0x15, 0]);
        assert_eq!(parts(&[&page, &[0x4c], &many, &[0, 0]]).unwrap().values, 1 << 29);
        for (bad, why) in [
            // The first input has a data page header after the dictionary page header, and the
            // second input has one before it.
            (parts(&[&page, &[0x4c], &many, &[0, 0x0c, 10], &none, &[0, 0]]), "order"),
            (parts(&[&page, &[0x2c], &none, &[0x15, 0, 0x15, 0, 0, 0x2c], &many, &[0, 0]]), "two page types"),
            (parts(&[&page, &[0x2c], &none, &[0x15, 0, 0x15, 0, 0, 0]]), "a different page type"),
            // The header contains the field for the number of values twice. The first field has a
            // different type.
            (parts(&[&page, &[0x4c], &none, &[0x05, 2], &many[1..], &[0, 0]]), "repeated"),
            (parts(&[&page, &[0x4c], &none, &[0x06, 2], &many[1..], &[0, 0]]), "repeated"),
            (parts(&[&page, &[0x4c, 0x13], &many[1..], &[0, 0]]), "wrong type"),
            // This length becomes short when it is truncated to 32 bits.
            (
                parse(&[0x15, 4, 0x15, 0x88, 0x80, 0x80, 0x80, 0x20, 0x15, 8, 0x4c, 0x15, 0, 0x15, 0, 0, 0]),
                "too large",
            ),
        ] {
            let error = bad.unwrap_err().to_string();
            assert!(error.contains(why), "{why}: {error}");
        }
    }
}
