//! Reads files that the official `safetensors` library wrote, and files that the library rejects.

use crate::common::{convert, reopen, with_view};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tensorferry_sdk::{CatalogView, Entry, ErrorKind, MemorySource};
use tensorferry_test_kit::fixtures::{all_facts, all_facts_of, cases, expected, files_of};

/// Opens the files of a fixture. If there is only one file, that file is the input; otherwise, the
/// folder is the input.
fn source(folder: &Path, expected: &Value) -> MemorySource {
    let files = files_of(folder, expected, "");
    let entry = match files.keys().next() {
        Some(one) if files.len() == 1 => Entry::File(one.clone()),
        _ => Entry::Folder,
    };
    MemorySource::new(entry, files)
}

/// Returns the dtype, shape and digest of each tensor, by name.
fn read_facts(source: &MemorySource) -> BTreeMap<String, Value> {
    with_view(source, |view, _| all_facts(view)).unwrap().unwrap()
}

#[test]
fn every_case_is_read_or_refused() {
    let (mut ok, mut refused) = (0, 0);
    for folder in cases("safetensors", "") {
        let expected = expected(&folder);
        let source = source(&folder, &expected);
        match expected["expect"].as_str().unwrap() {
            "ok" => {
                assert_eq!(read_facts(&source), all_facts_of(&expected), "{}", folder.display());
                ok += 1;
            }
            "error" => {
                let error = with_view(&source, |_, _| ()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Malformed, "{}", folder.display());
                assert!(error.to_string().starts_with("model.safetensors: "), "{error}");
                refused += 1;
            }
            other => panic!("expect {other}"),
        }
    }
    assert_eq!((ok, refused), (6, 8));
}

#[test]
fn what_the_library_wrote_is_written_again() {
    let mut same = 0;
    for folder in cases("safetensors", "") {
        let expected = expected(&folder);
        let is_one_file = expected["files"].as_array().unwrap().len() == 1;
        if expected["expect"] != "ok" || !is_one_file {
            continue;
        }
        let source = source(&folder, &expected);
        let output = convert(&source, &[]).unwrap();
        let library = fs::read(folder.join("model.safetensors")).unwrap();
        let ours = &output.files["model.safetensors"];
        // The library writes several metadata keys in random order, so the test does not compare
        // the bytes of such files.
        let skipped = match expected["metadata"].as_object() {
            Some(several) => {
                8 + format!(r#"{{"__metadata__":{}"#, serde_json::to_string(several).unwrap()).len()
            }
            None => 0,
        };
        assert_eq!(ours.len(), library.len());
        assert!(ours[skipped..] == library[skipped..], "{}", folder.display());
        assert_eq!(read_facts(&reopen(&output)), all_facts_of(&expected));
        assert!(output.layout.losses().is_empty());
        same += 1;
    }
    assert_eq!(same, 5);
}

#[test]
fn metadata_is_read() {
    let folder = cases("safetensors", "all_dtypes").remove(0);
    let expected = expected(&folder);
    let metadata = with_view(&source(&folder, &expected), |view, _| {
        view.metadata_texts().into_iter().collect::<BTreeMap<_, _>>()
    })
    .unwrap();
    assert_eq!(serde_json::to_value(metadata).unwrap(), expected["metadata"]);
}
