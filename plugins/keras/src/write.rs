//! Writes tensors to a new `.weights.h5` file, and uses their names as paths. Keras's
//! `load_weights` accepts the file if the names are Keras paths. All other outputs are copies of an
//! existing file (`like.rs`).

use crate::hdf5::write::{NewDataset, check_path, has_datatype, plan};
use crate::like::Template;
use crate::options::WriteOptions;
use crate::{ARCHIVE_SUFFIX, WEIGHTS, WEIGHTS_SUFFIX};
use std::collections::{HashMap, HashSet};
use tensorferry_sdk::file_name::{has_any_suffix, has_suffix};
use tensorferry_sdk::{
    CatalogView, Context, Error, LayoutSink, NothingToSeal, Result, Role, Target, TensorId, TensorPart,
    TensorPlan, TensorWriter,
};

/// Maximum number of dimensions that HDF5 allows.
const MAX_RANK: usize = 32;

pub(crate) struct Writer {
    pub(crate) options: WriteOptions,
}

impl TensorWriter for Writer {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        if let Some(like) = &self.options.like {
            let template = Template::open(like, context).map_err(|error| error.file(like))?;
            return template.write(catalog, target, self.options.missing, layout, context);
        }
        let path = target.file_or(WEIGHTS);
        if has_suffix(path, ARCHIVE_SUFFIX) {
            return Err(Error::usage("a .keras file needs a configuration, which tensors do not contain")
                .file(path)
                .hint("pass -o like=MODEL.keras with a model of the same layers, or write NAME.weights.h5"));
        }
        if !has_suffix(path, WEIGHTS_SUFFIX) && has_any_suffix(path, [".h5", ".hdf5"]) {
            return Err(Error::usage("a Keras 2 .h5 file needs layer lists, which tensors do not contain")
                .file(path)
                .hint("pass -o like=FILE.h5 with a model of the same layers, or write NAME.weights.h5"));
        }
        if has_suffix(path, crate::MAP_SUFFIX) {
            return Err(Error::usage("ferry does not write sharded Keras weights")
                .file(path)
                .hint("write NAME.weights.h5"));
        }
        write_weights(catalog, path, layout, context)?;
        Ok(Box::new(NothingToSeal))
    }
}

fn write_weights(
    catalog: &dyn CatalogView,
    path: &str,
    layout: &mut dyn LayoutSink,
    context: &dyn Context,
) -> Result<()> {
    let names: HashSet<&str> = catalog.tensor_ids().map(|id| catalog.tensor(id).name).collect();
    // Names that cannot be datasets because they are groups, such as `a` next to `a/b`.
    let groups: HashSet<&str> =
        names.iter().flat_map(|name| name.match_indices('/').map(|(end, _)| &name[..end])).collect();
    let (mut datasets, mut ids, mut numbers) = (Vec::new(), Vec::new(), HashMap::new());
    for id in catalog.tensor_ids() {
        context.check_cancelled()?;
        let view = catalog.tensor(id);
        let mut why = check_path(view.name).err().map(str::to_owned);
        if groups.contains(view.name) {
            why = Some("its name is also the name of a group of other tensors; rename it".to_owned());
        } else if !has_datatype(view.dtype) {
            let dtype = catalog.dtype_info(view.dtype)?.name().to_owned();
            why = Some(format!(
                "Keras files have no dtype {dtype}; convert the tensor first, for example with --step cast:f32"
            ));
        } else if view.shape.len() > MAX_RANK {
            why = Some(format!("HDF5 allows at most {MAX_RANK} dimensions"));
        }
        if let Some(why) = why {
            layout.omit(id, &why)?;
            continue;
        }
        let tied: TensorId = catalog.tied_to(id);
        let same_as = numbers.get(&tied).copied().filter(|_| tied != id);
        numbers.insert(id, datasets.len());
        datasets.push(NewDataset {
            path: view.name,
            dtype: view.dtype,
            shape: view.shape,
            len: view.bytes,
            same_as,
        });
        ids.push(id);
    }
    let planned = plan(&datasets)?;
    let file = layout.file(path, Role::Data)?;
    layout.bytes(file, &planned.front)?;
    let mut end = planned.front.len() as u64;
    for ((dataset, &id), &offset) in datasets.iter().zip(&ids).zip(&planned.offsets) {
        if let Some(same) = dataset.same_as {
            layout.alias(id, ids[same])?;
            continue;
        }
        if offset > end {
            layout.pad(file, offset - end)?;
        }
        layout.tensor(file, TensorPart::whole(id))?;
        end = offset + dataset.len;
    }
    Ok(())
}
