//! A storage is where bytes live: in a file, behind a codec, or in the catalog itself.

use crate::{Digest, Dtype, FileId};
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
    /// In a file, behind a codec, or here.
    pub place: Place,
    /// Bytes, exactly.
    pub len: u64,
    /// The order of the numbers in it.
    pub byte_order: ByteOrder,
    /// The checksum that the file has for these bytes; the host checks it when it reads them.
    pub digest: Option<Digest>,
}

/// In a file, behind a codec, or here.
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
    Inline(Arc<Vec<u8>>),
    /// The numbers of another storage in another dtype ([`Catalog::cast`](crate::Catalog::cast)). The
    /// host alone makes these, of what a reader has described; no reader can, and none crosses the ABI.
    Cast(CastStorage),
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
        let bytes = bytes.into();
        let len = bytes.len() as u64;
        Self::at(Place::Inline(Arc::new(bytes)), len)
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
