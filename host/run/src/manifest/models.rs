//! The models of a zoo: what formats declare of their files' names says which files and folders below its
//! root are one model each. Nothing is opened.
//!
//! - A folder is a model if it holds a file whose very name some format declares (`saved_model.pb`,
//!   `.metadata`), or a file of a format that has no endings of its own, or one of `MARKS` beside weights.
//! - An index is a model, and the shards that it stands for are none. Shards without one are a model together.
//! - Any other file is a model if it ends as files of a format do.

use super::types::Take;
use globset::GlobSet;
use std::collections::BTreeSet;
use std::path::Path;
use tensorferry::engine::convert::weights::globs;
use tensorferry::engine::formats::registry::Registry;
use tensorferry_sdk::{Capabilities, Description, Error, Result};

/// What makes a folder with weights in it a model, together with everything that lies there: the files that
/// libraries load a model by.
const MARKS: [&str; 2] = ["config.json", "adapter_config.json"];
/// What makes a folder a model whose weights lie in its sub-folders.
const MARK_OF_PARTS: &str = "model_index.json";
/// How deep folders are entered.
const DEEPEST: usize = 64;

/// A model of a zoo.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    /// Below the root, `/` between the parts.
    pub(super) path: String,
    /// The same without the ending that names the format.
    bare: String,
    pub(super) is_folder: bool,
    /// Whether it is the root.
    pub(super) is_root: bool,
    /// Of a folder, the files in it that are weights.
    members: Vec<String>,
}

impl Found {
    /// A file that is a model, or one of a data set.
    pub(super) fn file(path: &str, bare: &str) -> Self {
        Self {
            path: path.to_owned(),
            bare: bare.to_owned(),
            is_folder: false,
            is_root: false,
            members: Vec::new(),
        }
    }

    /// `{path}`.
    pub(super) fn bare(&self) -> &str {
        &self.bare
    }

    /// `{parent}`: `.` for the root.
    pub(super) fn parent(&self) -> &str {
        self.path.rsplit_once('/').map_or(".", |(parent, _)| parent)
    }

    /// `{stem}`.
    pub(super) fn stem(&self) -> &str {
        self.bare.rsplit('/').next().unwrap_or_default()
    }

    /// `{name}`.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Whether a glob means it: by its own path, or by that of its weights.
    pub(super) fn is_meant(&self, glob: &GlobSet) -> bool {
        glob.is_match(&self.path) || self.members.iter().any(|member| glob.is_match(member))
    }
}

/// What formats that read declare of names.
pub(super) struct Names {
    suffixes: Vec<String>,
    members: GlobSet,
    /// Names that make a folder a model.
    of_folders: GlobSet,
}

impl Names {
    /// Those of all formats of models.
    pub(super) fn of(registry: &Registry) -> Result<Self> {
        Self::of_those(registry, |description| description.capabilities.has(Capabilities::READ))
    }

    /// Those of the formats that read what is wanted.
    pub(super) fn of_those(registry: &Registry, is_wanted: impl Fn(&Description) -> bool) -> Result<Self> {
        let readers = || registry.formats().iter().map(|f| &f.description).filter(|d| is_wanted(d));
        let is_literal = |name: &String| !name.contains(['*', '?', '[', '{']);
        let of_folders = readers().flat_map(|description| {
            let only_folders = description.suffixes.is_empty();
            description.members.iter().filter(move |name| only_folders || is_literal(name)).cloned()
        });
        let mut suffixes: Vec<String> = readers().flat_map(|d| d.suffixes.iter().cloned()).collect();
        // The longest first.
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
    pub(super) fn bare_file<'n>(&self, name: &'n str) -> &'n str {
        self.suffix_of(name).map_or(name, |suffix| &name[..name.len() - suffix.len()])
    }

    pub(super) fn is_weight(&self, name: &str) -> bool {
        self.suffix_of(name).is_some() || self.members.is_match(name)
    }

    /// The name without its ending; of an index, without that of the files that it names.
    fn bare<'n>(&self, name: &'n str) -> &'n str {
        let index = self.suffixes.iter().find_map(|suffix| name.find(&format!("{suffix}.index")));
        let end = index.or_else(|| Some(name.len() - self.suffix_of(name)?.len()));
        let bare = &name[..end.unwrap_or(name.len())];
        shard_stem(bare).unwrap_or(bare)
    }
}

/// `model` of `model-00001-of-00003`, whatever follows.
fn shard_stem(name: &str) -> Option<&str> {
    let (before, after) = name.split_once("-of-")?;
    let (stem, number) = before.rsplit_once('-')?;
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    (number.len() >= 5 && digits(number) == number.len() && digits(after) >= 5).then_some(stem)
}

/// Every model below `root`, sorted by path.
///
/// # Errors
/// I/o.
pub(super) fn find(root: &Path, names: &Names, take: Take) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    visit(root, "", 0, names, take, &mut found)?;
    found.sort();
    Ok(found)
}

