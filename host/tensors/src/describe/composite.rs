//! A composite is a weight that consists of several tensors: codes, scales, and zero points.

use crate::steps::dequantize::QuantizedWeight;
use serde::Serialize;
use tensorferry_sdk::{Catalog, TensorId, element_count};

/// A weight that consists of several tensors.
#[derive(Debug, Serialize)]
pub struct Composite {
    /// The name of the dequantized weight.
    pub name: String,
    /// The dimensions of the dequantized weight.
    pub shape: Vec<u64>,
    /// Total size in bytes of the tensors that the weight consists of.
    pub bytes: u64,
    /// Number of stored bits per number in the weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits_per_weight: Option<f64>,
    /// The names of the tensors that the weight consists of.
    pub parts: Vec<String>,
    /// The tensor that the dequantized weight replaces.
    #[serde(skip)]
    pub(super) place: TensorId,
}

impl Composite {
    /// Returns the number of elements of the dequantized weight.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        element_count(&self.shape).unwrap_or(u64::MAX)
    }

    pub(super) fn of(weight: &QuantizedWeight, catalog: &Catalog) -> Self {
        let parts = || weight.parts.iter().filter_map(|part| catalog.tensor(*part));
        let bytes = parts().map(|part| part.bytes).fold(0, u64::saturating_add);
        Self {
            name: weight.name.clone(),
            shape: weight.shape.clone(),
            bytes,
            bits_per_weight: bits(bytes, element_count(&weight.shape).unwrap_or(u64::MAX)),
            parts: parts().map(|part| part.name.clone()).collect(),
            place: weight.place,
        }
    }

    /// Returns whether the weight has its own bytes, rather than being tied to an earlier weight.
    pub(super) fn is_own(&self, ties: &[TensorId]) -> bool {
        ties.get(self.place.0 as usize).is_none_or(|first| *first == self.place)
    }
}

/// Returns the number of bits per number, rounded to two decimals.
pub(super) fn bits(bytes: u64, numbers: u64) -> Option<f64> {
    (numbers > 0).then(|| (bytes as f64 * 800.0 / numbers as f64).round() / 100.0)
}
