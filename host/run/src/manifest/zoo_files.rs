//! Finds the models of a zoo by their names. Each model is a file or a folder in the root of the
//! zoo.
//!
//! Formats declare the names and endings of their files. This module does not open any file.
//!
//! - A folder is a model if it contains a file whose exact name a format declares
//!   (`saved_model.pb`, `.metadata`), a file of a format that declares no endings, or one of
//!   `MODEL_FILES` next to weights.
//! - An index or a map is a model, and the shards that it lists are not separate models. Shards
//!   without an index form one model if their format has sets of shards. In other formats, each
//!   shard is a model.
//! - Any other file that has a format's ending is a model.

use super::folder_names::FolderNames;
use super::input_path::{InputPath, join};
use super::name_patterns::{IndexName, NamePatterns};
use super::search::{MAX_DEPTH, Search, SkipReason};
use super::types::ModelDetection;
use std::collections::{BTreeMap, BTreeSet};
use tensorferry::places::InputFolder;
use tensorferry_core::read::folder::{EntryKind, FolderEntry};
use tensorferry_sdk::{Result, ShardName, ShardTag};

/// Files that libraries use to load a model. If a folder contains one of these files next to
/// weights, the folder is a model.
const MODEL_FILES: [&str; 2] = ["config.json", "adapter_config.json"];
/// The file that marks a folder as a model with weights in its subfolders.
const PIPELINE_FILE: &str = "model_index.json";
/// Returns all models in the search's root and its subfolders, sorted by path.
pub(super) fn find(
    search: &mut Search<'_>,
    names: &NamePatterns,
    detection: ModelDetection,
) -> Result<Vec<InputPath>> {
    let mut found = Vec::new();
    visit(search, "", 0, names, detection, &mut found)?;
    found.sort();
    Ok(found)
}

fn visit(
    search: &mut Search<'_>,
    folder: &str,
    depth: usize,
    names: &NamePatterns,
    detection: ModelDetection,
    found: &mut Vec<InputPath>,
) -> Result<()> {
    let is_meant = |name: &str| !name.starts_with('.') && names.is_weight(name);
    let FolderNames { files, mut folders } = search.read(folder, &is_meant)?;
    folders.retain(|name| !name.starts_with('.'));
    if is_model(&search.root().in_folder(folder), &files, &folders, names, detection) {
        let weights = files.iter().filter(|name| names.is_weight(name));
        let own = if folder.is_empty() {
            search.root().path().file_name().unwrap_or_default().to_string_lossy().into_owned()
        } else {
            folder.to_owned()
        };
        found.push(InputPath {
            is_folder: true,
            is_root: folder.is_empty(),
            members: weights.map(|name| join(folder, name)).collect(),
            ..InputPath::file(own.clone(), own)
        });
        return Ok(());
    }
    let among = FolderModels::of(&files, names);
    among.torn.into_iter().for_each(|index| search.pass_over(join(folder, index), SkipReason::SeveralSets));
    found.extend(among.models.into_iter().map(|model| model.in_folder(folder)));
    if depth < MAX_DEPTH {
        for name in &folders {
            visit(search, &join(folder, name), depth + 1, names, detection, found)?;
        }
    }
    Ok(())
}

fn is_model(
    folder: &InputFolder,
    files: &BTreeSet<String>,
    folders: &BTreeSet<String>,
    names: &NamePatterns,
    detection: ModelDetection,
) -> bool {
    let has_weights = || files.iter().any(|name| names.is_weight(name));
    let holds_weights = |part: &String| {
        let is_weight = |entry: &FolderEntry| {
            entry.kind == EntryKind::File
                && names.is_weight(entry.name.rsplit('/').next().unwrap_or_default())
        };
        folder.entries(part, "", u64::MAX).is_ok_and(|entries| entries.iter().any(is_weight))
    };
    let is_marked = || {
        (MODEL_FILES.iter().any(|mark| files.contains(*mark)) && has_weights())
            || (files.contains(PIPELINE_FILE) && folders.iter().any(holds_weights))
    };
    files.iter().any(|name| names.of_folders.is_match(name))
        || match detection {
            ModelDetection::Auto => is_marked(),
            ModelDetection::Folders => has_weights() || is_marked(),
            ModelDetection::Files => false,
        }
}

