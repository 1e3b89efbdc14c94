//! Converts the nodes of trees and values for the boundary.

use crate::{Node, NodeId, NodeKind};
use tensorferry_abi::NodeFacts;

pub(super) fn decode_node(node: &NodeFacts<'_>) -> Node {
    Node {
        kind: NodeKind(node.kind),
        class: node.class_name.into(),
        bytes: node.bytes.into(),
        children: node.children.iter().copied().map(NodeId).collect(),
    }
}

pub(super) fn children(node: &Node) -> Vec<u32> {
    node.children.iter().map(|child| child.0).collect()
}

pub(super) fn encode_node<'a>(node: &'a Node, children: &'a [u32]) -> NodeFacts<'a> {
    NodeFacts { kind: node.kind.0, class_name: &node.class, bytes: &node.bytes, children }
}
