//! The files `array_metadatas/process_N` contain metadata of arrays that zarr cannot represent. In
//! zarr, a typed key of `jax.random` is an array of u32. `ext_metadata` contains the name of the
//! key's generator.
//!
//! ```text
//! {"array_metadatas": [{"array_metadata": {"param_name", "write_shape", "chunk_shape",
//!                                          "ext_metadata": null | {"random_key_impl": "threefry2x32"}}}]}
//! ```

use crate::json::Json;
use crate::locate::subfolders;
use serde_json::{Value, json};
use std::collections::HashMap;
use tensorferry_sdk::{Error, Limits, Result, Source};

pub(crate) const FOLDER: &str = "array_metadatas";
/// Key of the entry that marks an array as a typed key.
pub(crate) const RANDOM_KEY: &str = "random_key_impl";

/// Reads the array metadata files in the folder of a tree. Returns the entries of `ext_metadata` by
/// array name.
pub(crate) fn read(
    source: &dyn Source,
    folder: &str,
    limits: &Limits,
) -> Result<HashMap<String, Vec<(String, Json)>>> {
    let mut found = HashMap::new();
    if !subfolders(source, folder.trim_end_matches('/'))?.iter().any(|name| name == FOLDER) {
        return Ok(found);
    }
    for name in source.list(&format!("{folder}{FOLDER}/"))? {
        let file = source.open(&name)?;
        let json = source
            .read_vec(file, 0, source.len(file), limits)
            .and_then(|bytes| Json::parse(&bytes, limits))
            .map_err(|error| error.file(&*name))?;
        let malformed = || Error::malformed("an entry of array_metadatas has no param_name").file(&*name);
        for entry in json.get("array_metadatas").list().unwrap_or_default() {
            let entry = entry.get("array_metadata");
            if let Json::Map(values) = entry.get("ext_metadata") {
                let array = entry.get("param_name").text().ok_or_else(malformed)?;
                found.entry(array.to_owned()).or_insert_with(|| values.clone());
            }
        }
    }
    Ok(found)
}

/// Returns the content of an array metadata file for typed keys. Each item of `keys` consists of
/// name, shape and generator.
pub(crate) fn document(keys: &[(String, Vec<u64>, String)]) -> Value {
    let entry = |(name, shape, generator): &(String, Vec<u64>, String)| {
        json!({"array_metadata": {
            "param_name": name, "write_shape": shape, "chunk_shape": shape,
            "ext_metadata": {RANDOM_KEY: generator},
        }})
    };
    json!({"array_metadatas": keys.iter().map(entry).collect::<Vec<_>>()})
}
