//! Writes the calls that rebuild tensors from their storages ([`WrittenTensor`]).

use super::FileFormat;
use super::storages::{StoragePlan, TensorLocation};
use tensorferry_sdk::{CatalogView, Result};
use tensorferry_torch_file::{PickleWriter, WrittenTensor};

/// Appends a stored tensor to a pickle.
pub(super) fn tensor(
    pickle: &mut PickleWriter,
    place: &TensorLocation,
    storages: &StoragePlan,
    requires_grad: bool,
) -> Result<()> {
    written(place, storages).push(pickle, requires_grad)
}

/// Appends the first arguments of every call that rebuilds a stored tensor: storage, offset, shape
/// and strides.
pub(super) fn view(pickle: &mut PickleWriter, place: &TensorLocation, storages: &StoragePlan) -> Result<()> {
    written(place, storages).push_view(pickle)
}

fn written<'p>(place: &'p TensorLocation, storages: &StoragePlan) -> WrittenTensor<'p> {
    WrittenTensor {
        dtype: place.dtype,
        key: place.key,
        elements: storages.records[place.key].elements(),
        offset: place.offset,
        shape: &place.shape,
        strides: &place.strides,
        is_in_stream: storages.format == FileFormat::Legacy,
    }
}

/// Appends an empty mapping as the hooks of a parameter. Each parameter needs a separate mapping,
/// because torch stores the mapping in the parameter.
pub(super) fn backward_hooks(pickle: &mut PickleWriter) {
    pickle.call_without_arguments("collections", "OrderedDict");
}

/// Pickles a flat `OrderedDict` of the catalog's tensors, in catalog order. The catalog's tree is
/// not written.
pub(super) fn state_dict(catalog: &dyn CatalogView, storages: &StoragePlan) -> Result<Vec<u8>> {
    let mut pickle = PickleWriter::new();
    pickle.call_without_arguments("collections", "OrderedDict");
    pickle.mark();
    for id in catalog.tensor_ids() {
        if let Some(place) = storages.place(id).filter(|place| !place.dtype.quantized) {
            // Names are memoized in the same way as the keys of a tree, so that converting the
            // output again reproduces the same bytes.
            pickle.text(catalog.tensor(id).name)?;
            tensor(&mut pickle, place, storages, false)?;
        }
    }
    pickle.set_items();
    Ok(pickle.finish())
}
