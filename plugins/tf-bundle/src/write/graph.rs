//! The object graph of a checkpoint that is being written.

use super::entry::Entry;
use crate::bundle::OBJECT_GRAPH_KEY;
use crate::names::key_text::key_text;
use crate::names::listed::listed;
use crate::names::object_graph::{ObjectGraph, decode};
use crate::names::rebuild::prune;
use std::collections::BTreeSet;
use tensorferry_proto::{Message, TrackableObjectGraph};
use tensorferry_sdk::{Limits, Loss, LossKind, Result, Severity};

/// An object graph and its encoded bytes. The bytes may contain fields that are unknown to ferry.
#[derive(Debug, Clone)]
pub(crate) struct Graph {
    pub(crate) proto: TrackableObjectGraph,
    bytes: Vec<u8>,
}

impl Graph {
    pub(crate) fn decode(bytes: Vec<u8>, limits: &Limits) -> Result<Self> {
        let proto = decode(&bytes, limits)?;
        Ok(Self { proto, bytes })
    }

    /// Creates a graph from a new message.
    pub(crate) fn new(proto: TrackableObjectGraph) -> Self {
        Self { bytes: proto.encode_to_vec(), proto }
    }

    /// Returns whether `bytes` are the encoded bytes of this graph.
    pub(crate) fn is(&self, bytes: &[u8]) -> bool {
        self.bytes == bytes
    }

    /// Returns the graph without values that have no entry. If nothing is removed, the graph keeps
    /// its original bytes.
    pub(crate) fn pruned(self, entries: &[Entry]) -> Self {
        let keys: BTreeSet<&str> =
            entries.iter().filter_map(|entry| std::str::from_utf8(&entry.key).ok()).collect();
        let pruned = prune(&self.proto, &keys);
        if pruned == self.proto { self } else { Self::new(pruned) }
    }

    pub(crate) fn into_entry(self) -> Entry {
        Entry::text(OBJECT_GRAPH_KEY, self.bytes)
    }

    /// Returns a loss that lists the entries for which the graph has no object, or `None` if every
    /// entry has one.
    pub(crate) fn unknown_entries(&self, entries: &[Entry], limits: &Limits) -> Result<Option<Loss>> {
        let graph = ObjectGraph::new(&self.proto, limits)?;
        let unknown_entries = entries.iter().filter(|entry| graph.find(&entry.key).is_none());
        let unknown_entries: Vec<_> = unknown_entries.map(|entry| key_text(&entry.key)).collect();
        if unknown_entries.is_empty() {
            return Ok(None);
        }
        let why = format!(
            "the graph has no object for {}; tf.train.Checkpoint restores only the other tensors",
            listed(&unknown_entries)
        );
        Ok(Some(Loss::new(LossKind::Graph, OBJECT_GRAPH_KEY, why).severity(Severity::Changed)))
    }

    /// Returns whether the graph does not refer to any values.
    pub(crate) fn has_no_values(&self) -> bool {
        self.proto.nodes.iter().all(|node| node.attributes.is_empty())
    }
}
