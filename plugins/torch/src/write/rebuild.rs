//! A rebuild is the call in a pickle that makes a tensor from its storage, as
//! `Tensor._reduce_ex_internal` in `torch/_tensor.py` writes it.

use super::FileFormat;
use super::storages::{Place, Storages};
use crate::pickle_write::PickleWriter;
use tensorferry_sdk::{CatalogView, Result};

/// Appends a tensor: `_rebuild_tensor_v2` of a storage class, or `_rebuild_tensor_v3` of a storage of
/// bytes and a dtype.
pub(super) fn tensor(
    pickle: &mut PickleWriter,
    place: &Place,
    storages: &Storages,
    requires_grad: bool,
) -> Result<()> {
    let function = match place.dtype.storage_class {
        Some(_) => "_rebuild_tensor_v2",
        None => "_rebuild_tensor_v3",
    };
    pickle.global("torch._utils", function);
    pickle.mark();
    view(pickle, place, storages)?;
    pickle.bool(requires_grad);
    backward_hooks(pickle);
    if place.dtype.storage_class.is_none() {
        pickle.global("torch", place.dtype.name);
    }
    pickle.tuple_since_mark();
    pickle.reduce();
    Ok(())
}

/// Appends what every rebuild of a stored tensor begins with: its storage, offset, shape and strides.
pub(super) fn view(pickle: &mut PickleWriter, place: &Place, storages: &Storages) -> Result<()> {
    let record = &storages.records[place.key];
    let class = match (place.dtype.storage_class, storages.format) {
        (Some(class), _) => ("torch", class),
        (None, FileFormat::Zip) => ("torch.storage", "UntypedStorage"),
        // The loader of streams asks every class for its dtype, and an untyped storage has none.
        (None, FileFormat::Legacy) => ("torch", "ByteStorage"),
    };
    pickle.mark();
    pickle.text("storage")?;
    pickle.global(class.0, class.1);
    pickle.unique_text(&place.key.to_string())?;
    pickle.text("cpu")?;
    pickle.int(record.elements().cast_signed());
    if storages.format == FileFormat::Legacy {
        // A view of another storage, which nothing is.
        pickle.none();
    }
    pickle.tuple_since_mark();
    pickle.persistent_id();
    pickle.int(place.offset);
    pickle.int_tuple(&place.shape);
    pickle.int_tuple(&place.strides);
    Ok(())
}

/// Appends a parameter's hooks: none, in a mapping of its own, for torch keeps it.
pub(super) fn backward_hooks(pickle: &mut PickleWriter) {
    pickle.call_without_arguments("collections", "OrderedDict");
}

/// The pickle of a catalog without a tree: an `OrderedDict` of its tensors, in its order.
pub(super) fn state_dict(catalog: &dyn CatalogView, storages: &Storages) -> Result<Vec<u8>> {
    let mut pickle = PickleWriter::new();
    pickle.call_without_arguments("collections", "OrderedDict");
    pickle.mark();
    for id in catalog.tensor_ids() {
        if let Some(place) = storages.place(id).filter(|place| !place.dtype.quantized) {
            // Remembered like the keys of a tree, so that this file, read and written, is the same.
            pickle.text(catalog.tensor(id).name)?;
            tensor(&mut pickle, place, storages, false)?;
        }
    }
    pickle.set_items();
    Ok(pickle.finish())
}
