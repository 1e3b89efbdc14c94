//! The writer for `data=carry` writes the storages of the tensors unchanged, and the tensors remain
//! views of them. If all numbers of a big-endian storage have the same width, the writer makes them
//! little-endian.

use super::{DataFiles, add_tensor, index_path, new_index, storage_id};
use std::collections::BTreeMap;
use tensorferry_sdk::{
    ByteOrder, CatalogView, Context, LayoutSink, Result, StorageId, Target, TensorPlan, TensorWriter,
};

pub(super) struct Writer {
    pub(super) files: u64,
}

/// The width of the numbers in a storage, according to its tensors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Bytes(u32),
    Mixed,
}

impl TensorWriter for Writer {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let path = index_path(target);
        let mut index = new_index(catalog)?;
        let mut files = DataFiles::plan(&mut index, layout, path, self.files)?;
        let mut places = BTreeMap::new();
        for (storage, unit) in used_storages(catalog)? {
            context.check_cancelled()?;
            let view = catalog.storage(storage)?;
            let (swap_unit, byte_order) = match (view.byte_order, unit) {
                (ByteOrder::Big, Unit::Bytes(unit)) if view.len.is_multiple_of(unit.into()) => {
                    (unit, ByteOrder::Little)
                }
                _ => (1, view.byte_order),
            };
            let add =
                |layout: &mut dyn LayoutSink, file| layout.storage(file, storage, 0, view.len, swap_unit);
            places.insert(storage, files.add(&mut index, layout, view.len, byte_order, add)?);
        }
        for id in catalog.tensor_ids() {
            let mut blocks = catalog.all_blocks(id, context.limits())?;
            for block in &mut blocks {
                block.storage = storage_id(places[&block.storage])?;
            }
            add_tensor(&mut index, catalog, id, blocks)?;
        }
        Ok(Box::new(files.finish(index, layout, path)?))
    }
}

fn used_storages(catalog: &dyn CatalogView) -> Result<BTreeMap<StorageId, Unit>> {
    let mut used = BTreeMap::new();
    for id in catalog.tensor_ids() {
        let swap_unit = catalog.dtype_info(catalog.tensor(id).dtype)?.swap_unit();
        catalog.each_block(id, &mut |block| {
            let is_aligned = block.offset.is_multiple_of(swap_unit.into());
            let unit = if is_aligned { Unit::Bytes(swap_unit) } else { Unit::Mixed };
            let known = used.entry(block.storage).or_insert(unit);
            if *known != unit {
                *known = Unit::Mixed;
            }
            Ok(())
        })?;
    }
    Ok(used)
}
