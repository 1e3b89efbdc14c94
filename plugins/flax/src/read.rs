//! Reads Flax files. Arrays become tensors whose names consist of the keys, and all other values
//! are kept in the tree.

use crate::NAMING;
use std::collections::HashSet;
use tensorferry_flax_file::chunked::join;
use tensorferry_flax_file::document::{Document, Item, Key};
use tensorferry_flax_file::placeholder;
use tensorferry_flax_file::positions::Positions;
use tensorferry_hub::{Choice, Index, choose};
use tensorferry_sdk::{
    CatalogSink, Context, Error, Loss, LossKind, Node, NodeId, NodeKind, NothingEncoded, Purpose, Result,
    Source, TensorDecoder, TensorReader, UniqueNames,
};

/// Reads single files and sets of shards.
pub(crate) struct Reader {
    /// Whether to read a shard without the other shards of its set.
    pub(crate) shard_is_alone: bool,
}

impl TensorReader for Reader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let (files, index) = match choose(&NAMING, self.shard_is_alone, source, context)? {
            Choice::Files(files) => (files, None),
            Choice::Index(name) => {
                let index = Index::read(source, &name, context.limits())?;
                (index.files(source)?.into_iter().map(str::to_owned).collect(), Some(index))
            }
        };
        let is_alone = files.len() == 1 && index.is_none();
        let mut paths = Vec::new();
        for name in &files {
            context.check_cancelled()?;
            let read = read_file(source, name, is_alone, index.as_ref(), catalog, context);
            paths.push(read.map_err(|error| error.file(name))?);
        }
        if let Some(index) = index {
            let named = files.iter().zip(&paths);
            let held: HashSet<(&str, &str)> =
                named.flat_map(|(file, paths)| paths.iter().map(|path| (&**path, &**file))).collect();
            index.check(&held, &HashSet::new(), catalog, context)?;
            for (key, value) in &index.metadata {
                catalog.metadata_text(key, value)?;
            }
        }
        Ok(Box::new(NothingEncoded))
    }
}

/// Declares the tensors of a file. If the model consists of only this file, also declares the
/// file's tree. Returns the paths of the tensors in the form that an index uses.
fn read_file(
    source: &dyn Source,
    name: &str,
    is_alone: bool,
    index: Option<&Index>,
    catalog: &mut dyn CatalogSink,
    context: &dyn Context,
) -> Result<Vec<String>> {
    let file = source.open(name)?;
    let document = Document::read(source, file, context)?;
    // If the file contains only a model, the tree only repeats the names of the arrays. Omit the
    // tree if the output has no tree.
    let is_alone = is_alone && !(context.purpose() == Purpose::FLAT && is_all_model(&document));
    let places = Positions::of(&document);
    let mut paths = Vec::new();
    // Keys may contain dots, so different keys can produce the same name. Within a file, such names
    // are made unique. Across files, they are an error.
    let mut names = UniqueNames::default();
    let mut nodes: Vec<Option<NodeId>> = Vec::with_capacity(document.items.len());
    for (id, item) in document.items.iter().enumerate() {
        let place = places.at(id);
        let array = match item {
            _ if place.is_in_chunked => None,
            Item::Array(array) => Some(array.clone()),
            Item::Map(entries) if place.is_chunked => {
                let joined = join(&document, entries);
                Some(joined.map_err(|error| error.tensor(places.path(&document, id, ".")))?)
            }
            _ => None,
        };
        if let Item::Leaf(node) = item
            && node.as_text().is_some_and(|text| placeholder(text).is_some())
        {
            return Err(placeholder_error(name, node.as_text().unwrap_or_default()));
        }
        let node = if place.is_in_chunked {
            None
        } else if let Some(array) = array {
            let path = places.path(&document, id, "/");
            let is_read = index.is_none_or(|index| index.reads(&path, name));
            paths.push(path);
            if is_read {
                let name = names.take_for(catalog, places.path(&document, id, "."))?;
                let node = array.tensor(file, &name, catalog)?;
                if is_alone { Some(catalog.node(node)?) } else { None }
            } else {
                None
            }
        } else if is_alone {
            Some(state_node(item, &nodes, || places.path(&document, id, "."), catalog)?)
        } else {
            if matches!(item, Item::Leaf(_) | Item::Unknown(_)) {
                let why = "a value that is not an array, in a model of several files";
                catalog.loss(Loss::new(LossKind::State, places.path(&document, id, "."), why))?;
            }
            None
        };
        nodes.push(node);
    }
    if let Some(root) = nodes.last().copied().flatten() {
        catalog.root(root)?;
    }
    Ok(paths)
}

/// Returns the error for a file that contains references to arrays instead of the arrays.
fn placeholder_error(name: &str, text: &str) -> Error {
    let error =
        Error::usage(format!("the file has {text:?} in place of an array, which is in a folder next to it"));
    error.file(name).hint("pass the folder to convert the whole checkpoint")
}

/// Returns whether a file contains only maps and arrays, and no optimizer state.
fn is_all_model(document: &Document) -> bool {
    document.items.iter().all(|item| match item {
        Item::Map(entries) => !entries.iter().any(|(key, _)| key.to_string() == "opt_state"),
        Item::Array(_) => true,
        Item::List(_) | Item::Leaf(_) | Item::Unknown(_) => false,
    })
}

/// Declares the node of a value that is not a tensor.
fn state_node(
    item: &Item,
    nodes: &[Option<NodeId>],
    name: impl Fn() -> String,
    catalog: &mut dyn CatalogSink,
) -> Result<NodeId> {
    let part = |id: u32| {
        let node = nodes.get(id as usize).copied().flatten();
        node.ok_or_else(|| Error::plugin("a value comes after its container"))
    };
    match item {
        Item::Leaf(node) => catalog.node(node.clone()),
        Item::List(parts) => {
            let parts = parts.iter().map(|&id| part(id)).collect::<Result<Vec<_>>>()?;
            catalog.node(Node::container(NodeKind::LIST, "", parts))
        }
        Item::Map(entries) => {
            let mut pairs = Vec::with_capacity(entries.len());
            for (key, id) in entries {
                let key = match key {
                    Key::Text(text) => Node::text(text),
                    Key::Int(number) => Node::wide_int(*number),
                };
                pairs.push((catalog.node(key)?, part(*id)?));
            }
            catalog.node(Node::map("", &pairs))
        }
        Item::Unknown(kind) => {
            let why = format!("msgpack extension of type {kind}, which Flax does not define");
            catalog.loss(Loss::new(LossKind::State, name(), why))?;
            catalog.node(Node::none())
        }
        Item::Array(_) => Err(Error::plugin("an array is not a state value")),
    }
}
