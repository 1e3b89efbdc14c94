//! Computes the floats that a quantized tensor represents. The floats are bit-identical to the
//! result of torch's `dequantize()` on a CPU.
//!
//! ```text
//! per tensor                  f32(q - zero_point) * f32(scale)
//! per channel                 f32(f64(f32(q) - f32(zero_point)) * scale)
//! per channel, float qparams  (f32(q) - f32(zero_point)) * f32(scale)
//! blocks                      (f32(q) - f32(zero_point)) * f32(scale)
//! ```
//! Sources: `aten/src/ATen/native/quantized/cpu/kernels/QuantizedOpKernels.cpp` in PyTorch. For
//! tensors with a scale per block, the source is `quant_primitives.py` in torchao, which may
//! compute in 16 bits if the original weight had 16 bits. Each formula was compared with torch on
//! random values.

use super::StoredView;
use half::{bf16, f16};
use tensorferry_sdk::{ByteSink, Context, Dtype, Error, Result, Source};

/// The integers of a quantized tensor with their scales and zero points.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Dequantized {
    /// The integers. If several integers share a byte, this is a view of the bytes.
    pub(crate) stored: StoredView,
    /// The quantized dtype.
    pub(crate) dtype: Dtype,
    /// Number of integers.
    pub(crate) elements: u64,
    pub(crate) parameters: Parameters,
    /// The dtype of the result: F32, F16 or BF16. F16 and BF16 results are rounded from F32.
    pub(crate) to: Dtype,
}

/// The scales and zero points of a quantized tensor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Parameters {
    /// A single scale and a single zero point for the whole tensor. `scale` contains the bits of a
    /// 64-bit float.
    PerTensor { scale: u64, zero_point: i64 },
    /// A scale and a zero point for each index of a dimension.
    PerChannel {
        scales: ChannelValues,
        zero_points: ChannelValues,
        /// Whether the zero points are floats.
        are_floats: bool,
        channels: u64,
        /// Number of contiguous elements that have the same index in this dimension.
        run: u64,
    },
    /// A scale and a zero point for each block of elements.
    Blocks {
        scales: ChannelValues,
        /// `None` if all zero points are zero.
        zero_points: Option<ChannelValues>,
        blocks: Blocks,
    },
}

/// The division of a tensor's elements into blocks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Blocks {
    size: Vec<u64>,
    block: Vec<u64>,
}

impl Blocks {
    /// Creates the division of a tensor into blocks of this size. Returns `None` if the tensor's
    /// size is not a multiple of the block size.
    pub(crate) fn new(size: &[u64], block: &[u64]) -> Option<Self> {
        let fills = |(size, block): (&u64, &u64)| *block > 0 && size.is_multiple_of(*block);
        let all = size.len() == block.len() && size.iter().zip(block).all(fills);
        all.then(|| Self { size: size.to_vec(), block: block.to_vec() })
    }

    /// Returns the number of blocks along each dimension.
    pub(crate) fn counts(&self) -> Vec<u64> {
        self.size.iter().zip(&self.block).map(|(size, block)| size / block).collect()
    }

    /// Returns the index of the block that contains an element. Also returns the number of
    /// contiguous elements in this block, starting with that element.
    fn at(&self, mut element: u64) -> (u64, u64) {
        let (mut number, mut blocks, mut run) = (0, 1, None);
        for (&size, &block) in self.size.iter().zip(&self.block).rev() {
            let index = element % size;
            element /= size;
            run = run.or(Some(block - index % block));
            number += index / block * blocks;
            blocks *= size / block;
        }
        (number, run.unwrap_or(1))
    }
}

/// The scales or zero points of a tensor's channels, which are in a tensor or in a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ChannelValues {
    Stored(StoredView),
    /// The bits of each number.
    Listed(Vec<u64>),
}

impl ChannelValues {
    /// Returns whether [`read`](Self::read) supports this dtype.
    pub(crate) fn reads(dtype: Dtype) -> bool {
        let narrow = matches!(dtype, Dtype::BF16 | Dtype::F16 | Dtype::I8);
        narrow || matches!(dtype, Dtype::F64 | Dtype::F32 | Dtype::I64 | Dtype::I32)
    }

