//! Element types. zarr 2 uses numpy's type strings, and zarr 3 uses its own names. tensorstore adds
//! further names to both formats.

use crate::json::Json;
use tensorferry_sdk::{ByteOrder, Dtype, Error, Result};

/// numpy's kind and width, the name in zarr 3, and the dtype of each element type.
const NUMPY: [(&str, &str, Dtype); 14] = [
    ("b1", "bool", Dtype::BOOL),
    ("i1", "int8", Dtype::I8),
    ("u1", "uint8", Dtype::U8),
    ("i2", "int16", Dtype::I16),
    ("u2", "uint16", Dtype::U16),
    ("i4", "int32", Dtype::I32),
    ("u4", "uint32", Dtype::U32),
    ("i8", "int64", Dtype::I64),
    ("u8", "uint64", Dtype::U64),
    ("f2", "float16", Dtype::F16),
    ("f4", "float32", Dtype::F32),
    ("f8", "float64", Dtype::F64),
    ("c8", "complex64", Dtype::C64),
    ("c16", "complex128", Dtype::C128),
];
/// Names that tensorstore adds. Elements with fewer than 8 bits occupy a whole byte.
const NAMED: [(&str, Dtype); 7] = [
    ("bfloat16", Dtype::BF16),
    ("float8_e4m3fn", Dtype::F8_E4M3),
    ("float8_e5m2", Dtype::F8_E5M2),
    ("float8_e4m3fnuz", Dtype::F8_E4M3FNUZ),
    ("float8_e5m2fnuz", Dtype::F8_E5M2FNUZ),
    ("float8_e4m3b11fnuz", Dtype::F8_E4M3B11FNUZ),
    ("int4", Dtype::I4_UNPACKED),
];

fn named(name: &str) -> Option<Dtype> {
    NAMED.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype)
}

/// Parses a zarr 2 dtype.
pub(crate) fn of_zarr2(dtype: &Json) -> Result<(Dtype, ByteOrder)> {
    let text = dtype.text().unwrap_or_default();
    let order = if text.starts_with('>') { ByteOrder::Big } else { ByteOrder::Little };
    let kind = text.strip_prefix(['<', '>', '|']).unwrap_or_default();
    let known = NUMPY.iter().find(|(known, ..)| *known == kind).map(|(.., dtype)| *dtype);
    let known =
        known.map(|dtype| (dtype, order)).or_else(|| named(text).map(|dtype| (dtype, ByteOrder::Little)));
    known.ok_or_else(|| unknown(text))
}

/// Parses a zarr 3 data type.
pub(crate) fn of_zarr3(dtype: &Json) -> Result<Dtype> {
    let text = dtype.text().unwrap_or_default();
    let known = NUMPY.iter().find(|(_, name, _)| *name == text).map(|(.., dtype)| *dtype);
    known.or_else(|| named(text)).ok_or_else(|| unknown(text))
}

fn unknown(text: &str) -> Error {
    Error::unsupported("unknown array dtype").found(format!("{text:?}"))
}

/// Returns the name of a dtype in zarr 2, or `None` if tensorstore does not support the dtype in
/// zarr 2.
pub(crate) fn zarr2(dtype: Dtype) -> Option<String> {
    if let Some((kind, ..)) = NUMPY.iter().find(|(.., known)| *known == dtype) {
        return Some(format!("{}{kind}", if kind.ends_with('1') { '|' } else { '<' }));
    }
    NAMED.iter().find(|(_, known)| *known == dtype).map(|(name, _)| (*name).to_owned())
}

/// Encodes a fill value as one little-endian element. A null becomes zero.
pub(crate) fn fill(value: &Json, dtype: Dtype) -> Result<Vec<u8>> {
    let width = dtype.info().and_then(|info| info.element_bytes()).unwrap_or(1) as usize;
    let unsupported = || Error::unsupported("unsupported fill value").found(format!("{value:?}"));
    let number = match value {
        Json::Null | Json::Bool(false) | Json::Int(0) => return Ok(vec![0; width]),
        Json::Bool(true) => 1.0,
        #[expect(clippy::cast_precision_loss, reason = "the float is used only for float dtypes")]
        Json::Int(number) => *number as f64,
        Json::Float(number) => *number,
        Json::Text(text) => match text.as_str() {
            "NaN" => f64::NAN,
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            _ => {
                let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 2 * width && width <= 8);
                let bits = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
                return bits.map(|bits| bits.to_le_bytes()[..width].to_vec()).ok_or_else(unsupported);
            }
        },
        Json::List(parts) if matches!(dtype, Dtype::C64 | Dtype::C128) && parts.len() == 2 => {
            let half = if dtype == Dtype::C64 { Dtype::F32 } else { Dtype::F64 };
            let parts = parts.iter().filter(|part| !matches!(part, Json::List(_)));
            let halves = parts.map(|part| fill(part, half)).collect::<Result<Vec<_>>>()?;
            return Some(halves.concat()).filter(|bytes| bytes.len() == width).ok_or_else(unsupported);
        }
        _ => return Err(unsupported()),
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the value is rounded to the precision of the element"
    )]
    match (dtype, value) {
        (Dtype::F64, _) => Ok(number.to_le_bytes().to_vec()),
        (Dtype::F32, _) => Ok((number as f32).to_le_bytes().to_vec()),
        (Dtype::BF16, _)
            if number.is_nan()
                || f64::from(f32::from_bits((number as f32).to_bits() & !0xffff)) == number =>
        {
            Ok((number as f32).to_le_bytes()[2..].to_vec())
        }
        (Dtype::F16, _) if number.is_nan() => Ok(0x7e00_u16.to_le_bytes().to_vec()),
        (Dtype::BOOL, Json::Bool(true)) => Ok(vec![1]),
        (Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64, Json::Int(number)) => {
            let fits = *number >= -(1 << (8 * width - 1)) && *number < 1 << (8 * width - 1);
            Some(number.to_le_bytes()[..width].to_vec()).filter(|_| fits).ok_or_else(unsupported)
        }
        (Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64, Json::Int(number)) => {
            let fits = *number >= 0 && *number < 1 << (8 * width);
            Some(number.to_le_bytes()[..width].to_vec()).filter(|_| fits).ok_or_else(unsupported)
        }
        _ => Err(unsupported()),
    }
}
