//! The aggregate file, named `checkpoint`, contains a tree with its small arrays in Flax's
//! encoding. Flax, T5X and Orbax before version 0.5 write this file. If an array is stored in its
//! own folder, the tree contains a reference instead:
//!
//! ```text
//! "PLACEHOLDER://FOLDER"                                 Orbax
//! {"driver": "zarr", "kvstore": {"path": "FOLDER/"}}     T5X, a tensorstore spec
//! ```

use std::collections::HashSet;
use tensorferry_flax_file::array::Array;
use tensorferry_flax_file::chunked::join;
use tensorferry_flax_file::document::{Document, Item, Key};
use tensorferry_flax_file::placeholder;
use tensorferry_flax_file::positions::Positions;
use tensorferry_sdk::{Context, FileId, Node, Result, Source};

pub(crate) const AGGREGATE: &str = "checkpoint";

/// The tree in an aggregate file.
pub(crate) struct Aggregate {
    pub(crate) file: FileId,
    /// Leaves in file order. The flag of each key in a path is set if the key is a list index.
    pub(crate) leaves: Vec<(Vec<(String, bool)>, Leaf)>,
}

/// The value at the end of a path.
#[derive(Debug)]
pub(crate) enum Leaf {
    Array(Array),
    /// A reference to an array that is in one of these folders.
    Reference(Vec<String>),
    Value(Node),
    Empty {
        is_list: bool,
    },
    /// A msgpack extension type that Flax does not define.
    Unknown(i8),
}

/// Returns whether a folder contains an aggregate file. TensorFlow uses the same file name for a
/// text file. An aggregate file starts with a map that has a string key, and a pickle does not.
pub(crate) fn is_in(source: &dyn Source, folder: &str) -> Result<bool> {
    let name = format!("{folder}{AGGREGATE}");
    if !source.contains(&name)? {
        return Ok(false);
    }
    let file = source.open(&name)?;
    let mut start = [0; 6];
    let len = usize::try_from(source.len(file)).map_or(start.len(), |len| len.min(start.len()));
    source.read_at(file, 0, &mut start[..len])?;
    let key = match start[0] {
        0x81..=0x8f => start[1],
        0xde => start[3],
        0xdf => start[5],
        _ => return Ok(false),
    };
    Ok(matches!(key, 0xa0..=0xbf | 0xd9..=0xdb))
}

impl Aggregate {
    /// Reads the aggregate file of a folder.
    pub(crate) fn read(source: &dyn Source, folder: &str, context: &dyn Context) -> Result<Self> {
        let name = format!("{folder}{AGGREGATE}");
        let file = source.open(&name)?;
        let document = Document::read(source, file, context).map_err(|error| error.file(&*name))?;
        let places = Positions::of(&document);
        let items = || (0_u32..).zip(&document.items);
        let specifications: HashSet<u32> = items()
            .filter_map(|(id, item)| match item {
                Item::Map(entries) => folders_of(&document, entries).map(|_| id),
                _ => None,
            })
            .collect();
        let mut leaves = Vec::new();
        for (id, item) in items() {
            let place = places.at(id as usize);
            let is_inside = |id: u32| {
                let above = |id: &u32| places.at(*id as usize).parent.map(|(parent, _)| parent);
                std::iter::successors(above(&id), above).any(|parent| specifications.contains(&parent))
            };
            if place.is_in_chunked || !specifications.is_empty() && is_inside(id) {
                continue;
            }
            let leaf = match item {
                Item::Map(entries) if place.is_chunked => {
                    let joined = join(&document, entries);
                    let at = || places.path(&document, id as usize, ".");
                    Leaf::Array(joined.map_err(|error| error.file(&*name).tensor(at()))?)
                }
                Item::Map(entries) if specifications.contains(&id) => {
                    Leaf::Reference(folders_of(&document, entries).unwrap_or_default())
                }
                Item::Map(entries) if entries.is_empty() => Leaf::Empty { is_list: false },
                Item::List(items) if items.is_empty() => Leaf::Empty { is_list: true },
                Item::Map(_) | Item::List(_) => continue,
                Item::Array(array) => Leaf::Array(array.clone()),
                Item::Unknown(kind) => Leaf::Unknown(*kind),
                Item::Leaf(node) => match node.as_text().and_then(placeholder) {
                    Some(folder) => Leaf::Reference(vec![folder.to_owned()]),
                    None => Leaf::Value(node.clone()),
                },
            };
            leaves.push((places.keys(&document, id as usize), leaf));
        }
        Ok(Self { file, leaves })
    }
}

/// Returns the folders that may contain the array of a tensorstore spec, or `None` if the map is
/// not such a spec. The spec may contain a path on the machine that wrote the checkpoint.
fn folders_of(document: &Document, entries: &[(Key, u32)]) -> Option<Vec<String>> {
    let get = |entries: &[(Key, u32)], name: &str| {
        let found = entries.iter().find(|(key, _)| matches!(key, Key::Text(text) if text == name));
        found.and_then(|(_, id)| document.items.get(*id as usize))
    };
    let text = |item: Option<&Item>| match item {
        Some(Item::Leaf(node)) => node.as_text().map(str::to_owned),
        _ => None,
    };
    let mut entries = entries;
    // The `cast` driver wraps the spec of another store.
    for _ in 0..2 {
        text(get(entries, "driver"))?;
        match get(entries, "base") {
            Some(Item::Map(base)) => entries = base,
            _ => break,
        }
    }
    let path = match get(entries, "kvstore") {
        Some(Item::Map(store)) => text(get(store, "path"))?,
        _ => return None,
    };
    let path = path.trim_matches('/');
    let last = path.rsplit('/').next().unwrap_or(path);
    let mut folders = vec![path.to_owned()];
    if last != path {
        folders.push(last.to_owned());
    }
    Some(folders)
}
