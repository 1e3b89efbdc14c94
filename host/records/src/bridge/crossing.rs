//! The steps that lead from one side to the other. Those before it in a list belong to the side that it
//! leaves, those after it to the other; where none is given, it stands where the steps of the first side end.

use tensorferry_sdk::Result;
use tensorferry_tensors::steps::StepKind;
use tensorferry_tensors::steps::signature::{Argument, CheckedSpec, Key, Signature};

static RECORDS: Signature = Signature {
    name: "records",
    summary: "tensors become records",
    details: "records:row (the default where the output holds records): a record for each row of the leading\n\
              dimension, which all tensors share; x.values and x.row_splits are one column of lists, x.valid\n\
              says which rows are null. records:tensor: a record for each tensor, with its name, dtype, shape\n\
              and data (row-major, little-endian). Steps before it are on tensors, those after it on records.",
    argument: Argument::Required("row|tensor", "what a record is"),
    keys: &[],
    selects: false,
    examples: &["records:row", "records:tensor"],
};

static TENSORS: Signature = Signature {
    name: "tensors",
    summary: "records become tensors",
    details: "tensors:column (the default where the output holds tensors): a tensor for each column, of as many\n\
              rows as there are records. Lists that all have one length are its other dimensions; others become\n\
              x.values and x.row_splits. x.valid says which are not missing. tensors:record undoes\n\
              records:tensor. Steps before it are on records, those after it on tensors.",
    argument: Argument::Required("column|record", "what a tensor is"),
    keys: &[Key::optional(
        "strings",
        "str|bytes",
        "strings and bytes as STR (the default), or as x.values (U8) and x.row_splits",
    )],
    selects: false,
    examples: &["tensors:column", "tensors:column,strings=bytes", "tensors:record"],
};

/// Every kind of step that leads from one side to the other.
pub(crate) static CROSSING_KINDS: &[StepKind<Crossing>] = &[
    StepKind { signature: &RECORDS, make: |spec| to_records(spec).map(Crossing::ToRecords) },
    StepKind { signature: &TENSORS, make: |spec| to_tensors(spec).map(Crossing::ToTensors) },
];

/// A way from one side to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossing {
    /// Tensors become records.
    ToRecords(RecordOf),
    /// Records become tensors.
    ToTensors(TensorOf),
}

/// What becomes a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecordOf {
    /// A row of the leading dimension of all tensors.
    #[default]
    Row,
    /// A tensor.
    Tensor,
}

/// What becomes a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorOf {
    /// A column.
    Column {
        /// Whether strings become lists of bytes.
        splits_strings: bool,
    },
    /// A record that was made of one.
    Record,
}

impl Default for TensorOf {
    fn default() -> Self {
        Self::Column { splits_strings: false }
    }
}

fn to_records(spec: &CheckedSpec<'_>) -> Result<RecordOf> {
    let argument = spec.required_argument()?;
    match argument.text.as_str() {
        "row" => Ok(RecordOf::Row),
        "tensor" => Ok(RecordOf::Tensor),
        other => Err(argument.error(format!("expected row or tensor, found {other:?}"))),
    }
}

fn to_tensors(spec: &CheckedSpec<'_>) -> Result<TensorOf> {
    let argument = spec.required_argument()?;
    match (argument.text.as_str(), spec.one("strings")) {
        ("column", None) => Ok(TensorOf::default()),
        ("column", Some(field)) => match field.text.as_str() {
            "str" => Ok(TensorOf::default()),
            "bytes" => Ok(TensorOf::Column { splits_strings: true }),
            other => Err(field.error(format!("expected str or bytes, found {other:?}"))),
        },
        ("record", None) => Ok(TensorOf::Record),
        ("record", Some(field)) => Err(field.error("strings= is about columns")),
        (other, _) => Err(argument.error(format!("expected column or record, found {other:?}"))),
    }
}
