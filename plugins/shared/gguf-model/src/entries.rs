//! Reads and writes the entries of a GGUF file's metadata. llama.cpp's loader requires an exact
//! type for each entry.

use std::collections::BTreeMap;
use tensorferry_sdk::{Dtype, Error, NodeKind, Result, Value};

/// Metadata under construction, by key.
#[derive(Debug, Default)]
pub struct Entries(BTreeMap<String, Value>);

impl Entries {
    pub(crate) fn u32(&mut self, key: &str, number: u64) -> Result<()> {
        let narrow = u32::try_from(number).map_err(|_| {
            Error::malformed(format!("{key} is too large")).expected("at most 32 bits").found(number)
        })?;
        self.insert(key, Value::number(Dtype::U32, &narrow.to_le_bytes())?);
        Ok(())
    }

    #[expect(clippy::cast_possible_truncation, reason = "GGUF stores these numbers as F32")]
    pub(crate) fn f32(&mut self, key: &str, number: f64) -> Result<()> {
        self.insert(key, Value::number(Dtype::F32, &(number as f32).to_le_bytes())?);
        Ok(())
    }

    pub(crate) fn bool(&mut self, key: &str, value: bool) {
        self.insert(key, Value::bool(value));
    }

    pub(crate) fn text(&mut self, key: &str, text: &str) {
        self.insert(key, Value::text(text));
    }

    pub(crate) fn texts<T: AsRef<str>>(&mut self, key: &str, texts: &[T]) -> Result<()> {
        self.insert(key, Value::list(texts.iter().map(|text| Value::text(text.as_ref())))?);
        Ok(())
    }

    pub(crate) fn i32s(&mut self, key: &str, numbers: impl IntoIterator<Item = i32>) -> Result<()> {
        let bytes: Vec<u8> = numbers.into_iter().flat_map(i32::to_le_bytes).collect();
        self.insert(key, Value::numbers(Dtype::I32, bytes)?);
        Ok(())
    }

    pub(crate) fn f32s(&mut self, key: &str, numbers: impl IntoIterator<Item = f32>) -> Result<()> {
        let bytes: Vec<u8> = numbers.into_iter().flat_map(f32::to_le_bytes).collect();
        self.insert(key, Value::numbers(Dtype::F32, bytes)?);
        Ok(())
    }

    fn insert(&mut self, key: &str, value: Value) {
        self.0.insert(key.to_owned(), value);
    }
}

impl IntoIterator for Entries {
    type Item = (String, Value);
    type IntoIter = std::collections::btree_map::IntoIter<String, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The metadata of a GGUF file that is being read.
pub(crate) struct MetadataView<'a>(pub(crate) &'a BTreeMap<String, Value>);

impl MetadataView<'_> {
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_text()
    }

    pub(crate) fn bool(&self, key: &str) -> Option<bool> {
        let node = self.0.get(key)?.root();
        (node.kind == NodeKind::BOOL).then(|| node.bytes.first() == Some(&1))
    }

    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.0.get(key)?.root().as_int().and_then(|number| u64::try_from(number).ok())
    }

    /// Returns the float with this key. A 32-bit float is converted to the 64-bit float that has
    /// the same shortest decimal form.
    #[expect(clippy::cast_possible_truncation, reason = "it came from an F32")]
    pub(crate) fn float(&self, key: &str) -> Option<f64> {
        let node = self.0.get(key)?.root();
        let number = node.as_float()?;
        if &*node.class == "F32" { (number as f32).to_string().parse().ok() } else { Some(number) }
    }

    /// Returns the whole number with this key. Fails if the key is missing.
    pub(crate) fn required(&self, key: &str) -> Result<u64> {
        self.number(key).ok_or_else(|| self.missing_key_error(key, "a whole number"))
    }

    pub(crate) fn missing_key_error(&self, key: &str, expected: &str) -> Error {
        let found =
            self.0.get(key).map_or("nothing".to_owned(), |value| value.json().chars().take(80).collect());
        Error::malformed(format!("the metadata has no {key}")).expected(expected).found(found)
    }

    pub(crate) fn texts(&self, key: &str) -> Option<Vec<&str>> {
        let value = self.0.get(key)?;
        let text = |id: &tensorferry_sdk::NodeId| {
            let node = value.nodes().get(id.0 as usize)?;
            (node.kind == NodeKind::TEXT).then(|| std::str::from_utf8(&node.bytes).ok())?
        };
        (value.root().kind == NodeKind::LIST)
            .then(|| value.root().children.iter().map(text).collect::<Option<Vec<_>>>())?
    }

    pub(crate) fn i32s(&self, key: &str) -> Option<Vec<i32>> {
        let words = self.words(key, &["I32", "U32"])?;
        Some(words.iter().map(|&word| i32::from_le_bytes(word)).collect())
    }

    pub(crate) fn f32s(&self, key: &str) -> Option<Vec<f32>> {
        Some(self.words(key, &["F32"])?.iter().map(|&word| f32::from_le_bytes(word)).collect())
    }

    fn words(&self, key: &str, classes: &[&str]) -> Option<&[[u8; 4]]> {
        let node = self.0.get(key)?.root();
        let is_one = node.kind == NodeKind::NUMBERS && classes.contains(&&*node.class);
        is_one.then_some(node.bytes.as_chunks().0)
    }
}
