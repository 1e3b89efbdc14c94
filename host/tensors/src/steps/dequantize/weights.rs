//! Quantized weights. Each weight consists of several tensors: codes, scales, zero points. The step
//! `dequantize` computes these weights, and a model description counts them. Operations that need
//! numbers reject the codes.
//!
//! Codes are recognized by the location of their bytes, so codes are still recognized after other
//! steps rename or split them.

use super::computed::Weight;
use super::layers::Layers;
use super::names::{self, UnknownCodes, may_hold_codes, named};
use super::scheme::{CHATGLM, Scheme};
use super::{bitsandbytes, by_columns, compressed_tensors, float8, mlx, mxfp4};
use crate::steps::model_facts::ModelFacts;
use std::collections::{BTreeMap, HashSet};
use tensorferry_sdk::{Catalog, Data, Dtype, Error, Result, StorageId, Tensor, TensorId};

/// A quantized weight, and the tensors that it consists of.
#[derive(Debug, Clone)]
pub struct QuantizedWeight {
    /// The name of the dequantized weight.
    pub name: String,
    /// The dimensions of the dequantized weight.
    pub shape: Vec<u64>,
    /// The tensor that the dequantized weight replaces.
    pub place: TensorId,
    /// All tensors that the weight consists of.
    pub parts: Vec<TensorId>,
}

/// A description of how the weights of a model were quantized.
#[derive(Debug)]
pub struct QuantizedModel {
    pub method: String,
    /// The number of bits and the group size, or the variant of the method.
    pub variant: Option<String>,
    /// The weights whose quantization method is supported.
    pub weights: Vec<QuantizedWeight>,
    /// The reason why some or all weights cannot be dequantized.
    pub problem: Option<Error>,
}

/// All quantized weights of a model, and the remaining codes.
pub(super) struct FoundWeights<'a> {
    /// The common names of the methods with which the weights were quantized.
    pub(super) method: String,
    pub(super) weights: Vec<Weight<'a>>,
    /// Codes whose method is determined neither by a configuration nor by tensor names.
    pub(super) unknown: Vec<UnknownCodes<'a>>,
}

/// Finds all quantized weights, first by the scheme of the configuration, and then by tensor names.
pub(super) fn find<'a>(
    scheme: Option<&Scheme>,
    layers: &'a Layers<'a>,
    may_lack_scale: bool,
) -> Result<FoundWeights<'a>> {
    if matches!(scheme, Some(Scheme::Uncovered(name)) if name == CHATGLM) {
        // The tensors have the names of 8-bit codes, but may contain 4-bit codes.
        let unknown = names::codes(layers);
        return Ok(FoundWeights { method: CHATGLM.to_owned(), weights: Vec::new(), unknown });
    }
    let mut weights = match scheme {
        Some(scheme) => of_scheme(scheme, layers, may_lack_scale)?,
        None => Vec::new(),
    };
    let taken: HashSet<TensorId> =
        weights.iter().flat_map(|weight| weight.layer.parts.iter().copied()).collect();
    let found = named(layers, &taken, may_lack_scale)?;
    let own =
        scheme.filter(|scheme| !weights.is_empty() || !matches!(scheme, Scheme::Mlx(_))).map(Scheme::name);
    let mut methods: Vec<&str> =
        own.into_iter().filter(|_| !weights.is_empty() || found.methods.is_empty()).collect();
    methods.extend(found.methods.iter().filter(|method| Some(**method) != own));
    let method = methods.join(", ");
    weights.extend(found.weights);
    let mut unknown = found.unknown;
    if scheme.is_some() && weights.is_empty() && unknown.is_empty() {
        unknown = names::possible_codes(layers);
    }
    Ok(FoundWeights { method, weights, unknown })
}

/// Returns all weights that a scheme describes, or no weights if the scheme is not supported.
fn of_scheme<'a>(scheme: &Scheme, layers: &'a Layers<'a>, may_lack_scale: bool) -> Result<Vec<Weight<'a>>> {
    match scheme {
        Scheme::Bitsandbytes => bitsandbytes::weights(layers),
        Scheme::Gptq(packings) => by_columns::gptq(layers, packings),
        Scheme::Awq(packings) => by_columns::awq(layers, packings),
        Scheme::CompressedTensors(facts) => compressed_tensors::weights(layers, facts, may_lack_scale),
        Scheme::Fp8 { block } => float8::weights(layers, *block, may_lack_scale),
        Scheme::Modelopt => float8::weights(layers, None, may_lack_scale),
        Scheme::Mxfp4 => mxfp4::weights(layers),
        Scheme::Mlx(facts) => mlx::weights(layers, facts),
        Scheme::Uncovered(_) => Ok(Vec::new()),
    }
}

