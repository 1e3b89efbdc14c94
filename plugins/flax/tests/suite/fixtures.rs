//! Reads files that Flax wrote, and files that Flax or this format rejects.

use crate::written::again;
use serde_json::{Map, Value};
use std::fs;
use std::path::Path;
use tensorferry_flax::Flax;
use tensorferry_sdk::{Entry, MemorySource, NodeKind, Tree};
use tensorferry_test_kit::fixtures::{
    all_facts, all_facts_of, cases, expected, files_of, name_of, refused_case,
};
use tensorferry_test_kit::tensors::with_view;

fn source(folder: &Path, expected: &Value) -> MemorySource {
    MemorySource::new(
        Entry::File(expected["entry"].as_str().unwrap().to_owned()),
        files_of(folder, expected, ""),
    )
}

/// Returns the values in a tree that are not tensors, by their keys.
fn state(tree: &Tree) -> Map<String, Value> {
    let mut found = Map::new();
    let mut open = vec![(tree.root().unwrap(), String::new())];
    while let Some((id, name)) = open.pop() {
        let node = tree.get(id).unwrap();
        let below =
            |key: &str| if id == tree.root().unwrap() { key.to_owned() } else { format!("{name}.{key}") };
        let value = match node.kind {
            NodeKind::MAP => {
                for (key, value) in node.entries() {
                    let key = tree.get(key).unwrap();
                    let key = key.as_text().map_or_else(|| key.as_int().unwrap().to_string(), str::to_owned);
                    open.push((value, below(&key)));
                }
                continue;
            }
            NodeKind::LIST => {
                open.extend(node.children.iter().enumerate().map(|(at, id)| (*id, below(&at.to_string()))));
                continue;
            }
            NodeKind::TENSOR => continue,
            NodeKind::NONE => Value::Null,
            NodeKind::BOOL => node.as_bool().unwrap().into(),
            NodeKind::INT => serde_json::from_str(&node.as_wide_int().unwrap().to_string()).unwrap(),
            NodeKind::FLOAT => {
                node.as_float().filter(|number| number.is_finite()).map_or("odd".into(), Value::from)
            }
            NodeKind::TEXT => node.as_text().unwrap().into(),
            other => format!("kind {}, {} bytes", other.0, node.bytes.len()).into(),
        };
        found.insert(name, value);
    }
    found
}

#[test]
fn every_case_is_read_or_refused() {
    let (mut ok, mut refused) = (0, 0);
    for folder in cases("flax", "") {
        let expected = expected(&folder);
        let case = folder.display();
        let read = with_view(&Flax, &source(&folder, &expected), &[], all_facts).flatten();
        if expected["expect"] == "ok" {
            assert_eq!(
                read.unwrap_or_else(|error| panic!("{case}: {error}")),
                all_facts_of(&expected),
                "{case}"
            );
            ok += 1;
        } else {
            let error = refused_case(&folder, read);
            let has_place = error.details().any(|(name, _)| name == "offset");
            assert!(has_place || name_of(&folder).ends_with("chunk_missing"), "{case}: {error}");
            refused += 1;
        }
    }
    assert_eq!((ok, refused), (7, 10));
}

#[test]
fn scalars_keep_their_values() {
    let mut seen = 0;
    for case in ["scalars_and_containers", "train_state"] {
        let folder = &cases("flax", case)[0];
        let expected = expected(folder);
        let found =
            with_view(&Flax, &source(folder, &expected), &[], |view| state(view.catalog().tree())).unwrap();
        for (name, value) in expected["state"].as_object().unwrap() {
            let found = found.get(name).unwrap_or_else(|| panic!("{case}: no {name:?} in {found:?}"));
            match value {
                Value::Object(value) if value.contains_key("complex") => {
                    assert_eq!(found, "kind 5, 16 bytes");
                }
                Value::Object(_) => assert_eq!(found, "kind 7, 2 bytes"),
                Value::String(text) if ["Infinity", "NaN"].contains(&&**text) => assert_eq!(found, "odd"),
                value => assert_eq!(found, value, "{name}"),
            }
            seen += 1;
        }
    }
    assert!(seen >= 15, "{seen}");
}

#[test]
fn what_flax_wrote_is_written_as_it_was() {
    let mut same = 0;
    for folder in cases("flax", "") {
        let expected = expected(&folder);
        let entry = expected["entry"].as_str().unwrap();
        if expected["expect"] != "ok" || entry.ends_with(".json") {
            continue;
        }
        let bytes = fs::read(folder.join(entry)).unwrap();
        let options: &[_] = if folder.ends_with("chunked_arrays") { &[("chunk_size", "1000")] } else { &[] };
        let output = again(&bytes, options).unwrap();
        assert!(output.layout.losses().is_empty(), "{}: {:?}", folder.display(), output.layout.losses());
        assert!(output.files["out.msgpack"] == bytes, "{}", folder.display());
        same += 1;
    }
    assert_eq!(same, 6);
}
