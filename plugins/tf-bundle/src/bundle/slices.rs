//! For a tensor that is stored in parts, lists the slices with their regions and entries.

use super::entry::{BundleEntry, dtype_of, shape_of};
use super::index::BundleIndex;
use crate::slice_key::{self, text};
use tensorferry_proto::{BundleEntryProto, TensorSliceProto};
use tensorferry_sdk::{Error, Region, Result};

/// Returns the parts of an entry whose tensor has the shape `shape`. An unsliced entry has one
/// part, the entry itself. The caller checks whether the parts cover the tensor.
pub(super) fn parts<'a>(
    index: &'a BundleIndex,
    entry: &'a BundleEntry,
    shape: &[u64],
) -> Result<Vec<(Region, &'a BundleEntryProto)>> {
    if !entry.is_sliced() {
        return Ok(vec![(Region::whole(shape), &entry.proto)]);
    }
    let part = |slice| {
        let region = region(slice, shape)?;
        let Some(proto) = index.slice(&slice_key::encode(&entry.key, slice)) else {
            return Err(
                Error::malformed("a slice of the tensor is missing from the index").found(text(slice))
            );
        };
        let found = (dtype_of(proto), shape_of(proto)?);
        let expected = (dtype_of(&entry.proto), region.shape);
        if found != expected || !proto.slices.is_empty() {
            return Err(Error::malformed(format!("slice {} does not match its tensor", text(slice)))
                .expected(format!("dtype {}, shape {:?}", entry.proto.dtype, expected.1))
                .found(format!(
                    "dtype {}, shape {:?}, {} slices",
                    proto.dtype,
                    found.1,
                    proto.slices.len()
                )));
        }
        Ok((Region { shape: expected.1, ..region }, proto))
    };
    entry.proto.slices.iter().map(part).collect()
}

/// Returns the region of a slice in a tensor of `shape`.
pub(crate) fn region(slice: &TensorSliceProto, shape: &[u64]) -> Result<Region> {
    let misfit = || {
        Error::malformed("a slice does not fit in its tensor")
            .expected(format!("inside {shape:?}"))
            .found(text(slice))
    };
    if slice.extent.len() != shape.len() {
        return Err(misfit());
    }
    let mut region = Region::whole(shape);
    for (dim, extent) in slice.extent.iter().enumerate() {
        let start = u64::try_from(extent.start).map_err(|_| misfit())?;
        // An extent without a length covers the whole dimension, regardless of its start.
        let Some(length) = slice_key::length_of(extent) else {
            continue;
        };
        let length = u64::try_from(length).map_err(|_| misfit())?;
        if start.checked_add(length).is_none_or(|end| end > shape[dim]) {
            return Err(misfit());
        }
        (region.origin[dim], region.shape[dim]) = (start, length);
    }
    Ok(region)
}
