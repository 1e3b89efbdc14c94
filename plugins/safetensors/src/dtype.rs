//! The dtypes that safetensors defines. The SDK uses the same dtype names.

use tensorferry_sdk::Dtype;

/// The dtypes in the order of the enum `Dtype` in the `safetensors` crate, which sorts them by
/// increasing alignment. The crate sorts the tensors in a file by this order.
const DTYPE_ORDER: [Dtype; 22] = [
    Dtype::BOOL,
    Dtype::F4,
    Dtype::F6_E2M3,
    Dtype::F6_E3M2,
    Dtype::U8,
    Dtype::I8,
    Dtype::F8_E5M2,
    Dtype::F8_E4M3,
    Dtype::F8_E8M0,
    Dtype::F8_E4M3FNUZ,
    Dtype::F8_E5M2FNUZ,
    Dtype::I16,
    Dtype::U16,
    Dtype::F16,
    Dtype::BF16,
    Dtype::I32,
    Dtype::U32,
    Dtype::F32,
    Dtype::C64,
    Dtype::F64,
    Dtype::I64,
    Dtype::U64,
];

/// Returns the position of a dtype in [`DTYPE_ORDER`], or `None` if safetensors does not define the
/// dtype. Tensors with a higher rank come earlier in the file.
pub(crate) fn rank(dtype: Dtype) -> Option<usize> {
    DTYPE_ORDER.iter().position(|&known| known == dtype)
}

/// Returns the dtype with this name, or `None` if safetensors does not define it.
pub(crate) fn named(name: &str) -> Option<Dtype> {
    Dtype::named(name).filter(|&dtype| rank(dtype).is_some())
}

/// Returns the names of all dtypes, for error messages.
pub(crate) fn names() -> String {
    let names: Vec<&str> =
        DTYPE_ORDER.iter().filter_map(|dtype| dtype.info()).map(|info| info.name()).collect();
    names.join(", ")
}

/// Suggests how to convert a dtype that safetensors does not support. ferry cannot cast complex
/// numbers or elements smaller than a byte.
pub(crate) fn suggestion(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::STR => "write a format with strings",
        Dtype::F8_E4M3B11FNUZ => "cast it to BF16",
        Dtype::QI8 | Dtype::QU8 | Dtype::QI32 | Dtype::QU4X2 | Dtype::QU2X4 => {
            "dequantize it with -i dequantize=f32"
        }
        _ => "keep the input format",
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_dtype_of_the_sdk_alone_is_unknown() {
        assert_eq!(named("F8_E8M0"), Some(Dtype::F8_E8M0));
        assert_eq!(named("C128"), None);
        assert_eq!(named("f32"), None);
    }

    #[test]
    fn widths_never_fall() {
        let bits = |dtype: &Dtype| {
            let info = dtype.info().unwrap();
            8 * info.block_bytes() / info.block_elements()
        };
        assert!(DTYPE_ORDER[1..].iter().is_sorted_by_key(bits));
    }
}
