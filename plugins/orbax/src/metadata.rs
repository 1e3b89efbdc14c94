//! The file `_METADATA` lists the leaves of a tree. Each leaf has a kind, and the keys that lead to
//! the leaf.

use crate::json::Json;
use tensorferry_sdk::{Error, Limits, Result};

pub(crate) const METADATA: &str = "_METADATA";
/// The file that contains the string leaves.
pub(crate) const STRINGS: &str = "_strings.json";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeafKind {
    Array,
    Text,
    None,
    /// An empty container.
    Empty {
        is_list: bool,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct MetadataLeaf {
    /// Keys that lead to the leaf. The flag of each key is set if the key is a list index.
    pub(crate) path: Vec<(String, bool)>,
    pub(crate) kind: LeafKind,
}

impl MetadataLeaf {
    /// Returns the name of the leaf's array, which consists of the keys joined with dots.
    pub(crate) fn name(&self) -> String {
        let keys: Vec<&str> = self.path.iter().map(|(key, _)| &**key).collect();
        keys.join(".")
    }
}

/// The parsed `_METADATA`. `stores_all` is set if the writer stored every chunk, including chunks
/// that equal the fill value.
pub(crate) struct Metadata {
    pub(crate) leaves: Vec<MetadataLeaf>,
    pub(crate) uses_ocdbt: Option<bool>,
    pub(crate) stores_all: bool,
}

impl Metadata {
    pub(crate) fn parse(bytes: &[u8], limits: &Limits) -> Result<Self> {
        let json = Json::parse(bytes, limits)?;
        let Json::Map(entries) = json.get("tree_metadata") else {
            return Err(Error::malformed("no tree_metadata"));
        };
        let uses_ocdbt = match json.get("use_ocdbt") {
            Json::Bool(value) => Some(*value),
            _ => None,
        };
        let stores_all = *json.get("store_array_data_equal_to_fill_value") == Json::Bool(true);
        let leaves = entries.iter().map(|(key, value)| {
            leaf(value)
                .ok_or_else(|| Error::malformed("invalid entry in tree_metadata").found(format!("{key:?}")))
        });
        Ok(Self { leaves: leaves.collect::<Result<_>>()?, uses_ocdbt, stores_all })
    }
}

fn leaf(entry: &Json) -> Option<MetadataLeaf> {
    let key = |key: &Json| {
        let is_number = *key.get("key_type") == Json::Int(1);
        let text = match key.get("key") {
            Json::Text(text) => text.clone(),
            Json::Int(number) => number.to_string(),
            _ => return None,
        };
        Some((text, is_number))
    };
    let path = entry.get("key_metadata").list()?.iter().map(key).collect::<Option<Vec<_>>>()?;
    let value = entry.get("value_metadata");
    let is_skipped = *value.get("skip_deserialize") == Json::Bool(true);
    let kind = match value.get("value_type").text()? {
        "string" => LeafKind::Text,
        "None" => LeafKind::None,
        "List" | "Tuple" if is_skipped => LeafKind::Empty { is_list: true },
        _ if is_skipped => LeafKind::Empty { is_list: false },
        _ => LeafKind::Array,
    };
    Some(MetadataLeaf { path, kind })
}
