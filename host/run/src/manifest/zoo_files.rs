//! Finds the models of a zoo: the files and folders below its root that are one model each, by their names.
//!
//! Formats declare names and endings of files. Nothing is opened.
//!
//! - A folder is a model if it holds a file whose very name some format declares (`saved_model.pb`,
//!   `.metadata`), or a file of a format that has no endings of its own, or one of `MARKS` beside weights.
//! - An index is a model, and the shards that it names are none. Shards without one are a model together.
//! - Any other file is a model if it ends as files of a format do.

use super::input_path::{DEEPEST, InputPath, ShardName, join, read_folder};
use super::types::ModelDetection;
use globset::GlobSet;
use std::collections::BTreeSet;
use tensorferry::engine::convert::weights::globs;
use tensorferry::engine::formats::registry::Registry;
use tensorferry::engine::read::folder::InputFolder;
use tensorferry_sdk::{Capabilities, Description, Result};

/// The files that libraries load a model by: beside weights, they make the folder a model.
const MARKS: [&str; 2] = ["config.json", "adapter_config.json"];
/// What makes a folder a model whose weights lie in its sub-folders.
const MARK_OF_PARTS: &str = "model_index.json";

/// What the formats that read declare of names.
pub(super) struct NamePatterns {
    /// The longest first.
    suffixes: Vec<String>,
    members: GlobSet,
    /// Names that make a folder a model.
    of_folders: GlobSet,
}

impl NamePatterns {
    /// Those of all formats of models.
    pub(super) fn of_models(registry: &Registry) -> Result<Self> {
        Self::of_those(registry, |description| description.capabilities.has(Capabilities::READ))
    }

    /// Those of the formats that are wanted.
    pub(super) fn of_those(registry: &Registry, is_wanted: impl Fn(&Description) -> bool) -> Result<Self> {
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
        })
    }

    fn suffix_of(&self, name: &str) -> Option<&str> {
        let suffix = self.suffixes.iter().find(|suffix| name.ends_with(suffix.as_str()))?;
        // A name that is nothing but an ending is no model's: `.metadata`.
        (name.len() > suffix.len()).then_some(suffix)
    }

    /// Whether a name ends as files of some format do.
    pub(super) fn has_suffix(&self, name: &str) -> bool {
        self.suffix_of(name).is_some()
    }

    /// The name without its ending; a shard's keeps its number.
    pub(super) fn without_suffix<'n>(&self, name: &'n str) -> &'n str {
        self.suffix_of(name).map_or(name, |suffix| &name[..name.len() - suffix.len()])
    }

    pub(super) fn is_weight(&self, name: &str) -> bool {
        self.has_suffix(name) || self.members.is_match(name)
    }

    /// The model's name: without ending and shard number; of an index, also without that of its files.
    fn model_name<'n>(&self, name: &'n str) -> &'n str {
        let index = self.suffixes.iter().find_map(|suffix| name.find(&format!("{suffix}.index")));
        let bare = index.map_or_else(|| self.without_suffix(name), |end| &name[..end]);
        ShardName::parse(bare).map_or(bare, |shard| shard.stem)
    }

    fn is_index(&self, name: &str) -> bool {
        !self.has_suffix(name) && ShardName::parse(name).is_none() && self.members.is_match(name)
    }
}

/// Every model below `root`, sorted by path.
///
/// # Errors
/// I/o.
pub(super) fn find(
    root: &InputFolder,
    names: &NamePatterns,
    detection: ModelDetection,
) -> Result<Vec<InputPath>> {
    let mut found = Vec::new();
    visit(root, "", 0, names, detection, &mut found)?;
    found.sort();
    Ok(found)
}

fn visit(
    root: &InputFolder,
    folder: &str,
    depth: usize,
    names: &NamePatterns,
    detection: ModelDetection,
    found: &mut Vec<InputPath>,
) -> Result<()> {
    let (files, mut folders) = read_folder(root, folder)?;
    folders.retain(|name| !name.starts_with('.'));
    if is_model(&root.below(folder), &files, &folders, names, detection) {
        let weights = files.iter().filter(|name| names.is_weight(name));
        let own = if folder.is_empty() {
            root.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
        } else {
            folder.to_owned()
        };
        found.push(InputPath {
            bare: own.clone(),
            path: own,
            is_folder: true,
            is_root: folder.is_empty(),
            members: weights.map(|name| join(folder, name)).collect(),
        });
        return Ok(());
    }
    let models = models_among(&files, names).into_iter();
    found
        .extend(models.map(|name| InputPath::file(join(folder, name), join(folder, names.model_name(name)))));
    if depth < DEEPEST {
        for name in &folders {
            visit(root, &join(folder, name), depth + 1, names, detection, found)?;
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
        let found = read_folder(folder, part);
        found.is_ok_and(|(files, _)| files.iter().any(|name| names.is_weight(name)))
    };
    let is_marked = || {
        (MARKS.iter().any(|mark| files.contains(*mark)) && has_weights())
            || (files.contains(MARK_OF_PARTS) && folders.iter().any(holds_weights))
    };
    files.iter().any(|name| names.of_folders.is_match(name))
        || match detection {
            ModelDetection::Auto => is_marked(),
            ModelDetection::Folders => has_weights() || is_marked(),
            ModelDetection::Files => false,
        }
}

/// The files of a folder that stand for a model each.
fn models_among<'n>(files: &'n BTreeSet<String>, names: &NamePatterns) -> Vec<&'n str> {
    let indexes = files.iter().filter(|name| names.is_index(name));
    let indexed: BTreeSet<&str> = indexes.map(|name| names.model_name(name)).collect();
    let mut sets = BTreeSet::new();
    let stands_for_a_model = |name: &&str| match ShardName::parse(name) {
        _ if names.is_index(name) => true,
        _ if !names.has_suffix(name) => false,
        None => !name.starts_with('.'),
        // Of shards without an index, the first.
        Some(shard) => !indexed.contains(shard.stem) && sets.insert(shard.stem.to_owned()),
    };
    files.iter().map(String::as_str).filter(stands_for_a_model).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn names() -> NamePatterns {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        NamePatterns {
            suffixes: texts(&[".tensors", ".distcp", ".metadata", ".index", ".pt"]),
            members: globs(&texts(&[
                "*.tensors",
                "*.tensors.index.json",
                "*.index",
                "*.data-?????-of-?????",
                ".metadata",
                "saved.pb",
            ]))
            .unwrap(),
            of_folders: globs(&texts(&[".metadata", "saved.pb", "*_states.pt"])).unwrap(),
        }
    }

    fn found(files: &[&str], detection: ModelDetection) -> Vec<(String, String)> {
        let home = tempfile::tempdir().unwrap();
        for file in files {
            let path = home.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let root = InputFolder::local(home.path().to_owned());
        let models = find(&root, &names(), detection).unwrap();
        models.into_iter().map(|model| (model.path.clone(), model.bare)).collect()
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
            path: "org/hub".to_owned(),
            bare: "org/hub".to_owned(),
            is_folder: true,
            is_root: false,
            members: vec!["org/hub/model.tensors".to_owned()],
        };
        let is_meant = |glob: &str| model.matches(&globs(&[glob.to_owned()]).unwrap());
        assert!(is_meant("org/*") && is_meant("**/*.tensors") && !is_meant("**/*.pt"));
    }
}