/// The models that consist of files in the same folder.
#[derive(Default)]
struct FolderModels<'n> {
    models: Vec<InputPath>,
    /// Indexes that match several sets of shards.
    torn: Vec<&'n str>,
}

impl<'n> FolderModels<'n> {
    fn of(files: &'n BTreeSet<String>, names: &NamePatterns) -> Self {
        let mut among = Self::default();
        let mut indexes: BTreeMap<(String, &str), IndexedSets<'n>> = BTreeMap::new();
        let mut sets: BTreeMap<SetName<'n>, Vec<&'n str>> = BTreeMap::new();
        let is_visible = |name: &&'n str| !name.starts_with('.');
        let (named, others): (Vec<&str>, Vec<&str>) =
            files.iter().map(String::as_str).filter(is_visible).partition(|name| names.is_index(name));
        for name in named {
            among.models.push(names.index(name));
            if let Some(IndexName { stem, ending }) = names.index_name(name) {
                indexes.insert((stem, ending), IndexedSets { index: name, sets: BTreeSet::new() });
            }
        }
        for name in others.into_iter().filter(|name| names.has_suffix(name)) {
            let Some(shard) = ShardName::parse(name) else {
                if map_of(name).is_some_and(|map| files.contains(&map) && names.is_weight(&map)) {
                    continue;
                }
                let bare = names.without_suffix(name).to_owned();
                among.models.push(InputPath::file(name.to_owned(), bare));
                continue;
            };
            let key = (ShardTag::stem_without(shard.stem).to_owned(), shard.ending);
            if let Some(indexed) = indexes.get_mut(&key) {
                indexed.sets.insert((shard.stem, shard.count));
            } else if shard.count > 1 && names.of_sets.contains(shard.ending) {
                sets.entry(SetName::of(&shard)).or_default().push(name);
            } else {
                among.models.push(names.lone_shard(name, &shard));
            }
        }
        among.models.extend(sets.into_iter().map(|(set, shards)| set.model(&shards)));
        // While a run replaces a set of shards, the old set and the new set both exist. The names
        // in the new set contain a tag, so the new set is not counted here.
        let is_torn = |indexed: &IndexedSets<'_>| {
            indexed.sets.iter().filter(|(stem, _)| ShardTag::stem_without(stem) == *stem).count() > 1
        };
        among.torn = indexes.into_values().filter(is_torn).map(|indexed| indexed.index).collect();
        among
    }
}

/// Returns the name of the map file that lists a Keras shard. For example, the map of
/// `m_00003.weights.h5` is `m.weights.json`.
fn map_of(name: &str) -> Option<String> {
    let (stem, rest) = name.rsplit_once('_')?;
    let (number, ending) = rest.split_once('.')?;
    let is_number = number.len() >= 5 && number.bytes().all(|c| c.is_ascii_digit());
    let (ending, _) = ending.rsplit_once('.').filter(|_| is_number)?;
    Some(format!("{stem}.{ending}.json"))
}

/// An index, and the sets of shards that match it. The stem and the count in the shard names
/// identify a set.
struct IndexedSets<'n> {
    index: &'n str,
    sets: BTreeSet<(&'n str, u64)>,
}

/// The parts that the names of a set's shards have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SetName<'n> {
    stem: &'n str,
    ending: &'n str,
    /// The name without the shard number. This name distinguishes sets that have equal counts but
    /// format the numbers differently.
    pattern: String,
}

impl<'n> SetName<'n> {
    fn of(shard: &ShardName<'n>) -> Self {
        Self { stem: shard.stem, ending: shard.ending, pattern: shard.pattern() }
    }

    /// Returns the model that consists of these shards, which must be in order.
    fn model(&self, shards: &[&str]) -> InputPath {
        let first = shards.first().copied().unwrap_or_default();
        let (before, after) = self.pattern.split_at(self.stem.len());
        InputPath {
            members: shards.iter().map(|&name| name.to_owned()).collect(),
            set: Some(format!("{}{}", literal(before), after.replace('?', "[0-9]"))),
            whole: Some(format!("{}{}", self.stem, self.ending)),
            ..InputPath::file(first.to_owned(), self.stem.to_owned())
        }
    }
}

