//! Finds files that are a different form of the model that was read. Such files contain the same
//! weights for a different framework, or in a different precision or layout. ferry compares only
//! file names, because frameworks name the same tensors differently.

use crate::formats::data_names::DataNames;
use tensorferry_sdk::ShardName;
use tensorferry_sdk::file_name::{base_of_variant, has_any_suffix, has_suffix};

/// File stems that different libraries use for the same model.
const SAME_MODEL: [&[&str]; 3] = [
    &[
        "model",
        "pytorch_model",
        "tf_model",
        "flax_model",
        "rust_model",
        "model.ckpt",
        "bert_model.ckpt",
        "open_clip_model",
        "open_clip_pytorch_model",
        "open_clip_flax_model",
    ],
    &["diffusion_pytorch_model", "diffusion_flax_model"],
    &["adapter_model", "adapter_flax_model"],
];
/// The file stem of a model in its vendor's own layout, if the folder also contains the model in
/// the transformers layout: `consolidated.safetensors`, `consolidated.00.pth`.
const CONSOLIDATED: &str = "consolidated";
/// The sub-folder of a model in which vendors publish the files in their own layout.
const VENDOR_FOLDER: &str = "original";
/// Suffixes of a model's exports. The next constant lists the names of other exports.
const EXPORTS: [&str; 7] = [".onnx", ".onnx_data", ".onnx.data", ".ort", ".tflite", ".mlmodel", ".ot"];
const EXPORTED: [&str; 3] = ["openvino_model.bin", "openvino_model.xml", "frozen_inference_graph.pb"];
const EXPORT_FOLDERS: [&str; 2] = ["openvino", "coreml"];
const EXPORT_PACKAGES: [&str; 2] = [".mlpackage", ".mlmodelc"];

/// The files in a folder that contain its model.
#[derive(Debug, Default)]
pub struct ReadFiles {
    stems: Vec<FileStem>,
}

/// The parts of a model's file name.
#[derive(Debug, PartialEq, Eq)]
struct FileStem {
    /// The file name without the variant and the shard number.
    stem: String,
    variant: Option<String>,
    format: String,
    is_shard: bool,
    is_index: bool,
}

impl FileStem {
    fn of(file: &str, names: &DataNames) -> Option<Self> {
        let format = names.format_of(file)?.to_owned();
        // In the name of an index, the variant follows the suffix:
        // `model.safetensors.index.fp16.json`.
        let index = file.find(".index.").filter(|_| has_suffix(file, ".json"));
        let (whole, behind) = index.map_or((file, ""), |at| (&file[..at], &file[at + ".index.".len()..]));
        let bare = names.stem(whole).unwrap_or(whole);
        let shard = ShardName::parse(bare).filter(|shard| shard.ending.is_empty());
        let stem = shard.map_or(bare, |shard| shard.stem).to_ascii_lowercase();
        let stem = stem.strip_suffix(".data").map(str::to_owned).unwrap_or(stem);
        let own = base_of_variant(&stem).map(|base| (base.to_owned(), stem[base.len() + 1..].to_owned()));
        let (stem, own) = own.map_or((stem.clone(), None), |(base, variant)| (base, Some(variant)));
        let variant = own.or_else(|| behind.strip_suffix(".json").map(str::to_owned));
        Some(Self { stem, variant, format, is_shard: shard.is_some(), is_index: index.is_some() })
    }

    /// Returns whether vendors use this name for files in their own layout.
    fn is_of_vendor(&self) -> bool {
        self.stem.split(['.', '-']).next() == Some(CONSOLIDATED)
    }

    /// Returns whether both file names belong to the same model.
    fn is_same(&self, other: &Self) -> bool {
        let is_in = |row: &&&[&str]| row.contains(&&*self.stem) && row.contains(&&*other.stem);
        self.stem == other.stem || SAME_MODEL.iter().any(|row| is_in(&row))
    }
}

impl ReadFiles {
    pub fn of<'n>(opened: impl IntoIterator<Item = &'n str>, names: &DataNames) -> Self {
        Self { stems: opened.into_iter().filter_map(|file| FileStem::of(file, names)).collect() }
    }

    /// Returns whether a file that was not read is a different form of the model whose files were
    /// read.
    pub fn supersede(&self, file: &str, names: &DataNames) -> bool {
        if self.stems.is_empty() {
            return false;
        }
        if is_export(file) {
            return true;
        }
        let Some(other) = FileStem::of(file, names) else { return false };
        let is_model =
            |read: &&FileStem| read.is_index || SAME_MODEL.iter().any(|row| row.contains(&&*read.stem));
        if other.is_of_vendor() {
            return self.stems.iter().any(|read| is_model(&read));
        }
        let mut same = self.stems.iter().filter(|read| read.is_same(&other)).peekable();
        // A shard that belongs to the set but is missing from the set's index contains different
        // tensors.
        let is_of_set = |read: &FileStem| {
            other.is_shard
                && read.is_shard
                && read.format == other.format
                && read.variant == other.variant
                && read.stem == other.stem
        };
        same.peek().is_some() && !same.any(is_of_set)
    }

    /// Returns whether a file in the vendor's folder is a different form of the model whose files
    /// were read.
    pub fn supersede_vendor(&self, file: &str, names: &DataNames) -> bool {
        FileStem::of(file, names).is_some_and(|stem| stem.is_of_vendor()) && self.supersede(file, names)
    }
}

