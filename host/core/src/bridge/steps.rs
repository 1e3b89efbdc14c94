//! The steps that lead from one side to the other. Those before it in a list belong to the side that it
//! leaves, those after it to the other; where none is given, it stands where the steps of the first side end.

use crate::records::steps as record_steps;
use crate::steps::kind::{Argument, Count, Given, Key, Kind};
use crate::steps::spec::Spec;
use crate::steps::{Action, Step};
use tensorferry_sdk::{Error, Result};

static RECORDS: Kind = Kind {
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
    make: |given| {
        let argument = given.required_argument()?;
        let each = match argument.text.as_str() {
            "row" => Each::Row,
            "tensor" => Each::Tensor,
            other => return Err(argument.error(format!("expected row or tensor, found {other:?}"))),
        };
        Ok(Action::Cross(Crossing::ToRecords(each)))
    },
};

static TENSORS: Kind = Kind {
    name: "tensors",
    summary: "records become tensors",
    details: "tensors:column (the default where the output holds tensors): a tensor for each column, of as many\n\
              rows as there are records. Lists that all have one length are its other dimensions; others become\n\
              x.values and x.row_splits. x.valid says which are not missing. tensors:record undoes\n\
              records:tensor. Steps before it are on records, those after it on tensors.",
    argument: Argument::Required("column|record", "what a tensor is"),
    keys: &[Key {
        name: "strings",
        value: "str|bytes",
        count: Count::Optional,
        help: "strings and bytes as STR (the default), or as x.values (U8) and x.row_splits",
    }],
    selects: false,
    examples: &["tensors:column", "tensors:column,strings=bytes", "tensors:record"],
    make: make_tensors,
};

/// Every kind of step that leads from one side to the other.
pub(crate) static CROSSING_KINDS: &[&Kind] = &[&RECORDS, &TENSORS];

/// A way from one side to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crossing {
    /// Tensors become records.
    ToRecords(Each),
    /// Records become tensors.
    ToTensors(Made),
}

/// What becomes a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Each {
    /// A row of the leading dimension of all tensors.
    Row,
    /// A tensor.
    Tensor,
}

/// What becomes a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// A column.
    Column {
        /// Whether strings become lists of bytes.
        splits_strings: bool,
    },
    /// A record that was made of one.
    Record,
}

fn make_tensors(given: &Given<'_>) -> Result<Action> {
    let argument = given.required_argument()?;
    let strings = given.one("strings");
    let made = match argument.text.as_str() {
        "column" => Made::Column {
            splits_strings: match strings.map(|field| (field, field.text.as_str())) {
                None | Some((_, "str")) => false,
                Some((_, "bytes")) => true,
                Some((field, other)) => {
                    return Err(field.error(format!("expected str or bytes, found {other:?}")));
                }
            },
        },
        "record" => match strings {
            None => Made::Record,
            Some(field) => return Err(field.error("strings= is about columns")),
        },
        other => return Err(argument.error(format!("expected column or record, found {other:?}"))),
    };
    Ok(Action::Cross(Crossing::ToTensors(made)))
}

impl Crossing {
    /// The step that leads back.
    #[must_use]
    pub fn inverse(self) -> Spec {
        match self {
            Self::ToRecords(Each::Row) => Spec::new("tensors").argument("column"),
            Self::ToRecords(Each::Tensor) => Spec::new("tensors").argument("record"),
            Self::ToTensors(Made::Column { .. }) => Spec::new("records").argument("row"),
            Self::ToTensors(Made::Record) => Spec::new("records").argument("tensor"),
        }
    }
}

/// Steps of a conversion from one side to the other.
#[derive(Debug)]
pub struct Divided<T> {
    /// Those on records.
    pub records: Vec<Step>,
    /// How the other side is reached.
    pub crossing: T,
    /// Those on tensors.
    pub tensors: Vec<Step>,
}

/// Divides the steps of a conversion of records to tensors.
///
/// # Errors
/// Usage: a step on the wrong side, or a second crossing.
pub fn to_tensors(steps: Vec<Step>) -> Result<Divided<Made>> {
    let is_record = |step: &Step| matches!(step.action, Action::Record(_));
    let (records, crossing, tensors) = divide(steps, is_record)?;
    record_steps::check(&records)?;
    let crossing = match crossing {
        None => Made::Column { splits_strings: false },
        Some((Crossing::ToTensors(made), _)) => made,
        Some((Crossing::ToRecords(_), step)) => {
            return Err(
                Error::usage("the input holds records already: tensors:column is the way").context(step)
            );
        }
    };
    if let Some(step) = tensors.iter().find(|step| is_record(step)) {
        return Err(Error::usage("a step on records, and they have become tensors before it").context(step));
    }
    Ok(Divided { records, crossing, tensors })
}

