//! The reader converts arrays to tensors that are named after their keys. Other values remain in
//! the tree.

use crate::aggregate::{self, AGGREGATE, Aggregate};
use crate::array::{Arrays, prefixed};
use crate::array_metadata;
use crate::json::Json;
use crate::locate::{
    CheckpointLayout, is_array, is_process_folder, is_tree_file, locate, not_found_error, subfolders,
};
use crate::metadata::{LeafKind, METADATA, Metadata, STRINGS};
use crate::span::check_path;
use crate::store::Store;
use std::collections::{HashMap, HashSet};
use tensorferry_sdk::{
    CatalogSink, Context, Dtype, Entry, Error, FileId, Loss, LossKind, Node, NodeId, NodeKind, Purpose,
    Result, Source, Storage, TensorDecoder, TensorReader, Value,
};

/// Key of the optimizer in a training state, as in Flax.
const OPTIMIZER: &str = "opt_state";

pub(crate) struct Reader;

impl TensorReader for Reader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        // Instead of a tree's folder, the user may pass a file that every tree contains. All names
        // are relative to the folder.
        if *source.entry() != Entry::Folder && !is_tree_file(source.entry()) {
            let error = Error::usage("an Orbax checkpoint is a folder").hint("pass the path of the folder");
            return Err(error.file(source.entry().name()));
        }
        let mut arrays = Arrays::new(source, catalog, context);
        let mut tree = Branches(vec![Branch::default()]);
        let mut is_all_model = true;
        match locate(source, Some(context))? {
            CheckpointLayout::Trees(trees) => {
                mark_notes_read(source, "")?;
                for (folder, item) in &trees {
                    mark_read(source, folder)?;
                    mark_notes_read(source, folder.split_once('/').map_or("", |(step, _)| step))?;
                    let item = if trees.len() > 1 { item.as_str() } else { "" };
                    is_all_model &= read_tree(&mut arrays, folder, item, &mut tree)? && trees.len() == 1;
                }
            }
            CheckpointLayout::Arrays(folder) => {
                if source.contains(&format!("{folder}{AGGREGATE}"))? {
                    let error = Error::malformed("the file is not the tree of the arrays next to it");
                    return Err(error.file(format!("{folder}{AGGREGATE}")).expected("a map in msgpack"));
                }
                let store = Store::Folder { source, folder };
                is_all_model = read_arrays(&mut arrays, &store, "", &mut tree)?;
            }
            CheckpointLayout::Nothing { is_unfinished } => {
                return Err(not_found_error(is_unfinished).file("."));
            }
        }
        // If the whole tree is one model, the maps in the tree are its modules. If the target
        // format is flat, the names of the arrays are then sufficient, and the tree is omitted.
        if !(is_all_model && context.purpose() == Purpose::FLAT) {
            let root = tree.add_nodes(arrays.catalog)?;
            arrays.catalog.root(root)?;
        }
        Ok(Box::new(arrays.encoded))
    }
}

/// Opens other files of a checkpoint, so that the host considers them read. These files are the
/// stores of single processes and notes on sharding. The process stores were merged into the store
/// of the folder. These files have no meaning in other formats.
fn mark_read(source: &dyn Source, folder: &str) -> Result<()> {
    mark_notes_read(source, folder.trim_end_matches('/'))?;
    for name in subfolders(source, folder.trim_end_matches('/'))? {
        let own = format!("{folder}{name}/");
        let is_process = is_process_folder(&name);
        if is_process {
            source.list(&own)?.iter().try_for_each(|name| source.open(name).map(drop))?;
        }
        if is_process {
            source.list(&format!("{own}d/"))?.iter().try_for_each(|name| source.open(name).map(drop))?;
        }
    }
    Ok(())
}

/// Opens the notes on sharding and commits in a folder, so that the host considers them read.
fn mark_notes_read(source: &dyn Source, folder: &str) -> Result<()> {
    let slash = if folder.is_empty() { "" } else { "/" };
    for name in ["_CHECKPOINT_METADATA", "_sharding", "commit_success.txt", "orbax.checkpoint"] {
        let name = format!("{folder}{slash}{name}");
        if source.contains(&name)? {
            source.open(&name)?;
        }
    }
    Ok(())
}

