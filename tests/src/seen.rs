//! The contents of a file as seen by its framework or by `ferry inspect`.

use crate::ferry::Outcome;
use crate::fixtures::{self, Facts};
use crate::{Ferry, python};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The tensors, and which of them are tied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Each tensor's dtype, shape and digest.
    pub tensors: BTreeMap<String, Facts>,
    /// The names of tied tensors, sorted.
    pub ties: BTreeSet<Vec<String>>,
}

impl Seen {
    /// Parses what a script printed from `facts.facts`.
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

    /// Returns what the framework of a file sees in it.
    pub fn by_framework(path: &Path) -> Self {
        Self::printed(&python::script("see.py", [path]).json())
    }

    /// Returns what ferry sees in a file, with these options of its reader.
    pub fn by_ferry(ferry: &Ferry, path: &Path, options: &[&str]) -> Self {
        Self::inspected(&inspect(ferry, path, options).expect(0).json())
    }
}

/// Returns the facts of tensors that a script printed by name.
pub fn tensors(document: &Value) -> BTreeMap<String, Facts> {
    serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("no facts: {error}: {document}"))
}

/// Returns the losses of a report or a description.
pub fn losses(document: &Value) -> &[Value] {
    document["losses"].as_array().unwrap()
}

/// Returns the names in losses of one kind.
pub fn lost(document: &Value, kind: &str) -> BTreeSet<String> {
    let losses = losses(document).iter().filter(|loss| loss["kind"] == kind);
    losses.map(|loss| loss["what"].as_str().unwrap().to_owned()).collect()
}

/// Runs `ferry inspect` on an input, with these options of its reader.
#[must_use]
pub fn inspect(ferry: &Ferry, input: &Path, options: &[&str]) -> Outcome {
    let options = options.iter().flat_map(|option| ["-i", option]);
    let options: Vec<&str> = ["--json", "--digest", "sha256"].into_iter().chain(options).collect();
    ferry.on("inspect", input, &options)
}
