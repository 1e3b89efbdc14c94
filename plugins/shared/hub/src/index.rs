//! An index lists the tensors of a model that consists of several files, and the file that contains
//! each tensor: `{"metadata": {"total_size": BYTES, ...}, "weight_map": {TENSOR: FILE, ...}}`.

use crate::json::{self, ParseState, Scalar, UniqueMap};
use crate::listing::list;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use tensorferry_sdk::{Context, Error, Limits, Loss, LossKind, LossSink, Result, Source, check_name};

/// Metadata keys whose values depend on the tensors in the files. These values are recomputed when
/// an index is written.
const DERIVED: [&str; 2] = ["total_size", "total_parameters"];

#[derive(Debug)]
pub struct Index {
    /// File name of the index.
    name: String,
    /// The name of the file that contains each tensor.
    weight_map: BTreeMap<String, String>,
    /// Metadata of the model. For a sharded model, huggingface_hub stores it in the index instead
    /// of the shards.
    pub metadata: BTreeMap<String, String>,
    /// Metadata keys with structured values, which other formats cannot represent.
    pub structured: Vec<String>,
}

impl Index {
    /// Reads an index, and checks that the files in it are in the same folder.
    pub fn read(source: &dyn Source, name: &str, limits: &Limits) -> Result<Self> {
        let file = source.open(name)?;
        let bytes = source.read_vec(file, 0, source.len(file), limits)?;
        let scope = ParseState::new(limits);
        let contents = json::parse(&bytes, 0, &scope, Contents(&scope)).map_err(|e| e.file(name))?;
        let mut index = Self {
            name: name.to_owned(),
            weight_map: contents.0,
            metadata: BTreeMap::new(),
            structured: Vec::new(),
        };
        for (key, Scalar(value)) in contents.1 {
            match value {
                _ if DERIVED.contains(&&*key) => {}
                Some(text) => drop(index.metadata.insert(key, text)),
                None => index.structured.push(key),
            }
        }
        for (tensor, file) in &index.weight_map {
            if file.len() as u64 > limits.name_bytes {
                let error = Error::limit("a file's name is too long").file(name).tensor(tensor);
                return Err(error
                    .hint("raise the limit with --limit name_bytes=N")
                    .expected(format!("at most {} bytes", limits.name_bytes))
                    .found(file.len()));
            }
            check_name(file).map_err(|e| e.file(name).tensor(tensor))?;
        }
        Ok(index)
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a sorted list of the files to which the index refers. Returns an error if any of
    /// them is missing.
    pub fn files(&self, source: &dyn Source) -> Result<Vec<&str>> {
        let files: BTreeSet<&str> = self.weight_map.values().map(String::as_str).collect();
        let mut missing = Vec::new();
        for file in &files {
            if !source.contains(file)? {
                missing.push(file);
            }
        }
        match list(missing.into_iter().map(|file| format!("{file:?}"))) {
            Some(missing) => {
                Err(Error::malformed("the index refers to missing files").file(&*self.name).found(missing))
            }
            None => Ok(files.into_iter().collect()),
        }
    }

    /// Returns whether the index refers to this file.
    pub(crate) fn contains_file(&self, file: &str) -> bool {
        self.weight_map.values().any(|named| named == file)
    }

    /// Returns whether the index assigns this tensor to this file.
    #[must_use]
    pub fn reads(&self, tensor: &str, file: &str) -> bool {
        self.weight_map.get(tensor).is_some_and(|named| named == file)
    }

    /// Checks that the files contain the tensors that the index lists. `held` contains the name of
    /// each tensor in each file, and the name of that file. `tied` contains additional tensor names
    /// that the files do not contain. A tensor that is missing from the index is reported as a
    /// loss. A tensor that the index assigns to a different file is reported as a note.
    pub fn check(
        &self,
        held: &HashSet<(&str, &str)>,
        tied: &HashSet<&str>,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<()> {
        let lacking = self.weight_map.iter().filter(|(tensor, file)| {
            !held.contains(&(tensor.as_str(), file.as_str())) && !tied.contains(tensor.as_str())
        });
        if let Some(found) = list(lacking.map(|(tensor, file)| format!("{tensor:?} in {file:?}"))) {
            let error = Error::malformed("the index lists tensors that are missing from their files");
            return Err(error.file(&*self.name).found(found));
        }
        let mut others: Vec<_> = held.iter().filter(|(tensor, file)| !self.reads(tensor, file)).collect();
        others.sort_unstable();
        let (superseded, mut unnamed): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|(tensor, _)| self.weight_map.contains_key(*tensor));
        if let Some(found) = list(superseded.iter().map(|(tensor, file)| format!("{tensor:?} in {file:?}"))) {
            context.note(&format!(
                "{:?} assigns these tensors to the wrong files; they are read from the files that contain them: {found}",
                self.name
            ));
        }
        unnamed.dedup_by_key(|(tensor, _)| *tensor);
        for (tensor, file) in unnamed {
            let why = format!(
                "{:?} does not list it, so it is left out (-i shard=alone reads only {file:?})",
                self.name
            );
            losses.loss(Loss::new(LossKind::Tensor, tensor, why))?;
        }
        Ok(())
    }

    /// Encodes an index as the Hugging Face libraries do: with sorted keys, and indented by two
    /// spaces.
    pub fn encode(total_size: u64, weight_map: &BTreeMap<&str, &str>) -> Result<Vec<u8>> {
        #[derive(Serialize)]
        struct Metadata {
            total_size: u64,
        }
        #[derive(Serialize)]
        struct Whole<'a> {
            metadata: Metadata,
            weight_map: &'a BTreeMap<&'a str, &'a str>,
        }
        let whole = Whole { metadata: Metadata { total_size }, weight_map };
        let mut bytes = serde_json::to_vec_pretty(&whole)
            .map_err(|e| Error::plugin(format!("cannot encode the index: {e}")))?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// Parses the JSON of an index into the weight map and the metadata.
struct Contents<'a>(&'a ParseState<'a>);

impl<'de> DeserializeSeed<'de> for Contents<'_> {
    type Value = (BTreeMap<String, String>, BTreeMap<String, Scalar>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Key {
    Metadata,
    WeightMap,
    #[serde(other)]
    Other,
}

impl<'de> Visitor<'de> for Contents<'_> {
    type Value = (BTreeMap<String, String>, BTreeMap<String, Scalar>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a weight_map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut weight_map, mut metadata) = (None, None);
        while let Some(key) = map.next_key()? {
            let twice = match key {
                Key::WeightMap => weight_map.replace(map.next_value_seed(UniqueMap::new(self.0))?).is_some(),
                Key::Metadata => metadata.replace(map.next_value_seed(UniqueMap::new(self.0))?).is_some(),
                Key::Other => {
                    map.next_value::<Scalar>()?;
                    false
                }
            };
            if twice {
                return Err(A::Error::custom("a key in the index is duplicated"));
            }
        }
        let weight_map = weight_map.ok_or_else(|| A::Error::missing_field("weight_map"))?;
        Ok((weight_map, metadata.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{MemoryContext, MemorySource};

    fn read(json: &str) -> Result<Index> {
        Index::read(&MemorySource::file("i.json", json), "i.json", &Limits::default())
    }

    #[test]
    fn what_is_written_is_read() {
        let map = BTreeMap::from([("b", "2"), ("a", "1")]);
        let bytes = Index::encode(7, &map).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1..3], ["  \"metadata\": {", "    \"total_size\": 7"]);
        assert_eq!(lines[4..6], ["  \"weight_map\": {", "    \"a\": \"1\","]);
        let index = read(&text).unwrap();
        assert_eq!(index.weight_map["b"], "2");
        assert!(index.metadata.is_empty());
    }

    #[test]
    fn metadata_is_text_where_it_can_be() {
        let index =
            read(r#"{"weight_map":{},"metadata":{"a":"x","b":1,"c":[1],"total_size":4},"other":null}"#)
                .unwrap();
        assert_eq!(index.metadata, BTreeMap::from([("a".into(), "x".into()), ("b".into(), "1".into())]));
        assert_eq!(index.structured, ["c"]);
    }

    #[test]
    fn files_stay_in_the_folder() {
        let error = read(r#"{"weight_map":{"t":"../x.safetensors"}}"#).unwrap_err().to_string();
        assert!(
            error.starts_with("i.json: ") && error.contains("tensor \"t\"") && error.contains("../x"),
            "{error}"
        );
        assert!(read(r#"{"weight_map":{"t":"/etc/x"}}"#).is_err());
    }

    #[test]
    fn the_weight_map_decides() {
        let index = read(r#"{"weight_map":{"a":"1","b":"2"}}"#).unwrap();
        let check = |held: &[(&str, &str)], tied: &str| {
            let (held, context) = (held.iter().copied().collect(), MemoryContext::default());
            let mut losses: Vec<Loss> = Vec::new();
            index.check(&held, &HashSet::from([tied]), &mut losses, &context).map_err(|e| e.to_string())?;
            let lost = losses.into_iter().map(|loss| loss.what.to_string()).collect::<Vec<_>>();
            Ok::<_, String>((lost, context.notes().len()))
        };
        let nothing = || Vec::<String>::new();
        assert_eq!(check(&[("a", "1"), ("b", "2")], ""), Ok((nothing(), 0)));
        assert_eq!(check(&[("a", "1")], "b"), Ok((nothing(), 0)));
        assert!(check(&[("a", "1")], "").unwrap_err().contains(r#"found "b" in "2""#));
        assert!(check(&[("a", "2"), ("b", "2")], "").unwrap_err().contains(r#"found "a" in "1""#));
        // If the index assigns a tensor to a different file, a note is reported. If the index does
        // not list a tensor, the tensor is lost.
        assert_eq!(check(&[("a", "1"), ("a", "2"), ("b", "2")], ""), Ok((nothing(), 1)));
        assert_eq!(check(&[("a", "1"), ("b", "2"), ("c", "2")], ""), Ok((vec!["c".to_owned()], 0)));
        assert!(index.reads("a", "1") && !index.reads("a", "2") && !index.reads("c", "2"));
    }

    #[test]
    fn an_index_has_a_weight_map() {
        for bad in ["", "{}", "[]", r#"{"weight_map":{"a":1}}"#, r#"{"weight_map":{"a":"1","a":"1"}}"#] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
