//! Writes a table with exactly the bytes that TensorFlow's own writer would produce. The writer
//! receives entries in key order and buffers only one block in memory.
//!
//! A data block ends when it reaches 262,144 bytes, and every sixteenth key in it is complete. All
//! keys in the index block are complete. The index block's key for a data block is the shortest key
//! between the last key of that block and the first key of the next block. Blocks are not
//! compressed.
//!
//! Sources: `tensorflow/core/util/tensor_bundle/tensor_bundle.cc` for the options, and
//! `tensorflow/core/lib/io/table_builder.cc`, `block_builder.cc` and `format.cc` for the bytes.

use super::{Handle, MAGIC, NOT_COMPRESSED};
use tensorferry_proto::masked_crc::mask;
use tensorferry_proto::wire::put_varint;
use tensorferry_sdk::{ByteSink, Error, Result, crc32c, crc32c_append};

/// Size in bytes at which a data block ends.
const BLOCK_BYTES: usize = 256 << 10;
/// Restart interval of a data block: the number of keys from one complete key to the next. Each key
/// after a complete key shares a prefix with the previous key.
const DATA_RESTART_INTERVAL: usize = 16;
/// Restart interval of the index block: the number of keys from one complete key to the next. All
/// keys of the index block are complete.
const INDEX_RESTART_INTERVAL: usize = 1;
/// Number of bytes in the footer before its magic bytes.
const HANDLES_LEN: usize = 40;

pub(crate) struct TableWriter<'a> {
    output: &'a mut dyn ByteSink,
    offset: u64,
    data: BlockBuilder,
    index: BlockBuilder,
    last_key: Option<Vec<u8>>,
    /// The last written block, until its key in the index is known.
    unnamed: Option<Handle>,
}

impl<'a> TableWriter<'a> {
    pub(crate) fn new(output: &'a mut dyn ByteSink) -> Self {
        Self {
            output,
            offset: 0,
            data: BlockBuilder::new(DATA_RESTART_INTERVAL),
            index: BlockBuilder::new(INDEX_RESTART_INTERVAL),
            last_key: None,
            unnamed: None,
        }
    }

    /// Appends an entry.
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if let Some(last) = self.last_key.as_deref().filter(|&last| last >= key) {
            return Err(Error::plugin("the keys of the table are not in ascending order")
                .expected(format!("a key after \"{}\"", last.escape_ascii()))
                .found(format!("\"{}\"", key.escape_ascii())));
        }
        if key.len().saturating_add(value.len()) >= 2 * BLOCK_BYTES {
            self.end_block()?;
        }
        if let (Some(handle), Some(last)) = (self.unnamed.take(), &self.last_key) {
            self.index.add(&separator(last, key), &handle.encode())?;
        }
        self.data.add(key, value)?;
        self.last_key = Some(key.to_vec());
        if self.data.encoded_len() >= BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        self.end_block()?;
        let metaindex = self.write_block(&BlockBuilder::new(DATA_RESTART_INTERVAL).take())?;
        if let (Some(handle), Some(last)) = (self.unnamed.take(), &self.last_key) {
            self.index.add(&successor(last), &handle.encode())?;
        }
        let index = self.index.take();
        let index = self.write_block(&index)?;
        let mut footer = [metaindex.encode(), index.encode()].concat();
        footer.resize(HANDLES_LEN, 0);
        footer.extend_from_slice(&MAGIC.to_le_bytes());
        self.output.write(&footer)
    }

    fn end_block(&mut self) -> Result<()> {
        if !self.data.is_empty() {
            let block = self.data.take();
            self.unnamed = Some(self.write_block(&block)?);
        }
        Ok(())
    }

    fn write_block(&mut self, contents: &[u8]) -> Result<Handle> {
        let handle = Handle { offset: self.offset, size: contents.len() as u64 };
        let crc = crc32c_append(crc32c(contents), &[NOT_COMPRESSED]);
        let mut trailer = vec![NOT_COMPRESSED];
        trailer.extend_from_slice(&mask(crc).to_le_bytes());
        self.output.write(contents)?;
        self.output.write(&trailer)?;
        self.offset += handle.size + trailer.len() as u64;
        Ok(handle)
    }
}

impl Handle {
    fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, self.offset);
        put_varint(&mut bytes, self.size);
        bytes
    }
}

