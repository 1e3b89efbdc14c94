//! A template is the checkpoint that `-o like=` specifies. The new checkpoint uses the template's
//! keys and object graph, but contains different values.

use super::entry::{CopiedBytes, Entry, EntryData};
use super::graph::Graph;
use super::writable::WritableTensor;
use crate::bundle::{BundleEntry, BundleIndex, OBJECT_GRAPH_KEY, shape_of};
use crate::dtype;
use crate::locate::{Checkpoint, find};
use crate::names::key_map::{KeyMap, OBJECT_GRAPH};
use crate::names::listed::listed;
use crate::names::naming::{self, Scheme};
use crate::names::object_graph::{ObjectGraph, SavedValue, decode};
use crate::names::resolve::{Origin, ReferenceCheckpoint, resolve};
use crate::options::MissingValues;
use crate::side_entry::SIDE_ENTRY_KEY;
use std::collections::HashSet;
use std::sync::Arc;
use tensorferry_proto::DataType;
use tensorferry_sdk::{
    ByteOrder, CatalogView, Context, Dtype, Error, LayoutSink, Loss, LossKind, Result, Source, SourceRange,
};

/// Maximum length in bytes of a string that is read into memory.
const MAX_TEXT_BYTES: u64 = 1 << 20;
/// The key of the save counter, which `tf.train.Checkpoint` updates itself.
const SAVE_COUNTER_KEY: &[u8] = b"save_counter/.ATTRIBUTES/VARIABLE_VALUE";

/// The checkpoint whose keys and object graph a new checkpoint uses.
pub(crate) struct Template {
    /// The path that `-o like=` specifies.
    path: String,
    source: Arc<dyn Source>,
    pub(crate) index: BundleIndex,
    pub(crate) graph: Option<Graph>,
}

/// The template entries that no tensor matches.
#[derive(Debug, Default)]
pub(crate) struct UnmatchedEntries<'a> {
    /// Variables whose values the program cannot obtain from anywhere else.
    pub(crate) variables: Vec<&'a BundleEntry>,
    /// The path of each optimizer, and the entries for its values.
    pub(crate) state: Vec<(String, Vec<&'a BundleEntry>)>,
    /// Save counters.
    pub(crate) counters: Vec<&'a BundleEntry>,
    /// Strings that describe objects.
    pub(crate) texts: Vec<&'a BundleEntry>,
    /// Other strings, and entries whose dtype tensors do not support.
    pub(crate) strings: Vec<&'a BundleEntry>,
}

impl<'a> UnmatchedEntries<'a> {
    /// Returns the template variables that no tensor matches, and reports as a note that they keep
    /// their values. If any such variable exists and the user did not allow this, the function
    /// returns an error.
    pub(crate) fn kept_variables(
        &self,
        choice: MissingValues,
        unmatched: &[&str],
        context: &dyn Context,
    ) -> Result<&[&'a BundleEntry]> {
        if !self.variables.is_empty() {
            let names: Vec<_> = self.variables.iter().map(|entry| entry.name()).collect();
            if choice == MissingValues::Refused {
                let mut message = format!("no tensor for these variables of -o like=: {}", listed(&names));
                if !unmatched.is_empty() {
                    message = format!("{message}; tensors without a variable: {}", listed(unmatched));
                }
                let hint = "rename the tensors, or pass -o missing=keep to keep the values of -o like=";
                return Err(Error::usage(message).hint(hint));
            }
            note_kept("values", &self.variables, context);
        }
        Ok(&self.variables)
    }

    /// Returns the kept entries that are neither variables nor optimizer state, and reports them as
    /// notes.
    pub(crate) fn kept_others(&self, context: &dyn Context) -> impl Iterator<Item = &'a BundleEntry> {
        note_kept("counters", &self.counters, context);
        note_kept("texts of objects", &self.texts, context);
        note_kept("strings", &self.strings, context);
        [&self.counters, &self.texts, &self.strings].into_iter().flatten().copied()
    }

    /// Returns all kept entries except variables, and reports them as notes.
    pub(crate) fn kept_state(&self, context: &dyn Context) -> impl Iterator<Item = &'a BundleEntry> {
        for (optimizer, state) in &self.state {
            note_kept(&format!("values of {optimizer:?}"), state, context);
        }
        self.state.iter().flat_map(|(_, state)| state).copied().chain(self.kept_others(context))
    }

    /// Returns the losses that occur if only variables are kept.
    pub(crate) fn losses(&self) -> impl Iterator<Item = Loss> {
        let state = self.state.iter().map(|(optimizer, state)| {
            let why = format!(
                "its {} tensors are not written, because the input has none; -o missing=keep keeps the ones from -o like=",
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
            let why =
                "it is not written, because the input lacks it; -o missing=keep keeps the one from -o like=";
            entries.iter().map(move |entry| Loss::new(kind, entry.name(), why))
        });
        state.chain(others)
    }
}

fn note_kept(what: &str, entries: &[&BundleEntry], context: &dyn Context) {
    if !entries.is_empty() {
        let names: Vec<_> = entries.iter().map(|entry| entry.name()).collect();
        context.note(&format!("{} {what} are kept from -o like=: {}", names.len(), listed(&names)));
    }
}

