//! Reader options for reading the values that quantized and sparse tensors represent, instead of
//! their parts.

use tensorferry_sdk::Side::Reader;
use tensorferry_sdk::{Dtype, OptionSpec, Options, Result, TypedOption};

const DEQUANTIZE: TypedOption<Option<Dtype>> = TypedOption::choice(
    Reader,
    "dequantize",
    &[("no", None), ("f32", Some(Dtype::F32)), ("f16", Some(Dtype::F16)), ("bf16", Some(Dtype::BF16))],
    "read the values of quantized tensors in this dtype, not their parts; the step dequantize does the same",
);
const DENSIFY: TypedOption<bool> = TypedOption::flag(
    Reader,
    "densify",
    false,
    "read all elements of sparse tensors, not their indices and values",
);

/// The settings for reading quantized and sparse tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Decoding {
    /// Dtype to which quantized tensors are converted: F32, F16 or BF16. If it is `None`, they are
    /// read as their parts.
    pub dequantize: Option<Dtype>,
    /// Whether sparse tensors are converted to dense tensors.
    pub densify: bool,
}

impl Decoding {
    /// Returns the reader options.
    #[must_use]
    pub fn options() -> [OptionSpec; 2] {
        [DEQUANTIZE.spec(), DENSIFY.spec()]
    }

    pub fn of(options: &Options) -> Result<Self> {
        Ok(Self { dequantize: DEQUANTIZE.get(options)?, densify: DENSIFY.get(options)? })
    }
}
