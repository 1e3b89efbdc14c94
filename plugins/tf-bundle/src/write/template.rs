//! A template is the checkpoint that `-o like=` names: a new one takes its keys and its object graph, and
//! has values of its own.

use super::entry::{Carried, Entry, EntryData};
use super::graph::Graph;
use super::writable::Writable;
use crate::bundle::{BundleEntry, BundleIndex, OBJECT_GRAPH_KEY, shape_of};
use crate::dtype;
use crate::locate::{Checkpoint, find};
use crate::names::key_map::{KeyMap, OBJECT_GRAPH};
use crate::names::listed::listed;
use crate::names::naming::{self, Scheme};
use crate::names::object_graph::{ObjectGraph, SavedValue, decode};
use crate::names::resolve::{Followed, Origin, resolve};
use crate::options::MissingValues;
use crate::side_entry::SIDE_ENTRY_KEY;
use std::collections::HashSet;
use std::sync::Arc;
use tensorferry_proto::DataType;
use tensorferry_sdk::{
    ByteOrder, CatalogView, Context, Dtype, Error, LayoutSink, Loss, LossKind, Result, Source, SourceRange,
};

/// A string of at most so many bytes is held in memory.
const MOST_TEXT_BYTES: u64 = 1 << 20;
/// How often a checkpoint was saved: `tf.train.Checkpoint` counts by itself.
const SAVE_COUNTER_KEY: &[u8] = b"save_counter/.ATTRIBUTES/VARIABLE_VALUE";

/// The checkpoint whose keys and object graph a new one takes.
pub(crate) struct Template {
    /// What `-o like=` says.
    path: String,
    source: Arc<dyn Source>,
    pub(crate) index: BundleIndex,
    pub(crate) graph: Option<Graph>,
}

/// What of a template no tensor stands for.
#[derive(Debug, Default)]
pub(crate) struct Rest<'a> {
    /// Values that the program has no other source for.
    pub(crate) variables: Vec<&'a BundleEntry>,
    /// The state of optimizers: the path of each one, and its values.
    pub(crate) state: Vec<(String, Vec<&'a BundleEntry>)>,
    /// How often a checkpoint was saved.
    pub(crate) counters: Vec<&'a BundleEntry>,
    /// What describes objects.
    pub(crate) texts: Vec<&'a BundleEntry>,
    /// Strings, and what is of no dtype that tensors have.
    pub(crate) strings: Vec<&'a BundleEntry>,
}

impl<'a> Rest<'a> {
    /// The variables to carry over, which is said: none, or all if they may be kept.
    pub(crate) fn kept_variables(
        &self,
        choice: MissingValues,
        unmatched: &[&str],
        context: &dyn Context,
    ) -> Result<&[&'a BundleEntry]> {
        if !self.variables.is_empty() {
            let names: Vec<_> = self.variables.iter().map(|entry| entry.name()).collect();
            if choice == MissingValues::Refused {
                let error =
                    Error::usage("no tensor for some of the variables of what -o like= names").expected(
                        format!("tensors for {}, or -o missing=keep, which takes its values", listed(&names)),
                    );
                return Err(match unmatched {
                    [] => error,
                    names => error.found(format!("tensors that match none: {}", listed(names))),
                });
            }
            note_kept("values", &self.variables, context);
        }
        Ok(&self.variables)
    }

    /// What is neither a variable nor an optimizer's, to carry over, which is said.
    pub(crate) fn kept_others(&self, context: &dyn Context) -> impl Iterator<Item = &'a BundleEntry> {
        note_kept("counters", &self.counters, context);
        note_kept("texts of objects", &self.texts, context);
        note_kept("strings", &self.strings, context);
        [&self.counters, &self.texts, &self.strings].into_iter().flatten().copied()
    }

    /// All but the variables, to carry over, which is said.
    pub(crate) fn kept_state(&self, context: &dyn Context) -> impl Iterator<Item = &'a BundleEntry> {
        for (optimizer, state) in &self.state {
            note_kept(&format!("values of {optimizer:?}"), state, context);
        }
        self.state.iter().flat_map(|(_, state)| state).copied().chain(self.kept_others(context))
    }

    /// What is lost where all but the variables is left out.
    pub(crate) fn losses(&self) -> impl Iterator<Item = Loss> {
        let state = self.state.iter().map(|(optimizer, state)| {
            let why = format!(
                "its {} tensors are left out, since none came for them; -o missing=keep takes those of the like",
                state.len()
            );
            Loss::new(LossKind::State, optimizer, why)
        });
        let others = [
            (LossKind::State, &self.counters),
            (LossKind::Metadata, &self.texts),
            (LossKind::Tensor, &self.strings),
        ];
        let others = others.into_iter().flat_map(|(kind, entries)| {
            let why = "it is left out, since none came for it; -o missing=keep takes that of the like";
            entries.iter().map(move |entry| Loss::new(kind, entry.name(), why))
        });
        state.chain(others)
    }
}

