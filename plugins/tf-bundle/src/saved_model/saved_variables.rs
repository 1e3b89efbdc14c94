//! Finds the descriptions of the variables that the bundle of a SavedModel stores.
//!
//! The bundle has a separate object graph, in which the objects are numbered differently. Objects
//! of the two graphs are matched by following the same names from both roots, and each object is
//! matched at most once. A slot variable is matched if its optimizer and its variable are matched.

use super::meta_graph::MetaGraph;
use crate::bundle_tensors::Labels;
use std::collections::{BTreeSet, HashMap, VecDeque};
use tensorferry_proto::saved_object::Kind;
use tensorferry_proto::trackable_object_graph::trackable_object::SerializedTensor;
use tensorferry_proto::{SavedObject, SavedVariable, TrackableObjectGraph};
use tensorferry_sdk::Value;

const TRAINABLE: &str = "trainable";
const FULL_NAME: &str = "full_name";

/// Returns the number of variables that the graph lists.
pub(super) fn count(graph: &MetaGraph) -> usize {
    let nodes = graph.objects.as_ref().map_or(&[][..], |objects| &objects.nodes);
    let of_objects = (0..nodes.len()).filter(|&node| variable(nodes, node).is_some()).count();
    of_objects.max(graph.trainable.as_ref().map_or(0, BTreeSet::len))
}

/// Returns the labels of the variables. `bundle` is the object graph of the bundle, if it has one.
/// The caller must already have checked that the references of that graph are in range.
pub(super) fn labels(graph: &MetaGraph, bundle: Option<&TrackableObjectGraph>) -> Labels {
    match (bundle, &graph.objects, &graph.trainable) {
        (Some(bundle), Some(objects), _) => {
            let joined = join(&objects.nodes, bundle);
            let values = bundle.nodes.iter().zip(joined).flat_map(|(node, saved)| {
                let variable = saved.and_then(|saved| variable(&objects.nodes, saved));
                variable
                    .into_iter()
                    .flat_map(|variable| node.attributes.iter().map(move |value| (value, variable)))
            });
            let label = |(value, variable): (&SerializedTensor, &SavedVariable)| {
                let mut labels = vec![(TRAINABLE, Value::bool(variable.trainable))];
                if value.full_name.is_empty() && !variable.name.is_empty() {
                    labels.push((FULL_NAME, Value::text(&variable.name)));
                }
                (value.checkpoint_key.clone(), labels)
            };
            values.map(label).collect()
        }
        (None, _, Some(trainable)) => {
            trainable.iter().map(|name| (name.clone(), vec![(TRAINABLE, Value::bool(true))])).collect()
        }
        _ => Labels::new(),
    }
}

fn variable(nodes: &[SavedObject], node: usize) -> Option<&SavedVariable> {
    match &nodes.get(node)?.kind {
        Some(Kind::Variable(variable)) => Some(variable),
        _ => None,
    }
}

/// Returns, for each object of the bundle's graph, the saved object that is reached by following
/// the same names.
fn join(saved: &[SavedObject], bundle: &TrackableObjectGraph) -> Vec<Option<usize>> {
    let mut joined: Vec<Option<usize>> = vec![None; bundle.nodes.len()];
    let mut is_joined = vec![false; saved.len()];
    let mut queue = VecDeque::new();
    if let (Some(first), false) = (joined.first_mut(), saved.is_empty()) {
        *first = Some(0);
        is_joined[0] = true;
        queue.push_back((0, 0));
    }
    let mut pairs = Vec::new();
    while let Some((from, to)) = queue.pop_front() {
        pairs.push((from, to));
        let children: HashMap<&str, i32> =
            saved[to].children.iter().map(|child| (&*child.local_name, child.node_id)).collect();
        for child in &bundle.nodes[from].children {
            let node = index(child.node_id, joined.len());
            let other = children.get(&*child.local_name).and_then(|&id| index(id, saved.len()));
            if let (Some(node), Some(other)) = (node, other)
                && joined[node].is_none()
                && !is_joined[other]
            {
                joined[node] = Some(other);
                is_joined[other] = true;
                queue.push_back((node, other));
            }
        }
    }
    for (from, to) in pairs {
        let slots: HashMap<(i32, &str), i32> = saved[to]
            .slot_variables
            .iter()
            .map(|slot| ((slot.original_variable_node_id, &*slot.slot_name), slot.slot_variable_node_id))
            .collect();
        for slot in &bundle.nodes[from].slot_variables {
            let variable = index(slot.original_variable_node_id, joined.len()).and_then(|node| joined[node]);
            let variable = variable.and_then(|node| i32::try_from(node).ok());
            let other = variable.and_then(|variable| slots.get(&(variable, &*slot.slot_name)));
            let other = other.and_then(|&id| index(id, saved.len()));
            if let (Some(node), Some(other)) = (index(slot.slot_variable_node_id, joined.len()), other) {
                joined[node] = joined[node].or(Some(other));
            }
        }
    }
    joined
}

/// Returns the index of a node, if it exists.
fn index(id: i32, count: usize) -> Option<usize> {
    usize::try_from(id).ok().filter(|&id| id < count)
}
