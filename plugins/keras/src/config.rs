//! JSON as nodes of the tree: a configuration is carried along as it stands, and nothing that it names is looked for.

use serde_json::Value;
use tensorferry_sdk::{CatalogSink, Error, Limits, Node, NodeId, NodeKind, Result};

/// How deep a configuration may nest.
const MOST_DEPTH: usize = 64;

/// Parses a configuration.
pub(crate) fn parse(bytes: &[u8], what: &str, limits: &Limits) -> Result<Value> {
    // Parsed values take a hundred times their text.
    let nodes = nodes(bytes);
    if nodes > limits.nodes {
        return Err(Error::limit(format!("{what} has too many values"))
            .expected(format!("at most {}, or --bound nodes=N", limits.nodes))
            .found(nodes));
    }
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

/// What a map takes beside its keys and values, in nodes: its entries lie in tables that have room for more.
const MAP: u64 = 2;

/// At most how many values and keys a JSON text has: each but the first stands behind one of these marks.
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

/// Adds a value, which [`parse`] has checked.
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
        for (text, most) in
            [("1", 1), ("[1, 2, 3]", 4), (r#"{"a": [], "b,\":[": {"c": "\\"}}"#, 12), ("[[[[1],[2]]]]", 7)]
        {
            assert_eq!(nodes(text.as_bytes()), most, "{text}");
        }
        let mut limits = Limits::default();
        limits.nodes = 4;
        assert!(parse(b"[1, 2, 3]", "it", &limits).is_ok());
        let error = parse(b"[1, 2, 3, 4]", "it", &limits).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert!(error.to_string().contains("nodes"), "{error}");
    }
}
