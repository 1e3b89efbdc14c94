//! Files that Flax wrote, and files that it or this format refuses.

use crate::common::facts::{cases, expected, facts, facts_of};
use crate::common::{again, with_view};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tensorferry_sdk::{Entry, ErrorKind, MemorySource, NodeKind, Result, Tree};

fn source(folder: &Path, expected: &Value) -> MemorySource {
    let names = expected["files"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
    let files = names.map(|name| (name.to_owned(), fs::read(folder.join(name)).unwrap())).collect();
    MemorySource::new(Entry::File(expected["entry"].as_str().unwrap().to_owned()), files)
}

/// The values of a tree that are no tensors, by the keys that lead to them.
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

/// The facts of every tensor that is read, by its name.
fn read(source: &MemorySource) -> Result<BTreeMap<String, Value>> {
    with_view(source, |view| {
        let names = view.catalog().tensors().iter().map(|tensor| tensor.name.clone());
        names.map(|name| (name.clone(), facts(view, &name))).collect()
    })
}

#[test]
fn every_case_is_read_or_refused() {
    let (mut ok, mut refused) = (0, 0);
    for folder in cases("flax", "") {
        let expected = expected(&folder);
        let case = folder.display();
        let tensors = expected["tensors"].as_object().unwrap();
        let facts: BTreeMap<String, Value> =
            tensors.iter().map(|(name, tensor)| (name.clone(), facts_of(tensor))).collect();
        let read = read(&source(&folder, &expected));
        if expected["expect"] == "ok" {
            assert_eq!(read.unwrap_or_else(|error| panic!("{case}: {error}")), facts, "{case}");
            ok += 1;
        } else {
            let error = read.map(|read| format!("{case} was read: {read:?}")).unwrap_err();
            let known = [ErrorKind::Malformed, ErrorKind::Unsupported, ErrorKind::Limit];
            assert!(known.contains(&error.kind()), "{case}: {error}");
            for detail in ["file", "offset"] {
                let chunked = detail == "offset" && case.to_string().ends_with("chunk_missing");
                assert!(chunked || error.details().any(|(name, _)| name == detail), "{case}: {error}");
            }
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
        let found = with_view(&source(folder, &expected), |view| state(view.catalog().tree())).unwrap();
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
