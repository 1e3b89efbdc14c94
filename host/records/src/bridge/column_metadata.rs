//! The metadata entry [`KEY`] stores information about columns that tensors cannot express: the
//! order, types and lists of the columns, and the schema's own hints. The entry is JSON:
//!
//! ```json
//! {"metadata": {"ferry.message": "example"},
//!  "columns": [{"name": "at", "type": "Timestamp(µs)", "nullable": true, "shape": [null, 3]}]}
//! ```
//!
//! The type is the type of the innermost values, in the notation of the Rust `arrow` crates. The
//! shape has one entry per level of lists: the fixed length, or null if the length varies.

use arrow_schema::{DataType, Metadata};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use tensorferry_sdk::{Result, arrow_schema};

pub const KEY: &str = "ferry.columns";

/// Prefix of the schema metadata entries that contain the hints of ferry's own readers. These
/// entries are stored in [`KEY`]. All other schema entries become separate metadata entries of the
/// tensors.
const OWN: &str = "ferry.";
/// Maximum length in bytes of a type's name. The longest part of such a name is a time zone.
const MAX_TYPE_BYTES: usize = 128;

/// The information about a schema that the metadata entry stores.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ColumnsMetadata {
    /// The hints for the whole schema, as opposed to the hints for a single column.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    pub columns: Vec<ColumnMetadata>,
}

/// The information about a column that the metadata entry stores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ColumnMetadata {
    pub name: String,
    /// The type of the values inside all lists.
    #[serde(rename = "type")]
    pub data_type: String,
    #[serde(default)]
    pub(crate) nullable: bool,
    /// The length of the lists at each level of nesting, outermost first; `None` if the length
    /// varies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl ColumnsMetadata {
    /// Returns the string that the metadata entry contains.
    pub(crate) fn text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|e| tensorferry_sdk::Error::plugin(e.to_string()))
    }

    /// Parses the text of a metadata entry. The result is empty if ferry did not write the text.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// Returns a map from each column's name to the column's position and the information about it.
    #[must_use]
    pub(crate) fn by_name(&self) -> HashMap<&str, (usize, &ColumnMetadata)> {
        self.columns
            .iter()
            .enumerate()
            .map(|(place, column)| (column.name.as_str(), (place, column)))
            .collect()
    }
}

impl ColumnMetadata {
    /// Returns the type of the values inside all lists, if Arrow has a type with this name.
    #[must_use]
    pub(crate) fn leaf(&self) -> Option<DataType> {
        // The text is from a file, and Arrow's parser recurses once for each level of nesting.
        if self.data_type.len() > MAX_TYPE_BYTES { None } else { self.data_type.parse().ok() }
    }
}

/// Returns the metadata entries that contain hints from ferry's readers.
#[must_use]
pub fn hints(metadata: &Metadata) -> BTreeMap<String, String> {
    let own = metadata.iter().filter(|(key, _)| key.starts_with(OWN));
    own.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use arrow_schema::TimeUnit;

    #[test]
    fn what_is_kept_comes_back() {
        let types = [
            DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into())),
            DataType::Time32(TimeUnit::Second),
            DataType::FixedSizeBinary(7),
            DataType::Utf8,
            DataType::Null,
        ];
        for data_type in types {
            let column = ColumnMetadata {
                name: "a\"b".to_owned(),
                data_type: data_type.to_string(),
                nullable: true,
                shape: vec![None, Some(3)],
                metadata: BTreeMap::new(),
            };
            let columns = ColumnsMetadata { metadata: BTreeMap::new(), columns: vec![column] };
            let back = ColumnsMetadata::parse(&columns.text().unwrap());
            assert_eq!(back, columns);
            assert_eq!(back.by_name()["a\"b"].1.leaf(), Some(data_type));
        }
        assert_eq!(ColumnsMetadata::parse("[1, 2]"), ColumnsMetadata::default());
        let deep = format!("{}Int8{}", "List(".repeat(1 << 20), ")".repeat(1 << 20));
        let column = ColumnMetadata {
            name: String::new(),
            data_type: deep,
            nullable: false,
            shape: Vec::new(),
            metadata: BTreeMap::new(),
        };
        assert_eq!(column.leaf(), None);
    }
}
