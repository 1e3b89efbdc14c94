//! Casts of integers to integers, and of those with 64 bits to F64: through `i128`, which has them all.

use super::lost::Lost;
use tensorferry_sdk::Dtype;

/// Reads as many values as there is room for; they are exact.
pub(super) type Load = fn(&[u8], &mut [i128]);

/// Writes values, and counts what they lose.
pub(super) type Store = fn(&[i128], &mut [u8], &mut Lost);

macro_rules! load {
    ($type:ty, $convert:expr) => {
        |bytes, values| {
            for (bytes, value) in bytes.as_chunks().0.iter().zip(values) {
                *value = $convert(<$type>::from_le_bytes(*bytes));
            }
        }
    };
}

/// How values of a dtype become `i128`.
pub(super) fn load(dtype: Dtype) -> Option<Load> {
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

macro_rules! store {
    ($type:ty) => {
        |values, bytes, lost| {
            for (value, bytes) in values.iter().zip(bytes.as_chunks_mut().0) {
                // What is out of range keeps its low bits, as in C, NumPy and torch.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is counted")]
                let integer = *value as $type;
                *bytes = integer.to_le_bytes();
                lost.range += u64::from(i128::from(integer) != *value);
            }
        }
    };
}

/// How values of a dtype are made of `i128`.
pub(super) fn store(dtype: Dtype) -> Option<Store> {
    Some(match dtype {
        Dtype::BOOL => |values, bytes, lost| {
            for (value, byte) in values.iter().zip(bytes) {
                *byte = u8::from(*value != 0);
                lost.range += u64::from(i128::from(*byte) != *value);
            }
        },
        Dtype::U8 => store!(u8),
        Dtype::I8 => store!(i8),
        Dtype::U16 => store!(u16),
        Dtype::I16 => store!(i16),
        Dtype::U32 => store!(u32),
        Dtype::I32 => store!(i32),
        Dtype::U64 => store!(u64),
        Dtype::I64 => store!(i64),
        Dtype::F64 => |values, bytes, lost| {
            for (value, bytes) in values.iter().zip(bytes.as_chunks_mut().0) {
                let double = *value as f64;
                *bytes = double.to_le_bytes();
                // Of 64 bits, so that it is far from the ends of an i128.
                #[expect(clippy::cast_possible_truncation, reason = "it has no fraction")]
                let back = double as i128;
                lost.rounded += u64::from(back != *value);
            }
        },
        _ => return None,
    })
}
