//! Builds object graphs in the same way as TensorFlow.

use crate::names::naming::Variable;
use tensorferry_proto::TrackableObjectGraph;
use tensorferry_proto::trackable_object_graph::TrackableObject;
use tensorferry_proto::trackable_object_graph::trackable_object::{
    ObjectReference, SerializedTensor, SlotVariableReference,
};

/// An object graph whose first object is the root.
pub(crate) struct Objects(pub(crate) TrackableObjectGraph);

impl Objects {
    pub(crate) fn new() -> Self {
        Self(TrackableObjectGraph { nodes: vec![TrackableObject::default()] })
    }

    /// Adds an object as a child of `parent`.
    pub(crate) fn child(&mut self, parent: usize, name: &str) -> usize {
        let node = self.0.nodes.len();
        self.0.nodes.push(TrackableObject::default());
        self.link(parent, name, node);
        node
    }

    /// Adds an existing object as a child of another object.
    pub(crate) fn link(&mut self, parent: usize, name: &str, node: usize) {
        let node_id = i32::try_from(node).unwrap_or(-1);
        self.0.nodes[parent].children.push(ObjectReference { node_id, local_name: name.to_owned() });
    }

    /// Adds a variable. Its key is derived from the path through its first parent.
    pub(crate) fn variable(&mut self, parent: usize, name: &str, full_name: &str) -> usize {
        let node = self.child(parent, name);
        self.value(node, &format!("{parent}.{name}/.ATTRIBUTES/VARIABLE_VALUE"), full_name);
        node
    }

    /// Adds the value of a variable to an object.
    pub(crate) fn value(&mut self, node: usize, key: &str, full_name: &str) {
        self.0.nodes[node].attributes.push(SerializedTensor {
            name: "VARIABLE_VALUE".to_owned(),
            full_name: full_name.to_owned(),
            checkpoint_key: key.to_owned(),
        });
    }

    /// Adds a slot variable of an optimizer.
    pub(crate) fn slot(&mut self, optimizer: usize, variable: usize, name: &str) -> usize {
        let node = self.0.nodes.len();
        self.0.nodes.push(TrackableObject::default());
        self.value(node, &format!("{variable}/.OPTIMIZER_SLOT/{optimizer}/{name}"), "");
        let id = |node| i32::try_from(node).unwrap_or(-1);
        self.0.nodes[optimizer].slot_variables.push(SlotVariableReference {
            original_variable_node_id: id(variable),
            slot_name: name.to_owned(),
            slot_variable_node_id: id(node),
        });
        node
    }
}

/// Returns variables that differ only in their keys.
pub(crate) fn variables(keys: &[&str]) -> Vec<Variable> {
    let variable =
        |key: &&str| Variable { key: key.as_bytes().to_vec(), dtype: 1, shape: vec![2], checksum: 0 };
    keys.iter().map(variable).collect()
}
