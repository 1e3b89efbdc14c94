//! Reads the tensors of a bundle. The tensor names depend on the purpose of the read.
//!
//! If ferry displays the tensors or writes them to another checkpoint, each tensor is named after
//! its key. For other formats, the tensors are given readable names
//! ([`naming`](crate::names::naming)), and the metadata maps these names back to keys
//! ([`key_map`](crate::names::key_map)).

use crate::bundle::{BundleEntry, BundleIndex, OBJECT_GRAPH_KEY, StringTensors, TensorAdder};
use crate::names::key_map::KeyMap;
use crate::names::naming::{NamedTensor, Scheme, name};
use crate::names::object_graph::{ObjectGraph, decode};
use crate::options::{ReadOptions, State};
use crate::side_entry::{self, SIDE_ENTRY_KEY};
use std::collections::{BTreeMap, HashMap};
use tensorferry_proto::TrackableObjectGraph;
use tensorferry_sdk::{CatalogSink, Context, Error, Loss, LossKind, Purpose, Result, Source, Value};

/// Additional tensor attributes, by key. Each attribute consists of a name and a value.
pub(crate) type Labels = HashMap<String, Vec<(&'static str, Value)>>;

/// Reads the bundle with this prefix. The returned string tensors are used to decode the encoded
/// storages of the catalog. `labels` computes additional tensor attributes from the object graph.
pub(crate) fn read_bundle(
    source: &dyn Source,
    prefix: &str,
    options: &ReadOptions,
    labels: &dyn Fn(Option<&TrackableObjectGraph>) -> Labels,
    catalog: &mut dyn CatalogSink,
    context: &dyn Context,
) -> Result<StringTensors> {
    let index = BundleIndex::read(source, prefix, context)?;
    let graph_bytes = index.string_scalar(source, OBJECT_GRAPH_KEY.as_bytes(), context)?;
    let limits = context.limits();
    let in_graph = |error: Error| error.tensor(OBJECT_GRAPH_KEY);
    let message = graph_bytes.as_deref().map(|bytes| decode(bytes, limits)).transpose().map_err(in_graph)?;
    let graph =
        message.as_ref().map(|graph| ObjectGraph::new(graph, limits)).transpose().map_err(in_graph)?;

    if let Some(text) = index.string_scalar(source, SIDE_ENTRY_KEY.as_bytes(), context)? {
        let record = side_entry::parse(&text)?;
        catalog.origin(&record.origin)?;
        record.metadata.iter().try_for_each(|(key, value)| catalog.metadata_text(key, value))?;
    }
    let mut key_map = KeyMap::default();
    key_map.object_graph = graph_bytes;
    let mut reader = BundleReader {
        source,
        context,
        options,
        index: &index,
        graph: graph.as_ref(),
        labels: if context.purpose().has(Purpose::SHOW) { labels(message.as_ref()) } else { Labels::new() },
        left_out: vec![0; graph.as_ref().map_or(0, |graph| graph.optimizers().len())],
        key_map,
    };
    let entries: Vec<&BundleEntry> = index.entries.iter().filter(|entry| reader.is_tensor(entry)).collect();
    let mut adder = TensorAdder::new(&index, source, context.limits());
    for tensor in reader.name(&entries)? {
        reader.add(&tensor, &entries, &mut adder, catalog)?;
    }
    reader.finish(catalog)?;
    Ok(adder.into_string_tensors())
}

struct BundleReader<'a> {
    source: &'a dyn Source,
    context: &'a dyn Context,
    options: &'a ReadOptions,
    index: &'a BundleIndex,
    graph: Option<&'a ObjectGraph<'a>>,
    /// Additional tensor attributes, by key.
    labels: Labels,
    /// Number of omitted tensors for each optimizer.
    left_out: Vec<u64>,
    key_map: KeyMap,
}

