//! Counts for a model: the true number of parameters, the bits per parameter, and the sizes by
//! dtype.

use super::composite::{Composite, bits};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use tensorferry_sdk::{Catalog, Dtype, element_count};

#[derive(Debug, Default, Serialize)]
pub struct Count {
    /// Number of elements in the weights. Tied weights are counted once, and strings are not
    /// counted. For a weight that consists of several tensors, the elements of the dequantized
    /// weight are counted.
    pub parameters: u64,
    /// Number of stored bits per parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits_per_parameter: Option<f64>,
    /// Counts of the stored tensors, by dtype name.
    pub dtypes: BTreeMap<String, DtypeCount>,
}

/// Counts of the stored tensors of one dtype.
#[derive(Debug, Default, Serialize)]
pub struct DtypeCount {
    /// Number of tensors.
    pub tensors: u64,
    pub bytes: u64,
    /// Whether the numbers are stored in blocks that share a scale.
    #[serde(skip)]
    pub(crate) is_blocks: bool,
}

impl Count {
    /// Counts the tensors of a catalog. Some weights in the catalog may consist of several tensors.
    pub(super) fn of(catalog: &Catalog, weights: &[Composite]) -> Self {
        let mut dtypes: BTreeMap<String, DtypeCount> = BTreeMap::new();
        for tensor in catalog.tensors() {
            let name = catalog.dtype_info(tensor.dtype).map_or("?", |info| info.name());
            if !dtypes.contains_key(name) {
                let is_blocks = tensor.dtype.info().is_none()
                    && catalog.dtype_info(tensor.dtype).is_some_and(|info| info.block_elements() > 1);
                dtypes.insert(name.to_owned(), DtypeCount { is_blocks, ..DtypeCount::default() });
            }
            if let Some(of_dtype) = dtypes.get_mut(name) {
                of_dtype.tensors += 1;
                of_dtype.bytes = of_dtype.bytes.saturating_add(tensor.bytes);
            }
        }
        // The number of parameters to count for each part of a weight. A weight's parameters are
        // all counted for its first part, and none are counted for its other parts.
        let mut of_weights: HashMap<&str, Option<u64>> = HashMap::new();
        for weight in weights {
            for (number, part) in weight.parts.iter().enumerate() {
                let count = (number == 0).then(|| weight.parameters());
                of_weights.entry(part).and_modify(|known| *known = known.or(count)).or_insert(count);
            }
        }
        let (mut parameters, mut bytes) = (0_u64, 0_u64);
        for (index, (tensor, tie)) in catalog.tensors().iter().zip(catalog.ties()).enumerate() {
            if tie.0 as usize != index || tensor.dtype == Dtype::STR {
                continue;
            }
            let own = || element_count(&tensor.shape).unwrap_or(u64::MAX);
            let counted = of_weights.get(tensor.name.as_str());
            let count = counted.map_or_else(own, |of_weight| of_weight.unwrap_or(0));
            parameters = parameters.saturating_add(count);
            bytes = bytes.saturating_add(tensor.bytes);
        }
        Self { parameters, bits_per_parameter: bits(bytes, parameters), dtypes }
    }
}
