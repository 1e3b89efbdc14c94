//! Rebuilds the object graph of a checkpoint that is being written, either from the tensors'
//! original object graph or, if the keys are paths, from the keys.

use super::path::{ATTRIBUTES, OPTIMIZER_SLOT, VARIABLE_VALUE, name_of};
use std::collections::{BTreeSet, HashMap};
use tensorferry_proto::TrackableObjectGraph;
use tensorferry_proto::trackable_object_graph::TrackableObject;
use tensorferry_proto::trackable_object_graph::trackable_object::{
    ObjectReference, SerializedTensor, SlotVariableReference,
};

/// Returns the graph with only the values that the checkpoint contains. All objects and aliases are
/// kept.
///
/// References to slot variables are kept even if the values of the slot variables are dropped.
/// TensorFlow uses these references to bind a program's slot variables. `assert_consumed()` fails
/// if a slot variable is not bound, but accepts objects without values. (Tested with TensorFlow
/// 2.21: `tf.compat.v1.train.AdamOptimizer` and Keras 2.) References to missing objects are
/// removed.
pub(crate) fn prune(graph: &TrackableObjectGraph, keys: &BTreeSet<&str>) -> TrackableObjectGraph {
    let mut graph = graph.clone();
    let count = graph.nodes.len();
    let is_there = |id: i32| usize::try_from(id).is_ok_and(|id| id < count);
    for node in &mut graph.nodes {
        node.attributes.retain(|attribute| has_entry(keys, attribute));
        node.children.retain(|child| is_there(child.node_id));
        node.slot_variables
            .retain(|slot| is_there(slot.original_variable_node_id) && is_there(slot.slot_variable_node_id));
    }
    mark_values(&mut graph);
    graph
}

/// Returns whether the checkpoint contains the value. A variable's value has exactly one entry. Any
/// other value may have several entries whose keys begin with the value's key.
fn has_entry(keys: &BTreeSet<&str>, attribute: &SerializedTensor) -> bool {
    let key = &*attribute.checkpoint_key;
    let next = keys.range(key..).next();
    next.is_some_and(|next| *next == key || (attribute.name != VARIABLE_VALUE && next.starts_with(key)))
}

/// Updates the field `has_checkpoint_values` of each object that has this field. The field records
/// whether the object or one of its descendants has values. As in TensorFlow
/// (`_add_checkpoint_values_check` in `tensorflow/python/checkpoint/util.py`), an optimizer with
/// slot variables is treated as if it had values.
fn mark_values(graph: &mut TrackableObjectGraph) {
    let mut parents: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
    for (parent, node) in graph.nodes.iter().enumerate() {
        for child in node.children.iter().filter_map(|child| usize::try_from(child.node_id).ok()) {
            parents[child].push(parent);
        }
    }
    let has_own = |node: &TrackableObject| {
        !node.attributes.is_empty() || !node.slot_variables.is_empty() || node.registered_saver.is_some()
    };
    let mut has_values: Vec<bool> = graph.nodes.iter().map(has_own).collect();
    let mut open: Vec<usize> = (0..has_values.len()).filter(|&node| has_values[node]).collect();
    while let Some(node) = open.pop() {
        for &parent in &parents[node] {
            if !has_values[parent] {
                has_values[parent] = true;
                open.push(parent);
            }
        }
    }
    for (node, has_values) in graph.nodes.iter_mut().zip(has_values) {
        node.has_checkpoint_values = node.has_checkpoint_values.map(|_| has_values);
    }
}

/// Builds the graph that the keys describe. Returns `None` unless every key is a path with an
/// attribute. If an object has several parents, the keys contain only one of its paths, so the
/// other paths are lost.
pub(crate) fn from_keys(keys: &[&str]) -> Option<TrackableObjectGraph> {
    let mut builder = Builder::new();
    let mut slots = Vec::new();
    for &key in keys {
        let (object, attribute) = key.rsplit_once(ATTRIBUTES)?;
        let value = SerializedTensor {
            name: name_of(attribute)?,
            full_name: String::new(),
            checkpoint_key: key.to_owned(),
        };
        match object.split_once(OPTIMIZER_SLOT) {
            None => {
                let node = builder.node(object)?;
                builder.graph.nodes[node].attributes.push(value);
            }
            Some((variable, rest)) => {
                let (optimizer, name) = rest.rsplit_once('/')?;
                slots.push((variable, optimizer, name_of(name)?, value));
            }
        }
    }
    for (variable, optimizer, slot_name, value) in slots {
        builder.slot(variable, optimizer, slot_name, value)?;
    }
    Some(builder.graph)
}

struct Builder {
    graph: TrackableObjectGraph,
    children: HashMap<(usize, String), usize>,
    slots: HashMap<(usize, usize, String), usize>,
}

impl Builder {
    fn new() -> Self {
        let graph = TrackableObjectGraph { nodes: vec![TrackableObject::default()] };
        Self { graph, children: HashMap::new(), slots: HashMap::new() }
    }

