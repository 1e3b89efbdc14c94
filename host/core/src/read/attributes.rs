//! Attributes of a flat list of tensors. For example, the `_metadata` of a torch state dict
//! contains each module's version. If a target format has no tree, the attributes are stored in the
//! metadata, and are restored from the metadata later.
//!
//! The entry `ferry.attributes` is a JSON document. Null, booleans, integers and strings are
//! written as JSON values. A plain mapping is an object, and a mapping with a class is `["CLASS",
//! {...}]`. Keys are strings, in their original order. `{"class": CLASS, "attributes": {...}}`
//! describes the flat list itself: its class and the attributes that are set on it.

use crate::read::entries::Entries;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::HashSet;
use tensorferry_sdk::{self as sdk, Catalog, Error, Limits, Node, NodeId, NodeKind, Result, TensorId, Tree};

pub const KEY: &str = "ferry.attributes";

/// A value of an attribute. The type implements `Deserialize` itself: serde's derived code for an
/// untagged enum buffers the whole content at every level to try the variants. The buffering takes
/// time proportional to depth × size, which an untrusted file could exploit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
enum Value {
    None(()),
    Bool(bool),
    Int(i64),
    Text(String),
    Map(Entries<Value>),
    MapOfClass(String, Entries<Value>),
}

/// The class of the flat list itself, and the attributes that are set on the list.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attributed {
    class: String,
    attributes: Value,
}

/// Moves the attributes of the tree's root into the metadata. Returns `true` if the root had
/// attributes and all of them could be stored.
pub fn fold(catalog: &mut Catalog) -> bool {
    let Some((class, attributes)) = of_root(catalog.tree()) else { return false };
    let Ok(json) = serde_json::to_string(&Attributed { class, attributes }) else { return false };
    if from_json(&json).is_none() || catalog.metadata().contains_key(KEY) {
        return false;
    }
    let mut metadata = catalog.metadata().clone();
    metadata.insert(KEY.to_owned(), sdk::Value::text(&json));
    *catalog = std::mem::take(catalog).with_metadata(metadata);
    true
}

/// Moves the attributes out of the metadata, and turns the flat list into a tree with these
/// attributes. If the entry `ferry.attributes` is not an attribute list, the metadata remains
/// unchanged.
pub fn unfold(catalog: Catalog) -> Result<Catalog> {
    let found = catalog.metadata().get(KEY).and_then(|value| from_json(value.as_text()?));
    let (Some(Attributed { class, attributes }), None) = (found, catalog.tree().root()) else {
        return Ok(catalog);
    };
    let limits = catalog.limits().clone();
    let mut tree = Tree::default();
    let mut entries = Vec::with_capacity(catalog.tensors().len());
    for (index, tensor) in (0..).zip(catalog.tensors()) {
        let key = tree.push(Node::text(&tensor.name), &limits)?;
        entries.push((key, tree.push(Node::tensor(TensorId(index)), &limits)?));
    }
    let map = tree.push(Node::map(&class, &entries), &limits)?;
    let attributes = attributes.push(&mut tree, &limits)?;
    let root = tree.push(Node::container(NodeKind::ATTRIBUTED, "", [map, attributes]), &limits)?;
    tree.set_root(root)?;
    let mut metadata = catalog.metadata().clone();
    metadata.remove(KEY);
    catalog.with_metadata(metadata).with_tree(tree)
}

/// Returns the class and the attributes of the tree's root, if the root is a mapping with
/// attributes.
fn of_root(tree: &Tree) -> Option<(String, Value)> {
    let root = tree.get(tree.root()?)?;
    let &[value, attributes] = &*root.children else { return None };
    let list =
        tree.get(value).filter(|node| root.kind == NodeKind::ATTRIBUTED && node.kind == NodeKind::MAP)?;
    Some((list.class.to_string(), Value::of(tree, attributes, 0)?))
}

fn from_json(json: &str) -> Option<Attributed> {
    let found: Attributed = serde_json::from_str(json).ok()?;
    let is_mapping = matches!(found.attributes, Value::Map(_) | Value::MapOfClass(..));
    (is_mapping && found.attributes.has_each_key_once()).then_some(found)
}

impl Value {
    /// Converts a node to a value, if the node can be represented. The maximum depth is the same as
    /// in serde_json.
    fn of(tree: &Tree, id: NodeId, depth: u32) -> Option<Self> {
        let node = tree.get(id).filter(|_| depth < 32)?;
        match node.kind {
            NodeKind::NONE => Some(Self::None(())),
            NodeKind::BOOL => node.as_bool().map(Self::Bool),
            NodeKind::INT => node.as_int().map(Self::Int),
            NodeKind::TEXT => node.as_text().map(|text| Self::Text(text.to_owned())),
            NodeKind::MAP => {
                let entry = |(key, value): (NodeId, NodeId)| {
                    Some((tree.get(key)?.as_text()?.to_owned(), Self::of(tree, value, depth + 1)?))
                };
                let entries = Entries(node.entries().map(entry).collect::<Option<_>>()?);
                let class = node.class.to_string();
                Some(if class.is_empty() { Self::Map(entries) } else { Self::MapOfClass(class, entries) })
            }
            _ => None,
        }
    }

