//! What is compared, and what a comparison finds.

use serde_json::json;
use std::fmt;
use std::path::Path;
use tensorferry_core::read::losses::LossPolicy;
use tensorferry_core::read::part::Part;
use tensorferry_sdk::Loss;
use tensorferry_tensors::diff::{Difference, MaxDiff, Tolerance};

/// What is compared, and how.
#[derive(Debug, Clone, Copy)]
pub struct Compared<'a> {
    /// A.
    pub a: &'a Path,
    /// B.
    pub b: &'a Path,
    /// `--part`, of each that has it.
    pub part: &'a Part,
    /// `-i`, for each that has them.
    pub options: &'a [(String, String)],
    /// `--step`: on A, before it is compared.
    pub steps: &'a [String],
    /// How far numbers may be apart; none: they are the same, bit for bit.
    pub tolerance: Option<Tolerance>,
    /// `--max-diff`: which differences count as a failure; none: all.
    pub max_diff: Option<MaxDiff>,
    /// Which losses of the inputs are errors.
    pub losses: &'a LossPolicy,
}

/// What a comparison found.
#[derive(Debug)]
pub struct Found {
    /// The differences.
    pub differences: Differences,
    /// What the inputs' readers lost, and what A does not have any more after the steps.
    pub losses: Vec<Loss>,
    /// What a person should know beside that.
    pub notes: Vec<String>,
}

/// Differences, by what was compared.
#[derive(Debug)]
pub enum Differences {
    /// Of tensors, the worst first; how many A has.
    Tensors(Vec<Difference>, usize),
    /// Of records.
    Records(RecordDiff),
}

impl Found {
    /// Whether there is no difference.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        match &self.differences {
            Differences::Tensors(differences, _) => differences.is_empty(),
            Differences::Records(found) => found.is_equal(),
        }
    }

    /// Whether there is no difference that counts as a failure.
    #[must_use]
    pub fn is_within(&self, limit: Option<MaxDiff>) -> bool {
        match (&self.differences, limit) {
            (Differences::Tensors(differences, _), Some(limit)) => {
                !differences.iter().any(|difference| difference.is_over(limit))
            }
            _ => self.is_equal(),
        }
    }

    /// As `--json` has it.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        match &self.differences {
            Differences::Tensors(differences, tensors) => tensors_json(differences, *tensors),
            Differences::Records(found) => found.json(),
        }
    }
}

/// Differences of tensors as `--json` has them.
#[must_use]
pub fn tensors_json(differences: &[Difference], tensors: usize) -> serde_json::Value {
    let list: Vec<_> = differences.iter().map(Difference::json).collect();
    json!({ "equal": differences.is_empty(), "tensors": tensors, "differences": list })
}

/// What a comparison of records found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordDiff {
    /// Records of A and of B.
    pub records: [u64; 2],
    /// Columns of either.
    pub columns: usize,
    /// Those that differ, in A's order, then B's.
    pub differences: Vec<ColumnDifference>,
}

impl RecordDiff {
    /// Whether both hold the same.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.records[0] == self.records[1] && self.differences.is_empty()
    }

    /// As `--json` has it.
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

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDifference {
    /// Its name.
    pub name: String,
    /// What differs.
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

/// What differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnDifferenceKind {
    /// B does not have it, and in A it is not null throughout.
    Missing,
    /// A does not have it, and in B it is not null throughout.
    Unexpected,
    /// Its type in A and in B, between which values cannot be compared.
    Type(String, String),
    /// Its values.
    Content {
        /// In so many records, of those that both have.
        records: u64,
        /// The first of them, from 0.
        first: u64,
        /// What it is in A and in B, cut off where it is long.
        values: [String; 2],
    },
}

impl ColumnDifferenceKind {
    /// The kind's word.
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
