//! Passes [`Value`]s across the boundary. The nodes of a value precede its key.

use super::nodes::{children, decode_node, encode_node};
use crate::value::ValueNodes;
use crate::{Limits, Node, NodeId, Value};
use tensorferry_abi::{Failure, NodeFacts, ValueSinkCalls};

/// Sends the nodes of a value with `send`, which returns the other side's number for each node.
/// Returns the number of the value.
pub(super) fn send_value<E>(
    value: &Value,
    mut send: impl FnMut(NodeFacts<'_>) -> Result<u32, E>,
) -> Result<u32, E> {
    let mut numbers: Vec<NodeId> = Vec::with_capacity(value.nodes().len());
    let mut last = 0;
    for node in value.nodes() {
        let there = node.children.iter().map(|child| numbers[child.0 as usize]).collect();
        let node = Node { children: there, ..node.clone() };
        last = send(encode_node(&node, &children(&node)))?;
        numbers.push(NodeId(last));
    }
    Ok(last)
}

/// The entries that the other side pushed during one call.
pub(super) struct ValueCollector {
    nodes: ValueNodes,
    /// Nodes and bytes are unlimited, because the host has already checked them.
    limits: Limits,
    pub(super) entries: Vec<(String, Value)>,
}

impl Default for ValueCollector {
    fn default() -> Self {
        let limits = Limits { nodes: u64::MAX, header_bytes: u64::MAX, ..Limits::default() };
        Self { nodes: ValueNodes::default(), limits, entries: Vec::new() }
    }
}

impl ValueSinkCalls for ValueCollector {
    fn value(&mut self, node: NodeFacts<'_>) -> Result<u32, Failure> {
        Ok(self.nodes.push(decode_node(&node), &self.limits)?)
    }

    fn entry(&mut self, key: &str, value: u32) -> Result<(), Failure> {
        self.entries.push((key.to_owned(), self.nodes.value(value)?));
        Ok(())
    }
}
