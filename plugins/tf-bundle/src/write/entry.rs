//! An entry is what a bundle is to hold under one key.

use tensorferry_proto::DataType;
use tensorferry_sdk::{SourceRange, TensorId};

/// A key, and what stands under it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The key; never empty, which is the header's.
    pub(crate) key: Vec<u8>,
    /// TensorFlow's number for the dtype.
    pub(crate) dtype: i32,
    /// The dimensions.
    pub(crate) shape: Vec<u64>,
    /// The elements.
    pub(crate) value: EntryData,
}

/// Where an entry's elements come from.
#[derive(Debug, Clone)]
pub(crate) enum EntryData {
    /// From the catalog. Entries of tensors that are tied share one place in a data file.
    Tensor(TensorId),
    /// This one string.
    Text(Vec<u8>),
    /// From a data file of another bundle, as they lie there.
    Carried(Carried),
    /// There are none.
    Nothing,
}

/// Bytes of another bundle's data file.
#[derive(Debug, Clone)]
pub(crate) struct Carried {
    pub(crate) from: SourceRange,
    /// Their entry's checksum, unmasked.
    pub(crate) crc: u32,
    /// Whether that is one of the bytes as they lie, which can be compared; that of strings and variants is not.
    pub(crate) is_of_bytes: bool,
}

impl Entry {
    /// A scalar string.
    pub(crate) fn text(key: impl Into<Vec<u8>>, text: impl Into<Vec<u8>>) -> Self {
        Self {
            key: key.into(),
            dtype: DataType::DtString.into(),
            shape: Vec::new(),
            value: EntryData::Text(text.into()),
        }
    }
}
