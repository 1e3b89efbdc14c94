//! A key and a value in a bundle that is being written.

use tensorferry_proto::DataType;
use tensorferry_sdk::{SourceRange, TensorId};

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The key, which is not empty. The empty key is reserved for the header.
    pub(crate) key: Vec<u8>,
    /// TensorFlow's number for the dtype.
    pub(crate) dtype: i32,
    pub(crate) shape: Vec<u64>,
    pub(crate) value: EntryData,
}

/// The source of an entry's elements.
#[derive(Debug, Clone)]
pub(crate) enum EntryData {
    /// A tensor of the catalog. Entries of tied tensors share a position in a data file.
    Tensor(TensorId),
    /// A single string.
    Text(Vec<u8>),
    /// Unchanged bytes of another bundle's data file.
    Copied(CopiedBytes),
    /// No elements.
    Nothing,
}

/// Bytes of another bundle's data file.
#[derive(Debug, Clone)]
pub(crate) struct CopiedBytes {
    pub(crate) from: SourceRange,
    /// The unmasked checksum that the other bundle's entry contains.
    pub(crate) crc: u32,
    /// Whether the checksum covers exactly the stored bytes, so that ferry can verify it. The
    /// checksums of strings and variants do not.
    pub(crate) is_of_bytes: bool,
}

impl Entry {
    /// Creates an entry that contains a scalar string.
    pub(crate) fn text(key: impl Into<Vec<u8>>, text: impl Into<Vec<u8>>) -> Self {
        Self {
            key: key.into(),
            dtype: DataType::DtString.into(),
            shape: Vec::new(),
            value: EntryData::Text(text.into()),
        }
    }
}
