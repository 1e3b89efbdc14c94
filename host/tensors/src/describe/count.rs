//! Counts of a model: its true parameters, the bits that they take, and the sizes by dtype.

use super::composite::{Composite, bits};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use tensorferry_sdk::{Catalog, Dtype, element_count};

/// What there is of each.
#[derive(Debug, Default, Serialize)]
pub struct Count {
    /// Numbers in the weights, those of tied ones once. A weight that is several tensors counts as itself; what holds text
    /// counts not at all.
    pub parameters: u64,
    /// Bits of all that is stored, for each of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits_per_parameter: Option<f64>,
    /// What is stored, by the names of the dtypes.
    pub dtypes: BTreeMap<String, DtypeCount>,
}

/// What is stored of a dtype.
#[derive(Debug, Default, Serialize)]
pub struct DtypeCount {
    /// How many tensors.
    pub tensors: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether its numbers share a scale.
    #[serde(skip)]
    pub(crate) is_blocks: bool,
}

impl Count {
    /// What a catalog holds, of which some weights are several tensors.
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
        // The part that a weight is counted with, and those that are not counted.
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
