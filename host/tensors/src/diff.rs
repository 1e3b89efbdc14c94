//! Differences between two catalogs, regardless of their formats: names, dtypes, shapes and
//! content.

use crate::content::check_storages;
pub use crate::distance::Tolerance;
use crate::distance::{Comparison, Distance, DistanceTally};
use crate::logical::Logical;
use rayon::prelude::*;
use serde_json::json;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use tensorferry_core::context::windows::{size, windows};
use tensorferry_sdk::{
    Catalog, CatalogBytes, CatalogView, Context, Data, DtypeInfo, Error, Result, Tensor, TensorId, Value,
};

/// Maximum number of characters that a difference shows of a value.
const MAX_SHOWN: usize = 60;

/// Number of elements that one thread reads from each side at a time.
const WINDOW: u64 = 1 << 16;
/// Number of windows of a large tensor that one thread processes as a unit.
const WINDOWS: u64 = 32;

#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The name of the tensor.
    pub name: String,
    pub kind: DifferenceKind,
    /// The distance between the two tensors, if both contain numbers and have the same shape.
    pub distance: Option<Box<Distance>>,
}

/// The limit above which a distance counts as a failure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MaxDiff {
    /// The largest distance that does not count as a failure.
    pub limit: f64,
    /// Whether the limit applies to relative differences.
    pub is_relative: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum DifferenceKind {
    /// The tensor is missing from B.
    Missing,
    /// The tensor is missing from A.
    Unexpected,
    /// The dtypes differ: the dtype in A, and the dtype in B.
    Dtype(String, String),
    /// The shapes differ: the shape in A, and the shape in B.
    Shape(Vec<u64>, Vec<u64>),
    /// The bytes differ. If a tolerance is set, numbers differ by more than the tolerance.
    Content,
    /// An attribute of the tensor differs: its key, and its values in A and B as JSON, or `None` if
    /// it is missing.
    Attribute(String, Option<String>, Option<String>),
    /// A metadata entry differs, not a tensor: the values in A and B as JSON, or `None` if the
    /// entry is missing.
    Metadata(Option<String>, Option<String>),
}

impl DifferenceKind {
    /// Returns the name of the kind in JSON output.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Unexpected => "unexpected",
            Self::Dtype(..) => "dtype",
            Self::Shape(..) => "shape",
            Self::Content => "content",
            Self::Attribute(..) => "attribute",
            Self::Metadata(..) => "metadata",
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.kind.word(), self.name)?;
        match &self.kind {
            DifferenceKind::Missing | DifferenceKind::Unexpected | DifferenceKind::Content => {}
            DifferenceKind::Dtype(a, b) => write!(f, ": {a} in A, {b} in B")?,
            DifferenceKind::Shape(a, b) => write!(f, ": {a:?} in A, {b:?} in B")?,
            DifferenceKind::Attribute(key, a, b) => {
                write!(f, ": {key:?} is {} in A, {} in B", shown_value(a.as_ref()), shown_value(b.as_ref()))?;
            }
            DifferenceKind::Metadata(a, b) => {
                write!(f, ": {} in A, {} in B", shown_value(a.as_ref()), shown_value(b.as_ref()))?;
            }
        }
        match &self.distance {
            Some(distance) => write!(f, ": {distance}"),
            None => Ok(()),
        }
    }
}

