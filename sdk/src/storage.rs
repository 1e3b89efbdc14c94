//! A storage is where bytes live: in a file, behind a codec, in the catalog itself, or in ranges of other storages.

use crate::{Digest, Dtype, FileId, Result, SharedBytes};
use std::fmt;
use std::sync::Arc;

/// A storage of a catalog, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StorageId(pub u32);

/// Which byte of a number comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ByteOrder {
    /// The least significant one.
    #[default]
    Little,
    /// The most significant one.
    Big,
}

/// Where bytes live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// In a file, behind a codec, here, or in other storages.
    pub place: Place,
    /// Bytes, exactly.
    pub len: u64,
    /// The order of the numbers in it.
    pub byte_order: ByteOrder,
    /// The checksum that the file has for these bytes; the host checks it when it reads them.
    pub digest: Option<Digest>,
}

/// In a file, behind a codec, here, or in other storages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Bytes of a file of the source, as they are.
    File {
        /// The file.
        file: FileId,
        /// Its first byte in the file.
        offset: u64,
    },
    /// Bytes that are decoded on request ([`TensorDecoder::decode`](crate::TensorDecoder::decode)).
    Encoded {
        /// The reader's own name for it.
        handle: u64,
    },
    /// These bytes; clones of a catalog share them.
    Inline(SharedBytes),
    /// Ranges of other storages, one after the other; an element may lie in two of them.
    Joined(Arc<JoinedRanges>),
    /// The numbers of another storage in another dtype ([`Catalog::cast`](crate::Catalog::cast)). The
    /// host alone makes these, of what a reader has described; no reader can, and none crosses the ABI.
    Cast(Arc<CastStorage>),
    /// Nowhere: computed of other storages ([`Catalog::add_computed`](crate::Catalog::add_computed)). The host alone makes
    /// these too.
    Computed(ComputedStorage),
}

/// Bytes of a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StorageRange {
    /// The storage.
    pub storage: StorageId,
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub len: u64,
}

/// Ranges that are one storage, and where each of them ends in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedRanges {
    ranges: Vec<StorageRange>,
    ends: Vec<u64>,
}

impl JoinedRanges {
    fn new(ranges: Vec<StorageRange>) -> Self {
        let mut end = 0_u64;
        let ends = ranges.iter().map(|range| {
            end = end.saturating_add(range.len);
            end
        });
        Self { ends: ends.collect(), ranges }
    }

    /// The ranges, in order.
    #[must_use]
    pub fn ranges(&self) -> &[StorageRange] {
        &self.ranges
    }

    /// What all ranges have together.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ranges of other storages that `len` bytes from `offset` on lie in, in order. They are there.
    pub fn within(&self, offset: u64, len: u64) -> impl Iterator<Item = StorageRange> + '_ {
        let end = offset + len;
        let first = self.ends.partition_point(|&range_end| range_end <= offset);
        let places = self.ranges.iter().zip(&self.ends).skip(first);
        places.map_while(move |(range, &range_end)| {
            let start = range_end - range.len;
            let (from, to) = (offset.max(start), end.min(range_end));
            let part = StorageRange {
                offset: range.offset + (from - start),
                len: to.saturating_sub(from),
                storage: range.storage,
            };
            (start < end).then_some(part)
        })
    }
}

/// Numbers that are cast whenever they are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CastStorage {
    /// Where the numbers lie; never itself a cast one.
    pub of: StorageId,
    /// The first of them, in bytes from that storage's start.
    pub start: u64,
    /// The dtype that they lie in there, and those that they are cast to, one after the other; the
    /// last is the one that this storage is read in.
    pub dtypes: Vec<Dtype>,
}

/// What computes the bytes of a storage.
pub trait Compute: fmt::Debug + Send + Sync {
    /// The storages whose bytes it reads; none is itself computed.
    fn inputs(&self) -> &[StorageId];

    /// Fills `buffer` with the computed bytes from `offset` on, which are there. `read` fills a buffer with bytes of a
    /// storage, from an offset in it on.
    ///
    /// # Errors
    /// Whatever `read` gives; malformed or unsupported, where the inputs' bytes are not what they have to be.
    fn compute(&self, read: &ReadStorage<'_>, offset: u64, buffer: &mut [u8]) -> Result<()>;
}

/// Fills a buffer with bytes of a storage, from an offset in it on.
pub type ReadStorage<'a> = dyn Fn(StorageId, u64, &mut [u8]) -> Result<()> + 'a;

/// What computes a storage; clones of a catalog share it, and it equals itself alone.
#[derive(Debug, Clone)]
pub struct ComputedStorage(pub Arc<dyn Compute>);

impl PartialEq for ComputedStorage {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ComputedStorage {}

impl CastStorage {
    /// Bytes of a number as it lies, and as it is read.
    #[must_use]
    pub fn widths(&self) -> (u64, u64) {
        // A catalog makes casts of dtypes alone whose elements are whole bytes.
        let width = |dtype: Option<&Dtype>| {
            dtype.and_then(|dtype| dtype.info()?.element_bytes()).map_or(1, u64::from)
        };
        (width(self.dtypes.first()), width(self.dtypes.last()))
    }
}

impl Storage {
    /// `len` bytes of `file` at `offset`, little-endian.
    #[must_use]
    pub fn file(file: FileId, offset: u64, len: u64) -> Self {
        Self::at(Place::File { file, offset }, len)
    }

    /// `len` bytes that the decoder gives for `handle`.
    #[must_use]
    pub fn encoded(handle: u64, len: u64) -> Self {
        Self::at(Place::Encoded { handle }, len)
    }

    /// Bytes that are known now.
    #[must_use]
    pub fn inline(bytes: impl Into<Vec<u8>>) -> Self {
        Self::shared(SharedBytes::from(bytes.into()))
    }

    /// Bytes that somebody keeps in memory.
    #[must_use]
    pub fn shared(bytes: SharedBytes) -> Self {
        let len = bytes.len() as u64;
        Self::at(Place::Inline(bytes), len)
    }

    /// Ranges of storages that are there already, one after the other: a file's part that goes on in the next
    /// file, a vector that is cut wherever it falls. Their bytes are taken as they lie, so that all of them have
    /// the byte order that is [said here](Self::byte_order); none is itself joined. Encoded ones of at most 4 MiB are decoded
    /// when they are read, and let go of soon: a long tensor in pieces takes no memory.
    #[must_use]
    pub fn joined(ranges: impl Into<Vec<StorageRange>>) -> Self {
        let ranges = JoinedRanges::new(ranges.into());
        let len = ranges.len();
        Self::at(Place::Joined(Arc::new(ranges)), len)
    }

    fn at(place: Place, len: u64) -> Self {
        Self { place, len, byte_order: ByteOrder::Little, digest: None }
    }

    /// The same bytes, read in this order.
    #[must_use]
    pub fn byte_order(mut self, byte_order: ByteOrder) -> Self {
        self.byte_order = byte_order;
        self
    }

    /// The same bytes, with the digest that the format gives for them.
    #[must_use]
    pub fn digest(mut self, digest: Digest) -> Self {
        self.digest = Some(digest);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_of_a_grid_costs_64_bytes() {
        // There may be millions, each with its checksum.
        assert!(size_of::<Storage>() <= 64, "{}", size_of::<Storage>());
    }
}