/// Describes how a model's weights were quantized, or returns `None` if neither a configuration nor
/// tensor names show that they were quantized. For weights that cannot be dequantized, the
/// description may be incomplete.
#[must_use]
pub fn quantized(catalog: &Catalog, model: &ModelFacts<'_>) -> Option<QuantizedModel> {
    if model.input.codes_are_numbers {
        return None;
    }
    let (scheme, mut problem) = match Scheme::of(&model.config) {
        Ok(scheme) => (scheme, None),
        Err(error) => (None, Some(error)),
    };
    let is_said = scheme.is_some() || problem.is_some();
    if !is_said && !may_hold_codes(catalog) {
        return None;
    }
    let layers = Layers::of(catalog, Some(model));
    let found = [false, true].into_iter().find_map(|may_lack_scale| {
        let found = find(scheme.as_ref(), &layers, may_lack_scale);
        found.map_err(|error| problem = problem.take().or(Some(error))).ok()
    });
    let mut found = found.unwrap_or_else(|| FoundWeights {
        method: scheme.as_ref().map_or("", Scheme::name).to_owned(),
        weights: Vec::new(),
        unknown: names::codes(&layers),
    });
    if is_said && found.weights.is_empty() && found.unknown.is_empty() {
        found.unknown = names::possible_codes(&layers);
    }
    if !is_said && found.weights.is_empty() && found.unknown.is_empty() && problem.is_none() {
        return None;
    }
    let problem = problem.or_else(|| match (&scheme, &*found.unknown) {
        (Some(Scheme::Uncovered(_)), _) => {
            Some(Error::unsupported("dequantize does not support the packing of these weights"))
        }
        (_, [first, ..]) => Some(first.error()),
        _ => None,
    });
    let weights = found.weights.into_iter().map(|weight| {
        let Weight { layer, mut shape, is_turned, .. } = weight;
        let last = shape.len().saturating_sub(1);
        if is_turned {
            shape.swap(last - 1, last);
        }
        QuantizedWeight {
            name: layer.name,
            shape,
            place: layer.place,
            parts: layer.parts.into_iter().collect(),
        }
    });
    let unknown = found.unknown.iter().filter_map(|codes| {
        let place = layers.id(codes.name)?;
        let shape = catalog.tensor(place)?.shape.clone();
        let parts = std::iter::once(place).chain(layers.id(&codes.sibling)).collect();
        Some(QuantizedWeight { name: codes.name.to_owned(), shape, place, parts })
    });
    let weights = weights.chain(unknown).collect();
    let declared = model.config.quantization();
    let named = declared.and_then(|declared| declared.facts.get("quant_method")?.as_str());
    let method = match (&*found.method, named) {
        ("", Some(named)) => named.to_owned(),
        ("", None) => "a method that its configuration does not name".to_owned(),
        (method, _) => method.to_owned(),
    };
    Some(QuantizedModel { method, variant: scheme.and_then(|scheme| scheme.variant()), weights, problem })
}

/// The dtypes of scales that are stored as plain numbers.
const SCALES: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16];

/// The tensors of an input that are codes, and the scales of these codes. Codes and scales are
/// identified by the location of their bytes, so that they are still found after steps rename or
/// split them.
#[derive(Debug, Default)]
pub struct StoredCodes {
    /// A map from the storage and start offset of each tensor to the tensor's end offset, and
    /// whether the tensor contains scales.
    stored: BTreeMap<(StorageId, u64), (u64, bool)>,
    /// The common name of the quantization method.
    method: String,
    /// Whether the step `dequantize` supports all quantized weights.
    can_be_dequantized: bool,
}

impl StoredCodes {
    /// Finds the codes of a model's input.
    #[must_use]
    pub fn of(model: &ModelFacts<'_>) -> Self {
        let catalog = &model.input.catalog;
        if !may_hold_codes(catalog) {
            return Self::default();
        }
        let Some(QuantizedModel { method, weights, problem, .. }) = quantized(catalog, model) else {
            return Self::default();
        };
        let mut stored = BTreeMap::new();
        for weight in &weights {
            for id in &weight.parts {
                let Some(tensor) = catalog.tensor(*id) else { continue };
                let is_scale = *id != weight.place && SCALES.contains(&tensor.dtype);
                if *id != weight.place && !is_scale && !names::is_of_codes(tensor.dtype) {
                    continue;
                }
                for (storage, offset) in places(tensor) {
                    stored.insert((storage, offset), (offset.saturating_add(tensor.bytes), is_scale));
                }
            }
        }
        Self { stored, method, can_be_dequantized: problem.is_none() }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    /// Returns whether a tensor contains bytes of codes.
    #[must_use]
    pub fn has(&self, tensor: &Tensor) -> bool {
        self.is_scale(tensor) == Some(false)
    }

    /// Returns whether a tensor contains bytes of scales that codes need.
    #[must_use]
    pub(crate) fn has_scale(&self, tensor: &Tensor) -> bool {
        self.is_scale(tensor) == Some(true)
    }

    /// Returns whether the step `dequantize` supports all weights with codes.
    #[must_use]
    pub(crate) fn can_be_dequantized(&self) -> bool {
        self.can_be_dequantized
    }

    /// Returns the common name of the quantization method.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Returns the error for an operation that needs numbers but finds codes. `step` describes the
    /// step that computes the numbers, in words that fit after "use" in the hint.
    #[must_use]
    pub fn error(&self, tensor: &Tensor, step: &str) -> Error {
        let dtype = tensor.dtype.info().map_or("", |info| info.name());
        let hint = match self.can_be_dequantized {
            true => format!("use {step} to get the weight, or -i codes=numbers to use the codes as they are"),
            false => "pass -i codes=numbers to use the codes as they are".to_owned(),
        };
        let codes = format!("{dtype} codes of a quantized weight ({})", self.method);
        Error::usage(format!("the tensor holds {codes}, not its numbers")).tensor(&tensor.name).hint(hint)
    }

    /// Returns whether a tensor contains scales, or `None` if it contains neither codes nor scales.
    fn is_scale(&self, tensor: &Tensor) -> Option<bool> {
        if self.stored.is_empty() {
            return None;
        }
        places(tensor).find_map(|(storage, offset)| {
            let (place, (end, is_scale)) = self.stored.range(..=(storage, offset)).next_back()?;
            (place.0 == storage && offset < *end).then_some(*is_scale)
        })
    }
}

/// Iterates over the locations at which a tensor's blocks start.
fn places(tensor: &Tensor) -> impl Iterator<Item = (StorageId, u64)> {
    let blocks = if matches!(tensor.data, Data::Empty) { None } else { Some(tensor.blocks()) };
    blocks.into_iter().flatten().map(|block| (block.storage, block.offset))
}