/// Collects the entries of one block.
struct BlockBuilder {
    entries: Vec<u8>,
    restarts: Vec<u32>,
    restart_interval: usize,
    keys_in_this_run: usize,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    fn new(restart_interval: usize) -> Self {
        Self {
            entries: Vec::new(),
            restarts: vec![0],
            restart_interval,
            keys_in_this_run: 0,
            last_key: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the length of the block if no further entries are added.
    fn encoded_len(&self) -> usize {
        self.entries.len() + 4 * self.restarts.len() + 4
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut shared = 0;
        if self.keys_in_this_run < self.restart_interval {
            shared = self.last_key.iter().zip(key).take_while(|(a, b)| a == b).count();
        } else {
            self.restarts.push(length(self.entries.len())?);
            self.keys_in_this_run = 0;
        }
        put_varint(&mut self.entries, length(shared)?.into());
        put_varint(&mut self.entries, length(key.len() - shared)?.into());
        put_varint(&mut self.entries, length(value.len())?.into());
        self.entries.extend_from_slice(&key[shared..]);
        self.entries.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        self.keys_in_this_run += 1;
        Ok(())
    }

    /// Returns the bytes of the block, and starts the next block.
    fn take(&mut self) -> Vec<u8> {
        let mut block = std::mem::take(&mut self.entries);
        for restart in &self.restarts {
            block.extend_from_slice(&restart.to_le_bytes());
        }
        let count = u32::try_from(self.restarts.len()).unwrap_or(u32::MAX);
        block.extend_from_slice(&count.to_le_bytes());
        *self = Self::new(self.restart_interval);
        block
    }
}

/// Converts a length to the integer type that blocks store.
fn length(bytes: usize) -> Result<u32> {
    u32::try_from(bytes).map_err(|_| {
        Error::unsupported("an entry is too long for a table").expected("at most 32 bits").found(bytes)
    })
}

/// Returns the shortest key that is at least `last` and sorts before `next`. If `last` has no
/// simple shorter form, the function returns `last`.
fn separator(last: &[u8], next: &[u8]) -> Vec<u8> {
    let common = last.iter().zip(next).take_while(|(a, b)| a == b).count();
    match (last.get(common), next.get(common)) {
        (Some(&byte), Some(&limit)) if byte.saturating_add(1) < limit => {
            [&last[..common], &[byte + 1]].concat()
        }
        _ => last.to_vec(),
    }
}

/// Returns a short key that sorts after `last`. If no such key exists, the function returns `last`.
fn successor(last: &[u8]) -> Vec<u8> {
    match last.iter().position(|&byte| byte != u8::MAX) {
        Some(at) => [&last[..at], &[last[at] + 1]].concat(),
        None => last.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn table(entries: &[(&[u8], &[u8])]) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut writer = TableWriter::new(&mut bytes);
        for (key, value) in entries {
            writer.add(key, value)?;
        }
        writer.finish()?;
        Ok(bytes)
    }

    #[test]
    fn an_empty_table_has_two_empty_blocks() {
        let bytes = table(&[]).unwrap();
        let empty = [0, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(bytes.len(), 2 * (8 + 5) + 48);
        assert_eq!((&bytes[..8], &bytes[13..21]), (&empty[..], &empty[..]));
        assert_eq!(&bytes[26..30], [0, 8, 13, 8]);
        assert_eq!(&bytes[66..], MAGIC.to_le_bytes());
    }

    #[test]
    fn a_run_of_sixteen_keys_shares_prefixes() {
        let keys: Vec<String> = (0..17).map(|i| format!("k{i:02}")).collect();
        let entries: Vec<_> = keys.iter().map(|key| (key.as_bytes(), &b"v"[..])).collect();
        let bytes = table(&entries).unwrap();
        assert_eq!(&bytes[..7], b"\x00\x03\x01k00v");
        assert_eq!(&bytes[7..12], b"\x02\x01\x011v");
        let restart = bytes.windows(7).position(|w| w == b"\x00\x03\x01k16v").unwrap();
        let restarts = [0, u8::try_from(restart).unwrap()].map(|r| [r, 0, 0, 0]).concat();
        assert_eq!(&bytes[restart + 7..restart + 15], restarts);
    }

    #[test]
    fn keys_have_to_rise() {
        assert!(table(&[(b"b", b""), (b"a", b"")]).is_err());
        assert!(table(&[(b"a", b""), (b"a", b"")]).is_err());
        assert!(table(&[(b"", b""), (b"\x00", b""), (b"a", b"")]).is_ok());
    }

    #[test]
    fn names_of_blocks_are_short() {
        assert_eq!(separator(b"abcde", b"abx"), b"abd");
        assert_eq!(separator(b"abcde", b"abd"), b"abcde");
        assert_eq!(separator(b"ab", b"abc"), b"ab");
        assert_eq!(separator(b"a\xff", b"b"), b"a\xff");
        assert_eq!(successor(b"\xff\xfeab"), b"\xff\xff");
        assert_eq!(successor(b"\xff\xff"), b"\xff\xff");
    }
}
