//! Files that the real library wrote, and files that it refuses.

use crate::common::{contents, convert, reopen, with_view};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use tensorferry_sdk::{Entry, ErrorKind, MemorySource};

/// Each case's folder and what is expected of it.
fn cases() -> Vec<(PathBuf, Value)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/safetensors");
    let mut folders: Vec<PathBuf> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let expected =
        |folder: &Path| serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap();
    folders.into_iter().map(|folder| (folder.clone(), expected(&folder))).collect()
}

/// The case's files; the entry is the one file, else the folder.
fn source(folder: &Path, expected: &Value) -> MemorySource {
    let names: Vec<&str> =
        expected["files"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let files: BTreeMap<_, _> =
        names.iter().map(|name| ((*name).to_owned(), fs::read(folder.join(name)).unwrap())).collect();
    let entry = match &*names {
        [one] => Entry::File((*one).to_owned()),
        _ => Entry::Folder,
    };
    MemorySource::new(entry, files)
}

/// Name, dtype, shape and digest of every tensor, one a line.
fn summary<'a>(tensors: impl Iterator<Item = (&'a String, String, Vec<u64>, String)>) -> String {
    tensors.map(|(name, dtype, shape, digest)| format!("{name:?} {dtype} {shape:?} {digest}\n")).collect()
}

fn expected_summary(expected: &Value) -> String {
    let sorted: BTreeMap<&String, &Value> = expected["tensors"].as_object().unwrap().iter().collect();
    summary(sorted.into_iter().map(|(name, tensor)| {
        let text = |key: &str| tensor[key].as_str().unwrap().to_owned();
        let shape = tensor["shape"].as_array().unwrap().iter().map(|dim| dim.as_u64().unwrap()).collect();
        (name, text("dtype"), shape, text("sha256"))
    }))
}

fn read_summary(source: &MemorySource) -> String {
    with_view(source, |view, _| {
        summary(contents(view).iter().map(|(name, (dtype, shape, bytes))| {
            let digest = Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
                write!(text, "{byte:02x}").unwrap();
                text
            });
            (name, dtype.clone(), shape.clone(), digest)
        }))
    })
    .unwrap()
}

#[test]
fn every_case_is_read_or_refused() {
    let (mut ok, mut refused) = (0, 0);
    for (folder, expected) in cases() {
        let source = source(&folder, &expected);
        match expected["expect"].as_str().unwrap() {
            "ok" => {
                assert_eq!(read_summary(&source), expected_summary(&expected), "{}", folder.display());
                ok += 1;
            }
            "error" => {
                let error = with_view(&source, |_, _| ()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Malformed, "{}", folder.display());
                assert!(error.to_string().contains("file \"model.safetensors\""), "{error}");
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
    for (folder, expected) in cases() {
        let is_one_file = expected["files"].as_array().unwrap().len() == 1;
        if expected["expect"] != "ok" || !is_one_file {
            continue;
        }
        let source = source(&folder, &expected);
        let output = convert(&source, &[]).unwrap();
        let library = fs::read(folder.join("model.safetensors")).unwrap();
        let ours = &output.files["model.safetensors"];
        // The library's own order of several metadata keys is random: those bytes are not compared.
        let skipped = match expected["metadata"].as_object() {
            Some(several) => {
                8 + format!(r#"{{"__metadata__":{}"#, serde_json::to_string(several).unwrap()).len()
            }
            None => 0,
        };
        assert_eq!(ours.len(), library.len());
        assert!(ours[skipped..] == library[skipped..], "{}", folder.display());
        assert_eq!(read_summary(&reopen(&output)), expected_summary(&expected));
        assert!(output.layout.losses().is_empty());
        same += 1;
    }
    assert_eq!(same, 5);
}

#[test]
fn metadata_is_read() {
    let (folder, expected) = cases().into_iter().find(|(folder, _)| folder.ends_with("all_dtypes")).unwrap();
    let metadata =
        with_view(&source(&folder, &expected), |view, _| view.catalog().metadata().clone()).unwrap();
    assert_eq!(serde_json::to_value(metadata).unwrap(), expected["metadata"]);
}
