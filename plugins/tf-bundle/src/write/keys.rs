//! Chooses the keys for the tensors of a catalog, and creates the object graph that a program uses
//! to find the tensors.
//!
//! `tf.train.Checkpoint` finds variables only through the graph, and does not report missing
//! variables. An original graph therefore takes precedence. The original graph is read from another
//! checkpoint of the program, or from the metadata of the tensors. A graph that is built from names
//! lacks the aliases of objects. If there is no graph, only `tf.compat.v1.train.Saver` and programs
//! that read variables by name can find them.

use super::entry::{Entry, EntryData};
use super::graph::Graph;
use super::template::Template;
use super::writable::WritableTensor;
use crate::bundle::OBJECT_GRAPH_KEY;
use crate::names::key_map::{KeyMap, OBJECT_GRAPH};
use crate::names::key_text::key_text;
use crate::names::object_graph::ObjectGraph;
use crate::names::path::{ATTRIBUTES, VARIABLE_VALUE, push_name};
use crate::names::rebuild::from_keys;
use crate::names::resolve::{ReferenceCheckpoint, resolve};
use crate::options::{GraphChoice, MissingValues, WriteOptions};
use crate::side_entry::SIDE_ENTRY_KEY;
use std::collections::{BTreeMap, HashSet};
use tensorferry_sdk::{
    CatalogView, Context, ErrorKind, LayoutSink, Limits, Loss, LossKind, Purpose, Result, Severity,
};

/// The keys of each tensor, and the other data that the checkpoint needs.
struct KeyChoice {
    keys: Vec<Vec<Vec<u8>>>,
    graph: Option<Graph>,
    source: GraphSource,
    /// Strings that describe objects, by key.
    texts: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Entries that are copied from the template checkpoint.
    kept: Vec<Entry>,
}

/// The source of the object graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GraphSource {
    /// Another checkpoint of the same program, or the tensors' metadata.
    Program,
    /// Tensor names that happen to be keys.
    Names,
    /// Tensor names, because the user requested it.
    RequestedNames,
    /// No graph exists, and none is needed.
    NotNeeded,
    /// No graph exists, although the program may need one.
    Missing,
}

/// Returns the entries for the tensors and the object graph.
pub(super) fn assign(
    tensors: &[WritableTensor],
    options: &WriteOptions,
    catalog: &dyn CatalogView,
    layout: &mut dyn LayoutSink,
    context: &dyn Context,
) -> Result<Vec<Entry>> {
    let names: Vec<&str> = tensors.iter().map(|writable| catalog.tensor(writable.tensor).name).collect();
    let choice = choose(tensors, &names, options, catalog, layout, context)?;
    let mut entries = entries_of_tensors(tensors, &choice.keys, catalog, layout)?;
    let taken: HashSet<&[u8]> = choice.keys.iter().flatten().map(Vec::as_slice).collect();
    let texts = choice.texts.into_iter().filter(|(key, _)| !taken.contains(&**key));
    entries.extend(texts.map(|(key, text)| Entry::text(key, text)));
    entries.extend(choice.kept);

    let graph = choice.graph.map(|graph| graph.pruned(&entries)).filter(|graph| !graph.has_no_values());
    let loss = match (&graph, choice.source) {
        (Some(graph), GraphSource::Program) if !context.purpose().has(Purpose::COPY) => {
            graph.unknown_entries(&entries, context.limits())?
        }
        (Some(_), GraphSource::Names) => Some(loss(
            "it is made from names, so an object with several names has only one: \
             tf.train.Checkpoint may silently restore only a part; \
             -o like=CHECKPOINT takes the graph of a checkpoint of the program, -o graph=names accepts this graph",
        )),
        // A copied checkpoint has the same graph as the original, so its unknown entries are not
        // new losses.
        (Some(_), _) | (None, GraphSource::NotNeeded) => None,
        (None, _) => Some(loss(
            "it is missing, and names are used as keys: tf.train.Checkpoint may not match them; \
             -o like=CHECKPOINT takes the graph of a checkpoint of the program, -o graph=names makes one from names, \
             -o graph=none accepts this",
        )),
    };
    loss.into_iter().try_for_each(|loss| layout.loss(loss))?;
    entries.extend(graph.map(Graph::into_entry));
    Ok(entries)
}

/// Returns a loss about the object graph. Its severity is `Changed`: all values are written, but a
/// program may not find them.
fn loss(why: &str) -> Loss {
    Loss::new(LossKind::Graph, OBJECT_GRAPH_KEY, why).severity(Severity::Changed)
}

/// Returns an entry for each key of each tensor.
pub(crate) fn entries_of_tensors(
    tensors: &[WritableTensor],
    keys: &[Vec<Vec<u8>>],
    catalog: &dyn CatalogView,
    layout: &mut dyn LayoutSink,
) -> Result<Vec<Entry>> {
    let mut entries = Vec::with_capacity(tensors.len());
    for (&WritableTensor { tensor, dtype }, keys) in tensors.iter().zip(keys) {
        let view = catalog.tensor(tensor);
        let is_its_name = matches!(&**keys, [key] if key == view.name.as_bytes());
        for key in keys {
            if !is_its_name {
                layout.written_as(tensor, &key_text(key))?;
            }
            let shape = view.shape.to_vec();
            entries.push(Entry { key: key.clone(), dtype, shape, value: EntryData::Tensor(tensor) });
        }
    }
    Ok(entries)
}

