//! The request for a comparison of two inputs, and its result.

use serde_json::json;
use std::fmt;
use std::path::Path;
use tensorferry_core::read::losses::LossPolicy;
use tensorferry_core::read::part::Part;
use tensorferry_sdk::Loss;
use tensorferry_tensors::diff::{Difference, MaxDiff, Tolerance};

#[derive(Debug, Clone, Copy)]
pub struct CompareRequest<'a> {
    pub a: &'a Path,
    pub b: &'a Path,
    /// The value of `--part`. The part is selected in each input that contains the part.
    pub part: &'a Part,
    /// The values of `-i`. Each option applies to every input whose format supports the option.
    pub options: &'a [(String, String)],
    /// The values of `--step`. The steps are applied to input A before the comparison.
    pub steps: &'a [String],
    /// The allowed difference between numbers. `None` means that the numbers must be equal bit for
    /// bit.
    pub tolerance: Option<Tolerance>,
    /// The value of `--max-diff`, which determines the differences that count as a failure. `None`
    /// means all differences.
    pub max_diff: Option<MaxDiff>,
    /// The policy for losses that occur when the inputs are read: it determines which kinds of
    /// losses are errors.
    pub losses: &'a LossPolicy,
}

#[derive(Debug)]
pub struct ComparisonResult {
    pub differences: Differences,
    /// Losses that the readers of the inputs and the steps on A reported.
    pub losses: Vec<Loss>,
    pub notes: Vec<String>,
}

/// Differences between tensors or between records.
#[derive(Debug)]
pub enum Differences {
    /// Differences between tensors, starting with the largest, and the number of tensors in A.
    Tensors(Vec<Difference>, usize),
    Records(RecordDiff),
}

impl ComparisonResult {
    #[must_use]
    pub fn is_equal(&self) -> bool {
        match &self.differences {
            Differences::Tensors(differences, _) => differences.is_empty(),
            Differences::Records(found) => found.is_equal(),
        }
    }

    /// Returns whether no difference counts as a failure.
    #[must_use]
    pub fn is_within(&self, limit: Option<MaxDiff>) -> bool {
        match (&self.differences, limit) {
            (Differences::Tensors(differences, _), Some(limit)) => {
                !differences.iter().any(|difference| difference.is_over(limit))
            }
            _ => self.is_equal(),
        }
    }

    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        match &self.differences {
            Differences::Tensors(differences, tensors) => tensors_json(differences, *tensors),
            Differences::Records(found) => found.json(),
        }
    }
}

#[must_use]
pub fn tensors_json(differences: &[Difference], tensors: usize) -> serde_json::Value {
    let list: Vec<_> = differences.iter().map(Difference::json).collect();
    json!({ "equal": differences.is_empty(), "tensors": tensors, "differences": list })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordDiff {
    /// Number of records in A and in B.
    pub records: [u64; 2],
    pub columns: usize,
    /// Columns that differ: first the columns of A in order, then those of B.
    pub differences: Vec<ColumnDifference>,
}

impl RecordDiff {
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.records[0] == self.records[1] && self.differences.is_empty()
    }

    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let [a, b] = self.records;
        json!({
            "equal": self.is_equal(),
            "records": { "a": a, "b": b },
            "columns": self.columns,
            "differences": self.differences.iter().map(ColumnDifference::json).collect::<Vec<_>>(),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDifference {
    pub name: String,
    pub kind: ColumnDifferenceKind,
}

impl ColumnDifference {
    fn json(&self) -> serde_json::Value {
        let mut record = json!({ "kind": self.kind.word(), "name": self.name });
        match &self.kind {
            ColumnDifferenceKind::Missing | ColumnDifferenceKind::Unexpected => {}
            ColumnDifferenceKind::Type(a, b) => (record["a"], record["b"]) = (json!(a), json!(b)),
            ColumnDifferenceKind::Content { records, first, values: [a, b] } => {
                (record["records"], record["first"]) = (json!(records), json!(first));
                (record["a"], record["b"]) = (json!(a), json!(b));
            }
        }
        record
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnDifferenceKind {
    /// B lacks the column, which contains non-null values in A.
    Missing,
    /// A lacks the column, which contains non-null values in B.
    Unexpected,
    /// The column's types in A and in B. Values of these two types cannot be compared.
    Type(String, String),
    Content {
        /// Number of records that differ, among the records that are in both inputs.
        records: u64,
        /// Index of the first record that differs.
        first: u64,
        /// The values in A and in B, truncated if they are long.
        values: [String; 2],
    },
}

impl ColumnDifferenceKind {
    /// Returns the name that JSON documents use for this kind of difference.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Unexpected => "unexpected",
            Self::Type(..) => "type",
            Self::Content { .. } => "content",
        }
    }
}

impl fmt::Display for ColumnDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: column {:?}", self.kind.word(), self.name)?;
        match &self.kind {
            ColumnDifferenceKind::Missing => write!(f, ": only A has it"),
            ColumnDifferenceKind::Unexpected => write!(f, ": only B has it"),
            ColumnDifferenceKind::Type(a, b) => write!(f, ": {a} in A, {b} in B"),
            ColumnDifferenceKind::Content { records: 1, first, values: [a, b] } => {
                write!(f, ": differs in record {first}: {a} in A, {b} in B")
            }
            ColumnDifferenceKind::Content { records, first, values: [a, b] } => {
                write!(f, ": differs in {records} records, first in record {first}: {a} in A, {b} in B")
            }
        }
    }
}
