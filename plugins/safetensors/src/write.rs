//! The writer: what safetensors can hold of a catalog, laid out as the library and the Hub do.
//!
//! Within a file, tensors lie by falling dtype and then by name. The split into files follows the
//! catalog's order and comes first.

use crate::encode::{Written, encode};
use crate::options::{Tied, WriteOptions};
use crate::{FRAMEWORK_KEY, METADATA_KEY, NAMING, dtype, header, tied};
use globset::GlobMatcher;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use tensorferry_hub::{Index, Names, split};
use tensorferry_sdk::{
    CatalogView, Context, Error, LayoutSink, Loss, LossKind, NothingToSeal, Result, Role, Target, TensorId,
    TensorPart, TensorPlan, TensorWriter,
};

/// Plans files and sharded sets.
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
        let mut tensors = representable(catalog, layout)?;
        let mut metadata: BTreeMap<String, String> = catalog.metadata_texts().into_iter().collect();
        let dropped = match &self.options.tied {
            Tied::Keep => BTreeMap::new(),
            Tied::Dedupe(prefer) => {
                note_idle(prefer.as_ref(), catalog, &tensors, context);
                tied::dedupe(catalog, &tensors, prefer.as_ref(), &metadata)
            }
        };
        tensors.retain(|tensor| !dropped.contains_key(tensor));
        leave_out_seeming_ties(catalog, &tensors, &mut metadata, layout)?;
        let is_said = metadata.contains_key(FRAMEWORK_KEY);
        if let Some(word) = self.options.framework.word(&catalog.origin(), is_said) {
            metadata.insert(FRAMEWORK_KEY.to_owned(), word.to_owned());
        }
        for (&tensor, &kept) in &dropped {
            layout.alias(tensor, kept)?;
            metadata.insert(catalog.tensor(tensor).name.to_owned(), catalog.tensor(kept).name.to_owned());
        }
        let sizes = tensors.iter().map(|&tensor| (tensor, catalog.tensor(tensor).bytes));
        let shards = split(sizes, self.options.max_shard_size);
        let names = Names::of(&NAMING, target).tagged(self.options.shard_tag);
        write(catalog, &names, shards, &metadata, layout, context)?;
        Ok(Box::new(NothingToSeal))
    }
}

/// A preference that fits no tensor is probably misspelt.
fn note_idle(
    prefer: Option<&GlobMatcher>,
    catalog: &dyn CatalogView,
    tensors: &[TensorId],
    context: &dyn Context,
) {
    let Some(prefer) = prefer else { return };
    if !tensors.iter().any(|&tensor| prefer.is_match(catalog.tensor(tensor).name)) {
        context.note(&format!("-o prefer={} changed nothing: there is no such tensor", prefer.glob()));
    }
}

/// The tensors that safetensors can hold; the others are omitted, each with the reason.
fn representable(catalog: &dyn CatalogView, layout: &mut dyn LayoutSink) -> Result<Vec<TensorId>> {
    let mut tensors = Vec::new();
    for id in catalog.tensor_ids() {
        let tensor = catalog.tensor(id);
        let info = catalog.dtype_info(tensor.dtype)?;
        if dtype::rank(tensor.dtype).is_none() {
            let why = format!("safetensors has no dtype {}: {}", info.name(), dtype::remedy(tensor.dtype));
            layout.omit(id, &why)?;
        } else if tensor.name == METADATA_KEY {
            layout.omit(id, "safetensors keeps this name for its metadata: rename the tensor")?;
        } else if header::byte_len(&info, tensor.shape).is_err() {
            layout.omit(id, "safetensors takes no shape whose product overflows before a zero")?;
        } else {
            tensors.push(id);
        }
    }
    Ok(tensors)
}

/// Leaves out the metadata that a reader would take for ties, and so for tensors.
fn leave_out_seeming_ties(
    catalog: &dyn CatalogView,
    tensors: &[TensorId],
    metadata: &mut BTreeMap<String, String>,
    layout: &mut dyn LayoutSink,
) -> Result<()> {
    if metadata.is_empty() {
        return Ok(());
    }
    let names: HashSet<&str> = tensors.iter().map(|&tensor| catalog.tensor(tensor).name).collect();
    let mut seeming = Vec::new();
    metadata.retain(|key, value| {
        let tie = tied::is_tie(key, value, |name| names.contains(name));
        if tie {
            seeming.push((key.clone(), value.clone()));
        }
        !tie
    });
    for (key, value) in seeming {
        let why = format!(
            "its value is the name of a tensor: safetensors would have {key:?} be another name for {value:?}"
        );
        layout.loss(Loss::new(LossKind::Metadata, key, why))?;
    }
    Ok(())
}

/// Lays the shards out, and the index if there are several.
fn write(
    catalog: &dyn CatalogView,
    names: &Names,
    shards: Vec<Vec<TensorId>>,
    metadata: &BTreeMap<String, String>,
    layout: &mut dyn LayoutSink,
    context: &dyn Context,
) -> Result<()> {
    let files: Vec<String> = (1..=shards.len()).map(|number| names.file(number, shards.len())).collect();
    let mut weight_map = BTreeMap::new();
    let mut total_size = 0_u64;
    for (path, mut shard) in files.iter().zip(shards) {
        context.check_cancelled()?;
        shard.sort_by_key(|&id| {
            let tensor = catalog.tensor(id);
            (Reverse(dtype::rank(tensor.dtype)), tensor.name)
        });
        write_file(catalog, path, &shard, metadata, layout).map_err(|error| error.file(path))?;
        for tensor in shard.into_iter().map(|id| catalog.tensor(id)) {
            weight_map.insert(tensor.name, path.as_str());
            total_size = total_size.saturating_add(tensor.bytes);
        }
    }
    if files.len() > 1 {
        let file = layout.file(&names.index(), Role::Index)?;
        layout.bytes(file, &Index::encode(total_size, &weight_map)?)?;
    }
    names.superseded().into_iter().try_for_each(|(pattern, role)| layout.supersedes(&pattern, role))
}

fn write_file(
    catalog: &dyn CatalogView,
    path: &str,
    tensors: &[TensorId],
    metadata: &BTreeMap<String, String>,
    layout: &mut dyn LayoutSink,
) -> Result<()> {
    let mut written = Vec::with_capacity(tensors.len());
    for &id in tensors {
        let tensor = catalog.tensor(id);
        let info =
            tensor.dtype.info().ok_or_else(|| Error::plugin("a dtype without facts").tensor(tensor.name))?;
        written.push(Written {
            name: tensor.name,
            dtype: info.name(),
            shape: tensor.shape,
            bytes: tensor.bytes,
        });
    }
    let file = layout.file(path, Role::Data)?;
    layout.bytes(file, &encode(metadata, &written)?)?;
    for &tensor in tensors {
        layout.tensor(file, TensorPart::whole(tensor))?;
    }
    Ok(())
}
