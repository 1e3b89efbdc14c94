//! Helpers for JSON documents in files.

use serde_json::Value;
use std::path::Path;

/// Reads a document from a file.
#[track_caller]
pub fn read(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Changes the document in a file.
#[track_caller]
pub fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut document = read(path);
    change(&mut document);
    std::fs::write(path, document.to_string()).unwrap();
}
