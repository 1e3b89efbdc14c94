//! Numbers of a dtype as f64, for comparisons with a tolerance.

use half::{bf16, f16};
use tensorferry_sdk::Dtype;

/// How a dtype's numbers are read.
pub struct Numbers {
    /// Bytes of one number; a complex element is two of them.
    pub width: usize,
    /// The number in that many little-endian bytes.
    pub read: fn(&[u8]) -> f64,
}

/// The numbers of a dtype; `None` where bytes are compared as they are.
#[must_use]
pub fn numbers(dtype: Dtype) -> Option<Numbers> {
    macro_rules! of {
        ($type:ty, $convert:expr) => {
            Some(Numbers {
                width: size_of::<$type>(),
                read: |bytes| {
                    bytes.try_into().map_or(f64::NAN, |bytes| $convert(<$type>::from_le_bytes(bytes)))
                },
            })
        };
    }
    match dtype {
        Dtype::F64 | Dtype::C128 => of!(f64, |x| x),
        Dtype::F32 | Dtype::C64 => of!(f32, f64::from),
        Dtype::F16 | Dtype::C32 => of!(f16, f64::from),
        Dtype::BF16 | Dtype::BC32 => of!(bf16, f64::from),
        Dtype::I8 => of!(i8, f64::from),
        Dtype::U8 => of!(u8, f64::from),
        Dtype::I16 => of!(i16, f64::from),
        Dtype::U16 => of!(u16, f64::from),
        Dtype::I32 => of!(i32, f64::from),
        Dtype::U32 => of!(u32, f64::from),
        Dtype::I64 => of!(i64, |x| x as f64),
        Dtype::U64 => of!(u64, |x| x as f64),
        _ => None,
    }
}
