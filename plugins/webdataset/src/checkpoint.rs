//! Detects tars that contain a checkpoint, a model folder or tables instead of samples. Only the
//! names of the members are examined.
//!
//! A sample may contain tensors (`0001.pth`), so an extension is not sufficient evidence. A tar
//! contains a checkpoint if one of its files has a name that is typical of model files. A tar also
//! contains a checkpoint if exactly one file contains weights, and the sample of that file has no
//! other members. A sample may also contain a table (`0001.csv`). A tar contains tables if the
//! names of its tables are not numbers and all other files are documents.

use tensorferry_sdk::file_name::uncompressed;

/// Patterns for the names of model files, in lower case. `#` matches a number, and `*` matches any
/// text.
const MODEL_FILES: [&str; 38] = [
    "pytorch_model*.bin",
    "pytorch_model*.pt",
    "*.bin.index.json",
    "*.safetensors.index.json",
    "model.safetensors",
    "model-#-of-#.safetensors",
    "*_model.safetensors",
    "adapter_model.bin",
    "model_weights*.ckpt",
    "model_config.yaml",
    "model.pt",
    "model.pth",
    "model.pt2",
    "model.bin",
    "model.ckpt",
    "model.h5",
    "model.keras",
    "model.onnx",
    "model.tflite",
    "model.weights.h5",
    "mp_rank_#*.pt",
    "consolidated*.pth",
    "consolidated*.safetensors",
    "flax_model*.msgpack",
    "tf_model*.h5",
    "saved_model.pb",
    "saved_model.pbtxt",
    "*.data-#-of-#",
    "*.ckpt.meta",
    "*.distcp",
    "*.gguf",
    "*.nemo",
    "*.keras",
    "manifest.ocdbt",
    "rust_model.ot",
    "optimizer.pt",
    "optimizer.bin",
    "training_args.bin",
];

/// Extensions of weights files. Samples may also have members with these extensions.
const WEIGHTS: [&str; 9] = ["pt", "pth", "pth.tar", "ckpt", "safetensors", "h5", "hdf5", "msgpack", "onnx"];

/// Extensions of tables. Samples may also have members with these extensions.
const TABLES: [&str; 9] = ["csv", "tsv", "jsonl", "ndjson", "parquet", "arrow", "feather", "avro", "orc"];

/// Hints about the content of a tar, collected from the names of its members.
#[derive(Debug, Default)]
pub(crate) struct ContentHints {
    /// The first file whose name is typical of a model file.
    model_file: Option<String>,
    /// The first weights file, and the number of weights files.
    weights: Option<(String, u64)>,
    /// The key of the first weights file, and the number of files with the same key.
    sample: (String, u64),
    table: Option<String>,
    /// Whether the tar contains a file that is probably part of a sample. Such a file is neither a
    /// document nor a table whose name is not a number.
    has_samples: bool,
}

impl ContentHints {
    /// Adds a file by its path. `sample` contains the key and the extension of the file, if it has
    /// both.
    pub(crate) fn add(&mut self, path: &str, sample: Option<(&str, &str)>) {
        let base = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
        if self.model_file.is_none() && MODEL_FILES.iter().any(|pattern| matches(pattern, &base)) {
            self.model_file = Some(path.to_owned());
        }
        let Some((key, ending)) = sample else { return };
        self.add_table(path, &base, key, ending);
        // The extension may follow a name with other dots, as in `epoch=3-val.loss=0.2.ckpt`.
        let is_weights = WEIGHTS.iter().any(|weights| has_ending(ending, weights));
        if is_weights {
            let (_, count) = self.weights.get_or_insert_with(|| (path.to_owned(), 0));
            *count += 1;
            if *count == 1 {
                key.clone_into(&mut self.sample.0);
            }
        }
        if self.sample.0 == key {
            self.sample.1 += 1;
        }
    }

    fn add_table(&mut self, path: &str, base: &str, key: &str, ending: &str) {
        let key = key.rsplit('/').next().unwrap_or(key);
        let is_number = key.bytes().all(|byte| byte.is_ascii_digit());
        let ending = uncompressed(ending);
        let is_table = TABLES.iter().any(|table| has_ending(ending, table));
        if is_table && !is_number {
            self.table.get_or_insert_with(|| path.to_owned());
        } else {
            self.has_samples |= !is_document(base);
        }
    }

