//! Detects which objects are optimizers. The graph does not contain class names, so the detection
//! uses the properties of each object.
//!
//! | Written by | Properties of the object |
//! |---|---|
//! | `tf.compat.v1.train`, Keras 2 | slot variables |
//! | Keras 2, before its first step or without momentum | `iter` and `decay` or `learning_rate`, all of them variables |
//! | Keras 2.11 and later, Keras 3 | `_iterations` and the list `_variables` |
//! | others, such as Sonnet | named `optimizer`, with a child from [`WORDS`] |
//! | a wrapper, such as one that scales the loss | named `optimizer`, with an optimizer as a child |
//!
//! Names are not sufficient, because a program's trainer object may also have children named `iter`
//! and `learning_rate`, and may contain the model. If the trainer were mistaken for an optimizer,
//! the model would be dropped. The detection therefore requires that these children are variables
//! that have no children themselves.
//!
//! The detection is based on checkpoints written by Keras 2.21 (legacy and new optimizers), Keras
//! 3, and TensorFlow 2.21.

use tensorferry_proto::trackable_object_graph::TrackableObject;

/// The list in which a Keras 3 optimizer stores the variables that it trains. These variables
/// belong to the model.
pub(super) const TRAINABLE_LIST: &str = "_trainable_variables";

/// Typical names of optimizer state.
const WORDS: [&str; 14] = [
    "_iterations",
    "_momentums",
    "_velocities",
    "accumulated_decay",
    "beta1_power",
    "beta_1",
    "iter",
    "iterations",
    "learning_rate",
    "m",
    "mom",
    "momentum",
    "step",
    "v",
];

/// Returns, for each object, whether it is an optimizer. The caller must already have checked that
/// all references are in range.
pub(super) fn optimizers(nodes: &[TrackableObject]) -> Vec<bool> {
    let mut found: Vec<bool> = nodes.iter().map(|node| has_optimizer_state(node, nodes)).collect();
    let called: Vec<usize> = nodes
        .iter()
        .flat_map(|node| &node.children)
        .filter(|child| is_called_optimizer(&child.local_name))
        .filter_map(|child| usize::try_from(child.node_id).ok())
        .collect();
    for node in called {
        let mut children = nodes[node].children.iter();
        found[node] = found[node]
            || children.any(|child| {
                let inner = usize::try_from(child.node_id).ok().and_then(|id| found.get(id));
                WORDS.contains(&&*child.local_name) || inner == Some(&true)
            });
    }
    found
}

fn is_called_optimizer(name: &str) -> bool {
    name == "optimizer" || name.ends_with("_optimizer")
}

fn has_optimizer_state(node: &TrackableObject, nodes: &[TrackableObject]) -> bool {
    if !node.slot_variables.is_empty() {
        return true;
    }
    let has = |name: &str| node.children.iter().any(|child| child.local_name == name);
    let of_variables = || {
        let mut children = node.children.iter().filter_map(|c| nodes.get(usize::try_from(c.node_id).ok()?));
        children.all(|child| child.children.is_empty())
    };
    (has("_iterations") && has("_variables"))
        || (has("iter") && (has("decay") || has("learning_rate")) && of_variables())
}
