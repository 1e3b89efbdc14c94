//! Updates the dtype of the weights in a model folder's `config.json` (`dtype`, formerly
//! `torch_dtype`) after a cast.

use super::config_document::{ConfigDocument, Entry, Field};
use std::collections::BTreeSet;
use tensorferry_sdk::{Catalog, Dtype, StorageLocation, Tensor};
use tensorferry_tensors::cast::{dtype_called, is_float, torch_name};

pub const NAME: &str = "config.json";

/// Maximum size of a configuration that can be edited.
pub const MAX_BYTES: u64 = 16 << 20;

/// The edit that a cast makes necessary in a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// No edit is needed: the configuration names no dtype, or the dtype is correct.
    None,
    /// The configuration must be edited. The first string is its new text, and the second describes
    /// the change.
    Text(String, String),
    /// The dtype is no longer correct, and no single dtype would be correct. The string describes
    /// the entry.
    Untrue(String),
}

/// Returns the edit of the configuration that the catalog's casts make necessary.
#[must_use]
pub fn edit(text: &str, catalog: &Catalog) -> Edit {
    if !catalog.tensors().iter().any(|tensor| is_float(tensor.dtype) && is_cast(catalog, tensor)) {
        return Edit::None;
    }
    // An invalid document is left unchanged.
    let Some(mut document) = ConfigDocument::parse(text) else { return Edit::None };
    let floats: BTreeSet<Dtype> =
        catalog.tensors().iter().map(|tensor| tensor.dtype).filter(|dtype| is_float(*dtype)).collect();
    let now = floats.first().filter(|_| floats.len() == 1).and_then(|dtype| torch_name(*dtype));
    let (mut first, mut is_doubled) = (None, false);
    document.each(|entries| {
        for entry in &mut *entries {
            let was = match now {
                Some(now) => rename_dtype(entry, now),
                None => dtype_name(entry).map(str::to_owned),
            };
            first = first.take().or_else(|| was.map(|was| (entry.key.clone(), was)));
        }
        is_doubled |= has_doubled_dtype(entries);
    });
    match (first.filter(|_| !is_doubled), now) {
        (None, _) => Edit::None,
        (Some((key, dtype)), None) => Edit::Untrue(format!("{key} is {dtype:?}")),
        (Some((key, dtype)), Some(now)) => {
            Edit::Text(document.text(), format!("{key} changed from {dtype:?} to {now:?}"))
        }
    }
}

fn is_cast(catalog: &Catalog, tensor: &Tensor) -> bool {
    let casts =
        |id| matches!(catalog.storage(id).map(|storage| &storage.location), Some(StorageLocation::Cast(_)));
    tensor.storages().any(casts)
}

/// Keys whose value is the dtype of the weights.
const KEYS: [&str; 2] = ["dtype", "torch_dtype"];

/// Returns whether one of the keys occurs twice, so that it is unclear which entry applies.
fn has_doubled_dtype(entries: &[Entry<'_>]) -> bool {
    KEYS.iter().any(|key| entries.iter().filter(|entry| entry.key == *key).count() > 1)
}

/// Returns the name of a float dtype in an entry, without the prefix `torch.`.
pub(super) fn dtype_name<'e>(entry: &'e Entry<'_>) -> Option<&'e str> {
    let text = entry.plain_text().filter(|_| KEYS.contains(&&*entry.key))?;
    let name = text.strip_prefix("torch.").unwrap_or(text);
    let dtype = dtype_called(name).filter(|dtype| is_float(*dtype))?;
    (torch_name(dtype) == Some(name)).then_some(name)
}

/// Replaces the float dtype in an entry. Returns the previous dtype if it was different.
pub(super) fn rename_dtype(entry: &mut Entry<'_>, now: &str) -> Option<String> {
    let was = dtype_name(entry).filter(|name| *name != now)?.to_owned();
    if let Field::Text(text) = &mut entry.value {
        *text = text.replacen(&was, now, 1).into();
    }
    Some(was)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use tensorferry_sdk::{CatalogBuilder, CatalogSink, FileId, Limits, MemorySource, Storage, TensorId};

    /// Returns a catalog of two F32 tensors and a counter, with these casts.
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

    const TEXT: &str = "{\r\n  \"torch_dtype\": \"float32\",\r\n  \"x\": 1.0e5,\r\n  \"dtype\": \"torch.float32\",\r\n  \
        \"text_config\": {\r\n    \"dtype\": \"float32\",\r\n    \"quantization_config\": {\"dtype\": \"float32\"}\r\n  },\r\n  \
        \"y\": \"\\u00e9\"\r\n}\n";

    #[test]
    fn only_the_dtype_changes() {
        let Edit::Text(edited, change) = edit(TEXT, &catalog(&[(0, Dtype::BF16), (1, Dtype::BF16)])) else {
            panic!("no edit")
        };
        let expected = TEXT.replacen("float32", "bfloat16", 3);
        assert_eq!(edited, expected);
        assert_eq!(change, "torch_dtype changed from \"float32\" to \"bfloat16\"");
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
        // A counter is not a weight, so its cast does not change the configuration.
        let counter = edit("{\"dtype\":\"float32\"}", &catalog(&[(2, Dtype::I32)]));
        assert_eq!(counter, Edit::None);
    }
}