fn visit(
    root: &Path,
    folder: &str,
    depth: usize,
    names: &Names,
    take: Take,
    found: &mut Vec<Found>,
) -> Result<()> {
    let path = root.join(folder);
    let failed = |e: std::io::Error| Error::from(e).file(path.display().to_string());
    let (mut files, mut folders) = (BTreeSet::new(), BTreeSet::new());
    for entry in std::fs::read_dir(&path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && !name.starts_with('.') {
            folders.insert(name);
        } else if kind.is_file() || (kind.is_symlink() && entry.path().is_file()) {
            files.insert(name);
        }
    }
    let place = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    if is_model(&path, &files, &folders, names, take) {
        let members = files.iter().filter(|name| names.is_weight(name)).map(|name| place(name)).collect();
        let own = if folder.is_empty() {
            root.file_name().unwrap_or_default().to_string_lossy().into_owned()
        } else {
            folder.to_owned()
        };
        found.push(Found {
            bare: own.clone(),
            path: own,
            is_folder: true,
            is_root: folder.is_empty(),
            members,
        });
        return Ok(());
    }
    for name in entries(&files, names) {
        let bare = place(names.bare(name));
        found.push(Found { path: place(name), bare, is_folder: false, is_root: false, members: Vec::new() });
    }
    if depth < DEEPEST {
        folders.iter().try_for_each(|name| visit(root, &place(name), depth + 1, names, take, found))?;
    }
    Ok(())
}

fn is_model(
    path: &Path,
    files: &BTreeSet<String>,
    folders: &BTreeSet<String>,
    names: &Names,
    take: Take,
) -> bool {
    let of_folder = || files.iter().any(|name| names.of_folders.is_match(name));
    let weights = || files.iter().any(|name| names.is_weight(name));
    let below = || {
        folders.iter().any(|folder| {
            let entries = std::fs::read_dir(path.join(folder)).into_iter().flatten().flatten();
            entries
                .into_iter()
                .any(|entry| entry.file_name().to_str().is_some_and(|name| names.is_weight(name)))
        })
    };
    let marked = || {
        (MARKS.iter().any(|mark| files.contains(*mark)) && weights())
            || (files.contains(MARK_OF_PARTS) && below())
    };
    of_folder()
        || match take {
            Take::Auto => marked(),
            Take::Folders => weights() || marked(),
            Take::Files => false,
        }
}

/// The files of a folder that stand for a model each.
fn entries<'n>(files: &'n BTreeSet<String>, names: &Names) -> Vec<&'n str> {
    let is_index = |name: &str| {
        names.suffix_of(name).is_none() && shard_stem(name).is_none() && names.members.is_match(name)
    };
    let indexed: BTreeSet<&str> =
        files.iter().filter(|name| is_index(name)).map(|name| names.bare(name)).collect();
    let mut sets = BTreeSet::new();
    let stands_for_a_model = |name: &&str| match (is_index(name), names.suffix_of(name), shard_stem(name)) {
        (true, ..) => true,
        (false, None, _) => false,
        (false, Some(_), None) => !name.starts_with('.'),
        // Of shards without an index, the first.
        (false, Some(_), Some(stem)) => !indexed.contains(stem) && sets.insert(stem.to_owned()),
    };
    files.iter().map(String::as_str).filter(stands_for_a_model).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn names() -> Names {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        Names {
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

    fn found(files: &[&str], take: Take) -> Vec<(String, String)> {
        let home = tempfile::tempdir().unwrap();
        for file in files {
            let path = home.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let models = find(home.path(), &names(), take).unwrap();
        models.into_iter().map(|model| (model.path.clone(), model.bare)).collect()
    }

    fn paths(files: &[&str], take: Take) -> Vec<String> {
        found(files, take).into_iter().map(|(path, _)| path).collect()
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
            found(&files, Take::Auto),
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
        assert_eq!(paths(&files, Take::Auto), folders);
        let with_flat = ["dcp", "flat", "hub", "pipeline", "saved", "zero/step1"];
        assert_eq!(paths(&files, Take::Folders), with_flat);
        let files = paths(&files, Take::Files);
        assert!(files.contains(&"hub/model.tensors".to_owned()) && files.contains(&"saved".to_owned()));
    }

    #[test]
    fn a_folder_is_meant_by_its_weights_too() {
        let model = Found {
            path: "org/hub".to_owned(),
            bare: "org/hub".to_owned(),
            is_folder: true,
            is_root: false,
            members: vec!["org/hub/model.tensors".to_owned()],
        };
        let is_meant = |glob: &str| model.is_meant(&globs(&[glob.to_owned()]).unwrap());
        assert!(is_meant("org/*") && is_meant("**/*.tensors") && !is_meant("**/*.pt"));
    }
}
