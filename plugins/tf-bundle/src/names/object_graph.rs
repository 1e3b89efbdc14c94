//! An object graph maps the keys of a TensorFlow 2 checkpoint to objects. It contains all objects
//! that are reachable from the root, and lists the values that the checkpoint contains for each
//! object.
//!
//! ```text
//! TrackableObjectGraph    nodes = 1, the root first
//! node                    children = 1 {node_id, local_name}: one object may have many parents
//!                         attributes = 2 {name, full_name, checkpoint_key}
//!                         slot_variables = 3 {original_variable_node_id, slot_name, slot_variable_node_id}
//! ```
//! The key of a variable is the key of an index entry. The key of any other object may be a prefix
//! of several entry keys. For example, a table has the key `m/t/.ATTRIBUTES/table`, and its entries
//! have the keys `...table-keys` and `...table-values`.
//!
//! Sources: `tensorflow/core/protobuf/trackable_object_graph.proto`, and checkpoints written by
//! TensorFlow 2.21.

use super::path::{ATTRIBUTES, VARIABLE_VALUE};
use super::walk::{GraphWalk, walk};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use tensorferry_proto::trackable_object_graph::TrackableObject;
use tensorferry_proto::{Message, TrackableObjectGraph};
use tensorferry_sdk::{Error, Limits, Result};

/// Maximum ratio between the size of the decoded message and its encoded size. A node whose
/// encoding takes two bytes uses over a hundred bytes in memory.
const MESSAGE_GROWTH: u64 = 64;

pub(crate) fn decode(bytes: &[u8], limits: &Limits) -> Result<TrackableObjectGraph> {
    let max = limits.header_bytes / MESSAGE_GROWTH;
    if bytes.len() as u64 > max {
        return Err(Error::limit("the object graph is too long to hold in memory")
            .hint("raise the limit with --limit header_bytes=N")
            .expected(format!("at most {max} bytes"))
            .found(bytes.len()));
    }
    TrackableObjectGraph::decode(bytes)
        .map_err(|error| Error::malformed(format!("invalid object graph: {error}")))
}

/// A value in the checkpoint that belongs to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SavedValue<'a> {
    /// The key of the entry, or the common prefix of the keys if the value has several entries.
    pub(crate) key: &'a str,
    /// The index of the object in the graph.
    pub(crate) node: usize,
    /// The name of the value inside the object.
    pub(crate) attribute: &'a str,
    /// The full name of the variable, if it has one. Full names are not necessarily unique.
    pub(crate) full_name: Option<&'a str>,
    /// The path of the object. `None` if the object is unreachable, or if the path is longer than
    /// the limit for names.
    pub(crate) object: Option<String>,
    /// The optimizer that owns the value, as an index into [`ObjectGraph::optimizers`].
    pub(crate) optimizer: Option<usize>,
}

impl SavedValue<'_> {
    /// Returns whether the value describes an object, as its configuration does, instead of being a
    /// variable's value.
    pub(crate) fn describes_object(&self) -> bool {
        self.attribute != VARIABLE_VALUE
    }

    /// Returns the path of an entry. For a variable, this is the path of the object. For other
    /// values, it is the path of the object followed by the rest of the key.
    pub(crate) fn path(&self, key: &[u8]) -> Option<Cow<'_, str>> {
        let object = self.object.as_deref()?;
        if !self.describes_object() {
            return Some(Cow::Borrowed(object));
        }
        let key = std::str::from_utf8(key).ok()?;
        Some(Cow::Owned([object, &key[key.rfind(ATTRIBUTES)?..]].concat()))
    }
}

/// An object graph with computed paths.
#[derive(Debug, Clone)]
pub(crate) struct ObjectGraph<'a> {
    values: Vec<SavedValue<'a>>,
    by_key: HashMap<&'a str, usize>,
    /// The values of objects that are not variables, by key prefix.
    by_prefix: BTreeMap<&'a str, usize>,
    optimizers: Vec<String>,
    exported_twice: Vec<(&'a str, &'a str)>,
}

/// Names of the lists in Keras's `ExportArchive`. Both lists contain every variable of the model,
/// as separate objects.
const EXPORT_LISTS: [&str; 2] = ["variables", "_all_variables"];

impl<'a> ObjectGraph<'a> {
    /// Computes the paths of a graph. Returns an error if their total length exceeds the limit for
    /// headers.
    pub(crate) fn new(graph: &'a TrackableObjectGraph, limits: &Limits) -> Result<Self> {
        let walk = walk(&graph.nodes)?;
        let mut values = Vec::new();
        let mut paths = Paths { walk: &walk, limits, bytes: 0 };
        for (node, object) in graph.nodes.iter().enumerate() {
            for attribute in &object.attributes {
                values.push(SavedValue {
                    key: &attribute.checkpoint_key,
                    node,
                    attribute: &attribute.name,
                    full_name: Some(&*attribute.full_name).filter(|name| !name.is_empty()),
                    object: paths.make(node)?,
                    optimizer: walk.optimizer_of(node),
                });
            }
        }
        let optimizers = walk.optimizers().iter();
        let optimizers = optimizers.map(|&node| Ok(paths.make(node)?.unwrap_or_default()));
        let optimizers = optimizers.collect::<Result<_>>()?;
        let mut by_key = HashMap::with_capacity(values.len());
        for (place, value) in values.iter().enumerate() {
            let known = by_key.entry(value.key).or_insert(place);
            // Normally, no two objects have the same key. If two objects do, it is safest to choose
            // the one that no optimizer owns.
            if values[*known].optimizer.is_some() && value.optimizer.is_none() {
                *known = place;
            }
        }
        let others = values.iter().enumerate().filter(|(_, value)| value.describes_object());
        let by_prefix = others.map(|(place, value)| (value.key, place)).collect();
        Ok(Self { values, by_key, by_prefix, optimizers, exported_twice: exported_twice(&graph.nodes) })
    }

