//! Reads a table. The footer and the index block remain in memory, and data blocks are read one at
//! a time.

use super::block::{Block, Entries};
use super::{FOOTER_LEN, Handle, MAGIC};
use crate::names::key_text::key_text;
use std::ops::Range;
use tensorferry_sdk::{Error, FileId, Limits, Result, Source};

/// Number of bytes in the footer before its magic bytes.
const HANDLES_LEN: usize = 40;
/// Limits on the total length of keys: `KEY_GROWTH` bytes for each byte of a block, plus
/// `KEY_BYTES_ALLOWANCE`. Writers store a whole key at least every 16 entries, so at most 15 other
/// entries share a stored key.
const KEY_GROWTH: u64 = 64;
const KEY_BYTES_ALLOWANCE: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Table {
    file: FileId,
    name: String,
    index: Block,
    index_handle: Handle,
    limits: Limits,
}

/// The position of a value: its block, and its range in the decompressed block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ValuePosition {
    pub(crate) block: Handle,
    pub(crate) start: usize,
    pub(crate) len: usize,
}

/// Receives a key, its value, and the position of the value.
pub(crate) type Visit<'a> = dyn FnMut(&[u8], &[u8], ValuePosition) -> Result<()> + 'a;

/// Returns whether a file ends with the magic bytes of a table.
pub(crate) fn has_magic(source: &dyn Source, file: FileId) -> Result<bool> {
    let Some(start) = source.len(file).checked_sub(FOOTER_LEN) else { return Ok(false) };
    let mut magic = [0; 8];
    source.read_at(file, start + FOOTER_LEN - 8, &mut magic)?;
    Ok(u64::from_le_bytes(magic) == MAGIC)
}

impl Table {
    /// Reads the footer and the index block.
    pub(crate) fn open(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Self> {
        let name = source.name(file).to_owned();
        let Some(start) = source.len(file).checked_sub(FOOTER_LEN) else {
            let error = Error::malformed("the file is too short to be a table").file(name);
            return Err(error.expected(format!("{FOOTER_LEN} bytes or more")).found(source.len(file)));
        };
        if !has_magic(source, file)? {
            let error = Error::malformed("the file does not end with the magic bytes of a table").file(name);
            return Err(error.offset(start + FOOTER_LEN - 8).expected(format!("magic {MAGIC:#018x}")));
        }
        let mut footer = [0; HANDLES_LEN];
        source.read_at(file, start, &mut footer)?;
        let mut rest = &footer[..];
        let handles = Handle::take(&mut rest).and_then(|_metaindex| Handle::take(&mut rest));
        let Some(index_handle) = handles else {
            return Err(Error::malformed("the footer of the table does not contain two handles")
                .file(name)
                .offset(start));
        };
        let index = Block::read(source, file, index_handle, limits)
            .map_err(|error| error.context("the table index"))?;
        Ok(Self { file, name, index, index_handle, limits: limits.clone() })
    }

    /// Passes every entry to `visit`, in key order.
    pub(crate) fn for_each(&self, source: &dyn Source, visit: &mut Visit<'_>) -> Result<()> {
        let mut last_key = Vec::new();
        let mut is_first = true;
        // Writers store blocks in order. This check rejects an index that refers to the same block
        // repeatedly. As a result, ferry never reads more bytes for a table than the file contains.
        let mut floor = 0;
        let (mut key_bytes, mut most_key_bytes) = (0, KEY_BYTES_ALLOWANCE);
        let mut index = self.index.entries();
        while let Some(value) = self.step(&mut index, self.index_handle)? {
            // Bytes after a handle are ignored, because LevelDB reserves that space for extensions.
            let Some(handle) = Handle::take(&mut index.value(value)) else {
                let error = Error::malformed("an entry of the table index has no handle");
                return Err(self.at(error, self.index_handle, index.key()));
            };
            if handle.offset < floor {
                let error = Error::malformed("a table block overlaps the previous block");
                let error = error.expected(format!("an offset of {floor} or more")).found(handle.offset);
                return Err(self.at(error, self.index_handle, index.key()));
            }
            let block = Block::read(source, self.file, handle, &self.limits)?;
            floor = handle.offset + handle.size;
            most_key_bytes += KEY_GROWTH * block.bytes().len() as u64;
            let mut entries = block.entries();
            let mut is_first_of_block = true;
            while let Some(value) = self.step(&mut entries, handle)? {
                // Only the first key of a block is compared here, because `step` compares the other
                // keys of the block.
                if is_first_of_block && !is_first && entries.key() <= &last_key[..] {
                    let error = Error::malformed("a key of the table is not greater than the previous key");
                    return Err(self.at(error, handle, entries.key()));
                }
                (is_first, is_first_of_block) = (false, false);
                key_bytes += entries.key().len() as u64;
                if key_bytes > most_key_bytes {
                    let error =
                        Error::limit("the keys of the table share more bytes than any known writer produces");
                    let error = error.expected(format!("at most {most_key_bytes} bytes of keys so far"));
                    return Err(self.at(error.found(key_bytes), handle, entries.key()));
                }
                let place = ValuePosition { block: handle, start: value.start, len: value.len() };
                visit(entries.key(), entries.value(value), place)
                    .map_err(|error| self.at(error, handle, entries.key()))?;
            }
            if !is_first_of_block {
                last_key.clear();
                last_key.extend_from_slice(entries.key());
            }
        }
        Ok(())
    }

    /// Reads a value at a known position. The function reads and verifies the value's block again.
    pub(crate) fn value(&self, source: &dyn Source, place: ValuePosition) -> Result<Vec<u8>> {
        let block = Block::read(source, self.file, place.block, &self.limits)?;
        let end = place.start.saturating_add(place.len);
        block.bytes().get(place.start..end).map(<[u8]>::to_vec).ok_or_else(|| {
            Error::transient("a table block has changed").file(&self.name).offset(place.block.offset)
        })
    }

    fn step(&self, entries: &mut Entries<'_>, block: Handle) -> Result<Option<Range<usize>>> {
        entries.step().map_err(|error| {
            let after = format!("after key {:?}", key_text(entries.key()));
            self.at(error.context(after), block, entries.key())
        })
    }

    fn at(&self, error: Error, block: Handle, key: &[u8]) -> Error {
        error.file(&self.name).offset(block.offset).tensor(key_text(key))
    }
}