/// Reads all arrays of a store without a tree. Returns true if none of the arrays belongs to an
/// optimizer.
fn read_arrays(arrays: &mut Arrays<'_>, store: &Store<'_>, item: &str, tree: &mut Branches) -> Result<bool> {
    let mut is_all_model = true;
    for key in store.arrays(arrays.context)? {
        arrays.context.check_cancelled()?;
        is_all_model &= !key.split(['.', '/']).any(|key| key == OPTIMIZER);
        let name = arrays.name(item, &key)?;
        if let Some(id) = arrays.add(store, &key, &name, false)? {
            let node = arrays.catalog.node(Node::tensor(id))?;
            let path = [Some(item.to_owned()).filter(|item| !item.is_empty()), Some(key)];
            tree.put(path.into_iter().flatten().map(|key| (key, false)), Child::Node(node))?;
        }
    }
    Ok(is_all_model)
}

/// Reads the arrays and values of a tree. Returns whether the tree contains only arrays, none of
/// which belongs to an optimizer.
fn read_tree(arrays: &mut Arrays<'_>, folder: &str, item: &str, tree: &mut Branches) -> Result<bool> {
    let (source, context) = (arrays.source, arrays.context);
    let store = Store::open(source, folder, context)?;
    let json = |name: &str| -> Result<Option<Vec<u8>>> {
        if !source.contains(name)? {
            return Ok(None);
        }
        let file = source.open(name)?;
        source.read_vec(file, 0, source.len(file), context.limits()).map(Some)
    };
    let named = format!("{folder}{METADATA}");
    let at = |error: Error| {
        if error.details().any(|(name, _)| name == "file") { error } else { error.file(&*named) }
    };
    let metadata = match json(&named)? {
        Some(bytes) => Some(Metadata::parse(&bytes, context.limits()).map_err(at)?),
        None => None,
    };
    let mut branch = ItemReader {
        known: array_metadata::read(source, folder, context.limits())?,
        keys: HashSet::new(),
        store: &store,
        item,
        tree,
        is_all_model: true,
        is_random_key: is_random_key(source, folder, context)?,
    };
    let is_aggregated = aggregate::is_in(source, folder)?;
    if is_aggregated {
        let aggregate = Aggregate::read(source, folder, context)?;
        let named = format!("{folder}{AGGREGATE}");
        // The aggregate files of some versions store lists as maps. `_METADATA` distinguishes list
        // indices from map keys.
        let paths: HashMap<String, &[(String, bool)]> = metadata
            .iter()
            .flat_map(|metadata| &metadata.leaves)
            .map(|leaf| (leaf.name(), &*leaf.path))
            .collect();
        for (path, leaf) in aggregate.leaves {
            context.check_cancelled()?;
            let path = paths.get(&name_of(&path)).map_or(path, |path| path.to_vec());
            branch.add_aggregated(arrays, aggregate.file, path, leaf).map_err(|error| error.file(&*named))?;
        }
    }
    let Some(metadata) = metadata else {
        if !is_aggregated {
            return read_arrays(arrays, &store, item, branch.tree);
        }
        branch.report_unnamed_arrays(arrays, folder)?;
        return Ok(branch.is_all_model);
    };
    if metadata.uses_ocdbt.is_some_and(|uses| uses && !matches!(store, Store::Ocdbt(_))) {
        return Err(at(Error::malformed(
            "the arrays are declared to be in OCDBT, but manifest.ocdbt is missing",
        )));
    }
    let strings = match json(&format!("{folder}{STRINGS}"))? {
        Some(bytes) => {
            Json::parse(&bytes, context.limits()).map_err(|error| error.file(format!("{folder}{STRINGS}")))?
        }
        None => Json::Null,
    };
    let texts: HashMap<&str, &str> = strings.texts().collect();
    // The leaves of the aggregate file are also listed in `_METADATA`, so they are skipped here.
    let aggregated = branch.keys.clone();
    let mut stored = HashSet::new();
    for leaf in &metadata.leaves {
        context.check_cancelled()?;
        let name = leaf.name();
        if aggregated.contains(&name) {
            continue;
        }
        branch.is_all_model &=
            matches!(leaf.kind, LeafKind::Array) && leaf.path.iter().all(|(key, _)| key != OPTIMIZER);
        let node = match leaf.kind {
            LeafKind::Array => {
                if !stored.insert(name.clone()) {
                    let why = "two arrays in the tree have the same name in the store, which contains only one of them";
                    return Err(at(Error::unsupported(why).tensor(name)));
                }
                branch.array(arrays, [&*name], &name, metadata.stores_all).map_err(at)?
            }
            LeafKind::Text => arrays.catalog.node(match texts.get(&*name) {
                Some(text) => Node::text(text),
                None => Node::none(),
            })?,
            LeafKind::None => arrays.catalog.node(Node::none())?,
            LeafKind::Empty { is_list } => arrays.catalog.node(empty(is_list))?,
        };
        branch.put(leaf.path.iter().cloned(), node).map_err(|error| at(error.tensor(&*name)))?;
    }
    branch.report_unnamed_arrays(arrays, folder)?;
    Ok(branch.is_all_model)
}