impl Template {
    /// Opens the checkpoint at a path.
    pub(crate) fn checkpoint(path: &str, context: &dyn Context) -> Result<Self> {
        let open = || {
            let source = context.open(path)?;
            let (checkpoint, missing) = find(&*source, context.limits())?;
            if let Some(missing) = missing {
                context.note(&missing.to_string());
            }
            match checkpoint {
                Checkpoint::V2(prefix) => Self::bundle(path, source, &prefix, context),
                Checkpoint::V1(_) => {
                    Err(Error::usage("a V1 checkpoint cannot be a template, because it has no separate keys"))
                }
            }
        };
        open().map_err(|error: Error| error.context(format!("-o like={path}")))
    }

    /// Reads the bundle with a prefix from an open source.
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

    /// Returns an entry for the output. A short string becomes a value in memory, and any other
    /// value becomes unchanged bytes of the template.
    pub(crate) fn copy_entry(&self, entry: &BundleEntry, context: &dyn Context) -> Result<Entry> {
        let is_short = u64::try_from(entry.proto.size).is_ok_and(|size| size <= MAX_TEXT_BYTES);
        if entry.is_string_scalar() && is_short {
            let text = self.index.string_scalar(&*self.source, &entry.key, context)?;
            return Ok(Entry::text(entry.key.clone(), text.unwrap_or_default()));
        }
        let value = if entry.is_sliced() || self.index.byte_order() == ByteOrder::Big {
            let error = Error::unsupported("slices and big-endian values of -o like= cannot be kept");
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
            EntryData::Copied(CopiedBytes { from, crc: data.crc, is_of_bytes })
        };
        let shape = shape_of(&entry.proto).map_err(|error| error.tensor(entry.name()))?;
        Ok(Entry { key: entry.key.clone(), dtype: entry.proto.dtype, shape, value })
    }

    /// Returns the entries whose key is not in `taken`, except the object graph and the metadata.
    pub(crate) fn rest(&self, taken: &HashSet<&[u8]>, context: &dyn Context) -> Result<UnmatchedEntries<'_>> {
        let graph = self.graph.as_ref().map(|graph| ObjectGraph::new(&graph.proto, context.limits()));
        let graph = graph.transpose()?;
        let optimizers = graph.as_ref().map(ObjectGraph::optimizers).unwrap_or_default();
        let mut rest = UnmatchedEntries::default();
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

    /// Returns all entries except the object graph and the metadata.
    fn entries(&self) -> impl Iterator<Item = &BundleEntry> {
        let own = [OBJECT_GRAPH_KEY, SIDE_ENTRY_KEY].map(str::as_bytes);
        self.index.entries.iter().filter(move |entry| !own.contains(&&*entry.key))
    }

    /// Returns the keys for each tensor. The keys are taken from the key map in the tensors'
    /// metadata, or from the names in the template. A tensor with an unknown name has no keys.
    pub(crate) fn resolve(
        &self,
        tensors: &[WritableTensor],
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

    /// Checks that a tensor has the dtype and shape of the template's entry for a key.
    fn check(&self, key: &[u8], writable: WritableTensor, catalog: &dyn CatalogView) -> Result<()> {
        let entry = self.index.find(key).ok_or_else(|| Error::plugin("unknown key"))?;
        let tensor = catalog.tensor(writable.tensor);
        let shape = shape_of(&entry.proto).map_err(|error| error.tensor(entry.name()))?;
        if (entry.proto.dtype, &*shape) == (writable.dtype, tensor.shape) {
            return Ok(());
        }
        let text = |number, shape: &[u64]| format!("{} of shape {shape:?}", dtype::name(number));
        let (name, found) = (tensor.name, text(writable.dtype, tensor.shape));
        let wanted = text(entry.proto.dtype, &shape);
        Err(Error::usage(format!("{name:?} is {found}, but the variable of -o like= is {wanted}"))
            .tensor(entry.name()))
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
        let message = ok_or_report(message, layout)?;
        let own_graph = message.as_ref().map(|message| ObjectGraph::new(message, context.limits()));
        let own_graph = ok_or_report(own_graph, layout)?;
        let origin = match &own_graph {
            Some(graph) => Origin::Graph(graph),
            None if own_bytes.is_some_and(is_same) => Origin::Same,
            None => Origin::Unknown,
        };
        let resolved = resolve(
            names,
            map,
            &ReferenceCheckpoint::checkpoint(&variables, &tensors, graph.as_ref(), origin),
        )?;
        if !resolved.unconfirmed.is_empty() {
            context.note(&format!(
                "{} tensors are matched by their positions in lists, because they have no full names: {}",
                resolved.unconfirmed.len(),
                listed(&resolved.unconfirmed)
            ));
        }
        Ok(resolved.keys)
    }
}

/// Converts an error in the object graph of the tensors' metadata to a loss.
fn ok_or_report<T>(result: Option<Result<T>>, layout: &mut dyn LayoutSink) -> Result<Option<T>> {
    result.transpose().or_else(|error| {
        layout.loss(Loss::new(LossKind::Metadata, OBJECT_GRAPH, error.to_string()))?;
        Ok(None)
    })
}
