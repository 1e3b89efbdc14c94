//! Parses layout messages, which contain the location of a dataset's elements.
//!
//! ```text
//! version 1, 2   version u8, rank u8, class u8, 0 x 5, [address: not of class 0], dimensions u32 each,
//!                class 0: length u32, data; class 2: the last dimension is an element's bytes
//! version 3      version u8, class u8; class 0: length u16, data; 1: address, length;
//!                2: rank u8, address, dimensions u32 each, the last is an element's bytes
//! version 4, 5   as 3, but class 2: flags u8, rank u8, bytes of a dimension u8, dimensions, the last is an element's
//!                bytes; kind of the index u8, its parameters, address
//! class          0 in this message, 1 contiguous, 2 in chunks, 3 virtual
//! ```
//!
//! The parser of `hdf5-reader` is not used, for three reasons. In version 2, the library skips
//! three of the five reserved bytes. In versions 1 and 2, the library expects an address in compact
//! messages. The library also assumes fixed widths for numbers whose widths the superblock defines.

use hdf5_reader::error::{Error as Fault, Result};
use hdf5_reader::io::Cursor;

/// The layout of a dataset. The dimensions of a chunk do not include the number of bytes per
/// element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DataLayout {
    Compact(Vec<u8>),
    /// Layout messages of versions 1 and 2 do not contain the length.
    Contiguous {
        address: u64,
        len: Option<u64>,
    },
    Chunked {
        address: u64,
        tile: Vec<u32>,
        indexing: Indexing,
        /// Whether chunks at the edges of the dataset are stored without filters.
        has_plain_edges: bool,
    },
    Virtual,
}

/// The kind of index that contains the locations of a dataset's chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Indexing {
    BTree1,
    /// There is only one chunk. If the chunk is filtered, the layout contains its stored length and
    /// the mask of skipped filters. Otherwise, both are 0.
    Single {
        stored: u64,
        mask: u32,
    },
    /// There is no index, because all chunks are contiguous.
    Implicit,
    FixedArray,
    ExtensibleArray,
    BTree2,
}

/// Flags of a chunked layout in version 4.
const PLAIN_EDGES: u8 = 1;
const SINGLE_IS_FILTERED: u8 = 2;

pub(crate) fn parse(message: &[u8], offset_size: u8, length_size: u8) -> Result<DataLayout> {
    let mut cursor = Cursor::new(message);
    match cursor.read_u8()? {
        1 | 2 => parse_v1_v2(&mut cursor, offset_size),
        version @ 3..=5 => parse_v3_to_v5(&mut cursor, version, offset_size, length_size),
        other => Err(Fault::UnsupportedLayoutVersion(other)),
    }
}

fn parse_v1_v2(cursor: &mut Cursor<'_>, offset_size: u8) -> Result<DataLayout> {
    let (rank, class) = (cursor.read_u8()?, cursor.read_u8()?);
    cursor.skip(5)?;
    let address = if class == 0 { 0 } else { cursor.read_offset(offset_size)? };
    match class {
        0 => {
            cursor.skip(4 * usize::from(rank))?;
            let len = cursor.read_u32_le()?;
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            Ok(DataLayout::Compact(cursor.read_bytes(len)?.to_vec()))
        }
        1 => Ok(DataLayout::Contiguous { address, len: None }),
        2 => {
            let tile = dimensions(cursor, rank, 4)?;
            Ok(DataLayout::Chunked { address, tile, indexing: Indexing::BTree1, has_plain_edges: false })
        }
        3 => Ok(DataLayout::Virtual),
        other => Err(Fault::UnsupportedLayoutClass(other)),
    }
}