    /// Returns the first table if the tar contains tables instead of samples, or `None` otherwise.
    pub(crate) fn table(&self) -> Option<&str> {
        self.table.as_deref().filter(|_| !self.has_samples)
    }

    /// Returns a file of the checkpoint if the tar contains a checkpoint instead of samples, or
    /// `None` otherwise.
    pub(crate) fn checkpoint(&self) -> Option<&str> {
        let alone = || match &self.weights {
            Some((path, 1)) if self.sample.1 == 1 => Some(&**path),
            _ => None,
        };
        self.model_file.as_deref().or_else(alone)
    }
}

/// Returns whether `ending` is equal to `last`, or ends with a dot followed by `last`.
fn has_ending(ending: &str, last: &str) -> bool {
    ending.strip_suffix(last).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Returns whether a file documents a dataset, such as a readme.
fn is_document(base: &str) -> bool {
    base.starts_with("readme")
        || base.starts_with("license")
        || base.starts_with("dataset_info")
        || base.ends_with(".md")
}

fn matches(pattern: &str, name: &str) -> bool {
    let Some(at) = pattern.find(['*', '#']) else { return pattern == name };
    let Some(name) = name.strip_prefix(&pattern[..at]) else { return false };
    let rest = &pattern[at + 1..];
    if pattern[at..].starts_with('#') {
        let digits = name.bytes().take_while(u8::is_ascii_digit).count();
        return digits > 0 && matches(rest, &name[digits..]);
    }
    (0..=name.len()).any(|end| name.is_char_boundary(end) && matches(rest, &name[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tar::split;

    fn evidence(paths: &[&str]) -> ContentHints {
        let mut evidence = ContentHints::default();
        for path in paths {
            let sample = split(path);
            evidence.add(path, sample.as_ref().map(|(key, ending)| (*key, &**ending)));
        }
        evidence
    }

    fn checkpoint(paths: &[&str]) -> Option<String> {
        evidence(paths).checkpoint().map(str::to_owned)
    }

    #[test]
    fn tables_are_not_samples() {
        for (paths, is_of_tables) in [
            (&["data/train-00000-of-00001.parquet"][..], true),
            (&["./train.jsonl.gz", "./test.JSONL.zst"], true),
            (&["README.md", "dataset_infos.json", "part-00000.snappy.parquet", "b.csv"], true),
            (&["README.md"], false),
            (&["0001.csv", "0002.csv"], false),
            (&["a.csv", "a.cls"], false),
            (&["a.csv", "b.jpg"], false),
            (&["a.json"], false),
        ] {
            assert_eq!(evidence(paths).table().is_some(), is_of_tables, "{paths:?}");
        }
    }

    #[test]
    fn checkpoints_are_not_samples() {
        for paths in [
            &["./model_config.yaml", "./model_weights.ckpt"][..],
            &["model_config.yaml", "model_weights/.metadata", "model_weights/__0_0.distcp"],
            &["model.pth", "code/inference.py"],
            &["model/pytorch_model.bin", "model/config.json"],
            &["config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
            &["1/saved_model.pb", "1/variables/variables.index"],
            &["ckpt/model.ckpt-100.data-00000-of-00001", "ckpt/model.ckpt-100.index"],
            &["hparams.yaml", "epoch=3-loss=0.25.ckpt"],
            &["best.pt", "tokenizer.json"],
            &["Model.PTH"],
        ] {
            assert!(checkpoint(paths).is_some(), "{paths:?}");
        }
    }

    #[test]
    fn samples_are_not_checkpoints() {
        for paths in [
            &["a.jpg", "a.cls", "b.jpg", "b.cls"][..],
            &["a.pth", "a.cls"],
            &["a.pth", "b.pth"],
            &["a.latent.safetensors", "a.txt", "b.latent.safetensors", "b.txt"],
            &["a.bin", "a.json"],
            &["model1.jpg", "model2.jpg"],
            &["a.npy"],
        ] {
            assert_eq!(checkpoint(paths), None, "{paths:?}");
        }
    }
}
