//! The tensors of a file according to its framework or to `ferry inspect`.

use crate::ferry::Outcome;
use crate::fixtures::{self, Facts};
use crate::{Ferry, python};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The tensors of a file, and the groups of tied tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The dtype, shape and digest of each tensor.
    pub tensors: BTreeMap<String, Facts>,
    /// The sorted names of each group of tied tensors.
    pub ties: BTreeSet<Vec<String>>,
}

impl Seen {
    /// Parses the result of the Python function `facts.facts` that a script printed.
    pub fn printed(document: &Value) -> Self {
        let tensors = tensors(&document["tensors"]);
        let ties = serde_json::from_value(document["ties"].clone()).unwrap();
        Self { tensors, ties }
    }

    /// Parses the output of `inspect --json --digest sha256`.
    pub fn inspected(document: &Value) -> Self {
        let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for tensor in document["tensors"].as_array().unwrap() {
            if let Some(first) = tensor["tied_to"].as_str() {
                let group = groups.entry(first).or_insert_with(|| vec![first.to_owned()]);
                group.push(tensor["name"].as_str().unwrap().to_owned());
            }
        }
        let mut groups: Vec<Vec<String>> = groups.into_values().collect();
        groups.iter_mut().for_each(|names| names.sort());
        Self { tensors: fixtures::inspected(document), ties: groups.into_iter().collect() }
    }

    /// Reads a file with its framework.
    pub fn by_framework(path: &Path) -> Self {
        Self::printed(&python::script("see.py", [path]).json())
    }

    /// Reads a file with ferry and these reader options.
    pub fn by_ferry(ferry: &Ferry, path: &Path, options: &[&str]) -> Self {
        Self::inspected(&inspect(ferry, path, options).expect(0).json())
    }
}

/// Returns the tensors that a script printed, by name.
pub fn tensors(document: &Value) -> BTreeMap<String, Facts> {
    serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("no facts: {error}: {document}"))
}

/// Returns the losses that a report or a description lists.
pub fn losses(document: &Value) -> &[Value] {
    document["losses"].as_array().unwrap()
}

/// Returns the names in losses of one kind.
pub fn lost(document: &Value, kind: &str) -> BTreeSet<String> {
    let losses = losses(document).iter().filter(|loss| loss["kind"] == kind);
    losses.map(|loss| loss["what"].as_str().unwrap().to_owned()).collect()
}

/// Runs `ferry inspect` on an input with these reader options.
#[must_use]
pub fn inspect(ferry: &Ferry, input: &Path, options: &[&str]) -> Outcome {
    let options = options.iter().flat_map(|option| ["-i", option]);
    let options: Vec<&str> = ["--json", "--digest", "sha256"].into_iter().chain(options).collect();
    ferry.on("inspect", input, &options)
}
