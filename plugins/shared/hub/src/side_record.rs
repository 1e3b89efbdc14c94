//! The side record contains the parts of a catalog that a tensor format cannot store. These parts
//! are the metadata, and the name of the format from which the tensors were converted. Plugins
//! store the record in a location that other readers of their format ignore:
//!
//! ```json
//! {"version": 1, "origin": "safetensors", "metadata": {"format": "pt"}}
//! ```

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use tensorferry_sdk::{Error, Result};

const VERSION: u64 = 1;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SideRecord {
    /// ID of the format from which the tensors were converted.
    pub origin: String,
    pub metadata: BTreeMap<String, String>,
}

impl SideRecord {
    /// Encodes the record. Equal records have identical encodings.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let metadata = self.metadata.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
        let record = [
            ("version", Value::from(VERSION)),
            ("origin", Value::from(self.origin.as_str())),
            ("metadata", Value::Object(metadata.collect())),
        ];
        let record: Map<String, Value> =
            record.map(|(key, value)| (key.to_owned(), value)).into_iter().collect();
        Value::Object(record).to_string().into_bytes()
    }

    /// Parses a record. Unknown keys are ignored, because later versions may define them. In
    /// errors, `title` is the name of the record.
    pub fn parse(bytes: &[u8], title: &str) -> Result<Self> {
        let wrong = |what: &str| Error::malformed(format!("{title}: {what}"));
        let record: Value = serde_json::from_slice(bytes).map_err(|e| wrong("not JSON").found(e))?;
        match record.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(version) => {
                let error = Error::unsupported(format!("{title} has an unknown version"));
                return Err(error.expected(VERSION).found(version));
            }
            None => return Err(wrong("no version")),
        }
        let origin = record.get("origin").and_then(Value::as_str).ok_or_else(|| wrong("no origin"))?;
        let metadata =
            record.get("metadata").and_then(Value::as_object).ok_or_else(|| wrong("no metadata"))?;
        let entry = |(key, value): (&String, &Value)| {
            let text = value
                .as_str()
                .ok_or_else(|| wrong("a metadata value is not a string").found(format!("{key:?}")))?;
            Ok((key.clone(), text.to_owned()))
        };
        Ok(Self { origin: origin.to_owned(), metadata: metadata.iter().map(entry).collect::<Result<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_record_comes_back_as_it_was() {
        let metadata = [("format", "pt"), ("", "empty key"), ("schlüssel\n\"", "\u{0}\u{1f600}")];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let record = SideRecord { origin: "safetensors".to_owned(), metadata };
        assert_eq!(SideRecord::parse(&record.to_bytes(), "a note").unwrap(), record);
    }

    #[test]
    fn what_is_not_a_record_is_refused() {
        for bytes in [
            &b""[..],
            b"[]",
            b"{",
            br#"{"origin": "x", "metadata": {}}"#,
            br#"{"version": 2, "origin": "x", "metadata": {}}"#,
            br#"{"version": 1, "origin": 1, "metadata": {}}"#,
            br#"{"version": 1, "origin": "x", "metadata": {"a": 1}}"#,
            b"\xff",
        ] {
            assert!(SideRecord::parse(bytes, "a note").is_err(), "{}", bytes.escape_ascii());
        }
        assert!(SideRecord::parse("[".repeat(100_000).as_bytes(), "a note").is_err());
    }
}
