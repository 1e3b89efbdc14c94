//! The options that ask for the values of quantized and sparse tensors instead of their parts.

use tensorferry_sdk::{OptionKind, OptionSpec, Options};

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
        let words = OptionKind::Choice(vec!["no".to_owned(), "f32".to_owned()]);
        let floats = "f32: give the values of quantized tensors, not their integers, scales and zero points";
        let all = "give all elements of sparse tensors, not their indices and values";
        [
            OptionSpec::reader("dequantize", words, Some("no"), floats),
            OptionSpec::reader("densify", OptionKind::Bool, Some("false"), all),
        ]
    }

    /// What the options say.
    #[must_use]
    pub fn of(options: &Options) -> Self {
        Self { dequantize: options.text("dequantize") == Some("f32"), densify: options.is_true("densify") }
    }
}