    fn read(&self, source: &dyn Source, context: &dyn Context) -> Result<Vec<f64>> {
        let view = match self {
            Self::Listed(bits) => return Ok(bits.iter().copied().map(f64::from_bits).collect()),
            Self::Stored(view) => view,
        };
        let bytes = view.read(source, context)?;
        let (eights, fours) = (bytes.as_chunks().0.iter(), bytes.as_chunks().0.iter());
        let twos = bytes.as_chunks().0.iter();
        Ok(match view.dtype {
            Dtype::I8 => bytes.iter().map(|&byte| byte.cast_signed().into()).collect(),
            Dtype::F16 => twos.map(|&bytes| f16::from_le_bytes(bytes).into()).collect(),
            Dtype::BF16 => twos.map(|&bytes| bf16::from_le_bytes(bytes).into()).collect(),
            Dtype::F32 => fours.map(|&bytes| f32::from_le_bytes(bytes).into()).collect(),
            Dtype::I32 => fours.map(|&bytes| i32::from_le_bytes(bytes).into()).collect(),
            // A zero point of more than 53 bits is out of range in any case, so rounding it is
            // harmless.
            #[expect(clippy::cast_precision_loss, reason = "checked_zero_points rejects long numbers")]
            Dtype::I64 => eights.map(|&bytes| i64::from_le_bytes(bytes) as f64).collect(),
            _ => eights.map(|&bytes| f64::from_le_bytes(bytes)).collect(),
        })
    }
}

/// Returns the value of each code of an 8-bit float dtype. Returns `None` for integer dtypes.
fn float8_numbers(dtype: Dtype) -> Option<[f32; 256]> {
    // Each tuple contains the number of mantissa bits, the exponent bias, and whether the dtype has
    // infinities.
    let (mantissa, bias, has_infinities) = match dtype {
        Dtype::F8_E4M3 => (3, 7, false),
        Dtype::F8_E5M2 => (2, 15, true),
        _ => return None,
    };
    let number = |code: u8| {
        let (exponent, fraction) = (i32::from(code & 0x7f) >> mantissa, code & ((1 << mantissa) - 1));
        let steps = f32::from(1_u8 << mantissa);
        let size = match exponent {
            31 if has_infinities && fraction == 0 => f32::INFINITY,
            31 if has_infinities => f32::NAN,
            15 if !has_infinities && fraction == 7 => f32::NAN,
            0 => f32::from(fraction) / steps * 2_f32.powi(1 - bias),
            _ => (1.0 + f32::from(fraction) / steps) * 2_f32.powi(exponent - bias),
        };
        if code & 0x80 == 0 { size } else { -size }
    };
    let codes: [u8; 256] = std::array::from_fn(|code| u8::try_from(code).unwrap_or(u8::MAX));
    Some(codes.map(number))
}

/// Returns the range of zero points that torch allows for a dtype.
fn zero_points_of(dtype: Dtype) -> std::ops::RangeInclusive<i64> {
    match dtype {
        Dtype::QI8 => i8::MIN.into()..=i8::MAX.into(),
        Dtype::QI32 => i32::MIN.into()..=i32::MAX.into(),
        _ => 0..=u8::MAX.into(),
    }
}

/// The rule that converts the integers of a tensor to floats.
enum Rule {
    PerTensor {
        scale: f32,
        zero_point: i32,
    },
    PerChannel {
        scales: Vec<f64>,
        zero_points: Vec<f32>,
    },
    FloatPerChannel {
        scales: Vec<f32>,
        zero_points: Vec<f32>,
    },
    /// The codes are 8-bit floats.
    Float8 {
        numbers: Box<[f32; 256]>,
        scales: Vec<f32>,
    },
}

impl Rule {
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "torch rounds here")]
    fn apply(&self, integer: i32, channel: usize) -> f32 {
        match self {
            Self::PerTensor { scale, zero_point } => integer.wrapping_sub(*zero_point) as f32 * scale,
            Self::PerChannel { scales, zero_points } => {
                (f64::from(integer as f32 - zero_points[channel]) * scales[channel]) as f32
            }
            Self::FloatPerChannel { scales, zero_points } => {
                (integer as f32 - zero_points[channel]) * scales[channel]
            }
            Self::Float8 { numbers, scales } => {
                numbers[usize::from(integer.to_le_bytes()[0])] * scales[channel]
            }
        }
    }
}

impl Dequantized {
    pub(super) fn decode(
        &self,
        source: &dyn Source,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let rule = self.rule(source, context)?;
        // The channel of the next element, and the number of remaining elements in the current run
        // of that channel.
        let (mut channel, mut run) = (0, 0);
        let mut left = self.elements;
        let mut floats = Vec::new();
        let mut overflows = false;
        self.stored.stream(source, context, &mut |stored| {
            floats.clear();
            self.integers(stored, &mut |integer| {
                if left == 0 {
                    return;
                }
                if run == 0 {
                    (channel, run) = self.channel_at(self.elements - left);
                }
                left -= 1;
                run -= 1;
                let float = rule.apply(integer, channel);
                match self.to {
                    Dtype::F16 => {
                        let half = f16::from_f32(float);
                        overflows |= half.is_infinite() && float.is_finite();
                        floats.extend_from_slice(&half.to_le_bytes());
                    }
                    Dtype::BF16 => floats.extend_from_slice(&bf16::from_f32(float).to_le_bytes()),
                    _ => floats.extend_from_slice(&float.to_le_bytes()),
                }
            });
            if overflows {
                return Err(Error::unsupported("a value of a quantized tensor exceeds the range of F16")
                    .expected("at most 65504; use BF16 or F32 for larger values"));
            }
            output.write(&floats)
        })
    }

