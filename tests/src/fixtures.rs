//! Fixtures, which are folders written by real frameworks, with the expected content of each. See
//! `tests/fixtures/README.md`.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Case {
    /// The name of the folder.
    pub name: String,
    pub folder: PathBuf,
    /// The content of the folder's `expected.json`.
    pub expected: Value,
}

/// A tensor's dtype, shape, and the sha256 of its logical bytes.
pub type Facts = (String, Vec<u64>, String);

/// Returns the folder that contains the fixtures.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// Returns the cases of a section whose names start with `prefix`, sorted.
pub fn cases(section: &str, prefix: &str) -> Vec<Case> {
    let section = folder().join(section);
    let names = crate::files::names_in(&section);
    names
        .into_iter()
        .filter(|name| name.starts_with(prefix) && section.join(name).is_dir())
        .map(|name| {
            let folder = section.join(&name);
            let text = std::fs::read(folder.join("expected.json"));
            let text = text.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            Case { name, folder, expected: serde_json::from_slice(&text).unwrap() }
        })
        .collect()
}

/// Returns the case with this name.
#[track_caller]
pub fn case(section: &str, name: &str) -> Case {
    let case = cases(section, name).into_iter().find(|case| case.name == name);
    case.unwrap_or_else(|| panic!("no case {name} in {section}"))
}

/// Returns the cases of a section that must be read, and the cases that must be rejected.
pub fn good_and_bad(section: &str) -> (Vec<Case>, Vec<Case>) {
    cases(section, "").into_iter().partition(|case| !case.is_error())
}

impl Case {
    /// Returns whether the case must be rejected.
    pub fn is_error(&self) -> bool {
        self.expected["expect"] == "error"
    }

    /// Returns the path that a user would pass. This is the input named by the case, the index of a
    /// set, the folder of several record files, or otherwise the only file.
    pub fn input(&self) -> PathBuf {
        if let Some(named) = ["entry", "input"].iter().find_map(|key| self.expected[*key].as_str()) {
            return self.folder.join(named);
        }
        let files: Vec<&str> =
            self.expected["files"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        if self.expected["format"] == "tfrecord" && files.len() > 1 {
            return self.folder.clone();
        }
        let index = files.iter().find(|file| file.ends_with(".index.json"));
        self.folder.join(index.or(files.first()).expect("a case has a file"))
    }

    /// Returns all tensors of the case by name.
    pub fn all(&self) -> BTreeMap<String, Facts> {
        self.tensors(|_, _| true)
    }

    /// Returns the tensors for which `keep` is true, by name.
    pub fn tensors(&self, keep: impl Fn(&str, &Value) -> bool) -> BTreeMap<String, Facts> {
        let tensors = self.expected["tensors"].as_object().expect("a case that is read has tensors");
        tensors
            .iter()
            .filter(|(name, tensor)| keep(name, tensor))
            .map(|(name, tensor)| (name.clone(), facts(tensor, &tensor["sha256"])))
            .collect()
    }
}

/// Returns the tensors of an `inspect --json --digest sha256` document, by name.
pub fn inspected(document: &Value) -> BTreeMap<String, Facts> {
    let mut tensors = BTreeMap::new();
    for tensor in document["tensors"].as_array().expect("inspect lists tensors") {
        let name = tensor["name"].as_str().expect("a tensor has a name").to_owned();
        let before = tensors.insert(name, facts(tensor, &tensor["digest"]["sha256"]));
        assert!(before.is_none(), "listed twice: {tensor}");
    }
    tensors
}

fn facts(tensor: &Value, digest: &Value) -> Facts {
    let shape = tensor["shape"].as_array().unwrap_or_else(|| panic!("no shape: {tensor}"));
    (
        tensor["dtype"].as_str().unwrap_or_else(|| panic!("no dtype: {tensor}")).to_owned(),
        shape.iter().map(|dim| dim.as_u64().unwrap()).collect(),
        digest.as_str().unwrap_or_else(|| panic!("no digest: {tensor}")).to_owned(),
    )
}
