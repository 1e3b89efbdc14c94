//! Tables that are built by hand. A table is a sorted map of byte strings in the layout of LevelDB.
//! The styles include every style that a reader may find, and styles that no writer uses.
//!
//! A block contains entries, `u32 restarts[k]` and `u32 k`. Each block is followed by a type byte
//! and a masked CRC-32C of the block and that byte. An entry contains varints of the shared length,
//! the unshared length and the value's length, and then the rest of the key and the value. The
//! footer takes 48 bytes. It contains the handles (offset, length) of the metaindex and the index,
//! zeros, and the magic number (<https://github.com/google/leveldb/blob/main/doc/table_format.md>).

use crate::wire::varint;

/// The last eight bytes of a table.
pub const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
/// The type byte of an uncompressed block.
pub const PLAIN: u8 = 0;
/// The type byte of a block that is compressed with raw snappy.
pub const SNAPPY: u8 = 1;

/// The layout of a table.
#[derive(Debug, Clone)]
pub struct Style {
    /// Size of a block in bytes. A block ends when it reaches this size.
    pub block_bytes: usize,
    /// Number of entries between restarts. A restart is an entry whose key is stored without a
    /// shared prefix.
    pub restart_interval: usize,
    /// Whether keys omit the prefix that they share with the previous key.
    pub shares: bool,
    /// Whether blocks are compressed.
    pub snappy: bool,
    /// Whether the index contains a short key that separates two blocks, instead of the last key of
    /// a block.
    pub shortens: bool,
    /// Additional bytes after the handle in an index entry.
    pub after_handle: &'static [u8],
}

impl Default for Style {
    /// Returns the style that TensorFlow uses.
    fn default() -> Self {
        Self {
            block_bytes: 256 << 10,
            restart_interval: 16,
            shares: true,
            snappy: false,
            shortens: true,
            after_handle: b"",
        }
    }
}

/// The location of a block, without its trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle {
    /// Offset from the start of the file.
    pub offset: u64,
    /// Length without the type and CRC.
    pub len: u64,
}

impl Handle {
    /// Encodes the handle as two varints.
    pub fn encoded(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        varint(&mut bytes, self.offset);
        varint(&mut bytes, self.len);
        bytes
    }
}

/// Returns the masked CRC-32C of bytes, which is stored in a table.
pub fn masked_crc(bytes: &[u8]) -> u32 {
    mask(crc32c::crc32c(bytes))
}

/// Masks a CRC-32C by rotating it and adding a constant.
pub fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// A table under construction, which consists of the blocks that have been added.
#[derive(Debug, Clone, Default)]
pub struct Blocks(pub Vec<u8>);

impl Blocks {
    /// Appends a stored block, its type, and the CRC of the block and the type.
    pub fn push(&mut self, stored: &[u8], kind: u8) -> Handle {
        let handle = Handle { offset: self.0.len() as u64, len: stored.len() as u64 };
        self.0.extend(stored);
        self.0.push(kind);
        let start = self.0.len() - stored.len() - 1;
        let crc = masked_crc(&self.0[start..]);
        self.0.extend(crc.to_le_bytes());
        handle
    }

    /// Appends a block with these contents in this style.
    pub(crate) fn push_in(&mut self, contents: &[u8], style: &Style) -> Handle {
        if style.snappy {
            let compressed = snap::raw::Encoder::new().compress_vec(contents);
            self.push(&compressed.expect("a block of less than 4 GiB"), SNAPPY)
        } else {
            self.push(contents, PLAIN)
        }
    }

    /// Appends the footer.
    pub fn finish(mut self, metaindex: Handle, index: Handle) -> Vec<u8> {
        let mut footer = [metaindex.encoded(), index.encoded()].concat();
        footer.resize(40, 0);
        self.0.extend(footer);
        self.0.extend(MAGIC.to_le_bytes());
        self.0
    }

    /// Appends an index of these last keys and handles, an empty metaindex, and the footer.
    pub fn finish_with(mut self, index: &[(&[u8], Handle)], style: &Style) -> Vec<u8> {
        let entries: Vec<_> = index
            .iter()
            .map(|(key, handle)| (key.to_vec(), [&handle.encoded(), style.after_handle].concat()))
            .collect();
        let metaindex = self.push(&contents(&[], 1, true), PLAIN);
        let index = self.push_in(&contents(&entries, 1, style.shares), style);
        self.finish(metaindex, index)
    }
}

/// Returns the contents of a block, which are entries in the given order, and their restarts.
pub fn contents(entries: &[(Vec<u8>, Vec<u8>)], restart_interval: usize, shares: bool) -> Vec<u8> {
    let mut block = Vec::new();
    let mut restarts = Vec::new();
    let mut last: &[u8] = b"";
    for (index, (key, value)) in entries.iter().enumerate() {
        let is_restart = index % restart_interval == 0;
        if is_restart {
            restarts.push(block.len());
        }
        let shared = if is_restart || !shares { 0 } else { common_prefix(last, key) };
        entry(&mut block, shared as u64, &key[shared..], value);
        last = key;
    }
    if restarts.is_empty() {
        restarts.push(0);
    }
    restarts.push(restarts.len());
    block.extend(restarts.iter().flat_map(|&at| u32::try_from(at).expect("a small block").to_le_bytes()));
    block
}

pub fn entry(block: &mut Vec<u8>, shared: u64, rest: &[u8], value: &[u8]) {
    varint(block, shared);
    varint(block, rest.len() as u64);
    varint(block, value.len() as u64);
    block.extend(rest);
    block.extend(value);
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Returns a table with these entries, which must be sorted by key.
pub fn table(entries: &[(Vec<u8>, Vec<u8>)], style: &Style) -> Vec<u8> {
    let mut blocks = Blocks::default();
    let mut index: Vec<(Vec<u8>, Handle)> = Vec::new();
    let mut rest = entries;
    while !rest.is_empty() {
        let mut len = 0;
        let fits = rest.iter().take_while(|(key, value)| {
            let is_first = len == 0;
            len += key.len() + value.len() + 3;
            is_first || len <= style.block_bytes
        });
        let (block, others) = rest.split_at(fits.count());
        let handle = blocks.push_in(&contents(block, style.restart_interval, style.shares), style);
        let last = &block[block.len() - 1].0;
        let key = match others.first() {
            Some((next, _)) if style.shortens => separator(last, next),
            _ => last.clone(),
        };
        index.push((key, handle));
        rest = others;
    }
    let index: Vec<_> = index.iter().map(|(key, handle)| (key.as_slice(), *handle)).collect();
    blocks.finish_with(&index, style)
}

/// Returns a short key that is at least `last` and less than `next`.
fn separator(last: &[u8], next: &[u8]) -> Vec<u8> {
    let shared = common_prefix(last, next);
    match (last.get(shared), next.get(shared)) {
        (Some(&a), Some(&b)) if a < u8::MAX && a + 1 < b => [&last[..shared], &[a + 1]].concat(),
        _ => last.to_vec(),
    }
}

/// Returns a table with one data block of these contents, which may be invalid. The CRC is correct,
/// so that readers parse the contents.
pub fn around(contents: &[u8]) -> Vec<u8> {
    let mut blocks = Blocks::default();
    let handle = blocks.push(contents, PLAIN);
    blocks.finish_with(&[(&[0xff; 8], handle)], &Style::default())
}
