//! Cases of real writers: files, and an `expected.json` that has the facts of their tensors.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use tensorferry_sdk::memory::MemoryView;

/// The folders of a family of fixtures whose names begin so, in order.
pub(crate) fn cases(family: &str, prefix: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(family);
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> =
        entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix)).collect();
    cases.sort();
    cases
}

/// What is expected of a case.
pub(crate) fn expected(case: &Path) -> Value {
    serde_json::from_slice(&fs::read(case.join("expected.json")).unwrap()).unwrap()
}

/// A tensor's dtype, shape and digest as they were read.
pub(crate) fn facts(view: &MemoryView<'_>, name: &str) -> Value {
    let (dtype, shape, bytes) = view.tensor_named(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"dtype": dtype, "shape": shape, "sha256": digest})
}

/// The same of what is expected of a tensor, which may have more.
pub(crate) fn facts_of(expected: &Value) -> Value {
    let [dtype, shape, sha256] = ["dtype", "shape", "sha256"].map(|key| &expected[key]);
    json!({"dtype": dtype, "shape": shape, "sha256": sha256})
}
