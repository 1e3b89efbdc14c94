//! A model in several files, as the Hugging Face Hub names and splits it: shards, and an index that
//! names the file of each tensor. The plugins `safetensors`, `torch` and `tf-bundle` use it;
//! `numpy` and `onnx`, whose models are one file, take what is left.
//!
//! ```text
//! model.safetensors                        pytorch_model.bin                        not split
//! model-00001-of-00002.safetensors, ...    pytorch_model-00001-of-00002.bin, ...    the shards
//! model-r0123abcd-00001-of-00002.safetensors                                     a shard with a tag of its run
//! model.safetensors.index.json             pytorch_model.bin.index.json             the index
//! model.fp16.safetensors, ...              pytorch_model.fp16.bin, ...              a variant
//! model.safetensors.index.fp16.json        pytorch_model.bin.index.fp16.json        its index
//! ```
//!
//! | File | What it yields |
//! |---|---|
//! | `choose.rs` | which files of an input are the model |
//! | `index.rs` | the index, read, held against the files, and written |
//! | `ranks.rs` | which file names are those of one rank's part of a model |
//! | `shard.rs` | the names of shards, and what goes into each |
//! | `json.rs` | JSON whose keys are unique and whose lists are bounded |
//! | `side_record.rs` | what `ferry` notes of tensors where a format has no place for it |
//! | `listing.rs` | what an error says of several things |
//! | `only_file.rs` | the file that is meant, for formats (`numpy`, `onnx`) whose models are one file |
//!
//! Source of the facts: `huggingface_hub/serialization/_base.py`; for variants `_add_variant` in
//! `transformers/modeling_utils.py`.
#![forbid(unsafe_code)]

mod choose;
mod index;
pub mod json;
mod listing;
mod only_file;
mod ranks;
mod shard;
mod side_record;

pub use choose::{Choice, SHARD_IS_ALONE, choose, is_member, ranks_of_one, without_variants};
pub use index::Index;
pub use listing::list;
pub use only_file::only_file;
pub use ranks::{are_ranks_of_one, part_of_ranks, refuse, refuse_part};
pub use shard::{Names, split};
pub use side_record::SideRecord;

use tensorferry_sdk::file_name::strip_suffix;
use tensorferry_sdk::{ShardName, ShardTag};

/// How the files of models in one format are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Naming {
    /// The format, for messages: `safetensors`.
    pub title: &'static str,
    /// What a model's files are called where nobody names them: `model`.
    pub stem: &'static str,
    /// The ending of a file of tensors: `.safetensors`.
    pub suffix: &'static str,
    /// The ending of an index: `.safetensors.index.json`.
    pub index_suffix: &'static str,
}

impl Naming {
    /// What the names of a model's shards begin with, by the name of its index; `None`, if it is no
    /// index. An index has its variant before the last dot, the shards before the ending.
    #[must_use]
    pub fn stem_of_index(&self, name: &str) -> Option<String> {
        if let Some(stem) = strip_suffix(name, self.index_suffix) {
            return Some(stem.to_owned());
        }
        let (usual, json) = self.index_suffix.rsplit_once('.')?;
        let (rest, variant) = strip_suffix(name, json)?.strip_suffix('.')?.rsplit_once('.')?;
        Some(format!("{}.{variant}", strip_suffix(rest, usual)?))
    }

    /// The parts of a shard's file name; `None` if it is not one of this format.
    #[must_use]
    pub fn shard<'a>(&self, name: &'a str) -> Option<ShardName<'a>> {
        ShardName::parse(name).filter(|shard| shard.ending.eq_ignore_ascii_case(self.suffix))
    }

    /// What the index of a shard's set is named after: its stem, without the tag of a run.
    fn stem_of_shard<'a>(shard: &ShardName<'a>) -> &'a str {
        ShardTag::stem_without(shard.stem)
    }

    /// The names that the index of a set may have, by what those of its shards begin with.
    fn indexes(&self, stem: &str) -> Vec<String> {
        let mut names = vec![format!("{stem}{}", self.index_suffix)];
        let variant = stem.rsplit_once('.').zip(self.index_suffix.rsplit_once('.'));
        names.extend(
            variant.map(|((stem, variant), (usual, json))| format!("{stem}{usual}.{variant}.{json}")),
        );
        names
    }
}

#[cfg(test)]
mod tests {
    use super::Naming;

    #[test]
    fn the_index_of_a_variant_is_one() {
        for (index, stem) in [
            ("model.safetensors.index.json", "model"),
            ("model.safetensors.index.fp16.json", "model.fp16"),
            ("a.b.safetensors.index.x.json", "a.b.x"),
            ("MODEL.SAFETENSORS.INDEX.JSON", "MODEL"),
            (".safetensors.index.json", ""),
        ] {
            assert_eq!(NAMING.stem_of_index(index).as_deref(), Some(stem), "{index}");
            assert!(NAMING.indexes(stem).iter().any(|name| name.eq_ignore_ascii_case(index)), "{index}");
        }
        for other in
            ["model.safetensors", "model.index.json", "model.bin.index.fp16.json", "config.json", ".json"]
        {
            assert_eq!(NAMING.stem_of_index(other), None, "{other}");
        }
    }

    pub(crate) const NAMING: Naming = Naming {
        title: "safetensors",
        stem: "model",
        suffix: ".safetensors",
        index_suffix: ".safetensors.index.json",
    };
}
