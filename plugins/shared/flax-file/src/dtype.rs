//! Maps dtypes to their names in numpy and ml_dtypes. The names do not contain a byte order.

use tensorferry_sdk::{Dtype, Error, Result};

/// All known dtype names. An element with fewer than eight bits still occupies one byte.
const NAMES: [(&str, Dtype); 26] = [
    ("bool", Dtype::BOOL),
    ("int8", Dtype::I8),
    ("uint8", Dtype::U8),
    ("int16", Dtype::I16),
    ("uint16", Dtype::U16),
    ("int32", Dtype::I32),
    ("uint32", Dtype::U32),
    ("int64", Dtype::I64),
    ("uint64", Dtype::U64),
    ("float16", Dtype::F16),
    ("bfloat16", Dtype::BF16),
    ("float32", Dtype::F32),
    ("float64", Dtype::F64),
    ("complex64", Dtype::C64),
    ("complex128", Dtype::C128),
    ("float8_e4m3fn", Dtype::F8_E4M3),
    ("float8_e5m2", Dtype::F8_E5M2),
    ("float8_e4m3fnuz", Dtype::F8_E4M3FNUZ),
    ("float8_e5m2fnuz", Dtype::F8_E5M2FNUZ),
    ("float8_e4m3b11fnuz", Dtype::F8_E4M3B11FNUZ),
    ("float8_e8m0fnu", Dtype::F8_E8M0),
    ("int4", Dtype::I4_UNPACKED),
    ("uint4", Dtype::U4_UNPACKED),
    ("int2", Dtype::I2_UNPACKED),
    ("uint2", Dtype::U2_UNPACKED),
    ("float4_e2m1fn", Dtype::F4_UNPACKED),
];

/// Returns the dtype with this name. Fails if the name is unknown or is not that of a numeric
/// dtype.
pub fn parse(name: &str) -> Result<Dtype> {
    let known = NAMES.iter().find(|(known, _)| *known == name);
    known.map(|(_, dtype)| *dtype).ok_or_else(|| {
        let why = if name == "object" {
            "the array contains Python objects, whose bytes are pointers"
        } else {
            "an array has an unknown dtype"
        };
        Error::unsupported(why).expected("a numeric dtype, such as float32").found(format!("{name:?}"))
    })
}

/// Returns the name of a dtype, or `None` if Flax does not support the dtype.
pub fn name(dtype: Dtype) -> Option<&'static str> {
    NAMES.iter().find(|(_, known)| *known == dtype).map(|(name, _)| *name)
}
