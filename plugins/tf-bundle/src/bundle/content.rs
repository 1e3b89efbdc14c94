//! Reads small strings from entries, and checks whether two tensors have the same bytes.

use super::entry::{BundleEntry, DataRange, dtype_of, shape_of};
use super::index::BundleIndex;
use super::strings::Strings;
use tensorferry_sdk::{Context, Dtype, Error, Result, Source};

/// Number of bytes to compare in one step.
const COMPARED_BYTES: u64 = 1 << 20;

impl BundleIndex {
    /// Returns the string of a scalar tensor, such as the object graph or an object's
    /// configuration. Returns `None` if the key does not exist.
    pub(crate) fn string_scalar(
        &self,
        source: &dyn Source,
        key: &[u8],
        context: &dyn Context,
    ) -> Result<Option<Vec<u8>>> {
        let Some(entry) = self.find(key) else { return Ok(None) };
        let read = || {
            let shape = shape_of(&entry.proto)?;
            if dtype_of(&entry.proto) != Some(Dtype::STR) || !shape.is_empty() || entry.is_sliced() {
                return Err(Error::malformed("the tensor is not a single unsliced string")
                    .expected("DT_STRING, shape []")
                    .found(format!("{}, shape {shape:?}", crate::dtype::name(entry.proto.dtype))));
            }
            let range = self.data(source, &entry.proto)?;
            Strings::check(source, range, 1, self.byte_order())?.only(source, context.limits())
        };
        read().map(Some).map_err(|error| error.tensor(entry.name()))
    }

    /// Returns whether two entries contain the same numeric values. The function first compares
    /// dtypes, shapes, sizes and checksums. If all of them are equal, it compares the bytes.
    /// Strings and sliced tensors are never considered equal.
    pub(crate) fn same_content(
        &self,
        source: &dyn Source,
        a: &BundleEntry,
        b: &BundleEntry,
        context: &dyn Context,
    ) -> Result<bool> {
        let said = |entry: &BundleEntry| (entry.proto.dtype, entry.proto.size, entry.proto.crc32c);
        let is_plain = |entry: &BundleEntry| {
            !entry.is_sliced() && dtype_of(&entry.proto).is_some_and(|dtype| dtype != Dtype::STR)
        };
        if !is_plain(a) || !is_plain(b) || said(a) != said(b) || shape_of(&a.proto)? != shape_of(&b.proto)? {
            return Ok(false);
        }
        if a.proto.size == 0 {
            return Ok(true);
        }
        let range =
            |entry: &BundleEntry| self.data(source, &entry.proto).map_err(|error| error.tensor(entry.name()));
        same_bytes(source, range(a)?, range(b)?, context)
    }
}

fn same_bytes(source: &dyn Source, a: DataRange, b: DataRange, context: &dyn Context) -> Result<bool> {
    if a == b {
        return Ok(true);
    }
    let window = usize::try_from(a.len.min(COMPARED_BYTES)).unwrap_or_default();
    let (mut left, mut right) = (vec![0; window], vec![0; window]);
    let mut at = 0;
    while at < a.len {
        context.check_cancelled()?;
        let len = usize::try_from((a.len - at).min(COMPARED_BYTES)).unwrap_or_default();
        source.read_at(a.file, a.offset + at, &mut left[..len])?;
        source.read_at(b.file, b.offset + at, &mut right[..len])?;
        if left[..len] != right[..len] {
            return Ok(false);
        }
        at += len as u64;
    }
    Ok(true)
}
