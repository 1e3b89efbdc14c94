//! Adds elements in the same way as torch, for sparse tensors in which several values have the same
//! position. 16-bit floats are rounded after each addition, integers wrap around, and booleans are
//! combined with "or".
//!
//! An element with only one value is also computed by adding the value to zero, which turns -0 into
//! 0.
//!
//! Sources: `add_dense_sparse_worker_*` in `aten/src/ATen/native/sparse/SparseTensorMath.cpp` and
//! `index_add_` in PyTorch.

use half::{bf16, f16};
use tensorferry_sdk::Dtype;

/// The rule for adding elements of a dtype. The real and imaginary parts of a complex number are
/// added separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Addition {
    Bool,
    Integer { bytes: usize },
    F16,
    Bf16,
    F32,
    F64,
}

impl Addition {
    /// Returns the rule for a dtype. Returns `None` if torch cannot add elements of this dtype.
    pub(crate) fn of(dtype: Dtype) -> Option<Self> {
        Some(match dtype {
            Dtype::BOOL => Self::Bool,
            Dtype::U8 | Dtype::I8 => Self::Integer { bytes: 1 },
            Dtype::I16 => Self::Integer { bytes: 2 },
            Dtype::I32 => Self::Integer { bytes: 4 },
            Dtype::I64 => Self::Integer { bytes: 8 },
            Dtype::F16 | Dtype::C32 => Self::F16,
            Dtype::BF16 => Self::Bf16,
            Dtype::F32 | Dtype::C64 => Self::F32,
            Dtype::F64 | Dtype::C128 => Self::F64,
            _ => return None,
        })
    }

    /// Adds the little-endian elements in `from` to the elements in `to`.
    pub(crate) fn add(self, to: &mut [u8], from: &[u8]) {
        match self {
            Self::Bool => to.iter_mut().zip(from).for_each(|(to, from)| *to = u8::from(*to | *from != 0)),
            Self::Integer { bytes } => {
                for (to, from) in to.chunks_exact_mut(bytes).zip(from.chunks_exact(bytes)) {
                    let mut carry = false;
                    for (to, from) in to.iter_mut().zip(from) {
                        let (sum, first) = to.overflowing_add(*from);
                        let (sum, second) = sum.overflowing_add(carry.into());
                        (*to, carry) = (sum, first || second);
                    }
                }
            }
            Self::F16 => each(to, from, |a, b| {
                let sum = f16::from_le_bytes(a).to_f32() + f16::from_le_bytes(b).to_f32();
                f16::from_f32(sum).to_le_bytes()
            }),
            Self::Bf16 => each(to, from, |a, b| {
                let sum = bf16::from_le_bytes(a).to_f32() + bf16::from_le_bytes(b).to_f32();
                // torch has only one NaN for this dtype.
                let rounded = if sum.is_nan() { bf16::NAN } else { bf16::from_f32(sum) };
                rounded.to_le_bytes()
            }),
            Self::F32 => each(to, from, |a, b| (f32::from_le_bytes(a) + f32::from_le_bytes(b)).to_le_bytes()),
            Self::F64 => each(to, from, |a, b| (f64::from_le_bytes(a) + f64::from_le_bytes(b)).to_le_bytes()),
        }
    }
}

fn each<const N: usize>(to: &mut [u8], from: &[u8], add: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    for (to, from) in to.as_chunks_mut().0.iter_mut().zip(from.as_chunks().0) {
        *to = add(*to, *from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(sum: Addition, mut to: Vec<u8>, from: &[u8]) -> Vec<u8> {
        sum.add(&mut to, from);
        to
    }

    #[test]
    fn integers_wrap_and_booleans_do_not() {
        let bytes = |value: i16| value.to_le_bytes().to_vec();
        assert_eq!(sum(Addition::Integer { bytes: 2 }, bytes(i16::MAX), &bytes(1)), bytes(i16::MIN));
        assert_eq!(sum(Addition::Integer { bytes: 2 }, bytes(-300), &bytes(257)), bytes(-43));
        assert_eq!(sum(Addition::Bool, vec![0, 1, 1], &[2, 1, 0]), [1, 1, 1]);
    }

    #[test]
    fn narrow_floats_are_rounded_after_each_addition() {
        let half = |value: f32| f16::from_f32(value).to_le_bytes().to_vec();
        assert_eq!(sum(Addition::F16, half(2048.0), &half(1.0)), half(2048.0));
        let brain = |value: f32| bf16::from_f32(value).to_le_bytes().to_vec();
        assert_eq!(sum(Addition::Bf16, brain(256.0), &brain(1.0)), brain(256.0));
        assert_eq!(sum(Addition::Bf16, vec![0, 0], &[0x81, 0xff]), [0xc0, 0x7f]);
        assert_eq!(sum(Addition::F32, vec![0; 4], &(-0.0_f32).to_le_bytes()), [0; 4]);
    }
}
