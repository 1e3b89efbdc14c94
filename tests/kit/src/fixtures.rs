//! Access to the fixtures: files of real writers, and an `expected.json` with the facts about their
//! tensors.

use crate::{Files, tensors};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{Error, ErrorKind, Result, hex};

/// Returns the folders of a family of fixtures whose names have this prefix, sorted.
pub fn cases(family: &str, prefix: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(family);
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> = entries.filter(|path| name_of(path).starts_with(prefix)).collect();
    cases.sort();
    cases
}

/// Returns the name of a file or a folder.
pub fn name_of(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// Returns the parsed `expected.json` of a case.
pub fn expected(case: &Path) -> Value {
    serde_json::from_slice(&fs::read(case.join("expected.json")).unwrap()).unwrap()
}

/// Returns the files that a case lists, with this prefix removed from their names.
pub fn files_of(case: &Path, expected: &Value, prefix: &str) -> Files {
    let names = expected["files"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
    names
        .map(|name| (name.strip_prefix(prefix).unwrap().to_owned(), fs::read(case.join(name)).unwrap()))
        .collect()
}

/// Returns all files in a folder except `expected.json`.
pub fn files_below(folder: &Path) -> Files {
    let (mut files, mut open) = (Files::new(), vec![folder.to_owned()]);
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                open.push(path);
            } else if name != "expected.json" {
                files.insert(name, fs::read(path).unwrap());
            }
        }
    }
    files
}

/// Returns the SHA-256 of bytes in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the dtype, shape and digest of a tensor that was read.
pub fn facts(view: &MemoryView<'_>, name: &str) -> Value {
    let (dtype, shape, bytes) = view.tensor_named(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    json!({"dtype": dtype, "shape": shape, "sha256": sha256(&bytes)})
}

/// Returns the dtype, shape and digest of an expected tensor. The expected tensor may have
/// additional facts.
pub fn facts_of(expected: &Value) -> Value {
    let [dtype, shape, sha256] = ["dtype", "shape", "sha256"].map(|key| &expected[key]);
    json!({"dtype": dtype, "shape": shape, "sha256": sha256})
}

/// Returns the facts of every tensor that was read, by name.
pub fn all_facts(view: &MemoryView<'_>) -> Result<BTreeMap<String, Value>> {
    let tensors = tensors::contents(view)?.into_iter();
    let facts = |(dtype, shape, bytes): (_, _, Vec<u8>)| json!({"dtype": dtype, "shape": shape, "sha256": sha256(&bytes)});
    Ok(tensors.map(|(name, tensor)| (name, facts(tensor))).collect())
}

/// Returns the facts of every expected tensor, by name.
pub fn all_facts_of(expected: &Value) -> BTreeMap<String, Value> {
    let tensors = expected["tensors"].as_object().unwrap().iter();
    tensors.map(|(name, tensor)| (name.clone(), facts_of(tensor))).collect()
}

/// Checks that a case was rejected because the file is malformed, and that the error names the
/// file.
#[track_caller]
pub fn refused_case<T: Debug>(case: &Path, read: Result<T>) -> Error {
    let case = name_of(case);
    let error = read.map(|read| format!("{case} was read: {read:?}")).unwrap_err();
    let known = [ErrorKind::Malformed, ErrorKind::Unsupported, ErrorKind::Limit];
    assert!(known.contains(&error.kind()), "{case}: {error}");
    assert!(error.details().any(|(name, _)| name == "file"), "{case}: {error}");
    error
}
