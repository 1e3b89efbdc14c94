//! Casts between integers, and casts of 64-bit integers to F64. The intermediate type is `i128`,
//! which can represent all of these integers.

use super::loops::{Load, Store, load, store};
use tensorferry_sdk::Dtype;

/// Returns the loop that converts values of a dtype to `i128`.
pub(super) fn load(dtype: Dtype) -> Option<Load<i128>> {
    Some(match dtype {
        Dtype::BOOL => load!(u8, |byte| i128::from(byte != 0)),
        Dtype::U8 => load!(u8, i128::from),
        Dtype::I8 => load!(i8, i128::from),
        Dtype::U16 => load!(u16, i128::from),
        Dtype::I16 => load!(i16, i128::from),
        Dtype::U32 => load!(u32, i128::from),
        Dtype::I32 => load!(i32, i128::from),
        Dtype::U64 => load!(u64, i128::from),
        Dtype::I64 => load!(i64, i128::from),
        _ => return None,
    })
}

macro_rules! integer {
    ($type:ty) => {
        store!(|value, lost| {
            // If a value is out of range, its low bits are kept, as in C, NumPy and torch.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is counted")]
            let integer = value as $type;
            lost.range += u64::from(i128::from(integer) != value);
            integer
        })
    };
}

/// Returns the loop that converts `i128` to values of a dtype.
pub(super) fn store(dtype: Dtype) -> Option<Store<i128>> {
    Some(match dtype {
        Dtype::BOOL => store!(|value, lost| {
            lost.range += u64::from(!matches!(value, 0 | 1));
            u8::from(value != 0)
        }),
        Dtype::U8 => integer!(u8),
        Dtype::I8 => integer!(i8),
        Dtype::U16 => integer!(u16),
        Dtype::I16 => integer!(i16),
        Dtype::U32 => integer!(u32),
        Dtype::I32 => integer!(i32),
        Dtype::U64 => integer!(u64),
        Dtype::I64 => integer!(i64),
        Dtype::F64 => store!(|value, lost| {
            let double = value as f64;
            // The value has at most 64 bits, so the conversion back to i128 cannot overflow.
            #[expect(clippy::cast_possible_truncation, reason = "it has no fraction")]
            let back = double as i128;
            lost.rounded += u64::from(back != value);
            double
        }),
        _ => return None,
    })
}
