//! An index entry, which describes a tensor and the position of its bytes.

use crate::dtype;
use crate::names::key_text::key_text;
use crate::names::naming::Variable;
use std::borrow::Cow;
use tensorferry_proto::BundleEntryProto;
use tensorferry_sdk::{Dtype, Error, FileId, Result, element_count};

/// Maximum number of dimensions in a TensorFlow shape.
const MAX_DIMENSIONS: usize = 254;

/// An index key and the message that is stored as its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BundleEntry {
    pub(crate) key: Vec<u8>,
    pub(crate) proto: BundleEntryProto,
}

/// A valid range of a data file, with the expected unmasked checksum of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DataRange {
    pub(crate) file: FileId,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) crc: u32,
}

impl BundleEntry {
    /// Returns the key as a string.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        key_text(&self.key)
    }

    /// Returns the properties that determine the name of the entry's tensor.
    pub(crate) fn variable(&self) -> Variable {
        let dims = self.proto.shape.iter().flat_map(|shape| &shape.dim);
        Variable {
            key: self.key.clone(),
            dtype: self.proto.dtype,
            shape: dims.map(|dim| dim.size).collect(),
            checksum: self.proto.crc32c,
        }
    }

    pub(crate) fn is_string_scalar(&self) -> bool {
        let shape = self.proto.shape.as_ref();
        let is_scalar = shape.is_none_or(|shape| shape.dim.is_empty() && !shape.unknown_rank);
        dtype_of(&self.proto) == Some(Dtype::STR) && is_scalar && !self.is_sliced()
    }

    /// Returns whether the tensor is stored in slices. If it is, readers ignore the position in
    /// this entry.
    pub(crate) fn is_sliced(&self) -> bool {
        !self.proto.slices.is_empty()
    }
}

/// Returns the dtype of an entry, or `None` if catalogs do not support it.
pub(super) fn dtype_of(proto: &BundleEntryProto) -> Option<Dtype> {
    dtype::of_number(proto.dtype)
}

/// Returns the shape of an entry. An entry without a shape is a scalar.
pub(crate) fn shape_of(proto: &BundleEntryProto) -> Result<Vec<u64>> {
    let Some(shape) = &proto.shape else { return Ok(Vec::new()) };
    if shape.unknown_rank {
        return Err(Error::malformed("the rank of the entry's shape is unknown"));
    }
    if shape.dim.len() > MAX_DIMENSIONS {
        let error = Error::malformed("the shape of the entry has too many dimensions");
        return Err(error.expected(format!("at most {MAX_DIMENSIONS}")).found(shape.dim.len()));
    }
    let dims: Result<Vec<u64>> = shape
        .dim
        .iter()
        .map(|dim| {
            u64::try_from(dim.size)
                .map_err(|_| Error::malformed("a dimension of the entry is negative").found(dim.size))
        })
        .collect();
    let dims = dims?;
    element_count(&dims)?;
    Ok(dims)
}
