//! The steps that convert records to tensors or tensors to records. This conversion is called the
//! crossing. Steps before the crossing apply to the input's kind of data, and steps after it apply
//! to the output's kind. If the user does not specify the crossing, it follows the leading steps
//! that apply to the input's kind.

use tensorferry_sdk::Result;
use tensorferry_tensors::steps::StepKind;
use tensorferry_tensors::steps::signature::{ArgumentSpec, CheckedSpec, Key, Signature};

static RECORDS: Signature = Signature {
    name: "records",
    summary: "convert tensors to records",
    details: "records:row (the default if the output holds records): a record for each row of the leading\n\
              dimension, which all tensors must share. x.values and x.row_splits become one column of lists;\n\
              x.valid marks the rows that are not null. records:tensor: a record for each tensor, with its\n\
              name, dtype, shape and data (row-major, little-endian). Steps before it apply to tensors, steps\n\
              after it to records.",
    argument: ArgumentSpec::Required("row|tensor", "source of each record"),
    keys: &[],
    selects: false,
    examples: &["records:row", "records:tensor"],
};

static TENSORS: Signature = Signature {
    name: "tensors",
    summary: "convert records to tensors",
    details: "tensors:column (the default if the output holds tensors): a tensor for each column, with one row\n\
              per record. Lists of one common length become further dimensions; other lists become x.values\n\
              and x.row_splits. x.valid marks the values that are not missing. tensors:record reverses\n\
              records:tensor. Steps before it apply to records, steps after it to tensors.",
    argument: ArgumentSpec::Required("column|record", "source of each tensor"),
    keys: &[Key::optional(
        "strings",
        "str|bytes",
        "strings and bytes as STR (the default), or as x.values (U8) and x.row_splits",
    )],
    selects: false,
    examples: &["tensors:column", "tensors:column,strings=bytes", "tensors:record"],
};

pub(crate) static CROSSING_KINDS: &[StepKind<Crossing>] = &[
    StepKind { signature: &RECORDS, make: |spec| to_records(spec).map(Crossing::ToRecords) },
    StepKind { signature: &TENSORS, make: |spec| to_tensors(spec).map(Crossing::ToTensors) },
];

/// A conversion between records and tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossing {
    ToRecords(RecordOf),
    ToTensors(TensorOf),
}

/// The content of each record in a conversion of tensors to records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecordOf {
    /// The values of all tensors at one index of the leading dimension.
    #[default]
    Row,
    Tensor,
}

/// The content of each tensor in a conversion of records to tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorOf {
    Column {
        /// Whether strings become lists of bytes.
        splits_strings: bool,
    },
    /// A record that contains one tensor, as created by [`RecordOf::Tensor`].
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
        ("record", Some(field)) => Err(field.error("strings= applies only to tensors:column")),
        (other, _) => Err(argument.error(format!("expected column or record, found {other:?}"))),
    }
}
