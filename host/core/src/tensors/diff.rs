//! Differences between two catalogs: names, dtypes, shapes and content, whatever the formats.

use crate::tensors::content::{Algorithm, digests};
use crate::tensors::logical::Logical;
use crate::tensors::numbers::{Numbers, numbers};
use rayon::prelude::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use tensorferry_sdk::{Catalog, CatalogView, Result, Tensor, TensorId, Value};

/// Characters of a value that are shown.
const MOST_SHOWN: usize = 60;

/// How far numbers may be apart: |a - b| <= atol + rtol x |b|.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Absolute.
    pub atol: f64,
    /// Relative to B.
    pub rtol: f64,
}

/// One difference.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The tensor.
    pub name: String,
    /// What differs.
    pub kind: DifferenceKind,
}

/// What differs.
#[derive(Debug, Clone, PartialEq)]
pub enum DifferenceKind {
    /// B does not have it.
    Missing,
    /// A does not have it.
    Unexpected,
    /// Its dtype in A and in B.
    Dtype(String, String),
    /// Its shape in A and in B.
    Shape(Vec<u64>, Vec<u64>),
    /// Its bytes; with a tolerance: how many elements are apart, and the largest distance.
    Content(Option<(u64, f64)>),
    /// An attribute of it, by its key: what it is in A and in B, as JSON; nothing where it is not there.
    Attribute(String, Option<String>, Option<String>),
    /// No tensor but the entry of the metadata that has this name, in A and in B.
    Metadata(Option<String>, Option<String>),
}

impl DifferenceKind {
    /// The kind's word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Unexpected => "unexpected",
            Self::Dtype(..) => "dtype",
            Self::Shape(..) => "shape",
            Self::Content(_) => "content",
            Self::Attribute(..) => "attribute",
            Self::Metadata(..) => "metadata",
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.kind.word(), self.name)?;
        match &self.kind {
            DifferenceKind::Missing | DifferenceKind::Unexpected | DifferenceKind::Content(None) => Ok(()),
            DifferenceKind::Dtype(a, b) => write!(f, ": {a} in A, {b} in B"),
            DifferenceKind::Shape(a, b) => write!(f, ": {a:?} in A, {b:?} in B"),
            DifferenceKind::Content(Some((count, distance))) => {
                write!(f, ": {count} elements are apart, by {distance:e} at most")
            }
            DifferenceKind::Attribute(key, a, b) => {
                write!(f, ": {key:?} is {} in A, {} in B", said(a.as_ref()), said(b.as_ref()))
            }
            DifferenceKind::Metadata(a, b) => {
                write!(f, ": {} in A, {} in B", said(a.as_ref()), said(b.as_ref()))
            }
        }
    }
}

impl Difference {
    /// As `--json` has it.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let mut record = json!({ "kind": self.kind.word(), "name": self.name });
        match &self.kind {
            DifferenceKind::Missing | DifferenceKind::Unexpected | DifferenceKind::Content(None) => {}
            DifferenceKind::Dtype(a, b) => (record["a"], record["b"]) = (json!(a), json!(b)),
            DifferenceKind::Shape(a, b) => (record["a"], record["b"]) = (json!(a), json!(b)),
            DifferenceKind::Attribute(key, a, b) => {
                record["attribute"] = json!(key);
                (record["a"], record["b"]) = (json!(a), json!(b));
            }
            DifferenceKind::Metadata(a, b) => (record["a"], record["b"]) = (json!(a), json!(b)),
            DifferenceKind::Content(Some((count, distance))) => {
                record["elements"] = json!(count);
                record["largest"] = json!(distance);
            }
        }
        record
    }
}

/// A value in a line of text.
fn said(json: Option<&String>) -> String {
    match json.map(|json| (json, json.char_indices().nth(MOST_SHOWN))) {
        None => "nothing".to_owned(),
        Some((json, None)) => json.clone(),
        Some((json, Some((end, _)))) => format!("{}... ({} bytes)", &json[..end], json.len()),
    }
}

/// Differences of attributes, sorted by name, for two inputs whose formats keep these. What is said of a tensor
/// that one of them does not have is no difference of its own.
#[must_use]
pub fn diff_attributes(a: &Catalog, b: &Catalog) -> Vec<Difference> {
    let in_b: BTreeMap<&str, &Tensor> = b.tensors().iter().map(|t| (t.name.as_str(), t)).collect();
    let mut differences = Vec::new();
    for tensor in a.tensors() {
        let Some(other) = in_b.get(tensor.name.as_str()) else { continue };
        for (key, of_a, of_b) in differing(&tensor.attributes, &other.attributes) {
            let kind = DifferenceKind::Attribute(key, of_a, of_b);
            differences.push(Difference { name: tensor.name.clone(), kind });
        }
    }
    differences.sort_by(|x, y| x.name.cmp(&y.name));
    differences
}

