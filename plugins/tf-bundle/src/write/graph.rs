//! The object graph of a checkpoint that is written.

use super::entry::Entry;
use crate::bundle::OBJECT_GRAPH_KEY;
use crate::names::key_text::key_text;
use crate::names::listed::listed;
use crate::names::object_graph::{ObjectGraph, decode};
use crate::names::rebuild::prune;
use std::collections::BTreeSet;
use tensorferry_proto::{Message, TrackableObjectGraph};
use tensorferry_sdk::{Limits, Loss, LossKind, Result, Severity};

/// An object graph, and the bytes that it was decoded from: TensorFlow may have more fields than we
/// know.
#[derive(Debug, Clone)]
pub(crate) struct Graph {
    pub(crate) proto: TrackableObjectGraph,
    bytes: Vec<u8>,
}

impl Graph {
    /// Reads a graph.
    pub(crate) fn decode(bytes: Vec<u8>, limits: &Limits) -> Result<Self> {
        let proto = decode(&bytes, limits)?;
        Ok(Self { proto, bytes })
    }

    /// A graph that was made here.
    pub(crate) fn new(proto: TrackableObjectGraph) -> Self {
        Self { bytes: proto.encode_to_vec(), proto }
    }

    /// Whether it was decoded from these bytes.
    pub(crate) fn is(&self, bytes: &[u8]) -> bool {
        self.bytes == bytes
    }

    /// The graph as it is for these entries: values that are not there are left out. One that nothing
    /// changes keeps its bytes.
    pub(crate) fn pruned(self, entries: &[Entry]) -> Self {
        let keys: BTreeSet<&str> =
            entries.iter().filter_map(|entry| std::str::from_utf8(&entry.key).ok()).collect();
        let pruned = prune(&self.proto, &keys);
        if pruned == self.proto { self } else { Self::new(pruned) }
    }

    /// Its entry.
    pub(crate) fn into_entry(self) -> Entry {
        Entry::text(OBJECT_GRAPH_KEY, self.bytes)
    }

    /// What the graph does not know of the entries, as a loss; `None` if it knows all.
    pub(crate) fn unknown_entries(&self, entries: &[Entry], limits: &Limits) -> Result<Option<Loss>> {
        let graph = ObjectGraph::new(&self.proto, limits)?;
        let unknown_entries = entries.iter().filter(|entry| graph.find(&entry.key).is_none());
        let unknown_entries: Vec<_> = unknown_entries.map(|entry| key_text(&entry.key)).collect();
        if unknown_entries.is_empty() {
            return Ok(None);
        }
        let why = format!(
            "it has no object for {}: tf.train.Checkpoint restores the others",
            listed(&unknown_entries)
        );
        Ok(Some(Loss::new(LossKind::Graph, OBJECT_GRAPH_KEY, why).severity(Severity::Changed)))
    }

    /// Whether it leads to no value at all.
    pub(crate) fn has_no_values(&self) -> bool {
        self.proto.nodes.iter().all(|node| node.attributes.is_empty())
    }
}
