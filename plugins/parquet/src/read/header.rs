//! Parses page headers.
//!
//! ```text
//! PageHeader, a Thrift struct in compact protocol (parquet.thrift):
//!   1: i32 type    2: i32 uncompressed_page_size    3: i32 compressed_page_size    4: i32 crc
//!   5: DataPageHeader    7: DictionaryPageHeader    8: DataPageHeaderV2
//! DataPageHeader:       1: i32 num_values    2: i32 encoding    3, 4: i32 encodings of the definition and
//!                       repetition levels
//! DictionaryPageHeader: 1: i32 num_values    2: i32 encoding
//! DataPageHeaderV2:     1: i32 num_values    2: i32 num_nulls    3: i32 num_rows    4: i32 encoding
//!                       5, 6: i32 lengths of the definition and repetition levels, which are not compressed
//!                       7: bool is_compressed (true if missing)
//! ```
//!
//! A header must contain exactly one of the structs 5, 7 and 8, which must match the page type.
//! Otherwise, readers would find different claims in it.

use super::thrift::{self, Bytes, Event, Fields, Shape};
use parquet::basic::Encoding;
use tensorferry_sdk::{Error, Result};

/// Claims of a page header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageHeader {
    pub(super) kind: PageKind,
    /// Number of bytes after decompression.
    pub(super) uncompressed: u64,
    /// Number of bytes in the file.
    pub(super) compressed: u64,
    /// CRC-32 of the bytes in the file.
    pub(super) crc: Option<u32>,
    /// Number of values, including nulls.
    pub(super) values: u32,
    pub(super) encoding: Encoding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    /// A page of values, or of indices into the dictionary. The levels have these encodings.
    Data {
        definition: Encoding,
        repetition: Encoding,
    },
    /// The same in version 2, with the lengths of the levels in bytes.
    DataV2 {
        nulls: u32,
        rows: u32,
        definition: u32,
        repetition: u32,
        is_compressed: bool,
    },
    Dictionary,
    /// A page that readers skip.
    Other,
}

impl PageHeader {
    /// Returns the length of the levels before the compressed bytes.
    pub(super) fn levels(&self) -> u64 {
        match self.kind {
            PageKind::DataV2 { definition, repetition, .. } => u64::from(definition) + u64::from(repetition),
            _ => 0,
        }
    }

    /// Returns whether a data page consists of indices into the dictionary.
    pub(super) fn is_indexed(&self) -> bool {
        matches!(self.encoding, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY)
            && self.kind != PageKind::Dictionary
    }