/// Converts a number to a scalar array, as Orbax does when each array has its own folder.
fn number(node: &Node) -> Option<(Dtype, Vec<u8>)> {
    match node.kind {
        NodeKind::FLOAT => node.as_float().map(|number| (Dtype::F64, number.to_le_bytes().to_vec())),
        NodeKind::INT => {
            let number = i64::try_from(node.as_wide_int()?).ok()?;
            Some((Dtype::I64, number.to_le_bytes().to_vec()))
        }
        NodeKind::BOOL => node.as_bool().map(|value| (Dtype::BOOL, vec![value.into()])),
        _ => None,
    }
}

fn empty(is_list: bool) -> Node {
    Node::container(if is_list { NodeKind::LIST } else { NodeKind::MAP }, "", [])
}

fn name_of(path: &[(String, bool)]) -> String {
    let keys: Vec<&str> = path.iter().map(|(key, _)| &**key).collect();
    keys.join(".")
}

/// Returns whether a folder contains a typed key that Orbax's handler for random keys wrote. A
/// second folder next to this folder contains the metadata of the key.
fn is_random_key(source: &dyn Source, folder: &str, context: &dyn Context) -> Result<bool> {
    let name = format!("{}_metadata/metadata", folder.trim_end_matches('/'));
    if !folder.ends_with("_random_key/") || !source.contains(&name)? {
        return Ok(false);
    }
    let file = source.open(&name)?;
    let bytes = source.read_vec(file, 0, source.len(file), context.limits())?;
    let json = Json::parse(&bytes, context.limits()).map_err(|error| error.file(&*name))?;
    Ok(*json.get("typed") == Json::Bool(true))
}

/// The state of reading the tree of one item.
struct ItemReader<'a> {
    store: &'a Store<'a>,
    item: &'a str,
    tree: &'a mut Branches,
    /// Entries of `ext_metadata` by array name.
    known: HashMap<String, Vec<(String, Json)>>,
    /// Names of the leaves, and keys of the stored arrays, that have been read so far.
    keys: HashSet<String>,
    is_all_model: bool,
    is_random_key: bool,
}

