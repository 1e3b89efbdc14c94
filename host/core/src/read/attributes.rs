//! Attributes of a flat list of tensors (a torch state dict's `_metadata`, which says what version of
//! each module wrote it) go into a target's metadata where it has no tree, and come back from there.
//!
//! The entry `ferry.attributes` is JSON: null, booleans, integers and texts are themselves, a plain
//! mapping is an object, a mapping of a class is `["CLASS", {...}]`. Keys are texts, in their order.
//! `{"class": CLASS, "attributes": {...}}` is the list itself: its own class and what is set on it.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use tensorferry_sdk::{Catalog, Limits, Node, NodeId, NodeKind, Result, TensorId, Tree};

/// The metadata key.
pub const KEY: &str = "ferry.attributes";

/// What attributes can hold.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    None,
    Bool(bool),
    Int(i64),
    Text(String),
    Map { class: String, entries: Vec<(String, Value)> },
}

/// Puts the attributes of the tree's root into the metadata; says whether there were any, and all of
/// them fitted.
pub fn fold(catalog: &mut Catalog) -> bool {
    let Some((class, attributes)) = of_root(catalog.tree()) else { return false };
    let entries = vec![("class".to_owned(), Value::Text(class)), ("attributes".to_owned(), attributes)];
    let Ok(json) = serde_json::to_string(&Value::Map { class: String::new(), entries }) else { return false };
    if from_json(&json).is_none() || catalog.metadata().contains_key(KEY) {
        return false;
    }
    let mut metadata = catalog.metadata().clone();
    metadata.insert(KEY.to_owned(), json);
    *catalog = std::mem::take(catalog).with_metadata(metadata);
    true
}

/// Takes the attributes out of the metadata, and makes a tree of the flat list that carries them.
/// Metadata under this key that is something else stays as it is.
///
/// # Errors
/// None that a catalog can cause: the tree is made here.
pub fn unfold(catalog: Catalog) -> Result<Catalog> {
    let found = catalog.metadata().get(KEY).and_then(|json| from_json(json));
    let (Some((class, attributes)), None) = (found, catalog.tree().root()) else { return Ok(catalog) };
    let limits = Limits::default();
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

/// The class and the attributes of a root that is a mapping with attributes.
fn of_root(tree: &Tree) -> Option<(String, Value)> {
    let root = tree.get(tree.root()?)?;
    let &[value, attributes] = &*root.children else { return None };
    let list =
        tree.get(value).filter(|node| root.kind == NodeKind::ATTRIBUTED && node.kind == NodeKind::MAP)?;
    Some((list.class.to_string(), Value::of(tree, attributes, 0)?))
}

fn from_json(json: &str) -> Option<(String, Value)> {
    let Value::Map { class, entries } = serde_json::from_str(json).ok()? else { return None };
    let [(first, Value::Text(list)), (second, attributes @ Value::Map { .. })] = &*entries else {
        return None;
    };
    (class.is_empty() && first == "class" && second == "attributes")
        .then(|| (list.clone(), attributes.clone()))
}

impl Value {
    /// The value of a node, if it can be said here; nesting is bounded as serde_json's reader is.
    fn of(tree: &Tree, id: NodeId, depth: u32) -> Option<Self> {
        let node = tree.get(id).filter(|_| depth < 32)?;
        match node.kind {
            NodeKind::NONE => Some(Self::None),
            NodeKind::BOOL => node.as_bool().map(Self::Bool),
            NodeKind::INT => node.as_int().map(Self::Int),
            NodeKind::TEXT => node.as_text().map(|text| Self::Text(text.to_owned())),
            NodeKind::MAP => {
                let entry = |(key, value): (NodeId, NodeId)| {
                    Some((tree.get(key)?.as_text()?.to_owned(), Self::of(tree, value, depth + 1)?))
                };
                let entries = node.entries().map(entry).collect::<Option<_>>()?;
                Some(Self::Map { class: node.class.to_string(), entries })
            }
            _ => None,
        }
    }

    fn push(&self, tree: &mut Tree, limits: &Limits) -> Result<NodeId> {
        let node = match self {
            Self::None => Node::none(),
            Self::Bool(value) => Node::bool(*value),
            Self::Int(value) => Node::int(*value),
            Self::Text(text) => Node::text(text),
            Self::Map { class, entries } => {
                let mut nodes = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    let key = tree.push(Node::text(key), limits)?;
                    nodes.push((key, value.push(tree, limits)?));
                }
                Node::map(class, &nodes)
            }
        };
        tree.push(node, limits)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Map { class, entries } if class.is_empty() => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
            Self::Map { class, entries } => {
                (class, Self::Map { class: String::new(), entries: entries.clone() }).serialize(serializer)
            }
        }
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
        f.write_str("attributes")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::None)
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

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Value::Map { class: String::new(), entries })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        use serde::de::Error;
        let class: String = seq.next_element()?.ok_or_else(|| A::Error::custom("no class"))?;
        let value: Option<Value> = seq.next_element()?;
        match (value, seq.next_element::<Value>()?) {
            (Some(Value::Map { entries, .. }), None) => Ok(Value::Map { class, entries }),
            _ => Err(A::Error::custom("not a class and a mapping")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use tensorferry_sdk::{CatalogBuilder, CatalogSink, Dtype, MemorySource, Storage};

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
    }
}
