//! A template is the checkpoint that `-o like=` names: a new one takes its keys and its object graph, and
//! has values of its own.

use super::entry::{Carried, Entry, EntryData};
use super::graph::Graph;
use crate::bundle::{BundleEntry, BundleIndex, OBJECT_GRAPH_KEY, shape_of};
use crate::dtype;
use crate::locate::{Checkpoint, locate};
use crate::names::key_map::KeyMap;
use crate::names::listed::listed;
use crate::names::naming::{self, Scheme};
use crate::names::object_graph::ObjectGraph;
use crate::names::resolve::{Followed, resolve};
use crate::options::MissingValues;
use crate::side_entry::SIDE_ENTRY_KEY;
use std::collections::HashSet;
use std::sync::Arc;
use tensorferry_proto::DataType;
use tensorferry_sdk::{ByteOrder, Context, Dtype, Error, Result, Source, SourceRange};

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
    /// What describes objects and counts, and the object graph itself.
    pub(crate) others: Vec<&'a BundleEntry>,
}

impl<'a> Rest<'a> {
    /// The variables to carry over, which is said: none, or all if they may be kept.
    ///
    /// # Errors
    /// Usage, if they may not be, and there are some.
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
            context.note(&format!("{} values are those of the like: {}", names.len(), listed(&names)));
        }
        Ok(&self.variables)
    }
}

impl Template {
    /// Opens the checkpoint of a path.
    ///
    /// # Errors
    /// Usage, if there is none that has an object graph; malformed, if it is broken; i/o.
    pub(crate) fn checkpoint(path: &str, context: &dyn Context) -> Result<Self> {
        let open = || {
            let source = context.open(path)?;
            match locate(&*source, context)? {
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
    ///
    /// # Errors
    /// Unsupported: slices, and bytes of a big-endian bundle; malformed: bytes past the end of a data
    /// file, a false checksum; i/o.
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

    /// What is under none of these keys.
    ///
    /// # Errors
    /// Malformed, if the object graph is broken; a limit.
    pub(crate) fn rest(&self, taken: &HashSet<&[u8]>, context: &dyn Context) -> Result<Rest<'_>> {
        let graph = self.graph.as_ref().map(|graph| ObjectGraph::new(&graph.proto, context.limits()));
        let graph = graph.transpose()?;
        let optimizers = graph.as_ref().map(ObjectGraph::optimizers).unwrap_or_default();
        let mut rest = Rest::default();
        rest.state.extend(optimizers.iter().map(|optimizer| (optimizer.clone(), Vec::new())));
        for entry in self.index.entries.iter().filter(|entry| !taken.contains(&*entry.key)) {
            let is_number = dtype::of_number(entry.proto.dtype).is_some_and(|dtype| dtype != Dtype::STR);
            match graph.as_ref().and_then(|graph| graph.find(&entry.key)?.optimizer) {
                Some(optimizer) if is_number => rest.state[optimizer].1.push(entry),
                None if is_number && *entry.key != *SAVE_COUNTER_KEY => rest.variables.push(entry),
                _ => rest.others.push(entry),
            }
        }
        rest.state.retain(|(_, entries)| !entries.is_empty());
        Ok(rest)
    }

    /// The keys that each of these names stands for, in the map that came with the tensors or by one
    /// of the names that keys have; none for a name that stands for nothing here.
    ///
    /// # Errors
    /// Usage, if two names stand for one key; malformed, if the object graph is broken; a limit; i/o.
    pub(crate) fn resolve(
        &self,
        names: &[&str],
        map: &KeyMap,
        context: &dyn Context,
    ) -> Result<Vec<Vec<Vec<u8>>>> {
        let own = [OBJECT_GRAPH_KEY, SIDE_ENTRY_KEY].map(str::as_bytes);
        let entries = self.index.entries.iter().filter(|entry| !own.contains(&&*entry.key));
        let entries: Vec<_> = entries.collect();
        let variables: Vec<_> = entries.iter().map(|entry| entry.variable()).collect();
        let graph = self.graph.as_ref().map(|graph| ObjectGraph::new(&graph.proto, context.limits()));
        let graph = graph.transpose()?;
        let mut same =
            |a: usize, b: usize| self.index.same_content(&*self.source, entries[a], entries[b], context);
        let tensors = naming::name(&variables, graph.as_ref(), Scheme::Auto, &mut same)?;
        resolve(names, map, &Followed::checkpoint(&variables, &tensors, graph.as_ref()))
    }
}
