//! Computes Llama 3's scaling factors for rotary frequencies. Low frequencies are divided by a
//! factor, and high frequencies are unchanged. Between these two ranges, the factor changes
//! gradually (`_compute_llama3_parameters` in transformers' `modeling_rope_utils.py`). llama.cpp
//! does not compute the factors, but reads them from a tensor.

use crate::folder::impossible_value as malformed;
use std::f32::consts::PI;
use tensorferry_sdk::Result;

/// Maximum size of an attention head, which limits the memory for the factors. Real models have
/// attention heads of 64 to 256 numbers.
const MAX_HEAD: u64 = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Llama3 {
    pub(crate) factor: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Context length of the original model, whose context was later extended.
    pub(crate) context: f64,
}

impl Llama3 {
    /// Returns a factor for each pair of numbers in a head. `theta` is the base of the rotary
    /// frequencies.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "the factors are F32")]
    pub(crate) fn factors(&self, theta: f64, head: u64) -> Result<Vec<f32>> {
        let Self { factor, low, high, context } = *self;
        let is_valid =
            [factor, low, high, context, theta].iter().all(|number| number.is_finite() && *number > 0.0);
        if !is_valid || low >= high || head > MAX_HEAD {
            return Err(malformed("rope_scaling")
                .expected("positive factors, with the low one below the high one")
                .found(format!("{self:?}, head size {head}")));
        }
        let factor_of = |pair: u64| {
            let exponent = (2 * pair) as f32 / head as f32;
            // A rounded F64 gives the same bits on every system.
            let power = libm::pow(f64::from(theta as f32), f64::from(exponent));
            let frequency = 1.0 / power as f32;
            let wave = f64::from(2.0 * PI / frequency);
            if wave < context / high {
                1.0
            } else if wave > context / low {
                factor as f32
            } else {
                let smooth = (context / wave - low) / (high - low);
                (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
            }
        };
        Ok((0..head / 2).map(factor_of).collect())
    }

    /// Returns the parameters that produce these factors. The function tries only the parameters of
    /// published models.
    pub(crate) fn from_factors(factors: &[f32], theta: f64, head: u64) -> Option<Self> {
        let factor = f64::from(factors.iter().copied().fold(1.0, f32::max));
        let parameters = Self { factor, low: 1.0, high: 4.0, context: 8192.0 };
        let again = parameters.factors(theta, head).ok()?;
        let is_near = |(one, other): (&f32, &f32)| (one - other).abs() <= 1e-5 * one.abs();
        (again.len() == factors.len() && again.iter().zip(factors).all(is_near)).then_some(parameters)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn factors_go_from_one_to_the_factor_and_back() {
        let parameters = Llama3 { factor: 8.0, low: 1.0, high: 4.0, context: 8192.0 };
        let factors = parameters.factors(500_000.0, 128).unwrap();
        assert_eq!((factors.len(), factors[0], factors[63]), (64, 1.0, 8.0));
        assert!(factors.is_sorted() && factors.iter().any(|factor| (1.1..7.9).contains(factor)));
        assert_eq!(Llama3::from_factors(&factors, 500_000.0, 128), Some(parameters));
        assert_eq!(Llama3::from_factors(&factors[..60], 500_000.0, 128), None);
        let wrong = Llama3 { low: 4.0, ..parameters };
        assert!(wrong.factors(500_000.0, 128).is_err() && parameters.factors(f64::NAN, 128).is_err());
    }
}
