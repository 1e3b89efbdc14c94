//! A storage contains bytes. The bytes may be in a file, encoded, in the catalog itself, or in
//! ranges of other storages.

use crate::{Digest, Dtype, FileId, Result, SharedBytes};
use std::fmt;
use std::sync::Arc;

/// The id of a storage: its index in the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StorageId(pub u32);

/// The order of the bytes in a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ByteOrder {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

/// A sequence of bytes and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// Location of the bytes.
    pub location: StorageLocation,
    /// Exact length in bytes.
    pub len: u64,
    /// Byte order of the numbers in the storage.
    pub byte_order: ByteOrder,
    /// Checksum that the file stores for these bytes. The host checks it when it reads the bytes.
    pub digest: Option<Digest>,
}

/// The location of a storage's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorageLocation {
    /// Raw bytes of a file.
    File {
        /// File that contains the bytes.
        file: FileId,
        /// Offset of the first byte in the file.
        offset: u64,
    },
    /// Bytes that are decoded on request ([`TensorDecoder::decode`](crate::TensorDecoder::decode)).
    Encoded {
        /// The identifier that the reader chose for the storage.
        handle: u64,
    },
    /// Inline bytes, shared by clones of a catalog.
    Inline(SharedBytes),
    /// Ranges of other storages, in order. An element may extend over two ranges.
    Joined(Arc<JoinedRanges>),
    /// The numbers of another storage, converted to a different dtype
    /// ([`Catalog::cast`](crate::Catalog::cast)). Only the host creates cast storages, from the
    /// storages of a reader. Cast storages never cross the ABI.
    Cast(Arc<CastStorage>),
    /// Bytes that are computed from other storages
    /// ([`Catalog::add_computed`](crate::Catalog::add_computed)). Only the host creates computed
    /// storages.
    Computed(ComputedStorage),
}

/// A range of bytes in a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StorageRange {
    /// Storage that contains the range.
    pub storage: StorageId,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// Ranges that together form one storage, and the end of each range within that storage.
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

    /// Returns the ranges, in order.
    #[must_use]
    pub fn ranges(&self) -> &[StorageRange] {
        &self.ranges
    }

    /// Returns the total length of the ranges in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns whether the total length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the ranges of other storages that contain the `len` bytes starting at `offset`, in
    /// order. The joined storage must contain these bytes.
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

/// Numbers that are converted to a different dtype whenever they are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CastStorage {
    /// Storage that contains the numbers, which is never itself a cast storage.
    pub of: StorageId,
    /// Offset of the first number in that storage, in bytes.
    pub start: u64,
    /// The dtype of the numbers in that storage, followed by the dtypes to which the numbers are
    /// cast, in order. The last dtype is the dtype of this storage.
    pub dtypes: Vec<Dtype>,
}

/// Computes the bytes of a storage.
pub trait Compute: fmt::Debug + Send + Sync {
    /// Returns the storages from which the bytes are computed. None of them may itself be computed.
    fn inputs(&self) -> &[StorageId];

    /// Fills `buffer` with the computed bytes that start at `offset`. The range must be within the
    /// storage. `read` fills a buffer with bytes of an input storage, starting at an offset.
    ///
    /// # Errors
    /// Returns the errors of `read`, or an error if the bytes of the inputs are malformed or
    /// unsupported.
    fn compute(&self, read: &ReadStorage<'_>, offset: u64, buffer: &mut [u8]) -> Result<()>;
}

/// A function that fills a buffer with bytes of a storage, starting at an offset.
pub type ReadStorage<'a> = dyn Fn(StorageId, u64, &mut [u8]) -> Result<()> + 'a;

/// The computation of a storage. Clones of a catalog share the computation. Two computations are
/// equal only if they are the same object.
#[derive(Debug, Clone)]
pub struct ComputedStorage(pub Arc<dyn Compute>);

impl PartialEq for ComputedStorage {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ComputedStorage {}

impl CastStorage {
    /// Returns the width in bytes of a number as stored, and its width after the casts.
    #[must_use]
    pub fn widths(&self) -> (u64, u64) {
        // A catalog casts only dtypes whose elements are whole bytes.
        let width = |dtype: Option<&Dtype>| {
            dtype.and_then(|dtype| dtype.info()?.element_bytes()).map_or(1, u64::from)
        };
        (width(self.dtypes.first()), width(self.dtypes.last()))
    }
}

impl Storage {
    /// Creates a little-endian storage of `len` bytes of `file`, starting at `offset`.
    #[must_use]
    pub fn file(file: FileId, offset: u64, len: u64) -> Self {
        Self::at(StorageLocation::File { file, offset }, len)
    }

    /// Creates a storage of `len` bytes that the decoder produces for `handle`.
    #[must_use]
    pub fn encoded(handle: u64, len: u64) -> Self {
        Self::at(StorageLocation::Encoded { handle }, len)
    }

    /// Creates a storage that contains these bytes.
    #[must_use]
    pub fn inline(bytes: impl Into<Vec<u8>>) -> Self {
        Self::shared(SharedBytes::from(bytes.into()))
    }

    /// Creates a storage from shared bytes.
    #[must_use]
    pub fn shared(bytes: SharedBytes) -> Self {
        let len = bytes.len() as u64;
        Self::at(StorageLocation::Inline(bytes), len)
    }

    /// Creates a storage from ranges of existing storages, in order. Examples are data that
    /// continues in the next file, and a vector that is split at arbitrary positions. The bytes are
    /// not converted, so all ranges must have the byte order that is [set here](Self::byte_order).
    /// None of the ranges may be in a joined storage. Encoded storages of at most 4 MiB are decoded
    /// when they are read and released soon after. As a result, a long tensor that consists of many
    /// pieces does not remain in memory.
    #[must_use]
    pub fn joined(ranges: impl Into<Vec<StorageRange>>) -> Self {
        let ranges = JoinedRanges::new(ranges.into());
        let len = ranges.len();
        Self::at(StorageLocation::Joined(Arc::new(ranges)), len)
    }

    fn at(place: StorageLocation, len: u64) -> Self {
        Self { location: place, len, byte_order: ByteOrder::Little, digest: None }
    }

    /// Sets the byte order of the numbers in the storage.
    #[must_use]
    pub fn byte_order(mut self, byte_order: ByteOrder) -> Self {
        self.byte_order = byte_order;
        self
    }

    /// Sets the digest that the file stores for the bytes.
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
        // There may be millions of storages, each with a checksum.
        assert!(size_of::<Storage>() <= 64, "{}", size_of::<Storage>());
    }
}
