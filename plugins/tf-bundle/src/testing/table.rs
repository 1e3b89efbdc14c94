//! Builds tables byte by byte in the layout that `table/mod.rs` describes. The tables can also
//! contain structures that TensorFlow does not write.

use crate::table;
use tensorferry_proto::masked_crc;
use tensorferry_proto::wire::put_varint;

/// The entries of a block under construction.
#[derive(Default)]
pub(crate) struct BlockBytes {
    bytes: Vec<u8>,
    last: Vec<u8>,
}

impl BlockBytes {
    /// Adds an entry that shares as many bytes as possible with the previous key.
    pub(crate) fn entry(&mut self, key: &[u8], value: &[u8]) {
        let shared = self.last.iter().zip(key).take_while(|(a, b)| a == b).count();
        self.entry_sharing(shared, key, value);
    }

    /// Adds an entry whose key shares its first `shared` bytes with the previous key.
    pub(crate) fn entry_sharing(&mut self, shared: usize, key: &[u8], value: &[u8]) {
        for number in [shared, key.len() - shared, value.len()] {
            put_varint(&mut self.bytes, number as u64);
        }
        self.bytes.extend(&key[shared..]);
        self.bytes.extend(value);
        self.last = key.to_vec();
    }

    /// Returns the block, with one restart at its first entry.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.finish_with(&[0, 1])
    }

    /// Returns the block with these numbers as its restarts. The restart count follows the
    /// restarts.
    pub(crate) fn finish_with(mut self, restarts: &[u32]) -> Vec<u8> {
        self.bytes.extend(restarts.iter().flat_map(|restart| restart.to_le_bytes()));
        self.bytes
    }
}

/// A table under construction.
#[derive(Default)]
pub(crate) struct TableBytes {
    bytes: Vec<u8>,
    /// The key and the encoded handle of each data block.
    pub(crate) index: Vec<(Vec<u8>, Vec<u8>)>,
}

impl TableBytes {
    /// Adds a data block to the file and the index.
    pub(crate) fn data(&mut self, last_key: &[u8], block: &[u8], compression: u8) {
        let handle = self.block(block, compression);
        self.index.push((last_key.to_vec(), handle));
    }

    /// Adds a block only to the file, and returns its handle.
    fn block(&mut self, block: &[u8], compression: u8) -> Vec<u8> {
        let stored = if compression == 1 {
            snap::raw::Encoder::new().compress_vec(block).unwrap_or_default()
        } else {
            block.to_vec()
        };
        self.stored_block(&stored, compression)
    }

    /// Adds a block whose bytes are already compressed or falsely declared as compressed.
    pub(crate) fn stored_block(&mut self, stored: &[u8], compression: u8) -> Vec<u8> {
        let offset = self.bytes.len();
        self.bytes.extend(stored);
        self.bytes.push(compression);
        let crc = masked_crc::mask(crc32c::crc32c(&self.bytes[offset..]));
        self.bytes.extend(crc.to_le_bytes());
        handle(offset as u64, stored.len() as u64)
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let metaindex = self.block(&BlockBytes::default().finish(), 0);
        let mut index = BlockBytes::default();
        for (key, handle) in std::mem::take(&mut self.index) {
            index.entry_sharing(0, &key, &handle);
        }
        let index = self.block(&index.finish(), 0);
        let mut footer = [metaindex, index].concat();
        footer.resize(40, 0);
        self.bytes.extend(footer);
        self.bytes.extend(table::MAGIC.to_le_bytes());
        self.bytes
    }
}

pub(crate) fn handle(offset: u64, size: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, offset);
    put_varint(&mut bytes, size);
    bytes
}

/// Returns a table in TensorFlow's layout, with `per_block` entries in each block.
pub(crate) fn table(entries: &[(Vec<u8>, Vec<u8>)], per_block: usize, compression: u8) -> Vec<u8> {
    let mut table = TableBytes::default();
    for chunk in entries.chunks(per_block) {
        let mut block = BlockBytes::default();
        chunk.iter().for_each(|(key, value)| block.entry(key, value));
        let last = chunk.last().map(|(key, _)| &key[..]).unwrap_or_default();
        table.data(last, &block.finish(), compression);
    }
    table.finish()
}
