//! Writes the tensors and metadata that safetensors supports, in the same layout that the
//! `safetensors` library and huggingface_hub use.
//!
//! The tensors are first split into files in catalog order. Within a file, they are sorted by
//! decreasing rank of their dtypes, then by name.

use crate::encode::{OutputTensor, encode};
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
        let mut tensors = writable_tensors(catalog, layout)?;
        let mut metadata: BTreeMap<String, String> = catalog.metadata_texts().into_iter().collect();
        let dropped = match &self.options.tied {
            Tied::Keep => BTreeMap::new(),
            Tied::Dedupe(prefer) => {
                note_unused_prefer(prefer.as_ref(), catalog, &tensors, context);
                tied::dedupe(catalog, &tensors, prefer.as_ref(), &metadata)
            }
        };
        tensors.retain(|tensor| !dropped.contains_key(tensor));
        drop_apparent_ties(catalog, &tensors, &mut metadata, layout)?;
        let has_framework = metadata.contains_key(FRAMEWORK_KEY);
        if let Some(word) = self.options.framework.word(&catalog.origin(), has_framework) {
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

/// Adds a note if the glob of the option `prefer` does not match any tensor, because the glob is
/// probably misspelled.
fn note_unused_prefer(
    prefer: Option<&GlobMatcher>,
    catalog: &dyn CatalogView,
    tensors: &[TensorId],
    context: &dyn Context,
) {
    let Some(prefer) = prefer else { return };
    if !tensors.iter().any(|&tensor| prefer.is_match(catalog.tensor(tensor).name)) {
        context.note(&format!("-o prefer={} has no effect: no tensor matches", prefer.glob()));
    }
}

/// Returns the tensors that safetensors supports. Other tensors are reported as omitted, with a
/// reason.
fn writable_tensors(catalog: &dyn CatalogView, layout: &mut dyn LayoutSink) -> Result<Vec<TensorId>> {
    let mut tensors = Vec::new();
    for id in catalog.tensor_ids() {
        let tensor = catalog.tensor(id);
        let info = catalog.dtype_info(tensor.dtype)?;
        if dtype::rank(tensor.dtype).is_none() {
            let why =
                format!("safetensors has no dtype {}: {}", info.name(), dtype::suggestion(tensor.dtype));
            layout.omit(id, &why)?;
        } else if tensor.name == METADATA_KEY {
            layout.omit(id, "safetensors reserves this name for metadata: rename the tensor")?;
        } else if header::byte_len(&info, tensor.shape).is_err() {
            layout.omit(
                id,
                "safetensors does not allow a shape whose product overflows before a zero dimension",
            )?;
        } else {
            tensors.push(id);
        }
    }
    Ok(tensors)
}

/// Drops metadata entries that a reader would mistake for records of tied tensors.
fn drop_apparent_ties(
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
        let why = format!("safetensors readers would take {key:?} for a second name of the tensor {value:?}");
        layout.loss(Loss::new(LossKind::Metadata, key, why))?;
    }
    Ok(())
}

/// Lays out the files. If there are several files, also lays out an index.
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
        let info = tensor
            .dtype
            .info()
            .ok_or_else(|| Error::plugin("the dtype has no description").tensor(tensor.name))?;
        written.push(OutputTensor {
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
