//! A table is a file that contains sorted keys and their values in LevelDB's format. The index of a
//! bundle and each file of a V1 checkpoint are tables.
//!
//! ```text
//! data blocks    consecutive, each with its trailer; blocks may begin at any offset
//! metaindex      a block; TensorFlow writes it empty, and ferry does not read it
//! index block    for each data block: a key that is not below the block's last key, and the handle
//! footer         48 bytes: the handles of metaindex and index, zeros up to byte 40,
//!                u64 magic 0xdb4775248b80fb57
//!
//! handle         varint offset, varint size: a block without its trailer
//! trailer        u8 compression (0 none, 1 snappy), u32 masked CRC-32C of block and compression
//! block          entries, u32 restarts[k], u32 k: the offsets of entries that store their whole key
//! entry          varint shared, varint unshared, varint value length, unshared bytes of key, value;
//!                the key's first `shared` bytes are those of the entry before it
//! ```
//! Numbers are little-endian. Keys are arbitrary byte strings that strictly increase throughout the
//! table.
//!
//! Sources: tensorflow/core/lib/io/{format,block,table,table_builder}.cc, which follow LevelDB's
//! doc/table_format.md.

mod block;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use read::{Table, ValuePosition, has_magic};
pub(crate) use write::TableWriter;

use tensorferry_proto::wire::take_exact_varint;

pub(crate) const FOOTER_LEN: u64 = 48;
/// The last eight bytes of the footer, as a little-endian number.
pub(crate) const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
/// Number of bytes after each block: its compression type and a checksum.
pub(crate) const TRAILER_LEN: u64 = 5;
pub(crate) const NOT_COMPRESSED: u8 = 0;
/// The compression type of raw snappy without framing.
const SNAPPY: u8 = 1;

/// The range of a block without its trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl Handle {
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self { offset: take_exact_varint(bytes).ok()?, size: take_exact_varint(bytes).ok()? })
    }
}
