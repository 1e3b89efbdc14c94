//! The writer writes only the files that Orbax needs to restore a checkpoint. For each tensor, it
//! writes `.zarray` and one chunk with the uncompressed bytes. For all tensors together, it writes
//! `_METADATA`. Without `_METADATA`, Orbax does not find any tensors.

use crate::array_metadata::{self, RANDOM_KEY};
use crate::dtype;
use crate::metadata::METADATA;
use crate::outline::{Key, Outline};
use crate::span::check_path;
use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use tensorferry_sdk::{
    CatalogView, Context, Dtype, Error, LayoutSink, Loss, LossKind, NothingToSeal, Result, Role, Target,
    TensorId, TensorPart, TensorPlan, TensorWriter,
};

/// Maximum length of a file name on Linux, macOS and Windows, in bytes.
const MAX_FILE_NAME: usize = 255;

/// Maximum length of a path inside the output folder, in bytes. Linux allows 4096 bytes for the
/// whole path.
const MAX_PATH: usize = 2048;

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
            let error =
                Error::usage(format!("an Orbax checkpoint is a folder, but the output is the file {name:?}"));
            return Err(error.hint("pass a folder as output, with a slash at its end"));
        }
        let arrays = writable_tensors(catalog, layout)?;
        let ids: Vec<TensorId> = arrays.iter().map(|(id, _)| *id).collect();
        let mut outline = Outline::of(catalog, &ids, context)?;
        outline.losses.drain(..).try_for_each(|loss| layout.loss(loss))?;
        let mut tree = Map::new();
        let mut random_keys = Vec::new();
        for (id, dtype) in arrays {
            context.check_cancelled()?;
            let tensor = catalog.tensor(id);
            // A dimension of a chunk must not be 0. The chunk of an empty array is never read.
            let chunks: Vec<u64> = tensor.shape.iter().map(|&dim| dim.max(1)).collect();
            let array = json!({
                "chunks": chunks, "compressor": null, "dimension_separator": ".", "dtype": dtype, "fill_value": null,
                "filters": null, "order": "C", "shape": tensor.shape, "zarr_format": 2,
            });
            let key = chunk_key(tensor.shape.len());
            let file = layout.file(&format!("{}/.zarray", tensor.name), Role::Data)?;
            layout.bytes(file, array.to_string().as_bytes())?;
            let file = layout.file(&format!("{}/{key}", tensor.name), Role::Data)?;
            layout.tensor(file, TensorPart::whole(id))?;
            let random_key = random_key(catalog, id, layout)?;
            let word = if random_key.is_some() { "jax.Array" } else { "np.ndarray" };
            random_keys.extend(random_key.map(|key| (tensor.name.to_owned(), tensor.shape.to_vec(), key)));
            enter(&mut tree, &outline.arrays.remove(&id).unwrap_or_default(), word, false);
        }
        for (keys, word) in &outline.places {
            enter(&mut tree, keys, word, true);
        }
        let metadata = json!({
            "tree_metadata": tree, "use_ocdbt": false, "use_zarr3": false, "store_array_data_equal_to_fill_value": true,
            "custom_metadata": null,
        });
        if !random_keys.is_empty() {
            let file = layout.file(&format!("{}/process_0", array_metadata::FOLDER), Role::Data)?;
            layout.bytes(file, array_metadata::document(&random_keys).to_string().as_bytes())?;
            let file = layout.file("_sharding", Role::Data)?;
            layout.bytes(file, sharding(&random_keys).to_string().as_bytes())?;
        }
        let file = layout.file(METADATA, Role::Index)?;
        layout.bytes(file, metadata.to_string().as_bytes())?;
        Ok(Box::new(NothingToSeal))
    }
}