    /// Returns whether all keys are unique, as in the mappings of a tree.
    fn has_each_key_once(&self) -> bool {
        let (Self::Map(entries) | Self::MapOfClass(_, entries)) = self else { return true };
        let mut seen = HashSet::new();
        entries.0.iter().all(|(key, value)| seen.insert(key) && value.has_each_key_once())
    }

    fn push(&self, tree: &mut Tree, limits: &Limits) -> Result<NodeId> {
        let mut map = |class: &str, entries: &Entries<Self>| {
            let mut nodes = Vec::with_capacity(entries.0.len());
            for (key, value) in &entries.0 {
                let key = tree.push(Node::text(key), limits)?;
                nodes.push((key, value.push(tree, limits)?));
            }
            Ok::<_, Error>(Node::map(class, &nodes))
        };
        let node = match self {
            Self::None(()) => Node::none(),
            Self::Bool(value) => Node::bool(*value),
            Self::Int(value) => Node::int(*value),
            Self::Text(text) => Node::text(text),
            Self::Map(entries) => map("", entries)?,
            Self::MapOfClass(class, entries) => map(class, entries)?,
        };
        tree.push(node, limits)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("null, a boolean, an integer, a string, an object, or [CLASS, object]")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::None(()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value).map(Value::Int).map_err(E::custom)
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        Entries::deserialize(MapAccessDeserializer::new(map)).map(Value::Map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let class: String = seq.next_element()?.ok_or_else(|| A::Error::custom("no class"))?;
        match (seq.next_element()?, seq.next_element::<serde::de::IgnoredAny>()?) {
            (Some(Value::Map(entries)), None) => Ok(Value::MapOfClass(class, entries)),
            _ => Err(A::Error::custom("not a class and an object")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use tensorferry_sdk::{CatalogBuilder, CatalogSink, Dtype, MemorySource, Storage};

    /// Each level of nested attributes must be parsed in time proportional to the size of that
    /// level only.
    #[test]
    fn deep_attributes_are_read_once() {
        let nested = |depth: usize| {
            let body = (0..20_000).map(|i| format!("\"k{i}\":{i}")).collect::<Vec<_>>().join(",");
            let open = "{\"a\":".repeat(depth);
            format!(r#"{{"class":"","attributes":{open}{{{body}}}{}}}"#, "}".repeat(depth))
        };
        let time = |depth| {
            let json = nested(depth);
            let once = || {
                let start = std::time::Instant::now();
                assert!(from_json(&json).is_some());
                start.elapsed()
            };
            (0..5).map(|_| once()).min().unwrap()
        };
        let (flat, deep) = (time(1), time(100));
        assert!(deep < flat * 10, "100 levels take {deep:?}, one takes {flat:?}");
    }

    #[test]
    fn attributes_go_into_metadata_and_come_back() {
        let source = MemorySource::file("x", Vec::new());
        let limits = Limits::default();
        let mut b = CatalogBuilder::new("test", &source, &limits);
        let storage = b.storage(Storage::inline(vec![0; 4])).unwrap();
        let tensor = b.tensor("w", Dtype::F32, &[1], storage, 0).unwrap();
        let [key, leaf, name, version, two, module, metadata] = [
            Node::text("w"),
            Node::tensor(tensor),
            Node::text("bn"),
            Node::text("version"),
            Node::int(2),
            Node::text(""),
            Node::text("_metadata"),
        ]
        .map(|node| b.node(node).unwrap());
        let list = b.node(Node::map("collections.OrderedDict", &[(key, leaf)])).unwrap();
        let plain = b.node(Node::map("", &[(version, two)])).unwrap();
        let modules =
            b.node(Node::map("collections.OrderedDict", &[(name, plain), (module, plain)])).unwrap();
        let attributes = b.node(Node::map("", &[(metadata, modules)])).unwrap();
        let root = b.node(Node::container(NodeKind::ATTRIBUTED, "", [list, attributes])).unwrap();
        b.root(root).unwrap();
        let mut catalog = b.finish().unwrap();
        let before = of_root(catalog.tree()).unwrap();
        assert!(fold(&mut catalog));
        let json = r#"{"class":"collections.OrderedDict","attributes":{"_metadata":["collections.OrderedDict",{"bn":{"version":2},"":{"version":2}}]}}"#;
        assert_eq!(catalog.metadata()[KEY], json);
        let flat = catalog.select(&[(tensor, "w".to_owned())], None).unwrap();
        let back = unfold(flat).unwrap();
        assert_eq!(of_root(back.tree()).unwrap(), before);
        assert!(back.metadata().is_empty());
        // A mapping in a tree cannot contain the same key twice.
        assert!(from_json(json).is_some());
        assert!(from_json(&json.replace(r#""":{"#, r#""bn":{"#)).is_none());
    }
}
