//! The side entry is what a catalog has and a bundle has no place for: metadata, and the format that
//! the tensors came from. It is a scalar string under a key that TensorFlow passes over:
//!
//! ```json
//! {"version": 1, "origin": "safetensors", "metadata": {"format": "pt"}}
//! ```

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use tensorferry_sdk::{CatalogView, Error, Result};

/// Its key.
pub(crate) const SIDE_ENTRY_KEY: &str = "_TENSORFERRY_METADATA";

const VERSION: u64 = 1;
/// Metadata under keys that begin so is about checkpoints of TensorFlow, and becomes part of them.
const OWN_PREFIX: &str = "ferry.tf.";

/// What the entry says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SideEntry {
    /// The id of the format that the tensors came from.
    pub(crate) origin: String,
    /// The catalog's metadata.
    pub(crate) metadata: BTreeMap<String, String>,
}

impl SideEntry {
    /// What is to be said of a catalog; `None`, if a bundle says it all.
    pub(crate) fn of(catalog: &dyn CatalogView) -> Option<Self> {
        let metadata: BTreeMap<String, String> = other_metadata(catalog).collect();
        (!metadata.is_empty()).then(|| Self { origin: catalog.origin(), metadata })
    }

    /// The entry's string; the same for the same content.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let metadata = self.metadata.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
        let entry: Map<String, Value> = [
            ("version".to_owned(), Value::from(VERSION)),
            ("origin".to_owned(), Value::from(self.origin.as_str())),
            ("metadata".to_owned(), Value::Object(metadata.collect())),
        ]
        .into_iter()
        .collect();
        Value::Object(entry).to_string().into_bytes()
    }

    /// Reads an entry's string; fields that it does not know are a later version's, and are passed
    /// over.
    ///
    /// # Errors
    /// Malformed, if it is not JSON of this form; unsupported, if its version is another.
    pub(crate) fn decode(text: &[u8]) -> Result<Self> {
        let wrong = |what: &str| Error::malformed(format!("the side entry: {what}")).tensor(SIDE_ENTRY_KEY);
        let entry: Value = serde_json::from_slice(text).map_err(|error| wrong("not JSON").found(error))?;
        match entry.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(version) => {
                let error = Error::unsupported("the side entry has another version").tensor(SIDE_ENTRY_KEY);
                return Err(error.expected(VERSION).found(version));
            }
            None => return Err(wrong("no version")),
        }
        let origin = entry.get("origin").and_then(Value::as_str).ok_or_else(|| wrong("no origin"))?;
        let metadata =
            entry.get("metadata").and_then(Value::as_object).ok_or_else(|| wrong("no metadata"))?;
        let pair = |(key, value): (&String, &Value)| {
            let text = value
                .as_str()
                .ok_or_else(|| wrong("a metadata value is not a text").found(format!("{key:?}")))?;
            Ok((key.clone(), text.to_owned()))
        };
        Ok(Self { origin: origin.to_owned(), metadata: metadata.iter().map(pair).collect::<Result<_>>()? })
    }
}

/// The metadata of a catalog that is not about checkpoints of TensorFlow.
pub(crate) fn other_metadata(catalog: &dyn CatalogView) -> impl Iterator<Item = (String, String)> {
    let is_said = |key: &str, value: &str| key.starts_with(OWN_PREFIX) || (key, value) == ("format", "tf");
    catalog.metadata().into_iter().filter(move |(key, value)| !is_said(key, value))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn an_entry_comes_back_as_it_was() {
        let metadata = [("format", "pt"), ("", "empty key"), ("schlüssel\n\"", "\u{0}\u{1f600}")];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let entry = SideEntry { origin: "safetensors".to_owned(), metadata };
        assert_eq!(SideEntry::decode(&entry.encode()).unwrap(), entry);
    }

    #[test]
    fn what_is_not_an_entry_is_refused() {
        for text in [
            &b""[..],
            b"[]",
            b"{",
            br#"{"origin": "x", "metadata": {}}"#,
            br#"{"version": 2, "origin": "x", "metadata": {}}"#,
            br#"{"version": 1, "origin": 1, "metadata": {}}"#,
            br#"{"version": 1, "origin": "x", "metadata": {"a": 1}}"#,
            b"\xff",
        ] {
            assert!(SideEntry::decode(text).is_err(), "{}", text.escape_ascii());
        }
        assert!(SideEntry::decode("[".repeat(100_000).as_bytes()).is_err());
    }
}
