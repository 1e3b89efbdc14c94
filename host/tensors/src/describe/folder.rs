//! Information from the small JSON files in a folder, such as the class of a model and the library
//! that wrote it.

use crate::steps::model_config::read_json;
use serde_json::Value;
use tensorferry_core::read::source::FileSource;

/// The configuration of an adapter from PEFT or MLX.
pub(super) const ADAPTER: &str = "adapter_config.json";
/// Maximum length in bytes of a configuration. Larger files do not count as configurations.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a JSON file of an input's folder. Returns `None` if the file is missing or does not
/// contain a JSON object.
pub(super) fn json(source: &FileSource, name: &str) -> Option<Value> {
    read_json(&source.in_folder(""), name, MAX_BYTES).ok().flatten().filter(Value::is_object)
}

/// Returns the class of a model from a transformers or diffusers configuration. If the
/// configuration does not name a class, returns the model family from the configuration.
pub(super) fn architecture(config: &Value) -> Option<String> {
    let class = config.get("architectures").and_then(Value::as_array).and_then(|all| all.first()?.as_str());
    let class = class.or_else(|| text(config, "_class_name"));
    match (class, text(config, "model_type")) {
        (Some(class), Some(family)) => Some(format!("{class} ({family})")),
        (found, family) => found.or(family).map(str::to_owned),
    }
}

/// Returns the library that wrote a configuration.
pub(super) fn library(config: &Value) -> Option<String> {
    ["transformers", "diffusers"].into_iter().find_map(|library| {
        let version = text(config, &format!("_{library}_version"));
        let version = version.or_else(|| text(config, &format!("{library}_version")))?;
        Some(format!("{library} {version}"))
    })
}

/// Returns the value of a key, if the value is a string.
pub(super) fn text<'a>(json: &'a Value, key: &str) -> Option<&'a str> {
    json.get(key)?.as_str().filter(|text| !text.is_empty())
}
