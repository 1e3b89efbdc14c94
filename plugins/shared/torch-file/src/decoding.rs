//! The options that ask for the values of quantized and sparse tensors instead of their parts.

use tensorferry_sdk::Side::Reader;
use tensorferry_sdk::{Dtype, OptionSpec, Options, Result, TypedOption};

const DEQUANTIZE: TypedOption<Option<Dtype>> = TypedOption::choice(
    Reader,
    "dequantize",
    &[("no", None), ("f32", Some(Dtype::F32)), ("f16", Some(Dtype::F16)), ("bf16", Some(Dtype::BF16))],
    "give the values of quantized tensors in this dtype, not their integers, scales and zero points; the step \
     dequantize does it too",
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
    /// The dtype in which quantized tensors become the floats that they stand for: F32, F16 or BF16.
    pub dequantize: Option<Dtype>,
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