/// Returns whether a folder next to a model is one in which vendors publish the model in their own
/// layout.
pub fn is_vendor_folder(folder: &str) -> bool {
    folder.rsplit('/').next() == Some(VENDOR_FOLDER)
}

/// Returns whether a file is an export of a model, judging by its name.
pub fn is_export(file: &str) -> bool {
    EXPORTED.contains(&file) || has_any_suffix(file, EXPORTS)
}

/// Returns whether a folder contains an export of the model in its parent folder, judging by its
/// name.
pub fn is_export_folder(folder: &str) -> bool {
    let name = folder.rsplit('/').next().unwrap_or(folder);
    EXPORT_FOLDERS.contains(&name) || has_any_suffix(name, EXPORT_PACKAGES)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::formats::registry::Formats;
    use tensorferry_sdk::{Capabilities, Description, Format};

    /// A model format for tests, with the suffixes of the real format.
    struct Of(&'static str, &'static [&'static str]);

    impl Format for Of {
        fn describe(&self) -> Description {
            let members = format!("*{}.index.json", self.1[0]);
            Description::new(self.0, "")
                .suffixes(self.1.iter().copied())
                .members([members])
                .capabilities(Capabilities::READ)
        }
    }

    #[test]
    fn names_decide_what_is_the_same_model() {
        let registry = [
            Of("safetensors", &[".safetensors"]),
            Of("torch", &[".bin", ".pt", ".pth"]),
            Of("keras", &[".h5"]),
            Of("flax", &[".msgpack"]),
            Of("tf", &[".index", ".data-00000-of-00001"]),
        ];
        let registry = registry.into_iter().fold(Formats::new(), |all, one| all.with(Box::new(one)));
        let names = registry.data_names().unwrap();
        let (whole, set) = (
            &["config.json", "model.safetensors"][..],
            &[
                "model.safetensors.index.json",
                "model-00001-of-00002.safetensors",
                "model-00002-of-00002.safetensors",
            ],
        );
        for (read, other, is_superseded) in [
            (whole, "pytorch_model.bin", true),
            (whole, "pytorch_model-00001-of-00002.bin", true),
            (whole, "pytorch_model.bin.index.json", true),
            (whole, "tf_model.h5", true),
            (whole, "flax_model.msgpack", true),
            (whole, "model.fp16.safetensors", true),
            (whole, "MODEL.FP16.SAFETENSORS", true),
            (whole, "model.fp32-00001-of-00002.safetensors", true),
            (whole, "rust_model.ot", true),
            (whole, "model.ckpt.data-00000-of-00001", true),
            (whole, "decoder.onnx", true),
            (whole, "64.tflite", true),
            (whole, "ema.safetensors", false),
            (whole, "model.ema.safetensors", false),
            (whole, "discriminator.bin", false),
            (whole, "config.json", false),
            (set, "consolidated.safetensors", true),
            (set, "consolidated.00.pth", true),
            (set, "model.safetensors", true),
            // The index of the set does not name this file.
            (set, "model-00003-of-00003.safetensors", false),
            (&["x.bin"], "consolidated.00.pth", false),
            (&["x.safetensors"], "x.pt", true),
            (&["x.safetensors"], "pytorch_model.bin", false),
            (&["diffusion_pytorch_model.bin"], "diffusion_pytorch_model.non_ema.bin", true),
            (&[], "model.onnx", false),
        ] {
            let found = ReadFiles::of(read.iter().copied(), &names).supersede(other, &names);
            assert_eq!(found, is_superseded, "{other} next to {read:?}");
        }
        for (read, other, is_superseded) in [
            (whole, "consolidated.00.pth", true),
            (set, "consolidated.safetensors", true),
            (whole, "model.safetensors", false),
            (whole, "params.json", false),
            (&["x.bin"], "consolidated.00.pth", false),
        ] {
            let found = ReadFiles::of(read.iter().copied(), &names).supersede_vendor(other, &names);
            assert_eq!(found, is_superseded, "original/{other} next to {read:?}");
        }
        assert!(is_vendor_folder("a/original") && !is_vendor_folder("original/a"));
        for (folder, is_one) in
            [("coreml", true), ("a/x.mlpackage", true), ("onnx", false), ("2_Dense", false)]
        {
            assert_eq!(is_export_folder(folder), is_one, "{folder}");
        }
    }
}