impl Difference {
    /// Returns the JSON record that `ferry diff --json` prints.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let mut record = json!({ "kind": self.kind.word(), "name": self.name });
        match &self.kind {
            DifferenceKind::Missing | DifferenceKind::Unexpected | DifferenceKind::Content => {}
            DifferenceKind::Dtype(a, b) => (record["a"], record["b"]) = (json!(a), json!(b)),
            DifferenceKind::Shape(a, b) => (record["a"], record["b"]) = (json!(a), json!(b)),
            DifferenceKind::Attribute(key, a, b) => {
                record["attribute"] = json!(key);
                (record["a"], record["b"]) = (json!(a), json!(b));
            }
            DifferenceKind::Metadata(a, b) => (record["a"], record["b"]) = (json!(a), json!(b)),
        }
        if let Some(distance) = &self.distance {
            distance.add_to(&mut record);
        }
        record
    }

    /// Creates a difference without a distance.
    pub fn new(name: &str, kind: DifferenceKind) -> Self {
        Self { name: name.to_owned(), kind, distance: None }
    }

    /// Returns whether the difference counts as a failure. The failures are: a name or NaN on only
    /// one side, different shapes, different contents without comparable numbers, and a distance
    /// above the limit.
    #[must_use]
    pub fn is_over(&self, limit: MaxDiff) -> bool {
        match (&self.kind, &self.distance) {
            (DifferenceKind::Attribute(..) | DifferenceKind::Metadata(_, _), _) => false,
            (_, None) => true,
            (_, Some(distance)) => distance.nan > 0 || distance.worst(limit.is_relative) > limit.limit,
        }
    }

    /// Returns a sort key that puts the worst differences first. Differences are sorted by kind,
    /// then by the presence of NaN on only one side, then by the largest distance.
    fn sort_key(&self, is_relative: bool) -> (Reverse<u8>, Reverse<bool>, Reverse<u64>) {
        let rank = match (&self.kind, &self.distance) {
            (DifferenceKind::Missing, _) => 6,
            (DifferenceKind::Unexpected, _) => 5,
            (DifferenceKind::Shape(..), _) => 4,
            (DifferenceKind::Dtype(..) | DifferenceKind::Content, None) => 3,
            (DifferenceKind::Dtype(..) | DifferenceKind::Content, Some(_)) => 2,
            (DifferenceKind::Attribute(..), _) => 1,
            (DifferenceKind::Metadata(..), _) => 0,
        };
        let distance = self.distance.as_ref();
        let has_nan = distance.is_some_and(|distance| distance.nan > 0);
        // For nonnegative floats, the order of the bits is the order of the numbers.
        let worst = distance.map_or(0, |distance| distance.worst(is_relative).to_bits());
        (Reverse(rank), Reverse(has_nan), Reverse(worst))
    }
}

/// Formats a JSON value as a single line of text, and truncates long values.
fn shown_value(json: Option<&String>) -> String {
    match json.map(|json| (json, json.char_indices().nth(MAX_SHOWN))) {
        None => "nothing".to_owned(),
        Some((json, None)) => json.clone(),
        Some((json, Some((end, _)))) => format!("{}... ({} bytes)", &json[..end], json.len()),
    }
}

/// Returns the differences between attributes, sorted by tensor name. The formats of both inputs
/// must support attributes. Tensors that are in only one input are skipped.
#[must_use]
pub fn diff_attributes(a: &Catalog, b: &Catalog) -> Vec<Difference> {
    let in_b: BTreeMap<&str, &Tensor> = b.tensors().iter().map(|t| (t.name.as_str(), t)).collect();
    let mut differences = Vec::new();
    for tensor in a.tensors() {
        let Some(other) = in_b.get(tensor.name.as_str()) else { continue };
        for (key, of_a, of_b) in differing(&tensor.attributes, &other.attributes) {
            let kind = DifferenceKind::Attribute(key, of_a, of_b);
            differences.push(Difference::new(&tensor.name, kind));
        }
    }
    differences.sort_by(|x, y| x.name.cmp(&y.name));
    differences
}

/// Returns the differences between metadata entries, sorted by key. The formats of both inputs must
/// preserve metadata values unchanged.
#[must_use]
pub fn diff_metadata(a: &Catalog, b: &Catalog) -> Vec<Difference> {
    let metadata = differing(a.metadata(), b.metadata()).into_iter();
    metadata.map(|(name, of_a, of_b)| Difference::new(&name, DifferenceKind::Metadata(of_a, of_b))).collect()
}

