//! A block is a sequence of table entries. This module verifies and decompresses blocks.

use super::{Handle, NOT_COMPRESSED, SNAPPY, TRAILER_LEN};
use std::ops::Range;
use tensorferry_proto::masked_crc;
use tensorferry_proto::wire::take_exact_varint;
use tensorferry_sdk::{Error, FileId, Limits, Result, Source, check_range, crc32c};

/// Maximum expansion ratio of snappy: every three compressed bytes produce at most 64 bytes.
const MAX_EXPANSION: usize = 22;

#[derive(Debug)]
pub(super) struct Block {
    bytes: Vec<u8>,
    /// The offset at which the entries end and the restarts begin.
    entries_end: usize,
}

impl Block {
    pub(super) fn read(source: &dyn Source, file: FileId, handle: Handle, limits: &Limits) -> Result<Self> {
        Self::read_from(source, file, handle, limits)
            .map_err(|error| error.file(source.name(file)).offset(handle.offset))
    }

    fn read_from(source: &dyn Source, file: FileId, handle: Handle, limits: &Limits) -> Result<Self> {
        let whole = handle.size.checked_add(TRAILER_LEN).ok_or_else(|| {
            Error::malformed("the size of a table block does not fit in 64 bits").found(handle.size)
        })?;
        check_range(source.name(file), source.len(file), handle.offset, whole)
            .map_err(|error| error.context("a table block"))?;
        let mut bytes = source.read_vec(file, handle.offset, whole, limits)?;
        let Some((covered, &[a, b, c, d])) = bytes.split_last_chunk() else {
            return Err(Error::malformed("a table block has no trailer"));
        };
        let (stored, found) = (u32::from_le_bytes([a, b, c, d]), masked_crc::mask(crc32c(covered)));
        if stored != found {
            return Err(Error::malformed("the checksum of a table block does not match")
                .expected(format!("masked crc32c {stored:#010x}"))
                .found(format!("{found:#010x}")));
        }
        let compression = covered.last().copied();
        bytes.truncate(bytes.len() - 5);
        match compression {
            Some(NOT_COMPRESSED) => Self::of_bytes(bytes),
            Some(SNAPPY) => Self::of_bytes(decompress(&bytes, limits)?),
            other => Err(Error::unsupported("a table block has an unknown compression type")
                .expected("0 (none) or 1 (snappy)")
                .found(other.unwrap_or_default())),
        }
    }

    fn of_bytes(bytes: Vec<u8>) -> Result<Self> {
        let Some((rest, count)) = bytes.split_last_chunk() else {
            return Err(Error::malformed("a table block is too short for its number of restarts")
                .expected("4 bytes or more")
                .found(bytes.len()));
        };
        let count = u32::from_le_bytes(*count) as usize;
        let Some(entries_end) = count.checked_mul(4).and_then(|len| rest.len().checked_sub(len)) else {
            return Err(Error::malformed("the restarts of a table block do not fit in the block")
                .expected(format!("at most {}", rest.len() / 4))
                .found(count));
        };
        // Some readers start at the first restart and others at the first byte, so both must be at
        // the same offset.
        let first = rest[entries_end..].first_chunk().map(|first| u32::from_le_bytes(*first));
        match first {
            None => Ok(Self { bytes, entries_end: 0 }),
            Some(0) => Ok(Self { bytes, entries_end }),
            Some(first) => {
                Err(Error::malformed("the first restart of a table block is not at the start of the block")
                    .expected(0)
                    .found(first))
            }
        }
    }

    pub(super) fn entries(&self) -> Entries<'_> {
        Entries { block: self, at: 0, key: Vec::new() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn entries_bytes(&self) -> &[u8] {
        &self.bytes[..self.entries_end]
    }
}

fn decompress(bytes: &[u8], limits: &Limits) -> Result<Vec<u8>> {
    let broken = |error: snap::Error| Error::malformed(format!("invalid snappy block of the table: {error}"));
    let len = snap::raw::decompress_len(bytes).map_err(broken)?;
    if len > bytes.len().saturating_mul(MAX_EXPANSION) {
        return Err(Error::malformed("a snappy block of the table claims more bytes than it can contain")
            .expected(format!("at most {} bytes", bytes.len().saturating_mul(MAX_EXPANSION)))
            .found(len));
    }
    if len as u64 > limits.header_bytes {
        return Err(Error::limit("a snappy block of the table is too long to hold in memory")
            .hint("raise the limit with --limit header_bytes=N")
            .expected(format!("at most {} bytes", limits.header_bytes))
            .found(len));
    }
    snap::raw::Decoder::new().decompress_vec(bytes).map_err(broken)
}

/// Iterates over the entries of a block. All keys are built in the same buffer.
pub(super) struct Entries<'a> {
    block: &'a Block,
    at: usize,
    key: Vec<u8>,
}

impl<'a> Entries<'a> {
    /// Advances to the next entry. Returns the range of its value in the block, or `None` at the
    /// end.
    pub(super) fn step(&mut self) -> Result<Option<Range<usize>>> {
        let entries = self.block.entries_bytes();
        let Some(mut rest) = entries.get(self.at..).filter(|rest| !rest.is_empty()) else {
            return Ok(None);
        };
        let is_first = self.at == 0;
        let lengths = |rest: &mut &[u8]| Some((take_len(rest)?, take_len(rest)?, take_len(rest)?));
        let Some((shared, unshared, value_len)) = lengths(&mut rest) else {
            return Err(Error::malformed("an entry of the table is truncated"));
        };
        let Some(tail) = self.key.get(shared..) else {
            return Err(Error::malformed(
                "a key of the table shares more bytes than the previous key contains",
            )
            .expected(format!("at most {} bytes", self.key.len()))
            .found(shared));
        };
        let whole = unshared.checked_add(value_len).filter(|&len| len <= rest.len());
        let Some(whole) = whole else {
            return Err(Error::malformed("an entry of the table extends past the end of its block")
                .expected(format!("at most {} bytes", rest.len()))
                .found(format!("{unshared} and {value_len}")));
        };
        let suffix = &rest[..unshared];
        // Both keys begin with the same `shared` bytes, so only the remaining bytes are compared.
        if !is_first && suffix <= tail {
            return Err(Error::malformed("a key of the table is not greater than the previous key"));
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(suffix);
        let start = entries.len() - rest.len() + unshared;
        self.at = entries.len() - rest.len() + whole;
        Ok(Some(start..start + value_len))
    }

    /// Returns the key of the current entry.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the bytes of a value.
    pub(super) fn value(&self, range: Range<usize>) -> &'a [u8] {
        self.block.bytes().get(range).unwrap_or_default()
    }
}

/// Reads and removes a length of at most 32 bits.
fn take_len(bytes: &mut &[u8]) -> Option<usize> {
    let len = take_exact_varint(bytes).ok()?;
    usize::try_from(u32::try_from(len).ok()?).ok()
}