fn note_kept(what: &str, entries: &[&BundleEntry], context: &dyn Context) {
    if !entries.is_empty() {
        let names: Vec<_> = entries.iter().map(|entry| entry.name()).collect();
        context.note(&format!("{} {what} are those of the like: {}", names.len(), listed(&names)));
    }
}

impl Template {
    /// Opens the checkpoint of a path.
    pub(crate) fn checkpoint(path: &str, context: &dyn Context) -> Result<Self> {
        let open = || {
            let source = context.open(path)?;
            let (checkpoint, missing) = find(&*source, context.limits())?;
            if let Some(missing) = missing {
                context.note(&missing.to_string());
            }
            match checkpoint {
                Checkpoint::V2(prefix) => Self::bundle(path, source, &prefix, context),
                Checkpoint::V1(_) => Err(Error::usage(
                    "a V1 checkpoint has no keys to take after: its names are in the tensors",
                )),
            }
        };
        open().map_err(|error: Error| error.context(format!("-o like={path}")))
    }

    /// Reads the bundle of a prefix in an input that was opened by its path.
    pub(crate) fn bundle(
        path: &str,
        source: Arc<dyn Source>,
        prefix: &str,
        context: &dyn Context,
    ) -> Result<Self> {
        let index = BundleIndex::read(&*source, prefix, context)?;
        let graph = index.string_scalar(&*source, OBJECT_GRAPH_KEY.as_bytes(), context)?;
        let graph = graph.map(|bytes| Graph::decode(bytes, context.limits())).transpose()?;
        Ok(Self { path: path.to_owned(), source, index, graph })
    }

    /// An entry of its own: a short string as it reads, all else with the bytes as they lie.
    pub(crate) fn carry(&self, entry: &BundleEntry, context: &dyn Context) -> Result<Entry> {
        let is_short = u64::try_from(entry.proto.size).is_ok_and(|size| size <= MOST_TEXT_BYTES);
        if entry.is_string_scalar() && is_short {
            let text = self.index.string_scalar(&*self.source, &entry.key, context)?;
            return Ok(Entry::text(entry.key.clone(), text.unwrap_or_default()));
        }
        let value = if entry.is_sliced() || self.index.byte_order() == ByteOrder::Big {
            let error = Error::unsupported("slices and big-endian bytes are not carried over");
            return Err(error.tensor(entry.name()));
        } else if entry.proto.size == 0 {
            EntryData::Nothing
        } else {
            let data = self.index.data(&*self.source, &entry.proto)?;
            let from = SourceRange {
                source: self.path.clone(),
                file: self.source.name(data.file).to_owned(),
                range: data.offset..data.offset + data.len,
            };
            let dtype = entry.proto.dtype;
            let is_of_bytes = ![DataType::DtString, DataType::DtVariant].map(i32::from).contains(&dtype);
            EntryData::Carried(Carried { from, crc: data.crc, is_of_bytes })
        };
        let shape = shape_of(&entry.proto).map_err(|error| error.tensor(entry.name()))?;
        Ok(Entry { key: entry.key.clone(), dtype: entry.proto.dtype, shape, value })
    }

