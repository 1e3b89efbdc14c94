//! Views: what becomes of a tensor's blocks when it is turned, cut, or joined. Only origins, shapes,
//! offsets and strides change; storages stay.

use tensorferry_sdk::{Block, Catalog, DtypeInfo, Error, Result, Tensor};

/// The facts of a tensor's dtype.
///
/// # Errors
/// A plugin error, if the catalog does not know it; no catalog has such a tensor.
pub(super) fn info_of<'a>(catalog: &'a Catalog, tensor: &Tensor) -> Result<&'a DtypeInfo> {
    let info = catalog.dtype_info(tensor.dtype);
    info.ok_or_else(|| Error::plugin("no such dtype").tensor(&tensor.name))
}

/// The tensor with its dimensions in another order: the new dimension `d` is the old `axes[d]`.
pub(super) fn permute(block: &Block, axes: &[usize]) -> Block {
    let mut turned = block.clone();
    for (new, &old) in axes.iter().enumerate() {
        turned.region.origin[new] = block.region.origin[old];
        turned.region.shape[new] = block.region.shape[old];
        turned.strides[new] = block.strides[old];
    }
    turned
}