    /// Returns the channel or block that contains an element. Also returns the number of contiguous
    /// elements in this channel or block, starting with that element.
    fn channel_at(&self, element: u64) -> (usize, u64) {
        let (channel, run) = match &self.parameters {
            Parameters::PerTensor { .. } => (0, self.elements),
            Parameters::PerChannel { channels, run, .. } => {
                (element / (*run).max(1) % (*channels).max(1), *run)
            }
            Parameters::Blocks { blocks, .. } => blocks.at(element),
        };
        // The number fits in `usize`, because the scales of all channels are in memory.
        (usize::try_from(channel).unwrap_or(usize::MAX), run.max(1))
    }

    fn integers(&self, stored: &[u8], take: &mut dyn FnMut(i32)) {
        match self.dtype {
            Dtype::QI8 | Dtype::I8 => stored.iter().for_each(|&byte| take(byte.cast_signed().into())),
            Dtype::QI32 => stored.as_chunks().0.iter().for_each(|&bytes| take(i32::from_le_bytes(bytes))),
            Dtype::QU4X2 => {
                stored.iter().flat_map(|&byte| [byte & 15, byte >> 4]).for_each(|q| take(q.into()));
            }
            Dtype::QU2X4 => {
                let parts = |&byte: &u8| [0, 2, 4, 6].map(|bits| byte >> bits & 3);
                stored.iter().flat_map(parts).for_each(|q| take(q.into()));
            }
            _ => stored.iter().for_each(|&byte| take(byte.into())),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "torch rounds here")]
    fn rule(&self, source: &dyn Source, context: &dyn Context) -> Result<Rule> {
        let narrow = |numbers: Vec<f64>| numbers.into_iter().map(|number| number as f32).collect();
        Ok(match &self.parameters {
            Parameters::PerTensor { scale, zero_point } => Rule::PerTensor {
                scale: f64::from_bits(*scale) as f32,
                zero_point: i32::try_from(*zero_point).map_err(|_| self.out_of_range(*zero_point))?,
            },
            Parameters::PerChannel { scales, zero_points, are_floats, .. } => {
                let (scales, zero_points) =
                    (scales.read(source, context)?, zero_points.read(source, context)?);
                if *are_floats {
                    Rule::FloatPerChannel { scales: narrow(scales), zero_points: narrow(zero_points) }
                } else {
                    let range = zero_points_of(self.dtype);
                    let odd = zero_points.iter().find(|&&point| !range.contains(&(point as i64)));
                    if let Some(&odd) = odd {
                        return Err(self.out_of_range(odd));
                    }
                    Rule::PerChannel { scales, zero_points: narrow(zero_points) }
                }
            }
            Parameters::Blocks { scales, zero_points, .. } => {
                let scales: Vec<f32> = narrow(scales.read(source, context)?);
                match (float8_numbers(self.dtype), zero_points) {
                    (Some(numbers), _) => Rule::Float8 { numbers: Box::new(numbers), scales },
                    (None, Some(zero_points)) => {
                        let zero_points = narrow(zero_points.read(source, context)?);
                        Rule::FloatPerChannel { scales, zero_points }
                    }
                    (None, None) => Rule::FloatPerChannel { zero_points: vec![0.0; scales.len()], scales },
                }
            }
        })
    }

    /// Checks that the zero points are in the range that torch allows.
    pub(crate) fn check(&self) -> Result<()> {
        match self.parameters {
            Parameters::PerTensor { zero_point, .. } if !zero_points_of(self.dtype).contains(&zero_point) => {
                Err(self.out_of_range(zero_point))
            }
            _ => Ok(()),
        }
    }

