//! The files of a dataset that the library `datasets` has saved to a folder. `state.json` lists the
//! files in the order of their rows. Other files of the same format in the folder are caches.

use crate::read::account::STATE;
use crate::read::source::FileSource;
use serde_json::Value;
use tensorferry_sdk::{Error, Limits, Result, Source, check_name};

/// Maximum bytes to read from `state.json`. Real `state.json` files are short.
const MAX_STATE: u64 = 16 << 20;

/// Returns the files that `state.json` in `folder` lists, or `None` if `state.json` does not exist.
/// An empty `folder` means the source's own folder.
pub(super) fn files(source: &FileSource, folder: &str) -> Result<Option<Vec<String>>> {
    let source = source.in_folder(folder);
    if !source.contains(STATE)? {
        return Ok(None);
    }
    let file = source.open(STATE)?;
    let bytes = source.read_vec(file, 0, source.len(file).min(MAX_STATE), &Limits::default())?;
    let Some(state) = serde_json::from_slice::<Value>(&bytes).ok() else { return Ok(None) };
    // Other programs also write files named `state.json`.
    let Some(listed) = state.get("_data_files").and_then(Value::as_array) else { return Ok(None) };
    let path = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    let is_said = |key: &str| state.get(key).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if is_said("_indices_data_files") || is_said("_indices_files") {
        return Err(Error::unsupported("the dataset has an index of its rows, which ferry does not apply")
            .file(path(STATE))
            .hint("save the dataset again after flatten_indices()"));
    }
    let mut names = Vec::with_capacity(listed.len());
    for entry in listed {
        let name = entry.get("filename").and_then(Value::as_str);
        let name = name.ok_or_else(|| Error::malformed("a data file without a name").file(path(STATE)))?;
        check_name(name).map_err(|error| error.file(path(STATE)))?;
        if entry.get("skip").or(entry.get("take")).is_some_and(|part| !part.is_null()) {
            return Err(Error::unsupported("the dataset has only some rows of its file").file(path(name)));
        }
        if !source.contains(name)? {
            return Err(Error::malformed("the dataset lists a file that is missing")
                .file(path(STATE))
                .expected(format!("{:?}", path(name))));
        }
        names.push(path(name));
    }
    Ok((!names.is_empty()).then_some(names))
}
