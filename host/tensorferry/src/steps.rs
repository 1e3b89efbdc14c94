//! The steps of conversions: what there are, and lists of them, as `--step` has them.

use crate::RECORDS;
pub use tensorferry_convert::steps::recipe;
use tensorferry_convert::steps::{self, AnyStep};
use tensorferry_sdk::Result;
pub use tensorferry_tensors::steps::dequantize::{READER_OPTION, asked};
pub use tensorferry_tensors::steps::model_config::ModelConfig;
pub use tensorferry_tensors::steps::signature::{Argument, Count, Key, SELECTOR_KEYS, Signature};
pub use tensorferry_tensors::steps::{ModelFacts, Step, TensorAction, apply, apply_to};

/// What may be given to every kind of step; recipes are not among them.
#[must_use]
pub fn signatures() -> Vec<&'static Signature> {
    steps::signatures(RECORDS)
}

/// Parses steps, recipes among them.
///
/// # Errors
/// Usage: which of them, and where in it.
pub fn parse(texts: &[String]) -> Result<Vec<AnyStep>> {
    steps::parse(texts, RECORDS)
}

/// Parses steps on tensors.
///
/// # Errors
/// As of [`parse`]; usage, for a step on records.
pub fn on_tensors(texts: &[String]) -> Result<Vec<Step<TensorAction>>> {
    steps::on_tensors(parse(texts)?)
}
