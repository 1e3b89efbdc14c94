//! The tensors that an input is expected to contain: their names, dtypes and shapes.

use crate::diff::{Difference, DifferenceKind};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use tensorferry_core::context::regular_file;
use tensorferry_sdk::{Catalog, Error, Result};

pub(crate) type Expected = BTreeMap<String, ExpectedTensor>;

/// The expected dtype and shape of one tensor. A value that the file does not specify is not
/// compared.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ExpectedTensor {
    dtype: Option<String>,
    shape: Option<Vec<u64>>,
}

#[derive(Deserialize)]
struct Document {
    tensors: Tensors,
}

/// The contents of an expectations file: either `{NAME: {...}}`, or the output of `ferry inspect
/// --json`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Tensors {
    ByName(Expected),
    Listed(Vec<NamedTensor>),
}

#[derive(Deserialize)]
struct NamedTensor {
    name: String,
    #[serde(flatten)]
    facts: ExpectedTensor,
}

/// Reads expectations from a file.
pub fn read(path: &Path) -> Result<Expected> {
    let shown = path.display().to_string();
    let text = regular_file::open(path).and_then(std::io::read_to_string);
    let text = text.map_err(|e| Error::usage(e.to_string()).file(&shown))?;
    let document: Document = serde_json::from_str(&text).map_err(|e| {
        Error::usage(format!("not a list of expected tensors: {e}"))
            .file(&shown)
            .hint("write {\"tensors\": {NAME: {\"dtype\": ..., \"shape\": [...]}}}")
    })?;
    Ok(match document.tensors {
        Tensors::ByName(expected) => expected,
        Tensors::Listed(listed) => listed.into_iter().map(|named| (named.name, named.facts)).collect(),
    })
}

/// Compares a catalog with the expectations. In the differences, side A is the expectations and
/// side B is the catalog.
#[must_use]
pub fn compare(expected: &Expected, catalog: &Catalog) -> Vec<Difference> {
    let mut differences = Vec::new();
    let mut differ = |name: &str, kind| differences.push(Difference::new(name, kind));
    let found: BTreeMap<&str, _> =
        catalog.tensors().iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    for (name, facts) in expected {
        let Some(tensor) = found.get(name.as_str()) else {
            differ(name, DifferenceKind::Missing);
            continue;
        };
        let dtype = catalog.dtype_info(tensor.dtype).map_or("?", |info| info.name());
        if let Some(wanted) = facts.dtype.as_deref().filter(|wanted| *wanted != dtype) {
            differ(name, DifferenceKind::Dtype(wanted.to_owned(), dtype.to_owned()));
        }
        if let Some(wanted) = facts.shape.as_ref().filter(|wanted| **wanted != tensor.shape) {
            differ(name, DifferenceKind::Shape(wanted.clone(), tensor.shape.clone()));
        }
    }
    for name in found.keys().filter(|name| !expected.contains_key(**name)) {
        differ(name, DifferenceKind::Unexpected);
    }
    differences.sort_by(|x, y| x.name.cmp(&y.name));
    differences
}