fn choose(
    tensors: &[WritableTensor],
    names: &[&str],
    options: &WriteOptions,
    catalog: &dyn CatalogView,
    layout: &mut dyn LayoutSink,
    context: &dyn Context,
) -> Result<KeyChoice> {
    match options.graph {
        GraphChoice::Omitted => return Ok(from_names(names, GraphSource::NotNeeded)),
        GraphChoice::Names => return Ok(from_object_paths(names)),
        GraphChoice::Auto => {}
    }
    let (mut map, losses) = KeyMap::from_metadata(&catalog.metadata_texts().into_iter().collect());
    losses.into_iter().try_for_each(|loss| layout.loss(loss))?;
    if let Some(path) = &options.like {
        let template = Template::checkpoint(path, context)?;
        let keys = template.resolve(tensors, &map, catalog, layout, context)?;
        return from_like(names, keys, &map, template, options.missing, layout, context);
    }
    if let Some(bytes) = map.object_graph.take() {
        match from_metadata(names, &map, bytes, context.limits()) {
            Ok(choice) => return Ok(KeyChoice { texts: map.strings, ..choice }),
            Err(error) if error.kind() == ErrorKind::Usage => return Err(error),
            Err(error) => layout.loss(Loss::new(LossKind::Metadata, OBJECT_GRAPH, error.to_string()))?,
        }
    }
    if let Some(graph) = from_keys(names).filter(|_| !names.is_empty()) {
        let graph = Some(Graph::new(graph));
        return Ok(KeyChoice { graph, ..from_names(names, GraphSource::Names) });
    }
    let has_none_to_lose = names.is_empty() || context.purpose().has(Purpose::COPY);
    let source = if has_none_to_lose { GraphSource::NotNeeded } else { GraphSource::Missing };
    let keys = resolve(names, &map, &ReferenceCheckpoint::default())?.keys;
    Ok(KeyChoice { texts: map.strings, ..found(names, keys, source) })
}

/// Uses the names of the tensors as their keys.
fn from_names(names: &[&str], source: GraphSource) -> KeyChoice {
    let keys = names.iter().map(|name| vec![name.as_bytes().to_vec()]).collect();
    KeyChoice { keys, graph: None, source, texts: BTreeMap::new(), kept: Vec::new() }
}

/// Converts names to keys that are object paths, and builds a graph with an object for each part of
/// a path.
fn from_object_paths(names: &[&str]) -> KeyChoice {
    let spell = |name: &&str| {
        if from_keys(&[name]).is_some() {
            return (*name).to_owned();
        }
        let parts = name.split('/').map(|part| {
            let mut escaped = String::with_capacity(part.len());
            push_name(&mut escaped, part);
            escaped
        });
        parts.collect::<Vec<_>>().join("/") + ATTRIBUTES + VARIABLE_VALUE
    };
    let keys: Vec<String> = names.iter().map(spell).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    KeyChoice { graph: from_keys(&keys).map(Graph::new), ..from_names(&keys, GraphSource::RequestedNames) }
}

/// Uses the keys that were found. If a tensor has no keys, its name becomes its key.
fn found(names: &[&str], mut keys: Vec<Vec<Vec<u8>>>, source: GraphSource) -> KeyChoice {
    for (keys, name) in keys.iter_mut().zip(names) {
        if keys.is_empty() {
            keys.push(name.as_bytes().to_vec());
        }
    }
    KeyChoice { keys, graph: None, source, texts: BTreeMap::new(), kept: Vec::new() }
}

fn from_like(
    names: &[&str],
    keys: Vec<Vec<Vec<u8>>>,
    map: &KeyMap,
    template: Template,
    missing: MissingValues,
    layout: &mut dyn LayoutSink,
    context: &dyn Context,
) -> Result<KeyChoice> {
    let source = if template.graph.is_some() { GraphSource::Program } else { GraphSource::NotNeeded };
    let texts = map.strings.iter().filter(|(key, _)| template.index.find(key).is_some());
    let texts: BTreeMap<_, _> = texts.map(|(key, text)| (key.clone(), text.clone())).collect();

    let own = [OBJECT_GRAPH_KEY, SIDE_ENTRY_KEY].map(str::as_bytes);
    let taken: HashSet<&[u8]> =
        keys.iter().flatten().chain(texts.keys()).map(Vec::as_slice).chain(own).collect();
    let rest = template.rest(&taken, context)?;
    let unmatched: Vec<&str> =
        names.iter().zip(&keys).filter(|(_, keys)| keys.is_empty()).map(|(name, _)| *name).collect();
    let mut entries = rest.kept_variables(missing, &unmatched, context)?.to_vec();
    if missing == MissingValues::Kept {
        entries.extend(rest.kept_state(context));
    } else {
        rest.losses().try_for_each(|loss| layout.loss(loss))?;
    }
    let kept = entries.into_iter().map(|entry| template.copy_entry(entry, context)).collect::<Result<_>>()?;
    Ok(KeyChoice { graph: template.graph, texts, kept, ..found(names, keys, source) })
}

fn from_metadata(names: &[&str], map: &KeyMap, bytes: Vec<u8>, limits: &Limits) -> Result<KeyChoice> {
    let graph = Graph::decode(bytes, limits)?;
    let keys =
        resolve(names, map, &ReferenceCheckpoint::graph(&ObjectGraph::new(&graph.proto, limits)?))?.keys;
    Ok(KeyChoice { graph: Some(graph), ..found(names, keys, GraphSource::Program) })
}

#[cfg(test)]
mod tests;
