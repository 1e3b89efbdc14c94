//! What a model folder's `config.json` says of the weights' dtype (`dtype`, formerly `torch_dtype`), which
//! a cast makes untrue. The rest of the file stays as it is, byte for byte.

use crate::read::entries::Entries;
use crate::tensors::cast::{dtype_called, is_float, torch_name};
use serde::de::Error as _;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use tensorferry_sdk::{Catalog, Dtype, Place, Tensor};

/// The file's name.
pub const NAME: &str = "config.json";

/// Longer ones are left as they are.
pub const MOST_BYTES: u64 = 16 << 20;

/// Sub-configurations of models that are made of several, one inside another.
const MOST_NESTED: usize = 8;

/// What becomes of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// It says nothing, or what is true.
    None,
    /// It says this now: its text, and the change in words.
    Text(String, String),
    /// It says what is no longer true, and there is no one dtype that would be.
    Untrue(String),
}

/// The edit that casts make necessary.
#[must_use]
pub fn edit(text: &str, catalog: &Catalog) -> Edit {
    if !catalog.tensors().iter().any(|tensor| is_float(tensor.dtype) && is_cast(catalog, tensor)) {
        return Edit::None;
    }
    let mut said = Vec::new();
    // What is not JSON is no configuration.
    if collect(text, text, 0, &mut said).is_err() {
        return Edit::None;
    }
    let floats: BTreeSet<Dtype> =
        catalog.tensors().iter().map(|tensor| tensor.dtype).filter(|dtype| is_float(*dtype)).collect();
    let one = floats.first().filter(|_| floats.len() == 1).and_then(|dtype| torch_name(*dtype));
    let Some(now) = one else {
        let says = said.first().map(|first| format!("{} is {:?}", first.key, first.dtype));
        return says.map_or(Edit::None, Edit::Untrue);
    };
    said.retain(|said| said.dtype != now);
    let Some(first) = said.first() else { return Edit::None };
    let change = format!("{} is {now:?} now, and was {:?}", first.key, first.dtype);
    let mut edited = text.to_owned();
    said.sort_by_key(|said| std::cmp::Reverse(said.at));
    for said in said {
        edited.replace_range(said.at..said.at + said.dtype.len(), now);
    }
    Edit::Text(edited, change)
}

fn is_cast(catalog: &Catalog, tensor: &Tensor) -> bool {
    let casts = |id| matches!(catalog.storage(id).map(|storage| &storage.place), Some(Place::Cast(_)));
    tensor.storages().any(casts)
}

/// A dtype that the file names.
pub(super) struct DtypeEntry<'a> {
    key: String,
    pub(super) dtype: &'a str,
    /// Where the name begins in the file.
    pub(super) at: usize,
}

/// Collects what an object says, and those in it that are configurations of parts of the model.
pub(super) fn collect<'a>(
    file: &'a str,
    object: &'a str,
    depth: usize,
    said: &mut Vec<DtypeEntry<'a>>,
) -> serde_json::Result<()> {
    let Entries(entries): Entries<&RawValue> = serde_json::from_str(object)?;
    for (key, value) in &entries {
        let value = value.get();
        if matches!(&**key, "dtype" | "torch_dtype") {
            if entries.iter().filter(|(other, _)| other == key).count() > 1 {
                return Err(serde_json::Error::custom("which of two entries counts is anybody's guess"));
            }
            // A name without escapes, as all of them are: what is between its quotes is the name.
            let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            let name = quoted.map(|name| name.strip_prefix("torch.").unwrap_or(name));
            let is_name = |name: &&str| {
                dtype_called(name).is_some_and(|dtype| is_float(dtype) && torch_name(dtype) == Some(*name))
            };
            if let Some(dtype) = name.filter(is_name) {
                said.push(DtypeEntry {
                    key: key.clone(),
                    dtype,
                    at: dtype.as_ptr() as usize - file.as_ptr() as usize,
                });
            }
        } else if key.ends_with("_config")
            && key != "quantization_config"
            && value.starts_with('{')
            && depth < MOST_NESTED
        {
            collect(file, value, depth + 1, said)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use tensorferry_sdk::{CatalogBuilder, CatalogSink, FileId, Limits, MemorySource, Storage, TensorId};

    /// Two F32 and a counter; the first of them cast.
    fn catalog(casts: &[(u32, Dtype)]) -> Catalog {
        let source = MemorySource::file("x", vec![0; 96]);
        let limits = Limits::default();
        let mut b = CatalogBuilder::new("test", &source, &limits);
        let s = b.storage(Storage::file(FileId(0), 0, 96)).unwrap();
        b.tensor("a", Dtype::F32, &[4], s, 0).unwrap();
        b.tensor("b", Dtype::F32, &[4], s, 16).unwrap();
        b.tensor("steps", Dtype::I64, &[], s, 32).unwrap();
        let casts: Vec<_> = casts.iter().map(|&(id, dtype)| (TensorId(id), dtype)).collect();
        b.finish().unwrap().cast(&casts).unwrap()
    }

    const TEXT: &str = "{\r\n  \"torch_dtype\" :\t\"float32\", \"x\": 1.0e5, \"dtype\": \"torch.float32\",
  \"text_config\": {\"dtype\":\"float32\", \"quantization_config\": {\"dtype\": \"float32\"}}, \"y\": \"\\u00e9\"}\n";

    #[test]
    fn only_the_dtype_changes() {
        let Edit::Text(edited, change) = edit(TEXT, &catalog(&[(0, Dtype::BF16), (1, Dtype::BF16)])) else {
            panic!("no edit")
        };
        let expected = TEXT.replacen("float32", "bfloat16", 3);
        assert_eq!(edited, expected);
        assert_eq!(change, "torch_dtype is \"bfloat16\" now, and was \"float32\"");
    }

    #[test]
    fn it_changes_where_it_has_to() {
        let both = catalog(&[(0, Dtype::F16), (1, Dtype::F16)]);
        assert_eq!(edit(TEXT, &catalog(&[])), Edit::None);
        assert!(matches!(edit(TEXT, &catalog(&[(0, Dtype::F16)])), Edit::Untrue(_)));
        for same in [
            "{\"dtype\": \"float16\"}",
            "{\"dtype\": null, \"torch_dtype\": \"auto\"}",
            "{}",
            "[\"dtype\"]",
            "not JSON",
            "{\"dtype\": \"float32\", \"dtype\": \"float32\"}",
            "{\"dtype\": \"float32\"",
        ] {
            assert_eq!(edit(same, &both), Edit::None, "{same}");
        }
        // A counter is no weight: its cast changes nothing.
        let counter = edit("{\"dtype\":\"float32\"}", &catalog(&[(2, Dtype::I32)]));
        assert_eq!(counter, Edit::None);
    }
}