    /// Returns whether the values are delta-encoded.
    pub(super) fn is_delta(&self) -> bool {
        use Encoding::{DELTA_BINARY_PACKED, DELTA_BYTE_ARRAY, DELTA_LENGTH_BYTE_ARRAY};
        matches!(self.encoding, DELTA_BINARY_PACKED | DELTA_LENGTH_BYTE_ARRAY | DELTA_BYTE_ARRAY)
    }
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

/// The fields of the struct for the page type, by field ID.
type OwnFields = [Option<i64>; 7];

/// Reads the required fields of a page header.
pub(super) fn page_header(bytes: &mut impl Bytes) -> Result<PageHeader> {
    let (mut kind, mut uncompressed, mut compressed, mut crc) = (None, None, None, None);
    let (mut own, mut fields, mut is_compressed) = (None, OwnFields::default(), true);
    let walked = thrift::walk(bytes, PAGE_HEADER, &mut |path, seen| {
        match (path, seen) {
            ([DATA_V2, 7], Event::Flag(flag)) => is_compressed = flag,
            ([1], Event::Number(number)) => kind = Some(number),
            ([2], Event::Number(number)) => uncompressed = Some(number),
            ([3], Event::Number(number)) => compressed = Some(number),
            // The checksum is an unsigned number in a signed field.
            ([4], Event::Number(number)) => crc = i32::try_from(number).ok().map(i32::cast_unsigned),
            ([_, field], Event::Number(number)) => {
                let field = usize::try_from(*field).ok().and_then(|field| fields.get_mut(field));
                *field.ok_or_else(|| Error::malformed("a page has an unknown field"))? = Some(number);
            }
            ([id], Event::End) if own.replace(*id).is_some() => {
                return Err(Error::malformed("a page has headers of two page types"));
            }
            _ => {}
        }
        Ok(())
    });
    walked.map_err(|error| error.context("a page's header"))?;
    let header = match kind {
        Some(0) => DATA,
        Some(1) => INDEX,
        Some(2) => DICTIONARY,
        Some(3) => DATA_V2,
        Some(other) => return Err(Error::malformed("a page has an unknown type").found(other)),
        None => return Err(Error::malformed("a page has no type")),
    };
    if own.is_some_and(|own| own != header) {
        return Err(Error::malformed("a page has the header of a different page type"));
    }
    let positive = |value: Option<i64>, what: &str| {
        value.and_then(|value| u64::try_from(value).ok()).ok_or_else(|| Error::malformed(what))
    };
    let uncompressed = positive(uncompressed, "the length of a page is missing or negative")?;
    let compressed = positive(compressed, "the compressed length of a page is missing or negative")?;
    let count = |field: usize, what: &str| {
        let value = fields[field].and_then(|value| u32::try_from(value).ok());
        value.ok_or_else(|| Error::malformed(format!("{what} in a page is missing or negative")))
    };
    let (kind, values, encoding) = match header {
        DATA => {
            let (definition, repetition) = (encoding(fields[3])?, encoding(fields[4])?);
            (PageKind::Data { definition, repetition }, count(1, VALUES)?, encoding(fields[2])?)
        }
        DATA_V2 => {
            let (nulls, rows) = (count(2, "the number of nulls")?, count(3, "the number of rows")?);
            let (definition, repetition) = (count(5, LEVELS)?, count(6, LEVELS)?);
            let kind = PageKind::DataV2 { nulls, rows, definition, repetition, is_compressed };
            (kind, count(1, VALUES)?, encoding(fields[4])?)
        }
        DICTIONARY => (PageKind::Dictionary, count(1, VALUES)?, encoding(fields[2])?),
        _ => (PageKind::Other, 0, Encoding::PLAIN),
    };
    Ok(PageHeader { kind, uncompressed, compressed, crc, values, encoding })
}

const VALUES: &str = "the number of values";
const LEVELS: &str = "the length of the levels";

fn encoding(number: Option<i64>) -> Result<Encoding> {
    let number = number.ok_or_else(|| Error::malformed("an encoding in a page is missing"))?;
    Ok(match number {
        0 => Encoding::PLAIN,
        2 => Encoding::PLAIN_DICTIONARY,
        3 => Encoding::RLE,
        #[expect(deprecated, reason = "old files use it for levels")]
        4 => Encoding::BIT_PACKED,
        5 => Encoding::DELTA_BINARY_PACKED,
        6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        7 => Encoding::DELTA_BYTE_ARRAY,
        8 => Encoding::RLE_DICTIONARY,
        9 => Encoding::BYTE_STREAM_SPLIT,
        other => return Err(Error::malformed("a page has an unknown encoding").found(other)),
    })
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
            0x15, 0, 0x15, 0xd8, 4, 0x15, 40, 0x15, 3, 0x1c, 0x15, 18, 0x15, 0, 0x15, 6, 0x15, 6, 0x1c, 0x18,
            2, 7, 7, 0, 0, 0,
        ];
        let expected = PageHeader {
            kind: PageKind::Data { definition: Encoding::RLE, repetition: Encoding::RLE },
            uncompressed: 300,
            compressed: 20,
            crc: Some(u32::MAX - 1),
            values: 9,
            encoding: Encoding::PLAIN,
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
        let kind = PageKind::DataV2 { nulls: 0, rows: 9, definition: 2, repetition: 3, is_compressed: true };
        let expected = PageHeader {
            kind,
            uncompressed: 300,
            compressed: 20,
            crc: None,
            values: 9,
            encoding: Encoding::PLAIN,
        };
        assert_eq!(parse(&header).unwrap(), expected);
        assert_eq!(expected.levels(), 5);
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
