//! The options that ask for the values of quantized and sparse tensors instead of their parts.

use tensorferry_sdk::Side::Reader;
use tensorferry_sdk::{OptionSpec, Options, Result, TypedOption};

const DEQUANTIZE: TypedOption<bool> = TypedOption::choice(
    Reader,
    "dequantize",
    &[("no", false), ("f32", true)],
    "f32: give the values of quantized tensors, not their integers, scales and zero points",
);
const DENSIFY: TypedOption<bool> = TypedOption::flag(
    Reader,
    "densify",
    false,
    "give all elements of sparse tensors, not their indices and values",
);

/// What is made of tensors that are more than elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Decoding {
    /// Quantized tensors become the floats that they stand for.
    pub dequantize: bool,
    /// Sparse tensors become dense ones.
    pub densify: bool,
}

impl Decoding {
    /// The options of a reader that say it.
    #[must_use]
    pub fn options() -> [OptionSpec; 2] {
        [DEQUANTIZE.spec(), DENSIFY.spec()]
    }

    /// What the options say.
    ///
    /// # Errors
    /// Usage: a value that is none of an option's.
    pub fn of(options: &Options) -> Result<Self> {
        Ok(Self { dequantize: DEQUANTIZE.get(options)?, densify: DENSIFY.get(options)? })
    }
}
