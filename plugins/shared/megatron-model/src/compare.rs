//! Compares the copies of a tensor on several ranks byte by byte, in chunks. The comparison needs
//! only positional reads.
//!
//! If the archive contains checksums, long tensors are compared by the checksums of their storages.
//! For example, each expert rank has a copy of a model's dense layers.

use tensorferry_sdk::{
    Catalog, Context, Error, FileId, Result, Source, Storage, StorageLocation, element_count,
};
use tensorferry_torch_file::Location;

/// Number of bytes of each tensor that are read at a time.
const CHUNK: u64 = 1 << 20;
/// Length in bytes above which equal checksums are considered proof that two tensors are equal.
const MIN_CHECKSUM_LEN: u64 = 16 << 20;

/// The range of bytes that a tensor covers.
struct TensorExtent<'c> {
    file: FileId,
    offset: u64,
    len: u64,
    storage: &'c Storage,
}

/// Returns whether two tensors with the same dtype and shape have the same bytes. Fails if their
/// strides or byte orders differ.
pub fn same_bytes(
    source: &dyn Source,
    catalog: &Catalog,
    pair: (&Location, &Location),
    context: &dyn Context,
) -> Result<bool> {
    let (Some(a), Some(b)) = (tensor_extent(catalog, pair.0)?, tensor_extent(catalog, pair.1)?) else {
        return Ok(true);
    };
    if pair.0.strides != pair.1.strides || a.len != b.len || a.storage.byte_order != b.storage.byte_order {
        return Err(Error::unsupported("cannot compare copies with different strides or byte orders"));
    }
    if (a.file, a.offset) == (b.file, b.offset) {
        return Ok(true);
    }
    let whole = |extent: &TensorExtent<'_>| extent.storage.len == extent.len;
    if let (true, true, Some(first), Some(second)) =
        (whole(&a), whole(&b), &a.storage.digest, &b.storage.digest)
        && (first != second || a.len > MIN_CHECKSUM_LEN)
    {
        return Ok(first == second);
    }
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let mut done = 0;
    while done < a.len {
        context.check_cancelled()?;
        let count = CHUNK.min(a.len - done);
        let bytes = usize::try_from(count).map_err(|_| Error::limit("too long for this machine"))?;
        first.resize(bytes, 0);
        second.resize(bytes, 0);
        source.read_at(a.file, a.offset + done, &mut first)?;
        source.read_at(b.file, b.offset + done, &mut second)?;
        if first != second {
            return Ok(false);
        }
        done += count;
    }
    Ok(true)
}

fn tensor_extent<'c>(catalog: &'c Catalog, location: &Location) -> Result<Option<TensorExtent<'c>>> {
    let Some((id, offset)) = location.start else { return Ok(None) };
    let storage = catalog.storage(id).ok_or_else(|| Error::plugin("unknown storage"))?;
    let StorageLocation::File { file, offset: start } = storage.location else {
        return Err(Error::unsupported(
            "the tensor's values are computed from other values, as in conjugates",
        ));
    };
    // All views are inside their storages, so these numbers cannot overflow.
    let elements = match &location.strides {
        None => element_count(&location.shape)?,
        Some(strides) => location.shape.iter().zip(strides).fold(1_u64, |span, (&len, &stride)| {
            span.saturating_add(len.saturating_sub(1).saturating_mul(stride.unsigned_abs()))
        }),
    };
    let info = location.dtype.info();
    let len = info.and_then(|info| match info.element_bytes() {
        Some(width) => elements.checked_mul(width.into()),
        None => Some(storage.len.saturating_sub(offset)),
    });
    let len = len.ok_or_else(|| Error::malformed("the length does not fit in 64 bits"))?;
    Ok(Some(TensorExtent { file, offset: start + offset, len, storage }))
}