impl ItemReader<'_> {
    /// Adds a leaf of the aggregate file.
    fn add_aggregated(
        &mut self,
        arrays: &mut Arrays<'_>,
        file: FileId,
        path: Vec<(String, bool)>,
        leaf: aggregate::Leaf,
    ) -> Result<()> {
        use aggregate::Leaf;
        let name = name_of(&path);
        let is_array = matches!(leaf, Leaf::Array(_) | Leaf::Reference(_) | Leaf::Value(_));
        self.is_all_model &= is_array && path.iter().all(|(key, _)| key != OPTIMIZER);
        let node = match leaf {
            Leaf::Array(array) => {
                let node = array.tensor(file, &arrays.name(self.item, &name)?, arrays.catalog)?;
                arrays.catalog.node(node)?
            }
            Leaf::Reference(folders) => {
                self.array(arrays, folders.iter().map(|folder| &**folder), &name, false)?
            }
            Leaf::Value(node) => match number(&node) {
                Some((dtype, bytes)) => {
                    let storage = arrays.catalog.storage(Storage::inline(bytes))?;
                    let unique = arrays.name(self.item, &name)?;
                    let id = arrays.catalog.tensor(&unique, dtype, &[], storage, 0)?;
                    arrays.catalog.node(Node::tensor(id))?
                }
                None => {
                    self.is_all_model = false;
                    arrays.catalog.node(node)?
                }
            },
            Leaf::Empty { is_list } => arrays.catalog.node(empty(is_list))?,
            Leaf::Unknown(kind) => {
                let why = format!("msgpack extension of type {kind}, which Flax does not define");
                arrays.catalog.loss(Loss::new(LossKind::State, prefixed(self.item, &name), why))?;
                arrays.catalog.node(Node::none())?
            }
        };
        self.put(path.into_iter(), node).map_err(|error| error.tensor(&*name))?;
        self.keys.insert(name);
        Ok(())
    }

    /// Adds the array of a leaf. The array's key in the store is the first of `keys` that exists.
    fn array<'k>(
        &mut self,
        arrays: &mut Arrays<'_>,
        keys: impl IntoIterator<Item = &'k str>,
        leaf: &str,
        stores_all: bool,
    ) -> Result<NodeId> {
        let name = arrays.name(self.item, leaf)?;
        for key in keys {
            check_path(key)?;
            let Some(id) = arrays.add(self.store, key, &name, stores_all)? else { continue };
            self.keys.insert(key.to_owned());
            for (entry, value) in self.known.remove(key).unwrap_or_default() {
                let kept = value.text().map(|text| arrays.catalog.attribute(id, &entry, Value::text(text)));
                if kept.transpose()?.is_none() {
                    let why =
                        "ferry does not read this entry of the array's metadata, because it is not a string";
                    arrays.catalog.loss(Loss::new(LossKind::Attribute, format!("{name}: {entry}"), why))?;
                }
            }
            if self.is_random_key {
                let why =
                    "Orbax restores this array as a typed key of jax.random; ferry keeps only its numbers";
                arrays.catalog.loss(Loss::new(LossKind::Attribute, format!("{name}: typed key"), why))?;
            }
            return arrays.catalog.node(Node::tensor(id));
        }
        Err(Error::malformed("an array in the tree is missing").tensor(leaf))
    }

    fn put(&mut self, path: impl Iterator<Item = (String, bool)>, node: NodeId) -> Result<()> {
        let item = Some((self.item.to_owned(), false)).filter(|(item, _)| !item.is_empty());
        self.tree.put(item.into_iter().chain(path), Child::Node(node))
    }

    /// Reports the arrays in the store that the tree does not contain.
    fn report_unnamed_arrays(&self, arrays: &mut Arrays<'_>, folder: &str) -> Result<()> {
        let others: Vec<String> = match self.store {
            Store::Ocdbt(_) => self.store.arrays(arrays.context)?,
            Store::Folder { source, .. } => {
                let mut found = Vec::new();
                for name in subfolders(*source, folder.trim_end_matches('/'))? {
                    if !self.keys.contains(&name) && is_array(*source, &format!("{folder}{name}"))? {
                        found.push(name);
                    }
                }
                found
            }
        };
        for key in others.iter().filter(|key| !self.keys.contains(*key)) {
            let why = "the checkpoint's tree does not list this array, so Orbax does not restore it";
            arrays.catalog.loss(Loss::new(LossKind::Tensor, prefixed(self.item, key), why))?;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
enum Child {
    Branch(usize),
    Node(NodeId),
}

/// The maps and lists of a tree. Each map or list follows its parent.
struct Branches(Vec<Branch>);

#[derive(Default)]
struct Branch {
    children: Vec<(String, Child)>,
    places: HashMap<String, usize>,
    /// Whether all keys are list indices.
    is_list: bool,
}

impl Branches {
    fn put(&mut self, path: impl Iterator<Item = (String, bool)>, leaf: Child) -> Result<()> {
        let mut at = 0;
        let mut path = path.peekable();
        while let Some((key, is_number)) = path.next() {
            let is_last = path.peek().is_none();
            let next = self.0.len();
            let branch = &mut self.0[at];
            branch.is_list = is_number && (branch.is_list || branch.children.is_empty());
            match branch.places.get(&key).map(|&place| branch.children[place].1) {
                Some(Child::Branch(below)) if !is_last => at = below,
                Some(_) => {
                    return Err(Error::malformed(
                        "two leaves have the same path, or one is inside the other",
                    ));
                }
                None => {
                    branch.places.insert(key.clone(), branch.children.len());
                    branch.children.push((key, if is_last { leaf } else { Child::Branch(next) }));
                    if !is_last {
                        self.0.push(Branch::default());
                        at = next;
                    }
                }
            }
        }
        Ok(())
    }

    fn add_nodes(&self, catalog: &mut dyn CatalogSink) -> Result<NodeId> {
        let mut nodes: Vec<Option<NodeId>> = vec![None; self.0.len()];
        for (place, branch) in self.0.iter().enumerate().rev() {
            let node = |child: Child| match child {
                Child::Node(node) => Ok(node),
                Child::Branch(below) => {
                    nodes[below].ok_or_else(|| Error::plugin("a branch precedes its parent"))
                }
            };
            let in_order: Option<Vec<Child>> = (0..branch.children.len())
                .map(|number| branch.places.get(&number.to_string()).map(|&at| branch.children[at].1))
                .collect();
            let made = match in_order {
                Some(items) if branch.is_list => {
                    let items = items.into_iter().map(node).collect::<Result<Vec<_>>>()?;
                    catalog.node(Node::container(NodeKind::LIST, "", items))?
                }
                _ => {
                    let mut entries = Vec::with_capacity(branch.children.len());
                    for (key, child) in &branch.children {
                        entries.push((catalog.node(Node::text(key))?, node(*child)?));
                    }
                    catalog.node(Node::map("", &entries))?
                }
            };
            nodes[place] = Some(made);
        }
        nodes.first().copied().flatten().ok_or_else(|| Error::plugin("the tree has no root"))
    }
}