/// Escapes a string for a glob as far as possible. Special characters become `*`. If the resulting
/// glob also matches other models, the error is reported when the input is read.
fn literal(text: &str) -> String {
    text.replace(['*', '?', '[', ']', '{', '}', '\\'], "*")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::manifest::search::{ClosedFolders, SkippedEntry};
    use tensorferry::formats::globs;

    fn names() -> NamePatterns {
        NamePatterns::for_tests(
            &[".tensors", ".distcp", ".metadata", ".index", ".npz", ".pt", ".weights.h5", ".weights.json"],
            &[
                "*.tensors",
                "*.tensors.index.json",
                "*.tensors.index.*.json",
                "*.index",
                "*.data-?????-of-?????",
                ".metadata",
                "saved.pb",
            ],
            &[".metadata", "saved.pb", "*_states.pt"],
            &[".tensors", ".pt"],
        )
    }

    fn models(files: &[&str], detection: ModelDetection) -> (Vec<InputPath>, Vec<SkippedEntry>) {
        let home = tempfile::tempdir().unwrap();
        for file in files {
            let path = home.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let root = InputFolder::local(home.path().to_owned());
        let mut search = Search::new(&root, ClosedFolders::default());
        (find(&mut search, &names(), detection).unwrap(), search.skipped)
    }

    fn found(files: &[&str], detection: ModelDetection) -> Vec<(String, String)> {
        models(files, detection).0.into_iter().map(|model| (model.path.clone(), model.bare)).collect()
    }

    fn paths(files: &[&str], detection: ModelDetection) -> Vec<String> {
        found(files, detection).into_iter().map(|(path, _)| path).collect()
    }

    #[test]
    fn a_set_is_one_model() {
        let files = [
            "a.tensors",
            "b-00001-of-00002.tensors",
            "b-00002-of-00002.tensors",
            "b.tensors.index.json",
            "c-00001-of-00002.tensors",
            "c-00002-of-00002.tensors",
            "ckpt-1.index",
            "ckpt-1.data-00000-of-00001",
            "notes.json",
        ];
        let pair = |path: &str, bare: &str| (path.to_owned(), bare.to_owned());
        assert_eq!(
            found(&files, ModelDetection::Auto),
            [
                pair("a.tensors", "a"),
                pair("b.tensors.index.json", "b"),
                pair("c-00001-of-00002.tensors", "c"),
                pair("ckpt-1.index", "ckpt-1"),
            ]
        );
    }

    #[test]
    fn shards_beside_their_map_are_no_models() {
        let files = ["m.weights.json", "m_00000.weights.h5", "m_00001.weights.h5", "epoch_00010.weights.h5"];
        let expected = ["epoch_00010.weights.h5", "m.weights.json"];
        assert_eq!(paths(&files, ModelDetection::Auto), expected);
        let files = ["m.a.json", "m_00000.a.tensors"];
        assert_eq!(paths(&files, ModelDetection::Auto), ["m_00000.a.tensors"]);
    }

    #[test]
    fn a_set_without_an_index_is_read_whole() {
        let shard = |stem: &str, number: u32, count: u32, ending: &str| {
            format!("sub/{stem}-{number:05}-of-{count:05}{ending}")
        };
        let all: Vec<String> =
            [("m", 2, ".tensors"), ("m", 3, ".tensors"), ("m", 2, ".pt"), ("x{1,2}", 2, ".pt")]
                .into_iter()
                .flat_map(|(stem, count, ending)| {
                    (1..=count).map(move |number| shard(stem, number, count, ending))
                })
                .collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let (found, _) = models(&all, ModelDetection::Auto);
        let facts: Vec<_> =
            found.iter().map(|model| (model.input(), &*model.bare, model.members.len())).collect();
        let digits = "[0-9][0-9][0-9][0-9][0-9]";
        assert_eq!(
            facts,
            [
                (&*format!("sub/m-{digits}-of-00002.pt"), "sub/m", 2),
                (&*format!("sub/m-{digits}-of-00002.tensors"), "sub/m", 2),
                (&*format!("sub/m-{digits}-of-00003.tensors"), "sub/m", 3),
                (&*format!("sub/x*1,2*-{digits}-of-00002.pt"), "sub/x{1,2}", 2),
            ]
        );
        assert_eq!(
            (found[1].name(), found[1].whole.as_deref()),
            ("m-00001-of-00002.tensors", Some("sub/m.tensors"))
        );
        let alone: Vec<String> = names().alone(&found[1]).into_iter().map(|shard| shard.bare).collect();
        assert_eq!(alone, ["sub/m-00001-of-00002", "sub/m-00002-of-00002"]);
    }

    #[test]
    fn files_that_are_no_set_are_models_each() {
        let files = [
            "a-00001-of-00002.npz",
            "a-00002-of-00002.npz",
            "b-00001-of-00001.tensors",
            "C.TENSORS",
            "._d.tensors",
            "._d.tensors.index.json",
        ];
        let bare: Vec<String> =
            found(&files, ModelDetection::Auto).into_iter().map(|(_, bare)| bare).collect();
        assert_eq!(bare, ["C", "a-00001-of-00002", "a-00002-of-00002", "b"]);
    }

    #[test]
    fn an_index_has_the_shards_of_its_stem_and_ending() {
        let files = [
            "m.tensors.index.json",
            "m-00001-of-00002.tensors",
            "m-r0123abcd-00001-of-00004.tensors",
            "m-00001-of-00002.pt",
            "m.tensors.index.fp16.json",
            "m.fp16-00001-of-00002.tensors",
        ];
        let pair = |path: &str, bare: &str| (path.to_owned(), bare.to_owned());
        assert_eq!(
            found(&files, ModelDetection::Auto),
            [
                pair("m-00001-of-00002.pt", "m"),
                pair("m.tensors.index.fp16.json", "m.fp16"),
                pair("m.tensors.index.json", "m"),
            ]
        );
        assert_eq!(models(&files, ModelDetection::Auto).1, []);
        let torn = ["m.tensors.index.json", "m-00001-of-00002.tensors", "m-00001-of-00003.tensors"];
        let told = SkippedEntry { path: torn[0].to_owned(), why: SkipReason::SeveralSets };
        assert_eq!(models(&torn, ModelDetection::Auto).1, [told]);
    }

    #[test]
    fn a_folder_is_a_model_by_what_lies_in_it() {
        let files = [
            "dcp/.metadata",
            "dcp/__0_0.distcp",
            "saved/saved.pb",
            "saved/variables/variables.index",
            "zero/step1/mp_rank_00_model_states.pt",
            "hub/config.json",
            "hub/model.tensors",
            "hub/other.pt",
            "pipeline/model_index.json",
            "pipeline/unet/model.tensors",
            "flat/x.pt",
            "flat/y.pt",
            "config.json",
        ];
        let folders = ["dcp", "flat/x.pt", "flat/y.pt", "hub", "pipeline", "saved", "zero/step1"];
        assert_eq!(paths(&files, ModelDetection::Auto), folders);
        let with_flat = ["dcp", "flat", "hub", "pipeline", "saved", "zero/step1"];
        assert_eq!(paths(&files, ModelDetection::Folders), with_flat);
        let files = paths(&files, ModelDetection::Files);
        assert!(files.contains(&"hub/model.tensors".to_owned()) && files.contains(&"saved".to_owned()));
    }

    #[test]
    fn a_folder_is_meant_by_its_weights_too() {
        let model = InputPath {
            is_folder: true,
            members: vec!["org/hub/model.tensors".to_owned()],
            ..InputPath::file("org/hub".to_owned(), "org/hub".to_owned())
        };
        let is_meant = |glob: &str| model.matches(&globs(&[glob.to_owned()]).unwrap());
        assert!(is_meant("org/*") && is_meant("**/*.tensors") && !is_meant("**/*.pt"));
    }
}
