//! Tests of files that gguf-py and ggml wrote, and of files that they reject.

use crate::common::{source, with_view};
use serde_json::{Value, json};
use tensorferry_sdk::{ErrorKind, Node, NodeKind, Purpose};
use tensorferry_test_kit::fixtures::{all_facts, all_facts_of, cases, expected};

#[test]
fn every_case_is_read_or_refused() {
    let (mut ok, mut refused) = (0, 0);
    for folder in cases("gguf", "") {
        let expected = expected(&folder);
        let found = with_view(&source(&folder, &expected), &[], Purpose::SHOW, all_facts).flatten();
        match (expected["expect"].as_str().unwrap(), found) {
            ("ok", Ok(found)) => {
                assert_eq!(found, all_facts_of(&expected), "{}", folder.display());
                ok += 1;
            }
            ("error", Err(error)) => {
                let is_deep = folder.ends_with("bad_nested_bomb");
                let kind = if is_deep { ErrorKind::Limit } else { ErrorKind::Malformed };
                assert_eq!(error.kind(), kind, "{}: {error}", folder.display());
                let text = error.to_string();
                assert!(text.starts_with("model"), "{text}");
                let says_what = ["expected", "found", "offset"].iter().any(|word| text.contains(word));
                assert!(says_what, "{text}");
                refused += 1;
            }
            (expected, found) => panic!("{}: {expected}, found {found:?}", folder.display()),
        }
    }
    assert_eq!((ok, refused), (20, 27));
}

/// Returns the type of a node, in the words that [`expected_type`] returns.
fn type_of(node: &Node) -> &str {
    match (node.kind, &*node.class) {
        (NodeKind::TEXT, _) => "string",
        (NodeKind::BOOL, _) => "bool",
        (NodeKind::LIST, _) => "array<string>",
        (_, class) => class,
    }
}

/// Translates the name of a type in a fixture's expectations.
fn expected_type(kind: &str) -> String {
    let is_array = kind.strip_prefix("array<").and_then(|rest| rest.strip_suffix('>'));
    let word = |kind: &str| match kind {
        "string" | "bool" => kind.to_owned(),
        kind => kind.replace("uint", "U").replace("int", "I").replace("float", "F"),
    };
    match is_array {
        Some("string") => "array<string>".to_owned(),
        Some("bool") => "BOOL".to_owned(),
        Some(element) => word(element),
        None => word(kind),
    }
}

#[test]
fn metadata_has_its_types_and_values() {
    let mut values = 0;
    for folder in cases("gguf", "") {
        let expected = expected(&folder);
        let Some(kv) = expected["kv"].as_array() else { continue };
        with_view(&source(&folder, &expected), &[], Purpose::SHOW, |view| {
            let metadata = view.catalog().metadata();
            assert_eq!(metadata.len(), kv.len(), "{}", folder.display());
            for entry in kv {
                let found = &metadata[entry["key"].as_str().unwrap()];
                let (kind, value) = (entry["type"].as_str().unwrap(), &entry["value"]);
                if kind != "array<array>" {
                    assert_eq!(type_of(found.root()), expected_type(kind), "{entry}");
                }
                assert_eq!(plain(&serde_json::from_str(&found.json()).unwrap()), plain(value), "{entry}");
                values += 1;
            }
        })
        .unwrap();
    }
    assert_eq!(values, 85);
}

/// Normalizes JSON by rounding floats to F32 and using the same spelling for all infinities.
fn plain(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(plain).collect(),
        #[expect(clippy::cast_possible_truncation, reason = "F32 is shown with its shortest digits")]
        Value::Number(number) if number.is_f64() => json!(number.as_f64().unwrap() as f32),
        Value::String(text) if text == "inf" => json!("Infinity"),
        Value::String(text) if text == "-inf" => json!("-Infinity"),
        other => other.clone(),
    }
}
