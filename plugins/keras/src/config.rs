//! JSON as nodes of the tree: a configuration is carried along as it stands, and nothing that it names is looked for.

use serde_json::Value;
use tensorferry_sdk::{CatalogSink, Error, Node, NodeId, NodeKind, Result};

/// How deep a configuration may nest.
const MOST_DEPTH: usize = 64;

/// Parses a configuration.
///
/// # Errors
/// Malformed, if it is not JSON or nests too deep.
pub(crate) fn parse(bytes: &[u8], what: &str) -> Result<Value> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| Error::malformed(format!("{what} is not JSON")).found(error))?;
    let mut level = vec![&value];
    for _ in 0..=MOST_DEPTH {
        level = level.into_iter().flat_map(children).collect();
        if level.is_empty() {
            return Ok(value);
        }
    }
    Err(Error::limit(format!("{what} nests too deep")).expected(format!("at most {MOST_DEPTH}")))
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(values) => values.iter().collect(),
        Value::Object(entries) => entries.values().collect(),
        _ => Vec::new(),
    }
}

/// Adds a value, which [`parse`] has checked.
///
/// # Errors
/// The catalog's.
pub(crate) fn add(catalog: &mut dyn CatalogSink, value: &Value) -> Result<NodeId> {
    let node = match value {
        Value::Null => Node::none(),
        Value::Bool(value) => Node::bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Node::int(int),
            (None, Some(int)) => Node::wide_int(int.into()),
            (None, None) => Node::float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Node::text(text),
        Value::Array(values) => {
            let nodes = values.iter().map(|value| add(catalog, value)).collect::<Result<Vec<_>>>()?;
            Node::container(NodeKind::LIST, "", nodes)
        }
        Value::Object(entries) => {
            let mut nodes = Vec::with_capacity(entries.len());
            for (key, value) in entries {
                nodes.push((catalog.node(Node::text(key))?, add(catalog, value)?));
            }
            Node::map("", &nodes)
        }
    };
    catalog.node(node)
}
