//! The file names that formats declare: endings of files, names that mark a folder as a model, and
//! names of shards that are read together.

use super::input_path::{InputPath, join};
use globset::GlobSet;
use std::collections::BTreeSet;
use tensorferry::Registry;
use tensorferry::formats::globs;
use tensorferry_sdk::{Capabilities, Description, Result, ShardName};

/// Name of the reader option that determines how a single shard is read.
pub(super) const SHARD: &str = "shard";

/// The name patterns that formats with readers declare.
pub(super) struct NamePatterns {
    /// File endings, sorted from the longest to the shortest.
    suffixes: Vec<String>,
    members: GlobSet,
    /// File names that mark the folder that contains the file as a model.
    pub(super) of_folders: GlobSet,
    /// Endings of the files that are read together if they are shards.
    pub(super) of_sets: BTreeSet<String>,
}

/// The parts of an index's name.
pub(super) struct IndexName<'n> {
    /// The prefix of the shard names. For a variant, the prefix includes the variant's name, as in
    /// `model.fp16`.
    pub(super) stem: String,
    /// The ending of the shard names.
    pub(super) ending: &'n str,
}

impl NamePatterns {
    /// Collects the names of all model formats.
    pub(super) fn of_models(registry: &Registry) -> Result<Self> {
        Self::of_formats(registry, |description| description.capabilities.has(Capabilities::READ))
    }

    /// Collects the names of the formats for which `is_wanted` returns true.
    pub(super) fn of_formats(registry: &Registry, is_wanted: impl Fn(&Description) -> bool) -> Result<Self> {
        let readers = || registry.formats().iter().map(|f| &f.description).filter(|d| is_wanted(d));
        let is_literal = |name: &String| !name.contains(['*', '?', '[', '{']);
        let of_folders = readers().flat_map(|description| {
            let only_folders = description.suffixes.is_empty();
            description.members.iter().filter(move |name| only_folders || is_literal(name)).cloned()
        });
        let mut suffixes: Vec<String> = readers().flat_map(|d| d.suffixes.iter().cloned()).collect();
        suffixes.sort_by_key(|suffix| std::cmp::Reverse(suffix.len()));
        Ok(Self {
            suffixes,
            members: globs(&readers().flat_map(|d| d.members.iter().cloned()).collect::<Vec<_>>())?,
            of_folders: globs(&of_folders.collect::<Vec<_>>())?,
            of_sets: readers().flat_map(|description| set_endings(description)).collect(),
        })
    }

    fn suffix_of(&self, name: &str) -> Option<&str> {
        let bytes = name.as_bytes();
        let ends_in = |suffix: &&String| {
            let start = bytes.len().checked_sub(suffix.len());
            // The comparison of endings is case-insensitive, because Windows does not distinguish
            // `BIG.PT` from `big.pt`.
            start.is_some_and(|start| bytes[start..].eq_ignore_ascii_case(suffix.as_bytes()))
        };
        let suffix = self.suffixes.iter().find(ends_in)?;
        // A name that consists only of an ending, such as `.metadata`, is not a model.
        (name.len() > suffix.len()).then_some(suffix)
    }

    /// Returns whether a name has the ending of a format.
    pub(super) fn has_suffix(&self, name: &str) -> bool {
        self.suffix_of(name).is_some()
    }

    /// Returns the name without its ending. A shard number is kept.
    pub(super) fn without_suffix<'n>(&self, name: &'n str) -> &'n str {
        self.suffix_of(name).and_then(|suffix| name.get(..name.len() - suffix.len())).unwrap_or(name)
    }

    pub(super) fn is_weight(&self, name: &str) -> bool {
        self.has_suffix(name) || self.members.is_match(name)
    }

    pub(super) fn is_index(&self, name: &str) -> bool {
        !self.has_suffix(name) && ShardName::parse(name).is_none() && self.members.is_match(name)
    }

    /// Parses the name of an index, such as `model.safetensors.index.json`, or
    /// `model.safetensors.index.fp16.json` for a variant.
    pub(super) fn index_name<'n>(&self, name: &'n str) -> Option<IndexName<'n>> {
        self.suffixes.iter().find_map(|suffix| {
            let at = name.find(&format!("{suffix}.index"))?;
            let end = at + suffix.len();
            let (_, rest) = name[end..].split_once(".index")?;
            let variant = rest.rsplit_once('.').map_or("", |(variant, _)| variant);
            Some(IndexName { stem: format!("{}{variant}", &name[..at]), ending: &name[at..end] })
        })
    }
}

/// Returns the file endings of a format for which shards are read together. The result contains the
/// endings for which the format declares an index. If a format has no index but has the option
/// `shard`, the result contains all of its endings.
fn set_endings(description: &Description) -> Vec<String> {
    let Description { suffixes, members, options, .. } = description;
    let has_index = |suffix: &String| {
        let index = format!("*{suffix}.index.");
        members.iter().any(|name| name.starts_with(&index))
    };
    let asks = options.iter().any(|option| option.key == SHARD);
    let all = asks && !suffixes.iter().any(has_index);
    suffixes.iter().filter(|suffix| all || has_index(suffix)).cloned().collect()
}

impl NamePatterns {
    /// Returns the model whose shards an index lists.
    pub(super) fn index(&self, name: &str) -> InputPath {
        match self.index_name(name) {
            Some(IndexName { stem, ending }) => {
                InputPath { whole: Some(format!("{stem}{ending}")), ..InputPath::file(name.to_owned(), stem) }
            }
            None => InputPath::file(name.to_owned(), name.to_owned()),
        }
    }

    /// Returns a single shard as a model. If the set consists of only this shard, the number is
    /// removed from the name.
    pub(super) fn lone_shard(&self, name: &str, shard: &ShardName<'_>) -> InputPath {
        let bare = if shard.count == 1 { shard.stem } else { self.without_suffix(name) };
        InputPath::file(name.to_owned(), bare.to_owned())
    }

    /// Returns the shards of a set as separate models. Each model's name contains the shard number.
    pub(super) fn alone(&self, set: &InputPath) -> Vec<InputPath> {
        let alone = |path: &String| {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            InputPath::file(path.clone(), join(folder, self.without_suffix(name)))
        };
        set.members.iter().map(alone).collect()
    }
}

#[cfg(test)]
impl NamePatterns {
    #[expect(clippy::unwrap_used, reason = "tests")]
    pub(super) fn for_tests(
        suffixes: &[&str],
        members: &[&str],
        of_folders: &[&str],
        of_sets: &[&str],
    ) -> Self {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        Self {
            suffixes: texts(suffixes),
            members: globs(&texts(members)).unwrap(),
            of_folders: globs(&texts(of_folders)).unwrap(),
            of_sets: texts(of_sets).into_iter().collect(),
        }
    }
}