    /// Returns the saved value of the entry with this key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<&SavedValue<'a>> {
        let key = std::str::from_utf8(key).ok()?;
        let place = self.by_key.get(key).or_else(|| {
            let (prefix, place) = self.by_prefix.range(..=key).next_back()?;
            key.starts_with(prefix).then_some(place)
        })?;
        self.values.get(*place)
    }

    /// Returns all values, in graph order.
    pub(crate) fn values(&self) -> &[SavedValue<'a>] {
        &self.values
    }

    /// Returns a pair of keys for each variable that a Keras export lists twice.
    pub(crate) fn exported_twice(&self) -> &[(&'a str, &'a str)] {
        &self.exported_twice
    }

    /// Returns the paths of the optimizers that are not inside another optimizer.
    pub(crate) fn optimizers(&self) -> &[String] {
        &self.optimizers
    }
}

/// Pairs the variables in the two lists of an export by their full names. If a name occurs twice in
/// one list, its variables are not paired. Source:
/// `keras/src/export/saved_model_export_archive.py`, `_all_variables`.
fn exported_twice(nodes: &[TrackableObject]) -> Vec<(&str, &str)> {
    let Some(root) = nodes.first() else { return Vec::new() };
    let list = |name: &str| {
        let list = root.children.iter().find(|child| child.local_name == name)?;
        let list = nodes.get(usize::try_from(list.node_id).ok()?)?;
        let mut keys: BTreeMap<&str, Option<&str>> = BTreeMap::new();
        for child in &list.children {
            let node = nodes.get(usize::try_from(child.node_id).ok()?)?;
            let [value] = &*node.attributes else { continue };
            if value.name == VARIABLE_VALUE && !value.full_name.is_empty() {
                let key = Some(&*value.checkpoint_key);
                keys.entry(&value.full_name).and_modify(|known| *known = None).or_insert(key);
            }
        }
        Some(keys)
    };
    let [Some(first), Some(second)] = EXPORT_LISTS.map(list) else { return Vec::new() };
    let pairs = first.into_iter().filter_map(|(name, key)| Some((key?, second.get(name).copied()??)));
    pairs.filter(|(one, other)| one != other).collect()
}

/// Builds paths until their total length exceeds the limit. In a long chain of objects, the total
/// path length grows quadratically with the number of objects.
struct Paths<'a> {
    walk: &'a GraphWalk<'a>,
    limits: &'a Limits,
    bytes: u64,
}