    fn out_of_range(&self, zero_point: impl std::fmt::Display) -> Error {
        let range = zero_points_of(self.dtype);
        Error::malformed("a quantized tensor's zero point is out of range")
            .expected(format!("{} to {}", range.start(), range.end()))
            .found(zero_point)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::lazy::stored::tests::view;
    use tensorferry_sdk::{MemoryContext, MemorySource};

    fn dequantized(dtype: Dtype, stored: &[u8], elements: u64, parameters: Parameters) -> Result<Vec<f32>> {
        let width = if dtype == Dtype::QI32 { 4 } else { 1 };
        let len = stored.len() as u64;
        let stored_as = if dtype == Dtype::QI32 { dtype } else { Dtype::U8 };
        let view = view(stored_as, len, &[len / width], &[1]);
        let dequantized = Dequantized { stored: view, dtype, elements, parameters, to: Dtype::F32 };
        let mut made = Vec::new();
        dequantized.decode(&MemorySource::file("x", stored), &mut made, &MemoryContext::default())?;
        Ok(made.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
    }

    fn per_channel(scales: &[f64], zero_points: &[f64], are_floats: bool, run: u64) -> Parameters {
        let given =
            |numbers: &[f64]| ChannelValues::Listed(numbers.iter().map(|number| number.to_bits()).collect());
        let channels = scales.len() as u64;
        Parameters::PerChannel {
            scales: given(scales),
            zero_points: given(zero_points),
            are_floats,
            channels,
            run,
        }
    }

    #[test]
    fn each_scheme_rounds_where_torch_does() {
        let scale = 0.1_f64;
        let per_tensor = Parameters::PerTensor { scale: scale.to_bits(), zero_point: -3 };
        assert_eq!(
            dequantized(Dtype::QI8, &[0, 255], 2, per_tensor).unwrap(),
            [3.0 * 0.1_f32, 2.0 * 0.1_f32]
        );
        let affine = per_channel(&[0.1, 0.7], &[0.0, 1.0], false, 1);
        #[expect(clippy::cast_possible_truncation, reason = "torch rounds here")]
        let expected = [3.0 * 0.1_f64, 6.0 * 0.7_f64, 5.0 * 0.1_f64].map(|value| value as f32);
        assert_eq!(dequantized(Dtype::QU8, &[3, 7, 5], 3, affine).unwrap(), expected);
        let floats = per_channel(&[0.1, 0.7], &[0.5, 1.5], true, 2);
        let expected = [2.5 * 0.1_f32, 6.5 * 0.1_f32, 3.5 * 0.7_f32];
        assert_eq!(dequantized(Dtype::QU8, &[3, 7, 5], 3, floats).unwrap(), expected);
    }

    #[test]
    fn blocks_have_scales_of_their_own() {
        let given = |numbers: &[f64]| ChannelValues::Listed(numbers.iter().map(|n| n.to_bits()).collect());
        let blocks = Blocks::new(&[2, 4], &[1, 2]).unwrap();
        assert_eq!(blocks.counts(), [2, 2]);
        let (scales, zero_points) = (given(&[1.0, 10.0, 100.0, 1000.0]), given(&[0.0, 1.0, 0.0, -1.0]));
        let parameters =
            |zero_points| Parameters::Blocks { scales: scales.clone(), zero_points, blocks: blocks.clone() };
        let codes = [1, 2, 3, 4, 5, 6, 255, 8];
        let expected = [1.0, 2.0, 20.0, 30.0, 500.0, 600.0, 0.0, 9000.0];
        let made = dequantized(Dtype::I8, &codes, 8, parameters(Some(zero_points)));
        assert_eq!(made.unwrap(), expected);
        let made = dequantized(Dtype::F8_E4M3, &[0x38, 0xb8, 1, 0x7e, 0, 0, 0, 0x40], 8, parameters(None));
        assert_eq!(made.unwrap(), [1.0, -1.0, 10.0 / 512.0, 4480.0, 0.0, 0.0, 0.0, 2000.0]);
        assert!(Blocks::new(&[2, 3], &[1, 2]).is_none() && Blocks::new(&[2], &[0]).is_none());
        let numbers = float8_numbers(Dtype::F8_E5M2).unwrap();
        assert_eq!((numbers[0x3c], numbers[0x7b], numbers[1]), (1.0, 57344.0, 2_f32.powi(-16)));
        assert!(numbers[0x7d].is_nan() && numbers[0xfc] == f32::NEG_INFINITY);
    }

    #[test]
    fn packed_integers_begin_with_the_lowest_bits_and_end_where_the_tensor_does() {
        let one = || Parameters::PerTensor { scale: 1_f64.to_bits(), zero_point: 0 };
        assert_eq!(dequantized(Dtype::QU4X2, &[0x21, 0x43], 3, one()).unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!(dequantized(Dtype::QU2X4, &[0b11_10_01_00], 4, one()).unwrap(), [0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn zero_points_out_of_range_are_refused() {
        let affine = per_channel(&[0.1, 0.7], &[0.0, 128.0], false, 1);
        assert!(dequantized(Dtype::QI8, &[1, 2], 2, affine).is_err());
        let wide = Parameters::PerTensor { scale: 0, zero_point: 1 << 40 };
        assert!(dequantized(Dtype::QI32, &[0; 4], 1, wide).is_err());
    }
}
