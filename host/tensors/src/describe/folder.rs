//! What the small JSON files of a folder say: whose model it is, what it adapts.

use crate::steps::model_config::read_json;
use serde_json::Value;
use tensorferry_core::read::source::FileSource;

/// What an adapter says of itself: PEFT's, and MLX's.
pub(super) const ADAPTER: &str = "adapter_config.json";
/// Longer files say something else.
const MOST_BYTES: u64 = 1 << 20;

/// A file of an input's folder; `None` also where it is no JSON object.
pub(super) fn json(source: &FileSource, name: &str) -> Option<Value> {
    read_json(&source.below(""), name, MOST_BYTES).ok().flatten().filter(Value::is_object)
}

/// The class of a model by its configuration: transformers' or diffusers'; else the family that it names.
pub(super) fn architecture(config: &Value) -> Option<String> {
    let class = config.get("architectures").and_then(Value::as_array).and_then(|all| all.first()?.as_str());
    let class = class.or_else(|| text(config, "_class_name"));
    match (class, text(config, "model_type")) {
        (Some(class), Some(family)) => Some(format!("{class} ({family})")),
        (found, family) => found.or(family).map(str::to_owned),
    }
}

/// The library that wrote a configuration.
pub(super) fn library(config: &Value) -> Option<String> {
    ["transformers", "diffusers"].into_iter().find_map(|library| {
        let version = text(config, &format!("_{library}_version"));
        let version = version.or_else(|| text(config, &format!("{library}_version")))?;
        Some(format!("{library} {version}"))
    })
}

/// The text of a key, if it has one.
pub(super) fn text<'a>(json: &'a Value, key: &str) -> Option<&'a str> {
    json.get(key)?.as_str().filter(|text| !text.is_empty())
}