    /// What is under none of these keys, but for the object graph and the metadata.
    pub(crate) fn rest(&self, taken: &HashSet<&[u8]>, context: &dyn Context) -> Result<Rest<'_>> {
        let graph = self.graph.as_ref().map(|graph| ObjectGraph::new(&graph.proto, context.limits()));
        let graph = graph.transpose()?;
        let optimizers = graph.as_ref().map(ObjectGraph::optimizers).unwrap_or_default();
        let mut rest = Rest::default();
        rest.state.extend(optimizers.iter().map(|optimizer| (optimizer.clone(), Vec::new())));
        for entry in self.entries().filter(|entry| !taken.contains(&*entry.key)) {
            let is_number = dtype::of_number(entry.proto.dtype).is_some_and(|dtype| dtype != Dtype::STR);
            let value = graph.as_ref().and_then(|graph| graph.find(&entry.key));
            let place = match value.and_then(|value| value.optimizer) {
                Some(optimizer) if is_number => &mut rest.state[optimizer].1,
                None if is_number && *entry.key == *SAVE_COUNTER_KEY => &mut rest.counters,
                None if is_number => &mut rest.variables,
                _ if value.is_some_and(SavedValue::describes_object) => &mut rest.texts,
                _ => &mut rest.strings,
            };
            place.push(entry);
        }
        rest.state.retain(|(_, entries)| !entries.is_empty());
        Ok(rest)
    }

    /// All entries but the object graph and the metadata.
    fn entries(&self) -> impl Iterator<Item = &BundleEntry> {
        let own = [OBJECT_GRAPH_KEY, SIDE_ENTRY_KEY].map(str::as_bytes);
        self.index.entries.iter().filter(move |entry| !own.contains(&&*entry.key))
    }

    /// The keys that each of these tensors is written under, in the map that came with the tensors or by
    /// one of the names that keys have; none for a tensor whose name stands for nothing here.
    pub(crate) fn resolve(
        &self,
        tensors: &[Writable],
        map: &KeyMap,
        catalog: &dyn CatalogView,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Vec<Vec<Vec<u8>>>> {
        let names: Vec<&str> = tensors.iter().map(|writable| catalog.tensor(writable.tensor).name).collect();
        let keys = self.keys(&names, map, layout, context)?;
        for (&writable, keys) in tensors.iter().zip(&keys) {
            keys.iter().try_for_each(|key| self.check(key, writable, catalog))?;
        }
        Ok(keys)
    }

    /// Whether a tensor can stand under a key.
    fn check(&self, key: &[u8], writable: Writable, catalog: &dyn CatalogView) -> Result<()> {
        let entry = self.index.find(key).ok_or_else(|| Error::plugin("a key that is not there"))?;
        let tensor = catalog.tensor(writable.tensor);
        let shape = shape_of(&entry.proto).map_err(|error| error.tensor(entry.name()))?;
        if (entry.proto.dtype, &*shape) == (writable.dtype, tensor.shape) {
            return Ok(());
        }
        let text = |number, shape: &[u64]| format!("{} of shape {shape:?}", dtype::word(number));
        Err(Error::usage("a tensor does not fit the variable of what -o like= names")
            .tensor(entry.name())
            .expected(text(entry.proto.dtype, &shape))
            .found(format!("{}, as {:?}", text(writable.dtype, tensor.shape), tensor.name)))
    }

    fn keys(
        &self,
        names: &[&str],
        map: &KeyMap,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Vec<Vec<Vec<u8>>>> {
        let entries: Vec<_> = self.entries().collect();
        let variables: Vec<_> = entries.iter().map(|entry| entry.variable()).collect();
        let graph = self.graph.as_ref().map(|graph| ObjectGraph::new(&graph.proto, context.limits()));
        let graph = graph.transpose()?;
        let mut same =
            |a: usize, b: usize| self.index.same_content(&*self.source, entries[a], entries[b], context);
        let tensors = naming::name(&variables, graph.as_ref(), Scheme::Auto, &mut same)?;

        let is_same = |bytes: &[u8]| self.graph.as_ref().is_some_and(|graph| graph.is(bytes));
        let own_bytes = map.object_graph.as_deref();
        let other_bytes = own_bytes.filter(|bytes| !is_same(bytes));
        let message = other_bytes.map(|bytes| decode(bytes, context.limits()));
        let message = unless_broken(message, layout)?;
        let own_graph = message.as_ref().map(|message| ObjectGraph::new(message, context.limits()));
        let own_graph = unless_broken(own_graph, layout)?;
        let origin = match &own_graph {
            Some(graph) => Origin::Graph(graph),
            None if own_bytes.is_some_and(is_same) => Origin::Same,
            None => Origin::Unknown,
        };
        let resolved =
            resolve(names, map, &Followed::checkpoint(&variables, &tensors, graph.as_ref(), origin))?;
        if !resolved.unconfirmed.is_empty() {
            context.note(&format!(
                "{} tensors are told by their places in lists, since no full names came with them: {}",
                resolved.unconfirmed.len(),
                listed(&resolved.unconfirmed)
            ));
        }
        Ok(resolved.keys)
    }
}

/// What of the object graph that the tensors came with could be read. A broken one is passed over, and said.
fn unless_broken<T>(result: Option<Result<T>>, layout: &mut dyn LayoutSink) -> Result<Option<T>> {
    result.transpose().or_else(|error| {
        layout.loss(Loss::new(LossKind::Metadata, OBJECT_GRAPH, error.to_string()))?;
        Ok(None)
    })
}
