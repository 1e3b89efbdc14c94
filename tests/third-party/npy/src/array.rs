//! An array is a header and the elements behind it, in a file or in a member of an archive.

use crate::header::Header;
use tensorferry_sdk::{Block, CatalogSink, Error, Loss, LossKind, Order, Region, Result, Storage};

/// Adds an array to the catalog: `storage` holds the elements from byte `offset`, and perhaps more.
///
/// # Errors
/// Malformed, if the elements are not all there.
pub(crate) fn add(
    catalog: &mut dyn CatalogSink,
    name: &str,
    header: &Header,
    storage: Storage,
    offset: u64,
) -> Result<()> {
    let data_len = header.data_len().map_err(|e| e.tensor(name))?;
    let after = storage.len.checked_sub(offset).and_then(|len| len.checked_sub(data_len));
    let after = after.ok_or_else(|| {
        Error::malformed("the array's elements are not all there")
            .tensor(name)
            .expected(format!("{data_len} bytes"))
            .found(format!("{} bytes", storage.len.saturating_sub(offset)))
    })?;
    if after > 0 {
        let why = format!("{after} bytes follow the array; numpy.load does not read them either");
        catalog.loss(Loss::new(LossKind::Tensor, name, why))?;
    }
    let storage = catalog.storage(storage.byte_order(header.byte_order))?;
    if data_len == 0 || header.order == Order::C {
        catalog.tensor(name, header.dtype, &header.shape, storage, offset)?;
    } else {
        let region = Region::whole(&header.shape);
        let block = Block { region, storage, offset, strides: column_major_strides(&header.shape) };
        catalog.tensor_of_blocks(name, header.dtype, &header.shape, vec![block])?;
    }
    Ok(())
}

fn column_major_strides(shape: &[u64]) -> Vec<i64> {
    let mut stride = 1_i64;
    let mut strides = Vec::with_capacity(shape.len());
    for &dim in shape {
        strides.push(stride);
        // The number of elements fits, so this does; past the last dimension it is not used.
        stride = stride.saturating_mul(i64::try_from(dim).unwrap_or(i64::MAX));
    }
    strides
}
