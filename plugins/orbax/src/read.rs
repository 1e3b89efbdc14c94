//! The reader: trees of arrays become tensors, named by their keys, and a tree of what is beside them.

use crate::array::Arrays;
use crate::json::Json;
use crate::locate::{Found, below, locate, names_a_tree, nothing};
use crate::metadata::{Kind, METADATA, Metadata, STRINGS};
use crate::span::check_path;
use crate::store::Store;
use std::collections::{HashMap, HashSet};
use tensorferry_sdk::{
    CatalogSink, Context, Entry, Error, Node, NodeId, NodeKind, Purpose, Result, Source, TensorDecoder,
    TensorReader,
};

/// The key of a training state's optimizer, as Flax names it.
const OPTIMIZER: &str = "opt_state";

/// Reads checkpoints.
pub(crate) struct Reader;

impl TensorReader for Reader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        // A file that every tree has stands for its folder, where the names of all others begin.
        if *source.entry() != Entry::Folder && !names_a_tree(source.entry()) {
            let error = Error::usage("an Orbax checkpoint is a folder: name that");
            return Err(error.file(source.entry().name()));
        }
        let mut arrays = Arrays::new(source, catalog, context);
        let mut tree = Branches(vec![Branch::default()]);
        let mut is_all_model = true;
        match locate(source, Some(context))? {
            Found::Trees(trees) => {
                for (folder, item) in &trees {
                    hold(source, folder)?;
                    hold_notes(source, folder.split_once('/').map_or("", |(step, _)| step))?;
                    let item = if trees.len() > 1 { item.as_str() } else { "" };
                    is_all_model &= read_tree(&mut arrays, folder, item, &mut tree)? && trees.len() == 1;
                }
            }
            Found::Arrays(folder) => {
                let store = Store::Folder { source, folder };
                is_all_model = read_arrays(&mut arrays, &store, "", &mut tree)?;
            }
            Found::Nothing { is_unfinished } => return Err(nothing(is_unfinished).file(".")),
        }
        // Modules are maps in maps, and all of them the model: a flat target takes the names that lead to its arrays.
        if !(is_all_model && context.purpose() == Purpose::FLAT) {
            let root = tree.grow(arrays.catalog)?;
            arrays.catalog.root(root)?;
        }
        Ok(Box::new(arrays.encoded))
    }
}

/// Opens the files that are a checkpoint's beside its arrays, so that the host knows them for read: what each process wrote,
/// of which the store in the folder itself is made, and notes on shards. They mean nothing anywhere else.
fn hold(source: &dyn Source, folder: &str) -> Result<()> {
    hold_notes(source, folder.trim_end_matches('/'))?;
    for name in below(source, folder.trim_end_matches('/'))? {
        let own = format!("{folder}{name}/");
        let is_process = name.starts_with("ocdbt.process_");
        if is_process || name == "array_metadatas" {
            source.list(&own)?.iter().try_for_each(|name| source.open(name).map(drop))?;
        }
        if is_process {
            source.list(&format!("{own}d/"))?.iter().try_for_each(|name| source.open(name).map(drop))?;
        }
    }
    Ok(())
}

/// The same of the notes in a folder.
fn hold_notes(source: &dyn Source, folder: &str) -> Result<()> {
    let slash = if folder.is_empty() { "" } else { "/" };
    for name in ["_CHECKPOINT_METADATA", "_sharding", "commit_success.txt"] {
        let name = format!("{folder}{slash}{name}");
        if source.contains(&name)? {
            source.open(&name)?;
        }
    }
    Ok(())
}

/// All arrays of a store that has no tree. Whether none of them is of an optimizer.
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

/// The arrays and values of a tree. Whether they are arrays alone, none of an optimizer.
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
    let Some(bytes) = json(&named)? else {
        return read_arrays(arrays, &store, item, tree);
    };
    let at = |error: Error| {
        if error.details().any(|(name, _)| name == "file") { error } else { error.file(&*named) }
    };
    let metadata = Metadata::parse(&bytes, context.limits()).map_err(at)?;
    let is_ocdbt = matches!(store, Store::Ocdbt(_));
    if metadata.uses_ocdbt.is_some_and(|uses| uses && !is_ocdbt) {
        return Err(at(Error::malformed(
            "the arrays are said to be in OCDBT, and there is no manifest.ocdbt",
        )));
    }
    let strings = match json(&format!("{folder}{STRINGS}"))? {
        Some(bytes) => {
            Json::parse(&bytes, context.limits()).map_err(|error| error.file(format!("{folder}{STRINGS}")))?
        }
        None => Json::Null,
    };
    let texts: HashMap<&str, &str> = strings.texts().collect();
    let mut is_all_model = true;
    let mut stored = HashSet::new();
    for leaf in &metadata.leaves {
        context.check_cancelled()?;
        is_all_model &= matches!(leaf.kind, Kind::Array) && leaf.path.iter().all(|(key, _)| key != OPTIMIZER);
        let name = leaf.name();
        let node = match leaf.kind {
            Kind::Array => {
                check_path(&name).map_err(at)?;
                if !stored.insert(name.clone()) {
                    let why = "two arrays of the tree have the same name in the store, so that it holds only one of them";
                    return Err(at(Error::unsupported(why).tensor(name)));
                }
                let unique = arrays.name(item, &name)?;
                let id = arrays.add(&store, &name, &unique, metadata.stores_all)?;
                let missing = || Error::malformed("an array of the tree is not there").tensor(&*name);
                Child::Node(arrays.catalog.node(Node::tensor(id.ok_or_else(|| at(missing()))?))?)
            }
            Kind::Text => Child::Node(arrays.catalog.node(match texts.get(&*name) {
                Some(text) => Node::text(text),
                None => Node::none(),
            })?),
            Kind::None => Child::Node(arrays.catalog.node(Node::none())?),
            Kind::Empty { is_list } => {
                let kind = if is_list { NodeKind::LIST } else { NodeKind::MAP };
                Child::Node(arrays.catalog.node(Node::container(kind, "", []))?)
            }
        };
        let item = Some((item.to_owned(), false)).filter(|(item, _)| !item.is_empty());
        tree.put(item.into_iter().chain(leaf.path.iter().cloned()), node)
            .map_err(|error| at(error.tensor(&*name)))?;
    }
    Ok(is_all_model)
}

#[derive(Debug, Clone, Copy)]
enum Child {
    Branch(usize),
    Node(NodeId),
}

/// The maps and lists of a tree, each after the one that it grows from.
struct Branches(Vec<Branch>);

#[derive(Default)]
struct Branch {
    children: Vec<(String, Child)>,
    places: HashMap<String, usize>,
    /// Whether all keys are numbers in a list.
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
                    return Err(Error::malformed("two leaves have one path, or one goes through the other"));
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

    fn grow(&self, catalog: &mut dyn CatalogSink) -> Result<NodeId> {
        let mut nodes: Vec<Option<NodeId>> = vec![None; self.0.len()];
        for (place, branch) in self.0.iter().enumerate().rev() {
            let node = |child: Child| match child {
                Child::Node(node) => Ok(node),
                Child::Branch(below) => {
                    nodes[below].ok_or_else(|| Error::plugin("a branch before its parent"))
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
        nodes.first().copied().flatten().ok_or_else(|| Error::plugin("a tree without a root"))
    }
}