/// Returns the entries that differ, with both values as JSON. Values of different types may have
/// the same JSON.
fn differing(
    a: &BTreeMap<String, Value>,
    b: &BTreeMap<String, Value>,
) -> Vec<(String, Option<String>, Option<String>)> {
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let differ = keys.into_iter().filter(|key| a.get(*key) != b.get(*key));
    differ.map(|key| (key.clone(), a.get(key).map(Value::json), b.get(key).map(Value::json))).collect()
}

/// Sorts differences, worst first, by absolute or relative distance, and then by name.
pub fn worst_first(differences: &mut [Difference], is_relative: bool) {
    differences.sort_by(|x, y| {
        x.sort_key(is_relative).cmp(&y.sort_key(is_relative)).then_with(|| x.name.cmp(&y.name))
    });
}

/// Compares two catalogs, and returns the differences sorted by name.
pub fn diff(a: &Logical<'_>, b: &Logical<'_>, tolerance: Option<Tolerance>) -> Result<Vec<Difference>> {
    let (in_a, in_b) = (by_name(a), by_name(b));
    let mut differences = Vec::new();
    let mut pairs = Vec::new();
    for (&name, &id) in &in_a {
        let Some(&other) = in_b.get(name) else {
            differences.push(Difference::new(name, DifferenceKind::Missing));
            continue;
        };
        let (x, y) = (a.tensor(id), b.tensor(other));
        let (of_x, of_y) = (a.dtype_info(x.dtype)?, b.dtype_info(y.dtype)?);
        if x.shape != y.shape {
            // If both the dtype and the shape differ, only the dtype is reported.
            let kind = match of_x == of_y {
                true => DifferenceKind::Shape(x.shape.to_vec(), y.shape.to_vec()),
                false => DifferenceKind::Dtype(of_x.name().to_owned(), of_y.name().to_owned()),
            };
            differences.push(Difference::new(name, kind));
        } else {
            pairs.push((name, TensorPair { x: a.tied_to(id), y: b.tied_to(other) }));
        }
    }
    for &name in in_b.keys().filter(|name| !in_a.contains_key(**name)) {
        differences.push(Difference::new(name, DifferenceKind::Unexpected));
    }
    check_storages(a)?;
    check_storages(b)?;
    // If several pairs of tensors are tied to each other, only one pair is compared.
    let mut each: Vec<TensorPair> = pairs.iter().map(|(_, pair)| *pair).collect();
    each.sort_unstable();
    each.dedup();
    let session = a.stored().session();
    session.will_check(each.iter().map(|pair| a.tensor(pair.x).bytes + b.tensor(pair.y).bytes).sum());
    let found = each.par_iter().map(|pair| pair.compare(a, b, tolerance)).collect::<Result<Vec<_>>>()?;
    for (name, pair) in pairs {
        let Ok(place) = each.binary_search(&pair) else { continue };
        if let Some((kind, distance)) = &found[place] {
            let (kind, distance) = (kind.clone(), distance.clone().map(Box::new));
            differences.push(Difference { name: name.to_owned(), kind, distance });
        }
    }
    differences.sort_by(|x, y| x.name.cmp(&y.name));
    Ok(differences)
}

fn by_name<'a>(view: &'a Logical<'_>) -> BTreeMap<&'a str, TensorId> {
    view.tensor_ids().map(|id| (view.tensor(id).name, id)).collect()
}

/// A pair of tensors with the same shape, one from each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TensorPair {
    x: TensorId,
    y: TensorId,
}