impl Paths<'_> {
    fn make(&mut self, node: usize) -> Result<Option<String>> {
        let Some(len) = self.walk.path_len(node).filter(|&len| len <= self.limits.name_bytes) else {
            return Ok(None);
        };
        self.bytes = self.bytes.saturating_add(len);
        if self.bytes > self.limits.header_bytes {
            return Err(Error::limit("the paths of the object graph are too long")
                .hint("raise the limit with --limit header_bytes=N")
                .expected(format!("at most {} bytes together", self.limits.header_bytes)));
        }
        Ok(self.walk.path(node))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::testing::Objects;
    use tensorferry_sdk::ErrorKind;

    fn graph(objects: &Objects) -> ObjectGraph<'_> {
        ObjectGraph::new(&objects.0, &Limits::default()).unwrap()
    }

    fn facts<'a>(graph: &'a ObjectGraph<'_>) -> Vec<(&'a str, Option<usize>)> {
        graph.values().iter().map(|value| (value.object.as_deref().unwrap_or("?"), value.optimizer)).collect()
    }

    #[test]
    fn weights_that_an_optimizer_of_keras_3_lists_are_the_models() {
        let mut objects = Objects::new();
        let optimizer = objects.child(0, "optimizer");
        let lists =
            ["_variables", "_trainable_variables", "_iterations"].map(|name| objects.child(optimizer, name));
        objects.value(lists[2], "iterations", "adam/iteration");
        objects.link(lists[0], "0", lists[2]);
        objects.variable(lists[0], "1", "adam/dense_kernel_momentum");
        let kernel = objects.variable(lists[1], "0", "dense/kernel");
        let operations = objects.child(0, "_operations");
        let dense = objects.child(operations, "1");
        objects.link(dense, "_kernel", kernel);
        // This variable is reachable only through the optimizer.
        objects.variable(lists[1], "1", "lost/kernel");
        let graph = graph(&objects);
        assert_eq!(graph.optimizers(), ["optimizer"]);
        let expected = [
            ("optimizer/_iterations", Some(0)),
            ("optimizer/_variables/1", Some(0)),
            ("_operations/1/_kernel", None),
            ("optimizer/_trainable_variables/1", None),
        ];
        assert_eq!(facts(&graph), expected);
    }

    #[test]
    fn slots_belong_to_their_optimizer() {
        let mut objects = Objects::new();
        let model = objects.child(0, "model");
        let w = objects.variable(model, "w", "w");
        let optimizer = objects.child(0, "opt");
        objects.variable(optimizer, "beta1_power", "beta1_power");
        objects.slot(optimizer, w, "m.1");
        // This slot belongs to an unreachable variable.
        objects.0.nodes.push(Default::default());
        objects.slot(optimizer, 6, "m");
        let graph = graph(&objects);
        let expected = [
            ("model/w", None),
            ("opt/beta1_power", Some(0)),
            ("model/w/.OPTIMIZER_SLOT/opt/m..1", Some(0)),
            ("?", Some(0)),
        ];
        assert_eq!(facts(&graph), expected);
    }

    #[test]
    fn a_trainer_and_metrics_are_no_optimizers() {
        let mut objects = Objects::new();
        let trainer = objects.child(0, "trainer");
        objects.variable(trainer, "iter", "iter");
        objects.variable(trainer, "learning_rate", "learning_rate");
        let model = objects.child(trainer, "model");
        objects.variable(model, "w", "w");
        let metric = objects.child(0, "metric");
        objects.variable(metric, "total", "total");
        objects.variable(metric, "count", "count");
        assert!(graph(&objects).values().iter().all(|value| value.optimizer.is_none()));
        // The children of a Keras 2 optimizer that has not run a step have the same names, but all
        // of them are variables.
        let sgd = objects.child(trainer, "sgd");
        objects.variable(sgd, "iter", "SGD/iter");
        objects.variable(sgd, "decay", "SGD/decay");
        assert_eq!(graph(&objects).optimizers(), ["trainer/sgd"]);
    }

    #[test]
    fn a_wrapper_called_optimizer_is_one_and_the_root_is_none() {
        let mut objects = Objects::new();
        objects.variable(0, "iter", "iter");
        objects.variable(0, "decay", "decay");
        let outer = objects.child(0, "g_optimizer");
        let inner = objects.child(outer, "inner");
        objects.variable(outer, "scale", "scale");
        objects.child(inner, "_iterations");
        objects.child(inner, "_variables");
        let graph = graph(&objects);
        assert_eq!(facts(&graph), [("iter", None), ("decay", None), ("g_optimizer/scale", Some(0))]);
    }

    #[test]
    fn entries_of_tables_are_found_by_what_they_begin_with() {
        let mut objects = Objects::new();
        let table = objects.child(0, "t");
        objects.value(table, "t/.ATTRIBUTES/table", "");
        objects.0.nodes[table].attributes[0].name = "table".to_owned();
        objects.variable(0, "w", "w");
        let graph = graph(&objects);
        let key = b"t/.ATTRIBUTES/table-keys";
        assert_eq!(graph.find(key).unwrap().path(key).unwrap(), "t/.ATTRIBUTES/table-keys");
        assert!(graph.find(b"t/.ATTRIBUTES/tabl").is_none());
        assert!(graph.find(b"0.w/.ATTRIBUTES/VARIABLE_VALUE-keys").is_none());
        assert!(graph.find(b"\xff").is_none());
    }

    #[test]
    fn references_to_nothing_name_the_node() {
        for id in [-1, 3] {
            let mut objects = Objects::new();
            let child = objects.child(0, "a");
            objects.child(child, "b");
            objects.0.nodes[1].children[0].node_id = id;
            let error = ObjectGraph::new(&objects.0, &Limits::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed);
            let text = error.to_string();
            assert!(text.contains("node 1 ") && text.contains(&format!("found node {id}")), "{text}");
        }
        assert!(ObjectGraph::new(&TrackableObjectGraph::default(), &Limits::default()).is_ok());
    }

    #[test]
    fn loops_end_and_chains_are_bounded() {
        let mut objects = Objects::new();
        let mut node = 0;
        for _ in 0..100_000 {
            node = objects.child(node, "a");
            objects.value(node, "k", "");
        }
        objects.link(node, "back", 0);
        // Each slot refers to the other slot as its variable.
        let optimizer = objects.child(0, "optimizer");
        for variable in [1, 0] {
            let next = objects.0.nodes.len();
            objects.slot(optimizer, next + variable, "m");
        }
        let mut limits = Limits::default();
        limits.header_bytes = 64 << 20;
        let error = ObjectGraph::new(&objects.0, &limits).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        limits.name_bytes = 100;
        let graph = ObjectGraph::new(&objects.0, &limits).unwrap();
        assert_eq!(graph.values().iter().filter(|value| value.object.is_some()).count(), 50);
    }
}
