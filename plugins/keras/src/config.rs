//! Converts the JSON of a Keras configuration to nodes of the catalog's tree. The values are
//! unchanged, and the classes to which a configuration refers are never loaded.

use serde_json::Value;
use tensorferry_sdk::{CatalogSink, Error, Limits, Node, NodeId, NodeKind, Result};

/// Maximum depth of nested values in a configuration.
const MAX_DEPTH: usize = 64;

pub(crate) fn parse(bytes: &[u8], what: &str, limits: &Limits) -> Result<Value> {
    // Parsed values can use about a hundred times as much memory as their JSON text.
    let nodes = nodes(bytes);
    if nodes > limits.nodes {
        return Err(Error::limit(format!("{what} has too many values"))
            .expected(format!("at most {}", limits.nodes))
            .hint("pass --limit nodes=N to raise the limit")
            .found(nodes));
    }
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| Error::malformed(format!("{what} is not JSON")).found(error))?;
    let mut level = vec![&value];
    for _ in 0..=MAX_DEPTH {
        level = level.into_iter().flat_map(children).collect();
        if level.is_empty() {
            return Ok(value);
        }
    }
    Err(Error::limit(format!("{what} is nested too deeply")).expected(format!("at most {MAX_DEPTH} levels")))
}

/// Memory overhead of a map, expressed as a number of nodes. The tables of a map have unused
/// capacity.
const MAP: u64 = 2;

/// Returns an upper bound for the number of values and keys in a JSON text, including the overhead
/// of maps. All values and keys except the first follow one of the characters `{`, `[`, `,` and
/// `:`.
fn nodes(bytes: &[u8]) -> u64 {
    let (mut count, mut in_text, mut is_escaped) = (1, false, false);
    for &byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            b'{' if !in_text => count += 1 + MAP,
            b'[' | b',' | b':' if !in_text => count += 1,
            _ => {}
        }
    }
    count
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(values) => values.iter().collect(),
        Value::Object(entries) => entries.values().collect(),
        _ => Vec::new(),
    }
}

/// Adds a JSON value to the catalog's tree. The value must be a result of [`parse`].
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;

    #[test]
    fn values_are_counted_before_they_are_made() {
        for (text, max) in
            [("1", 1), ("[1, 2, 3]", 4), (r#"{"a": [], "b,\":[": {"c": "\\"}}"#, 12), ("[[[[1],[2]]]]", 7)]
        {
            assert_eq!(nodes(text.as_bytes()), max, "{text}");
        }
        let mut limits = Limits::default();
        limits.nodes = 4;
        assert!(parse(b"[1, 2, 3]", "it", &limits).is_ok());
        let error = parse(b"[1, 2, 3, 4]", "it", &limits).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert!(error.details().any(|(name, text)| name == "hint" && text.contains("nodes")), "{error}");
    }
}