fn parse_v3_to_v5(
    cursor: &mut Cursor<'_>,
    version: u8,
    offset_size: u8,
    length_size: u8,
) -> Result<DataLayout> {
    match cursor.read_u8()? {
        0 => {
            let len = cursor.read_u16_le()?;
            Ok(DataLayout::Compact(cursor.read_bytes(len.into())?.to_vec()))
        }
        1 => {
            let address = cursor.read_offset(offset_size)?;
            Ok(DataLayout::Contiguous { address, len: Some(cursor.read_length(length_size)?) })
        }
        2 if version == 3 => {
            let rank = cursor.read_u8()?;
            let address = cursor.read_offset(offset_size)?;
            let tile = dimensions(cursor, rank, 4)?;
            Ok(DataLayout::Chunked { address, tile, indexing: Indexing::BTree1, has_plain_edges: false })
        }
        2 => {
            let (flags, rank, width) = (cursor.read_u8()?, cursor.read_u8()?, cursor.read_u8()?);
            let tile = dimensions(cursor, rank, width)?;
            let indexing = match cursor.read_u8()? {
                1 if flags & SINGLE_IS_FILTERED != 0 => {
                    let stored = cursor.read_length(length_size)?;
                    Indexing::Single { stored, mask: cursor.read_u32_le()? }
                }
                1 => Indexing::Single { stored: 0, mask: 0 },
                2 => Indexing::Implicit,
                // The parser skips the parameters, because the index itself repeats them.
                3 => cursor.skip(1).map(|()| Indexing::FixedArray)?,
                4 => cursor.skip(5).map(|()| Indexing::ExtensibleArray)?,
                5 => cursor.skip(6).map(|()| Indexing::BTree2)?,
                other => return Err(Fault::UnsupportedChunkIndexType(other)),
            };
            let address = cursor.read_offset(offset_size)?;
            let has_plain_edges = flags & PLAIN_EDGES != 0;
            Ok(DataLayout::Chunked { address, tile, indexing, has_plain_edges })
        }
        3 => Ok(DataLayout::Virtual),
        other => Err(Fault::UnsupportedLayoutClass(other)),
    }
}

/// Reads the dimensions of a chunk. The last number in the message is the number of bytes per
/// element, not a dimension.
fn dimensions(cursor: &mut Cursor<'_>, rank: u8, width: u8) -> Result<Vec<u32>> {
    if !(1..=8).contains(&width) {
        return Err(Fault::InvalidData(format!("a chunk's dimensions have {width} bytes each")));
    }
    let mut dims = Vec::with_capacity(rank.into());
    for _ in 0..rank {
        let bytes = cursor.read_bytes(width.into())?;
        let dim = bytes.iter().rev().fold(0, |dim: u64, &byte| dim << 8 | u64::from(byte));
        let dim = u32::try_from(dim);
        dims.push(
            dim.map_err(|_| Fault::InvalidData("a chunk's dimension does not fit in 32 bits".to_owned()))?,
        );
    }
    dims.pop();
    Ok(dims)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn old_versions_reserve_five_bytes() {
        let address = 0x1234_u64.to_le_bytes();
        for version in [1, 2] {
            let contiguous = [&[version, 1, 1, 0, 0, 0, 0, 0], &address[..], &[9, 0, 0, 0]].concat();
            let expected = DataLayout::Contiguous { address: 0x1234, len: None };
            assert_eq!(parse(&contiguous, 8, 8).unwrap(), expected);
            let chunked =
                [&[version, 3, 2, 0, 0, 0, 0, 0], &address[..], &[5, 0, 0, 0, 6, 0, 0, 0, 4, 0, 0, 0]]
                    .concat();
            let expected = DataLayout::Chunked {
                address: 0x1234,
                tile: vec![5, 6],
                indexing: Indexing::BTree1,
                has_plain_edges: false,
            };
            assert_eq!(parse(&chunked, 8, 8).unwrap(), expected);
            let compact = [version, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 7, 8];
            assert_eq!(parse(&compact, 8, 8).unwrap(), DataLayout::Compact(vec![7, 8]));
        }
    }

    #[test]
    fn the_superblock_decides_widths() {
        let contiguous = [4, 1, 0x34, 0x12, 0, 0, 9, 0, 0, 0];
        assert_eq!(
            parse(&contiguous, 4, 4).unwrap(),
            DataLayout::Contiguous { address: 0x1234, len: Some(9) }
        );
        // The layout has a single filtered chunk, whose stored length is 17 bytes.
        let single = [4, 2, 2, 2, 1, 5, 4, 1, 17, 0, 0, 0, 1, 0, 0, 0, 0x34, 0x12, 0, 0];
        let expected = DataLayout::Chunked {
            address: 0x1234,
            tile: vec![5],
            indexing: Indexing::Single { stored: 17, mask: 1 },
            has_plain_edges: false,
        };
        assert_eq!(parse(&single, 4, 4).unwrap(), expected);
        for len in 0..single.len() {
            assert!(parse(&single[..len], 4, 4).is_err(), "{len}");
        }
    }
}
