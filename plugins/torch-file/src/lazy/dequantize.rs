//! Computes the floats that a quantized tensor stands for, bit for bit as torch's `dequantize()` does on a CPU.
//!
//! ```text
//! per tensor                  f32(q - zero_point) * f32(scale)
//! per channel                 f32(f64(f32(q) - f32(zero_point)) * scale)
//! per channel, float qparams  (f32(q) - f32(zero_point)) * f32(scale)
//! ```
//! Source: `aten/src/ATen/native/quantized/cpu/kernels/QuantizedOpKernels.cpp` of PyTorch; a Python
//! session compared each of them with torch on random values.

use super::{StoredView, as_usize};
use half::{bf16, f16};
use tensorferry_sdk::{ByteSink, Context, Dtype, Error, Result, Source};

/// A quantized tensor's integers, and what they stand for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Dequantized {
    /// The integers; where several share a byte, the bytes.
    pub(crate) stored: StoredView,
    /// The quantized dtype.
    pub(crate) dtype: Dtype,
    /// How many integers there are.
    pub(crate) elements: u64,
    pub(crate) parameters: Parameters,
    /// What they become: F32, or with one rounding F16 or BF16.
    pub(crate) to: Dtype,
}

/// A tensor's scales and zero points.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Parameters {
    /// One of each; the scale by its bits.
    PerTensor { scale: u64, zero_point: i64 },
    /// One of each for each index of a dimension.
    PerChannel {
        scales: ChannelValues,
        zero_points: ChannelValues,
        /// Whether the zero points are floats.
        are_floats: bool,
        channels: u64,
        /// How many elements in a row have the same index.
        run: u64,
    },
}

/// The scales or zero points of channels: a tensor or a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ChannelValues {
    Stored(StoredView),
    /// By their bits.
    Given(Vec<u64>),
}

impl ChannelValues {
    /// Whether [`read`](Self::read) knows the dtype.
    pub(crate) fn reads(dtype: Dtype) -> bool {
        matches!(dtype, Dtype::F64 | Dtype::F32 | Dtype::I64 | Dtype::I32)
    }

    fn read(&self, source: &dyn Source, context: &dyn Context) -> Result<Vec<f64>> {
        let view = match self {
            Self::Given(bits) => return Ok(bits.iter().copied().map(f64::from_bits).collect()),
            Self::Stored(view) => view,
        };
        let bytes = view.read(source, context)?;
        let (eights, fours) = (bytes.as_chunks().0.iter(), bytes.as_chunks().0.iter());
        Ok(match view.dtype {
            Dtype::F32 => fours.map(|&bytes| f32::from_le_bytes(bytes).into()).collect(),
            Dtype::I32 => fours.map(|&bytes| i32::from_le_bytes(bytes).into()).collect(),
            // Beyond 53 bits a zero point is out of range anyway.
            #[expect(clippy::cast_precision_loss, reason = "checked_zero_points refuses what is long")]
            Dtype::I64 => eights.map(|&bytes| i64::from_le_bytes(bytes) as f64).collect(),
            _ => eights.map(|&bytes| f64::from_le_bytes(bytes)).collect(),
        })
    }
}

/// The zero points that torch allows for a dtype.
fn zero_points_of(dtype: Dtype) -> std::ops::RangeInclusive<i64> {
    match dtype {
        Dtype::QI8 => i8::MIN.into()..=i8::MAX.into(),
        Dtype::QI32 => i32::MIN.into()..=i32::MAX.into(),
        _ => 0..=u8::MAX.into(),
    }
}

/// What one integer stands for.
enum Rule {
    PerTensor { scale: f32, zero_point: i32 },
    PerChannel { scales: Vec<f64>, zero_points: Vec<f32> },
    FloatPerChannel { scales: Vec<f32>, zero_points: Vec<f32> },
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
        let (channels, run) = match self.parameters {
            Parameters::PerTensor { .. } => (1, self.elements),
            Parameters::PerChannel { channels, run, .. } => (as_usize(channels)?, run),
        };
        // The channel of the next element, and how many of its run are done.
        let (mut channel, mut done) = (0, 0);
        let mut left = self.elements;
        let mut floats = Vec::new();
        let mut overflows = false;
        self.stored.stream(source, context, &mut |stored| {
            floats.clear();
            self.integers(stored, &mut |integer| {
                if left == 0 {
                    return;
                }
                left -= 1;
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
                done += 1;
                if done == run {
                    done = 0;
                    channel = if channel + 1 == channels { 0 } else { channel + 1 };
                }
            });
            if overflows {
                return Err(Error::unsupported("a quantized tensor stands for a number beyond F16")
                    .expected("at most 65504; BF16 and F32 hold it"));
            }
            output.write(&floats)
        })
    }

    fn integers(&self, stored: &[u8], take: &mut dyn FnMut(i32)) {
        match self.dtype {
            Dtype::QI8 => stored.iter().for_each(|&byte| take(byte.cast_signed().into())),
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
        })
    }

    /// A zero point that torch refuses when it makes floats is an error.
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
            |numbers: &[f64]| ChannelValues::Given(numbers.iter().map(|number| number.to_bits()).collect());
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
