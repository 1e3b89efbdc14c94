//! Conversion steps: their signatures, and the parser for values of `--step`.

use crate::RECORDS;
pub use tensorferry_convert::steps::recipe;
use tensorferry_convert::steps::{self, AnyStep};
use tensorferry_sdk::Result;
pub use tensorferry_tensors::steps::dequantize::{READER_OPTION, requested_dtype};
pub use tensorferry_tensors::steps::model_config::ModelConfig;
pub use tensorferry_tensors::steps::signature::{ArgumentSpec, Key, Occurrence, SELECTOR_KEYS, Signature};
pub use tensorferry_tensors::steps::{ModelFacts, Step, TensorAction, apply, apply_to};

/// Returns the signature of every kind of step, without recipes.
#[must_use]
pub fn signatures() -> Vec<&'static Signature> {
    steps::signatures(RECORDS)
}

/// Parses steps, which may include recipes.
///
/// # Errors
/// Returns an error that names the step and the position in it if a step is invalid.
pub fn parse(texts: &[String]) -> Result<Vec<AnyStep>> {
    steps::parse(texts, RECORDS)
}

/// Parses steps on tensors.
///
/// # Errors
/// Returns an error for any reason that [`parse`] lists, or if a step applies to records.
pub fn on_tensors(texts: &[String]) -> Result<Vec<Step<TensorAction>>> {
    steps::on_tensors(parse(texts)?)
}