/// Returns the arrays that Orbax can store, with their dtypes in zarr. Omits all other arrays and
/// reports the reasons.
fn writable_tensors(
    catalog: &dyn CatalogView,
    layout: &mut dyn LayoutSink,
) -> Result<Vec<(TensorId, String)>> {
    let by_name: HashMap<&str, usize> = catalog
        .tensor_ids()
        .map(|id| catalog.tensor(id))
        .map(|tensor| (tensor.name, tensor.shape.len()))
        .collect();
    let mut arrays = Vec::new();
    for id in catalog.tensor_ids() {
        let tensor = catalog.tensor(id);
        let Some(dtype) = dtype::zarr2(tensor.dtype) else {
            let name = catalog.dtype_info(tensor.dtype)?.name().to_owned();
            let why = "change it with --step cast or --step dequantize";
            layout.omit(id, &format!("Orbax arrays have no dtype {name}; {why}"))?;
            continue;
        };
        let is_taken =
            tensor.name.starts_with(METADATA) || tensor.name.split('/').any(|part| part.starts_with('.'));
        if is_taken || check_path(tensor.name).is_err() {
            layout.omit(id, "its name is not a valid folder name in a checkpoint; rename it")?;
            continue;
        }
        let part = tensor.name.split('/').map(str::len).max().unwrap_or(0);
        if part > MAX_FILE_NAME || tensor.name.len() > MAX_PATH {
            let why = "its name is too long for a folder of the checkpoint; rename it";
            let len = tensor.name.len();
            layout.omit(id, &format!("{why} ({len} bytes, at most {MAX_FILE_NAME} between slashes)"))?;
            continue;
        }
        if let Some(other) = conflicting_array(tensor.name, &by_name) {
            layout.omit(id, &format!("its folder has the same path as a chunk of {other:?}; rename it"))?;
            continue;
        }
        arrays.push((id, dtype));
    }
    Ok(arrays)
}

/// Returns the array whose chunk file would have the same path as this array's folder, or `None` if
/// there is no such array.
fn conflicting_array<'n>(name: &'n str, ranks: &HashMap<&str, usize>) -> Option<&'n str> {
    let outer = name.match_indices('/').map(|(at, _)| (&name[..at], &name[at + 1..]));
    let mut inside = outer.filter(|(outer, rest)| {
        let key = ranks.get(outer).map(|&rank| chunk_key(rank));
        key.is_some_and(|key| rest.split('/').next() == Some(&*key))
    });
    inside.next().map(|(outer, _)| outer)
}

/// Returns the key of the only chunk of an array with this rank.
fn chunk_key(rank: usize) -> String {
    vec!["0"; rank.max(1)].join(".")
}

/// Returns the name of the generator if the tensor is a typed key. Reports all other attributes as
/// lost.
fn random_key(
    catalog: &dyn CatalogView,
    id: TensorId,
    layout: &mut dyn LayoutSink,
) -> Result<Option<String>> {
    let tensor = catalog.tensor(id);
    let mut found = None;
    for (key, value) in catalog.attributes(id)? {
        match value.as_text() {
            Some(generator) if key == RANDOM_KEY && tensor.dtype == Dtype::U32 => {
                found = Some(generator.to_owned());
            }
            _ => {
                let why = "Orbax arrays have no attributes, except for the generator of a typed key";
                layout.loss(Loss::new(LossKind::Attribute, format!("{}: {key}", tensor.name), why))?;
            }
        }
    }
    Ok(found)
}

/// Returns the content of `_sharding`. It maps the base64-encoded name of each array to the array's
/// device. Without this file, Orbax does not restore a `jax.Array`.
fn sharding(keys: &[(String, Vec<u64>, String)]) -> Value {
    let device = json!({"sharding_type": "SingleDeviceSharding", "device_str": "cpu:0"}).to_string();
    keys.iter().map(|(name, ..)| (STANDARD.encode(name), Value::String(device.clone()))).collect()
}

/// Adds a leaf to the tree.
fn enter(tree: &mut Map<String, Value>, keys: &[Key], value_type: &str, is_empty: bool) {
    let key_metadata: Vec<Value> = keys
        .iter()
        .map(|key| json!({"key": key.text, "key_type": if key.is_item { 1 } else { 2 }}))
        .collect();
    let value = json!({"value_type": value_type, "skip_deserialize": is_empty});
    tree.insert(tuple(keys), json!({"key_metadata": key_metadata, "value_metadata": value}));
}

/// Formats the keys of a leaf as a Python tuple. Orbax uses this string as the key of the leaf's
/// entry, but does not parse it. Instead, Orbax reads the list in `key_metadata`.
fn tuple(keys: &[Key]) -> String {
    let quoted: Vec<String> =
        keys.iter().map(|key| format!("'{}'", key.text.replace('\\', "\\\\").replace('\'', "\\'"))).collect();
    format!("({}{})", quoted.join(", "), if keys.len() == 1 { "," } else { "" })
}