impl TensorPair {
    /// Returns the difference between the tensors, or `None` if they are equal.
    fn compare(
        self,
        a: &Logical<'_>,
        b: &Logical<'_>,
        tolerance: Option<Tolerance>,
    ) -> Result<Option<(DifferenceKind, Option<Distance>)>> {
        let (of_x, of_y) = (a.tensor(self.x), b.tensor(self.y));
        let (info_x, info_y) = (a.dtype_info(of_x.dtype)?, b.dtype_info(of_y.dtype)?);
        let is_same_dtype = info_x == info_y;
        let other_dtype = || DifferenceKind::Dtype(info_x.name().to_owned(), info_y.name().to_owned());
        let Some(comparison) = Comparison::of(of_x.dtype, of_y.dtype, tolerance) else {
            let is_same = is_same_dtype && self.has_same_bytes(a, b)?;
            let kind = if is_same_dtype { DifferenceKind::Content } else { other_dtype() };
            return Ok((!is_same).then_some((kind, None)));
        };
        let elements: u64 = of_x.shape.iter().product();
        let chunk = WINDOW * WINDOWS;
        let add = |number: u64| {
            let range = number * chunk..((number + 1) * chunk).min(elements);
            self.tally(a, b, &comparison, range)
        };
        let chunks = elements.div_ceil(chunk);
        // Tensors that must be gathered are read by a single thread, so that each tensor is
        // gathered only once.
        let is_gathered = |logical: &Logical<'_>, id| {
            let data = logical.catalog().tensor(id).map(|tensor| &tensor.data);
            matches!(data, Some(Data::Blocks(_) | Data::Grid(_)))
        };
        let tallies = if is_gathered(a, self.x) || is_gathered(b, self.y) {
            (0..chunks).map(add).collect::<Result<Vec<_>>>()?
        } else {
            (0..chunks).into_par_iter().map(add).collect::<Result<Vec<_>>>()?
        };
        let tally = tallies.iter().fold(DistanceTally::default(), DistanceTally::join);
        let differs = match tolerance {
            _ if !is_same_dtype => true,
            Some(_) => tally.elements > 0,
            None => tally.has_other_bits,
        };
        let kind = if is_same_dtype { DifferenceKind::Content } else { other_dtype() };
        Ok(differs.then(|| (kind, Some(tally.finish(of_x.shape, &comparison)))))
    }

    /// Compares a range of elements, window by window.
    fn tally(
        self,
        a: &Logical<'_>,
        b: &Logical<'_>,
        comparison: &Comparison,
        range: std::ops::Range<u64>,
    ) -> Result<DistanceTally> {
        let side = |logical: &Logical<'_>, id| {
            Ok::<_, Error>((logical.dtype_info(logical.tensor(id).dtype)?, Vec::new()))
        };
        let mut sides: [(DtypeInfo, Vec<u8>); 2] = [side(a, self.x)?, side(b, self.y)?];
        let mut tally = DistanceTally::default();
        for first in range.clone().step_by(size(WINDOW)) {
            a.stored().session().check_cancelled()?;
            let count = WINDOW.min(range.end - first);
            for ((info, bytes), (logical, id)) in sides.iter_mut().zip([(a, self.x), (b, self.y)]) {
                bytes.resize(size(info.bytes_of(count)?), 0);
                logical.read_tensor(id, info.bytes_of(first)?, bytes)?;
                logical.stored().session().checked(bytes.len() as u64);
            }
            let [(_, x), (_, y)] = &sides;
            comparison.add(&mut tally, first, size(count), x, y);
        }
        Ok(tally)
    }

    /// Returns whether two tensors without numeric values have the same bytes.
    fn has_same_bytes(self, a: &Logical<'_>, b: &Logical<'_>) -> Result<bool> {
        let len = a.tensor(self.x).bytes;
        if len != b.tensor(self.y).bytes {
            return Ok(false);
        }
        let mut sides = [Vec::new(), Vec::new()];
        for (offset, len) in windows(0..len) {
            a.stored().session().check_cancelled()?;
            for (bytes, (logical, id)) in sides.iter_mut().zip([(a, self.x), (b, self.y)]) {
                bytes.resize(len, 0);
                logical.read_tensor(id, offset, bytes)?;
                logical.stored().session().checked(len as u64);
            }
            if sides[0] != sides[1] {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