/// Differences of metadata, sorted by key, for two inputs whose formats keep values as they are.
#[must_use]
pub fn diff_metadata(a: &Catalog, b: &Catalog) -> Vec<Difference> {
    let metadata = differing(a.metadata(), b.metadata()).into_iter();
    metadata
        .map(|(name, of_a, of_b)| Difference { name, kind: DifferenceKind::Metadata(of_a, of_b) })
        .collect()
}

/// The entries that are not the same, with both values as JSON. Values of two types may look the same.
fn differing(
    a: &BTreeMap<String, Value>,
    b: &BTreeMap<String, Value>,
) -> Vec<(String, Option<String>, Option<String>)> {
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let differ = keys.into_iter().filter(|key| a.get(*key) != b.get(*key));
    differ.map(|key| (key.clone(), a.get(key).map(Value::json), b.get(key).map(Value::json))).collect()
}

/// Compares two catalogs; gives the differences sorted by name.
///
/// # Errors
/// Whatever reading either gives.
pub fn diff(a: &Logical<'_>, b: &Logical<'_>, tolerance: Option<Tolerance>) -> Result<Vec<Difference>> {
    let (in_a, in_b) = (by_name(a), by_name(b));
    let mut differences = Vec::new();
    let mut differ = |name: &str, kind| differences.push(Difference { name: name.to_owned(), kind });
    let mut alike = Vec::new();
    for (&name, &id) in &in_a {
        let Some(&other) = in_b.get(name) else {
            differ(name, DifferenceKind::Missing);
            continue;
        };
        let (x, y) = (a.tensor(id), b.tensor(other));
        let (of_x, of_y) = (a.dtype_info(x.dtype)?, b.dtype_info(y.dtype)?);
        if of_x != of_y {
            differ(name, DifferenceKind::Dtype(of_x.name().to_owned(), of_y.name().to_owned()));
        } else if x.shape != y.shape {
            differ(name, DifferenceKind::Shape(x.shape.to_vec(), y.shape.to_vec()));
        } else {
            alike.push((name, id, other));
        }
    }
    for &name in in_b.keys().filter(|name| !in_a.contains_key(**name)) {
        differ(name, DifferenceKind::Unexpected);
    }
    let (of_a, of_b) = (digests(a, Algorithm::Blake3)?, digests(b, Algorithm::Blake3)?);
    let contents = alike
        .par_iter()
        .filter(|(_, x, y)| of_a[x.0 as usize] != of_b[y.0 as usize])
        .map(|&(name, x, y)| Ok((name, compare(a, x, b, y, tolerance)?)))
        .collect::<Result<Vec<_>>>()?;
    for (name, found) in contents {
        match found {
            ContentComparison::Near => {}
            ContentComparison::Differs => differ(name, DifferenceKind::Content(None)),
            ContentComparison::Apart(count, distance) => {
                differ(name, DifferenceKind::Content(Some((count, distance))));
            }
        }
    }
    differences.sort_by(|x, y| x.name.cmp(&y.name));
    Ok(differences)
}

fn by_name<'a>(view: &'a Logical<'_>) -> BTreeMap<&'a str, TensorId> {
    view.tensor_ids().map(|id| (view.tensor(id).name, id)).collect()
}

/// How tensors whose bytes differ compare.
enum ContentComparison {
    /// No element is further apart than it may be.
    Near,
    /// No tolerance was given, or the dtype has no numbers.
    Differs,
    /// So many elements are, by so much at most.
    Apart(u64, f64),
}

fn compare(
    a: &Logical<'_>,
    x: TensorId,
    b: &Logical<'_>,
    y: TensorId,
    tolerance: Option<Tolerance>,
) -> Result<ContentComparison> {
    let facts = a.tensor(x);
    let (Some(tolerance), Some(numbers)) = (tolerance, numbers(facts.dtype)) else {
        return Ok(ContentComparison::Differs);
    };
    let Numbers { width, read } = numbers;
    let mut other = vec![0; crate::context::windows::WINDOW_BYTES];
    let (mut count, mut largest, mut offset) = (0_u64, 0.0_f64, 0_u64);
    a.each_window(x, |bytes| {
        let other = &mut other[..bytes.len()];
        b.read(y, offset, other)?;
        offset += bytes.len() as u64;
        for (x, y) in bytes.chunks_exact(width).zip(other.chunks_exact(width)) {
            let (x, y) = (read(x), read(y));
            let distance = (x - y).abs();
            let near =
                x == y || (x.is_nan() && y.is_nan()) || distance <= tolerance.atol + tolerance.rtol * y.abs();
            if !near {
                count += 1;
                largest = if distance.is_nan() { f64::INFINITY } else { largest.max(distance) };
            }
        }
        Ok(())
    })?;
    Ok(if count == 0 { ContentComparison::Near } else { ContentComparison::Apart(count, largest) })
}
