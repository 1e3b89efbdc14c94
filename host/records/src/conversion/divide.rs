//! Divides the steps of a conversion between records and tensors at the crossing. Steps before the
//! crossing apply to the input's kind of data, and steps after it apply to the output's kind.

use super::steps::{crossing, on_records, record_step};
use crate::bridge::crossing::{Crossing, RecordOf, TensorOf};
use crate::steps::{RecordAction, check_end};
use tensorferry_convert::steps::{AnyStep, OtherSide, StepAction, tensor_step};
use tensorferry_sdk::{Error, Result};
use tensorferry_tensors::steps::{Step, TensorAction};

/// The steps of a conversion between records and tensors.
#[derive(Debug)]
pub(crate) struct CrossingSteps<C> {
    pub records: Vec<Step<RecordAction>>,
    /// The conversion between records and tensors.
    pub crossing: C,
    pub tensors: Vec<Step<TensorAction>>,
}

/// Divides the steps of a conversion of records to tensors.
pub(crate) fn to_tensors(steps: Vec<AnyStep>) -> Result<CrossingSteps<TensorOf>> {
    let (before, crossing, after) =
        divide(steps, |action| matches!(action, StepAction::Other(OtherSide::Records)))?;
    let records = on_records(before)?;
    let crossing = match crossing {
        None => TensorOf::default(),
        Some(Step { action: Crossing::ToTensors(of), .. }) => of,
        Some(step) => {
            let why = "the input already holds records; use tensors:column to get tensors";
            return Err(Error::usage(why).context(step));
        }
    };
    let why = "needs records, but they have become tensors before it";
    let tensors = after.into_iter().map(|step| tensor_step(step, why, SECOND_CROSSING));
    Ok(CrossingSteps { records, crossing, tensors: tensors.collect::<Result<_>>()? })
}

/// Divides the steps of a tensors-to-records conversion into steps on tensors and steps on records.
pub(crate) fn to_records(steps: Vec<AnyStep>) -> Result<CrossingSteps<RecordOf>> {
    let (before, crossing, after) = divide(steps, |action| matches!(action, StepAction::Tensor(_)))?;
    let crossing = match crossing {
        None => RecordOf::default(),
        Some(Step { action: Crossing::ToRecords(of), .. }) => of,
        Some(step) => {
            let why = "the input already holds tensors; use records:row to get records";
            return Err(Error::usage(why).context(step));
        }
    };
    let why = "needs tensors, but they have become records before it";
    let records = after.into_iter().map(|step| record_step(step, why, SECOND_CROSSING));
    let records: Vec<_> = records.collect::<Result<_>>()?;
    let why = "needs records, but the tensors have not become records before it";
    let tensors = before.into_iter().map(|step| tensor_step(step, why, SECOND_CROSSING));
    let tensors = tensors.collect::<Result<_>>()?;
    check_end(&records)?;
    Ok(CrossingSteps { records, crossing, tensors })
}

const SECOND_CROSSING: &str = "only one step can convert between records and tensors";

/// Returns the steps before the crossing, the crossing itself if it exists, and the steps after the
/// crossing. Without a crossing, the leading steps that apply to the input's kind of data are the
/// steps before it.
fn divide(
    mut steps: Vec<AnyStep>,
    is_of_first: impl Fn(&StepAction) -> bool,
) -> Result<(Vec<AnyStep>, Option<Step<Crossing>>, Vec<AnyStep>)> {
    let is_crossing = |step: &AnyStep| matches!(step.action, StepAction::Other(OtherSide::Crossing));
    let Some(at) = steps.iter().position(is_crossing) else {
        let at = steps.iter().position(|step| !is_of_first(&step.action)).unwrap_or(steps.len());
        let after = steps.split_off(at);
        return Ok((steps, None, after));
    };
    let after = steps.split_off(at + 1);
    if let Some(second) = after.iter().find(|step| is_crossing(step)) {
        return Err(Error::usage(SECOND_CROSSING).context(second));
    }
    let crossing = steps.pop().map(crossing).transpose()?;
    Ok((steps, crossing, after))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::conversion::Records;
    use tensorferry_convert::steps::parse;

    fn steps(texts: &[&str]) -> Vec<AnyStep> {
        parse(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>(), &Records).unwrap()
    }

    #[test]
    fn steps_belong_to_a_side() {
        let counts =
            |texts: &[&str]| to_tensors(steps(texts)).map(|d| (d.records.len(), d.crossing, d.tensors.len()));
        let column = TensorOf::Column { splits_strings: false };
        assert_eq!(counts(&["take:3", "rename:a,to=b", "cast:f32"]).unwrap(), (1, column, 2));
        assert_eq!(counts(&["take:3", "tensors:record", "cast:f32"]).unwrap(), (1, TensorOf::Record, 1));
        let bytes = TensorOf::Column { splits_strings: true };
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
        assert_eq!(counts(&["cast:f32", "take:3"]).unwrap(), (1, RecordOf::Row, 1));
        assert_eq!(counts(&["cast:f32", "records:tensor", "take:3"]).unwrap(), (1, RecordOf::Tensor, 1));
        for wrong in [&["take:3", "cast:f32"][..], &["take:3", "records:row"], &["tensors:record"]] {
            assert!(counts(wrong).is_err(), "{wrong:?}");
        }
    }
}
