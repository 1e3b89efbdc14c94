//! The writer: the least that Orbax restores. For each tensor `.zarray` and one uncompressed chunk, which is its bytes as they
//! are; and `_METADATA`, without which Orbax finds nothing.

use crate::dtype;
use crate::metadata::METADATA;
use crate::outline::{Key, Outline};
use crate::span::check_path;
use serde_json::{Map, Value, json};
use tensorferry_sdk::{
    CatalogView, Context, Error, LayoutSink, NothingToSeal, Result, Role, Target, TensorId, TensorPart,
    TensorPlan, TensorWriter,
};

/// Plans checkpoints.
pub(crate) struct Writer;

impl TensorWriter for Writer {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        if let Target::File(name) = target {
            let error = Error::usage("an Orbax checkpoint is a folder: name one, with a slash at its end");
            return Err(error.found(format!("{name:?}")));
        }
        let arrays = representable(catalog, layout)?;
        let ids: Vec<TensorId> = arrays.iter().map(|(id, _)| *id).collect();
        let mut outline = Outline::of(catalog, &ids, context)?;
        outline.losses.drain(..).try_for_each(|loss| layout.loss(loss))?;
        let mut tree = Map::new();
        for (id, dtype) in arrays {
            context.check_cancelled()?;
            let tensor = catalog.tensor(id);
            // What is empty has no chunk that is read; its edges may not be 0.
            let chunks: Vec<u64> = tensor.shape.iter().map(|&dim| dim.max(1)).collect();
            let array = json!({
                "chunks": chunks, "compressor": null, "dimension_separator": ".", "dtype": dtype, "fill_value": null,
                "filters": null, "order": "C", "shape": tensor.shape, "zarr_format": 2,
            });
            let key = if tensor.shape.is_empty() {
                "0".to_owned()
            } else {
                vec!["0"; tensor.shape.len()].join(".")
            };
            let file = layout.file(&format!("{}/.zarray", tensor.name), Role::Data)?;
            layout.bytes(file, array.to_string().as_bytes())?;
            let file = layout.file(&format!("{}/{key}", tensor.name), Role::Data)?;
            layout.tensor(file, TensorPart::whole(id))?;
            enter(&mut tree, &outline.arrays.remove(&id).unwrap_or_default(), "np.ndarray", false);
        }
        for (keys, word) in &outline.places {
            enter(&mut tree, keys, word, true);
        }
        let metadata = json!({
            "tree_metadata": tree, "use_ocdbt": false, "use_zarr3": false, "store_array_data_equal_to_fill_value": true,
            "custom_metadata": null,
        });
        let file = layout.file(METADATA, Role::Index)?;
        layout.bytes(file, metadata.to_string().as_bytes())?;
        Ok(Box::new(NothingToSeal))
    }
}

/// The arrays that Orbax can hold, and zarr's word for what their elements are; the others are omitted, each with the reason.
fn representable(catalog: &dyn CatalogView, layout: &mut dyn LayoutSink) -> Result<Vec<(TensorId, String)>> {
    let mut arrays = Vec::new();
    for id in catalog.tensor_ids() {
        let tensor = catalog.tensor(id);
        let Some(dtype) = dtype::zarr2(tensor.dtype) else {
            let name = catalog.dtype_info(tensor.dtype)?.name().to_owned();
            let why = "--step cast or dequantize gives it another";
            layout.omit(id, &format!("Orbax's arrays have no dtype {name}: {why}"))?;
            continue;
        };
        let is_taken =
            tensor.name.starts_with(METADATA) || tensor.name.split('/').any(|part| part.starts_with('.'));
        if is_taken || check_path(tensor.name).is_err() {
            layout.omit(id, "its name can be no folder's in a checkpoint: rename it")?;
            continue;
        }
        arrays.push((id, dtype));
    }
    Ok(arrays)
}

/// Enters a leaf into the tree.
fn enter(tree: &mut Map<String, Value>, keys: &[Key], value_type: &str, is_empty: bool) {
    let key_metadata: Vec<Value> = keys
        .iter()
        .map(|key| json!({"key": key.text, "key_type": if key.is_item { 1 } else { 2 }}))
        .collect();
    let value = json!({"value_type": value_type, "skip_deserialize": is_empty});
    tree.insert(tuple(keys), json!({"key_metadata": key_metadata, "value_metadata": value}));
}

/// The keys as Python shows a tuple, which Orbax has for a key; what it reads is the list beside it.
fn tuple(keys: &[Key]) -> String {
    let quoted: Vec<String> =
        keys.iter().map(|key| format!("'{}'", key.text.replace('\\', "\\\\").replace('\'', "\\'"))).collect();
    format!("({}{})", quoted.join(", "), if keys.len() == 1 { "," } else { "" })
}