    fn push(&mut self) -> usize {
        self.graph.nodes.push(TrackableObject::default());
        self.graph.nodes.len() - 1
    }

    /// Returns the object at a path, and creates the missing objects on that path.
    fn node(&mut self, path: &str) -> Option<usize> {
        let mut node = 0;
        for segment in path.split('/').filter(|_| !path.is_empty()) {
            let name = name_of(segment)?;
            node = match self.children.get(&(node, name.clone())) {
                Some(&known) => known,
                None => {
                    let child = self.push();
                    let node_id = i32::try_from(child).ok()?;
                    self.graph.nodes[node]
                        .children
                        .push(ObjectReference { node_id, local_name: name.clone() });
                    self.children.insert((node, name), child);
                    child
                }
            };
        }
        Some(node)
    }

    fn slot(
        &mut self,
        variable: &str,
        optimizer: &str,
        slot_name: String,
        value: SerializedTensor,
    ) -> Option<()> {
        let (variable, optimizer) = (self.node(variable)?, self.node(optimizer)?);
        let node = match self.slots.get(&(variable, optimizer, slot_name.clone())) {
            Some(&known) => known,
            None => {
                let node = self.push();
                self.graph.nodes[optimizer].slot_variables.push(SlotVariableReference {
                    original_variable_node_id: i32::try_from(variable).ok()?,
                    slot_name: slot_name.clone(),
                    slot_variable_node_id: i32::try_from(node).ok()?,
                });
                self.slots.insert((variable, optimizer, slot_name), node);
                node
            }
        };
        self.graph.nodes[node].attributes.push(value);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::super::object_graph::ObjectGraph;
    use super::*;
    use crate::testing::Objects;
    use tensorferry_sdk::Limits;

    #[test]
    fn keys_spell_their_graph() {
        let keys = [
            "/.ATTRIBUTES/OBJECT_CONFIG_JSON",
            "model/dct/k..e.Sy/.ATTRIBUTES/VARIABLE_VALUE",
            "model/w/.ATTRIBUTES/VARIABLE_VALUE",
            "model/w/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE",
            "optimizer/beta1_power/.ATTRIBUTES/VARIABLE_VALUE",
        ];
        let proto = from_keys(&keys).unwrap();
        let graph = ObjectGraph::new(&proto, &Limits::default()).unwrap();
        for key in &keys[1..] {
            let value = graph.find(key.as_bytes()).unwrap();
            assert_eq!(value.object.as_deref(), key.strip_suffix("/.ATTRIBUTES/VARIABLE_VALUE"));
            assert_eq!(value.optimizer.is_some(), key.contains("optimizer"), "{key}");
        }
        assert_eq!(graph.find(keys[0].as_bytes()).unwrap().node, 0);
        assert_eq!(graph.optimizers(), ["optimizer"]);
    }

    #[test]
    fn names_spell_no_graph() {
        for key in ["bert/w", "w/.ATTRIBUTES", "w/.ATTRIBUTES/a/b/.c", "a.b/.ATTRIBUTES/x", "w.ATTRIBUTES/x"]
        {
            assert!(from_keys(&[key]).is_none(), "{key}");
        }
        assert!(from_keys(&["w/.OPTIMIZER_SLOT/m/.ATTRIBUTES/VARIABLE_VALUE"]).is_none());
    }

    #[test]
    fn pruning_takes_values_and_leaves_objects() {
        let mut objects = Objects::new();
        let w = objects.variable(0, "w", "w");
        let optimizer = objects.child(0, "optimizer");
        let rate = objects.variable(optimizer, "learning_rate", "rate");
        let slot = objects.slot(optimizer, w, "m");
        objects.link(0, "alias", w);
        let table = objects.child(0, "t");
        objects.value(table, "t/.ATTRIBUTES/table", "");
        objects.0.nodes[table].attributes[0].name = "table".to_owned();
        objects.link(0, "nothing", 99);
        for node in &mut objects.0.nodes {
            node.has_checkpoint_values = Some(true);
        }
        let pruned = prune(
            &objects.0,
            &BTreeSet::from(["0.w/.ATTRIBUTES/VARIABLE_VALUE", "t/.ATTRIBUTES/table-keys"]),
        );
        assert_eq!(pruned.nodes[table].attributes.len(), 1);
        assert_eq!(pruned.nodes.len(), objects.0.nodes.len());
        assert_eq!(pruned.nodes[0].children.len(), 4);
        assert_eq!(pruned.nodes[w].attributes.len(), 1);
        assert_eq!(pruned.nodes[optimizer].slot_variables.len(), 1);
        assert!(pruned.nodes[slot].attributes.is_empty());
        let has_values: Vec<_> =
            [0, w, optimizer, rate, slot].map(|n| pruned.nodes[n].has_checkpoint_values).into();
        assert_eq!(has_values, [true, true, true, false, false].map(Some));
    }
}