/// Divides the steps of a conversion of tensors to records.
///
/// # Errors
/// Usage: a step on the wrong side, or a second crossing.
pub fn to_records(steps: Vec<Step>) -> Result<Divided<Each>> {
    let is_tensor = |step: &Step| matches!(step.action, Action::Tensor(_));
    let (tensors, crossing, records) = divide(steps, is_tensor)?;
    let crossing = match crossing {
        None => Each::Row,
        Some((Crossing::ToRecords(each), _)) => each,
        Some((Crossing::ToTensors(_), step)) => {
            return Err(Error::usage("the input holds tensors already: records:row is the way").context(step));
        }
    };
    if let Some(step) = records.iter().find(|step| is_tensor(step)) {
        return Err(Error::usage("a step on tensors, and they have become records before it").context(step));
    }
    if let Some(step) = tensors.iter().find(|step| !is_tensor(step)) {
        return Err(Error::usage("a step on records, and there are none before the tensors become some")
            .context(step));
    }
    record_steps::check(&records)?;
    Ok(Divided { records, crossing, tensors })
}

/// The steps before the crossing, the crossing and its step if there is one, and those after it. Where
/// there is none, the steps of the first side are those that stand before all others.
#[expect(clippy::type_complexity, reason = "it is taken apart at once")]
fn divide(
    mut steps: Vec<Step>,
    is_of_first: impl Fn(&Step) -> bool,
) -> Result<(Vec<Step>, Option<(Crossing, String)>, Vec<Step>)> {
    let crossing = |step: &Step| match step.action {
        Action::Cross(crossing) => Some(crossing),
        _ => None,
    };
    let Some(at) = steps.iter().position(|step| crossing(step).is_some()) else {
        let at = steps.iter().position(|step| !is_of_first(step)).unwrap_or(steps.len());
        let after = steps.split_off(at);
        return Ok((steps, None, after));
    };
    let after = steps.split_off(at + 1);
    if let Some(second) = after.iter().find(|step| crossing(step).is_some()) {
        return Err(
            Error::usage("one step leads to the other side, and there is one before it").context(second)
        );
    }
    let found = steps.pop().and_then(|step| Some((crossing(&step)?, step.to_string())));
    Ok((steps, found, after))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::steps::{inverse, parse};

    fn steps(texts: &[&str]) -> Vec<Step> {
        parse(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn steps_belong_to_a_side() {
        let counts =
            |texts: &[&str]| to_tensors(steps(texts)).map(|d| (d.records.len(), d.crossing, d.tensors.len()));
        let column = Made::Column { splits_strings: false };
        assert_eq!(counts(&["take:3", "rename:a,to=b", "cast:f32"]).unwrap(), (1, column, 2));
        assert_eq!(counts(&["take:3", "tensors:record", "cast:f32"]).unwrap(), (1, Made::Record, 1));
        let bytes = Made::Column { splits_strings: true };
        assert_eq!(counts(&["tensors:column,strings=bytes"]).unwrap(), (0, bytes, 0));
        for wrong in [
            &["rename:a,to=b", "take:3"][..],
            &["rename:a,to=b", "tensors:column"],
            &["tensors:column", "take:3"],
            &["tensors:column", "tensors:column"],
            &["records:row"],
            &["repeat", "tensors:column"],
        ] {
            assert!(counts(wrong).is_err(), "{wrong:?}");
        }
        let counts =
            |texts: &[&str]| to_records(steps(texts)).map(|d| (d.records.len(), d.crossing, d.tensors.len()));
        assert_eq!(counts(&["cast:f32", "take:3"]).unwrap(), (1, Each::Row, 1));
        assert_eq!(counts(&["cast:f32", "records:tensor", "take:3"]).unwrap(), (1, Each::Tensor, 1));
        for wrong in [&["take:3", "cast:f32"][..], &["take:3", "records:row"], &["tensors:record"]] {
            assert!(counts(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_crossing_has_an_inverse() {
        for (there, back) in [
            ("records:row", "tensors:column"),
            ("records:tensor", "tensors:record"),
            ("tensors:record", "records:tensor"),
        ] {
            assert_eq!(inverse(&steps(&[there])).unwrap()[0].to_string(), back);
        }
    }
}
