//! Supports models in several files with the names that the Hugging Face Hub uses: shards, and an
//! index that lists the file of each tensor. The plugins `safetensors`, `torch` and `tf-bundle` use
//! this functionality. The plugins `numpy` and `onnx`, whose models are a single file, use only the
//! other parts of this crate.
//!
//! ```text
//! model.safetensors                        pytorch_model.bin                        not split
//! model-00001-of-00002.safetensors, ...    pytorch_model-00001-of-00002.bin, ...    the shards
//! model-r0123abcd-00001-of-00002.safetensors                                     a shard with the tag of a run
//! model.safetensors.index.json             pytorch_model.bin.index.json             the index
//! model.fp16.safetensors, ...              pytorch_model.fp16.bin, ...              a variant
//! model.safetensors.index.fp16.json        pytorch_model.bin.index.fp16.json        the index of a variant
//! ```
//!
//! | File | Contents |
//! |---|---|
//! | `choose.rs` | the choice of the input files that make up the model |
//! | `index.rs` | the index: reading, checking against the files, writing |
//! | `ranks.rs` | names of files that contain one rank's part of a model |
//! | `shard.rs` | names of shards, and the split of a model into shards |
//! | `json.rs` | JSON with unique keys and bounded lists |
//! | `side_record.rs` | ferry's metadata, for formats that cannot store it |
//! | `listing.rs` | shortened lists in errors |
//! | `only_file.rs` | the choice of a file, for formats whose models are a single file (`numpy`, `onnx`) |
//!
//! Sources: `huggingface_hub/serialization/_base.py`, and `_add_variant` in
//! `transformers/modeling_utils.py` for variants.
#![forbid(unsafe_code)]

mod choose;
mod index;
pub mod json;
mod listing;
mod only_file;
mod ranks;
mod shard;
mod side_record;

pub use choose::{Choice, SHARD_OPTION, choose, is_member, unjoinable_ranks, without_variants};
pub use index::Index;
pub use listing::list;
pub use only_file::only_file;
pub use ranks::{are_ranks_of_one_model, part_of_ranks, refuse, refuse_part};
pub use shard::{Names, split};
pub use side_record::SideRecord;

use tensorferry_sdk::file_name::strip_suffix;
use tensorferry_sdk::{ShardName, ShardTag};

/// The naming scheme for the files of models in one format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Naming {
    /// Name of the format in error messages, such as `safetensors`.
    pub title: &'static str,
    /// Default stem of file names, such as `model`.
    pub stem: &'static str,
    /// Suffix of files with tensors, such as `.safetensors`.
    pub suffix: &'static str,
    /// Suffix of index files, such as `.safetensors.index.json`.
    pub index_suffix: &'static str,
}

impl Naming {
    /// Returns the stem of a model's shards, given the name of its index. Returns `None` if the
    /// name is not that of an index. In the name of an index, a variant precedes the last dot. In
    /// the name of a shard, it precedes the suffix.
    #[must_use]
    pub fn stem_of_index(&self, name: &str) -> Option<String> {
        if let Some(stem) = strip_suffix(name, self.index_suffix) {
            return Some(stem.to_owned());
        }
        let (usual, json) = self.index_suffix.rsplit_once('.')?;
        let (rest, variant) = strip_suffix(name, json)?.strip_suffix('.')?.rsplit_once('.')?;
        Some(format!("{}.{variant}", strip_suffix(rest, usual)?))
    }

    /// Parses the name of a shard. Returns `None` if the file is not a shard of this format.
    #[must_use]
    pub fn shard<'a>(&self, name: &'a str) -> Option<ShardName<'a>> {
        ShardName::parse(name).filter(|shard| shard.ending.eq_ignore_ascii_case(self.suffix))
    }

    /// Returns the stem that a shard shares with its index. The stem does not contain the tag of a
    /// run.
    fn stem_of_shard<'a>(shard: &ShardName<'a>) -> &'a str {
        ShardTag::stem_without(shard.stem)
    }

    /// Returns the possible names of an index, given the stem of its shards.
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
