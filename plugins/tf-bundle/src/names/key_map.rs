//! A key map maps the names of converted tensors back to their keys. The metadata of the output
//! contains the key map and everything else that is needed to restore a TensorFlow 2 checkpoint:
//!
//! ```text
//! ferry.tf.object_graph   base64 of the original bytes of the TrackableObjectGraph
//! ferry.tf.keys           JSON {NAME: [KEY, ...]} for tensors whose name is not their only key
//! ferry.tf.strings        JSON {KEY: base64}: strings that describe objects, such as configurations
//! ```
//!
//! [`key_text`] escapes keys that are not UTF-8. Other tools may change the metadata between the
//! two conversions, so ferry ignores and reports values that it cannot read.

use super::key_text::{key_bytes, key_text};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::collections::BTreeMap;
use tensorferry_sdk::{Loss, LossKind};

pub(crate) const OBJECT_GRAPH: &str = "ferry.tf.object_graph";
pub(crate) const KEYS: &str = "ferry.tf.keys";
/// The metadata key of strings that describe objects.
pub(crate) const STRINGS: &str = "ferry.tf.strings";

/// Base64 padding is optional because some tools remove it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeyMap {
    /// The bytes of the object graph.
    pub(crate) object_graph: Option<Vec<u8>>,
    /// Strings that describe objects, by key.
    pub(crate) strings: BTreeMap<Vec<u8>, Vec<u8>>,
    keys: BTreeMap<String, Vec<Vec<u8>>>,
}

impl KeyMap {
    /// Adds a tensor with its keys. Does nothing if the name of the tensor is its only key.
    pub(crate) fn add<'a>(&mut self, name: &str, keys: impl IntoIterator<Item = &'a [u8]>) {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(<[u8]>::to_vec).collect();
        if !matches!(&*keys, [key] if key == name.as_bytes()) {
            self.keys.insert(name.to_owned(), keys);
        }
    }

    /// Returns the keys of the tensor with this name.
    pub(crate) fn keys_of(&self, name: &str) -> Option<&[Vec<u8>]> {
        self.keys.get(name).map(Vec::as_slice)
    }

    /// Returns the metadata entries. Equal maps produce equal entries.
    pub(crate) fn to_metadata(&self) -> Vec<(String, String)> {
        let mut entries = Vec::new();
        if let Some(graph) = &self.object_graph {
            entries.push((OBJECT_GRAPH.to_owned(), BASE64.encode(graph)));
        }
        if !self.keys.is_empty() {
            let keys = self.keys.iter().map(|(name, keys)| {
                let keys: Vec<_> = keys.iter().map(|key| key_text(key)).collect();
                (name.clone(), serde_json::Value::from(keys))
            });
            entries.push((KEYS.to_owned(), serde_json::Value::Object(keys.collect()).to_string()));
        }
        if !self.strings.is_empty() {
            let strings = self.strings.iter().map(|(key, text)| {
                (key_text(key).into_owned(), serde_json::Value::from(BASE64.encode(text)))
            });
            entries.push((STRINGS.to_owned(), serde_json::Value::Object(strings.collect()).to_string()));
        }
        entries
    }

    /// Reads a map from metadata, and returns a loss for each value that cannot be read. Memory use
    /// is proportional to the size of the metadata, which the catalog limits.
    pub(crate) fn from_metadata(metadata: &BTreeMap<String, String>) -> (Self, Vec<Loss>) {
        let mut losses = Vec::new();
        let mut lose = |key: &str, why: String| {
            losses.push(Loss::new(LossKind::Metadata, key, format!("{why}; the value is ignored")));
        };
        let mut map = Self::default();
        if let Some(text) = metadata.get(OBJECT_GRAPH) {
            match decode(text) {
                Ok(graph) => map.object_graph = Some(graph),
                Err(why) => lose(OBJECT_GRAPH, why),
            }
        }
        if let Some(text) = metadata.get(KEYS) {
            match serde_json::from_str::<BTreeMap<String, Vec<String>>>(text) {
                Ok(keys) => {
                    let bytes = |key: &String| key_bytes(key).into_owned();
                    let entry = |(name, keys): (_, Vec<_>)| (name, keys.iter().map(bytes).collect());
                    map.keys = keys.into_iter().map(entry).collect();
                }
                Err(error) => lose(KEYS, format!("invalid JSON object of key lists: {error}")),
            }
        }
        let strings =
            metadata.get(STRINGS).map(|text| serde_json::from_str::<BTreeMap<String, String>>(text));
        let strings = strings.transpose().unwrap_or_else(|error| {
            lose(STRINGS, format!("invalid JSON object of strings: {error}"));
            None
        });
        for (key, text) in strings.into_iter().flatten() {
            match decode(&text) {
                Ok(text) => drop(map.strings.insert(key_bytes(&key).into_owned(), text)),
                Err(why) => lose(STRINGS, format!("{key:?}: {why}")),
            }
        }
        (map, losses)
    }
}

fn decode(text: &str) -> Result<Vec<u8>, String> {
    let decode = |text: &str| BASE64.decode(text).map_err(|error| format!("not base64: {error}"));
    // Tools that rewrite long values may have split them into lines.
    if text.contains(|c: char| c.is_ascii_whitespace()) {
        return decode(&text.split_ascii_whitespace().collect::<String>());
    }
    decode(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> KeyMap {
        let mut map = KeyMap { object_graph: Some(vec![0, 255, 7]), ..KeyMap::default() };
        map.add("dense/kernel", [&b"variables/0"[..], b"_all_variables/0"]);
        map.add("w", [&b"w"[..]]);
        map.add("\\xff", [&b"\xff"[..]]);
        map.strings.insert(b"layer/.ATTRIBUTES/OBJECT_CONFIG_JSON".to_vec(), b"{\"a\": \xff}".to_vec());
        map
    }

    fn metadata(map: &KeyMap) -> BTreeMap<String, String> {
        map.to_metadata().into_iter().collect()
    }

    #[test]
    fn a_map_comes_back_as_it_was() {
        let (back, losses) = KeyMap::from_metadata(&metadata(&map()));
        assert_eq!((back, losses), (map(), Vec::new()));
        assert_eq!(map().keys_of("w"), None);
        assert_eq!(map().keys_of("\\xff"), Some(&[vec![0xff]][..]));
        assert!(KeyMap::default().to_metadata().is_empty());
    }

    #[test]
    fn what_other_tools_did_is_passed_over_and_said() {
        let mut altered = metadata(&map());
        altered.insert(OBJECT_GRAPH.to_owned(), "AP\n8H".to_owned());
        altered.insert("format".to_owned(), "pt".to_owned());
        assert_eq!(KeyMap::from_metadata(&altered), (map(), Vec::new()));

        altered.insert(OBJECT_GRAPH.to_owned(), "???".to_owned());
        altered.insert(KEYS.to_owned(), "{\"a\": [1]}".to_owned());
        altered.insert(STRINGS.to_owned(), "{\"a\": \"?\", \"b\": \"QUI\"}".to_owned());
        let (back, losses) = KeyMap::from_metadata(&altered);
        assert_eq!(losses.iter().map(|loss| &*loss.what).collect::<Vec<_>>(), [OBJECT_GRAPH, KEYS, STRINGS]);
        let kept = KeyMap { strings: [(b"b".to_vec(), b"AB".to_vec())].into(), ..KeyMap::default() };
        assert_eq!(back, kept);
        altered.insert(KEYS.to_owned(), "[".repeat(1 << 20));
        assert_eq!(KeyMap::from_metadata(&altered).1.len(), 3);
    }
}