impl BundleReader<'_> {
    fn is_shown(&self) -> bool {
        self.context.purpose().has(Purpose::SHOW)
    }

    /// Returns whether an entry becomes a tensor. The object graph becomes metadata instead, unless
    /// ferry only displays the bundle.
    fn is_tensor(&self, entry: &BundleEntry) -> bool {
        if entry.key == SIDE_ENTRY_KEY.as_bytes() {
            return false;
        }
        self.is_shown() || self.graph.is_none() || entry.key != OBJECT_GRAPH_KEY.as_bytes()
    }

    fn name(&self, entries: &[&BundleEntry]) -> Result<Vec<NamedTensor>> {
        let keeps_keys = self.is_shown() || self.context.purpose().has(Purpose::COPY);
        let scheme = match self.options.names {
            Scheme::Auto if keeps_keys => Scheme::Key,
            scheme => scheme,
        };
        let variables: Vec<_> = entries.iter().map(|entry| entry.variable()).collect();
        name(&variables, self.graph, scheme, &mut |a, b| {
            self.index.same_content(self.source, entries[a], entries[b], self.context)
        })
    }

    fn add(
        &mut self,
        tensor: &NamedTensor,
        entries: &[&BundleEntry],
        adder: &mut TensorAdder<'_>,
        catalog: &mut dyn CatalogSink,
    ) -> Result<()> {
        if let Some(optimizer) = tensor.optimizer.filter(|_| self.excludes_optimizers()) {
            self.left_out[optimizer] += 1;
            return Ok(());
        }
        let [first, ..] = &*tensor.keys else { return Ok(()) };
        let entry = entries[*first];
        if self.add_to_metadata(entry)? {
            return Ok(());
        }
        let Some(id) = adder.add(catalog, &tensor.name, entry)? else { return Ok(()) };
        self.key_map.add(&tensor.name, tensor.keys.iter().map(|&place| &*entries[place].key));
        if self.is_shown() {
            let names = [("full_name", &tensor.full_name), ("path", &tensor.path)];
            let names = names.into_iter().filter_map(|(key, name)| Some((key, name.as_deref()?)));
            let names = names.filter(|(_, name)| *name != tensor.name);
            let labels = self.labels.get(&*entry.name()).into_iter().flatten().cloned();
            let known: BTreeMap<&str, Value> =
                names.map(|(key, name)| (key, Value::text(name))).chain(labels).collect();
            for (key, value) in known {
                catalog.attribute(id, key, value)?;
            }
        }
        Ok(())
    }

    fn excludes_optimizers(&self) -> bool {
        match self.options.state {
            Some(state) => state == State::Model,
            None => self.context.purpose().has(Purpose::FLAT),
        }
    }

    /// Stores a string that describes an object, such as its configuration, as metadata. Other
    /// formats do not treat such a string as a tensor. Returns whether the entry was stored.
    fn add_to_metadata(&mut self, entry: &BundleEntry) -> Result<bool> {
        let keeps_keys = self.is_shown() || self.context.purpose().has(Purpose::COPY);
        let describes =
            self.graph.and_then(|graph| graph.find(&entry.key)).is_some_and(|v| v.describes_object());
        if !describes || !entry.is_string_scalar() || keeps_keys {
            return Ok(false);
        }
        let text = self.index.string_scalar(self.source, &entry.key, self.context)?;
        self.key_map.strings.insert(entry.key.clone(), text.unwrap_or_default());
        Ok(true)
    }

    fn finish(self, catalog: &mut dyn CatalogSink) -> Result<()> {
        for slice in self.index.unnamed_slices() {
            let why = "no tensor of the bundle lists this slice";
            catalog.loss(Loss::new(LossKind::Tensor, slice, why))?;
        }
        let optimizers = self.graph.map(ObjectGraph::optimizers).unwrap_or_default();
        for (optimizer, &count) in optimizers.iter().zip(&self.left_out) {
            // If the user chose to drop optimizer state, dropping it is not a loss.
            if count > 0 && self.options.state.is_none() {
                let why = format!("its {count} tensors are dropped; -i state=all keeps them");
                catalog.loss(Loss::new(LossKind::State, optimizer, why))?;
            }
        }
        if !self.is_shown() {
            for (key, value) in self.key_map.to_metadata() {
                catalog.metadata_text(&key, &value)?;
            }
        }
        Ok(())
    }
}
