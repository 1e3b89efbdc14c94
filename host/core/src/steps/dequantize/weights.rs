//! The weights of a model that are stored as several tensors each: codes, scales, zero points. The step computes them,
//! and whoever shows a model counts them.

use super::computed::Weight;
use super::layers::Layers;
use super::scheme::Scheme;
use super::{bitsandbytes, by_columns, compressed_tensors, float8, mlx, mxfp4};
use crate::steps::model_facts::ModelFacts;
use tensorferry_sdk::{Catalog, Error, Result, TensorId};

/// A weight, and the tensors that it is made of.
#[derive(Debug, Clone)]
pub struct QuantizedWeight {
    /// The name that it has once it is dequantised.
    pub name: String,
    /// The dimensions that it has then.
    pub shape: Vec<u64>,
    /// The tensor in whose place it comes.
    pub place: TensorId,
    /// All tensors that it is made of.
    pub parts: Vec<TensorId>,
}

/// How the weights of a model were quantised.
#[derive(Debug)]
pub struct QuantizedModel {
    /// The method's name.
    pub method: String,
    /// How many bits, which groups, which variant.
    pub variant: Option<String>,
    /// The weights, as far as they are understood.
    pub weights: Vec<QuantizedWeight>,
    /// Why they are not dequantised, or why not all of them.
    pub problem: Option<Error>,
}

/// All weights that a scheme covers; `None` for one that is not dequantised here.
///
/// # Errors
/// Malformed, for parts that are missing or do not fit; unsupported, for variants that pack otherwise.
pub(super) fn of_scheme<'a>(
    scheme: &Scheme,
    layers: &'a Layers<'a>,
    may_lack_scale: bool,
) -> Result<Option<Vec<Weight<'a>>>> {
    let weights = match scheme {
        Scheme::Bitsandbytes => bitsandbytes::weights(layers),
        Scheme::Gptq(packing) => by_columns::gptq(layers, *packing),
        Scheme::Awq(packing) => by_columns::awq(layers, *packing),
        Scheme::CompressedTensors(facts) => compressed_tensors::weights(layers, facts, may_lack_scale),
        Scheme::Fp8 { block } => float8::weights(layers, *block, may_lack_scale),
        Scheme::Modelopt => float8::weights(layers, None, may_lack_scale),
        Scheme::Mxfp4 => mxfp4::weights(layers),
        Scheme::Mlx(facts) => mlx::weights(layers, facts),
        Scheme::Uncovered(_) => return Ok(None),
    };
    weights.map(Some)
}

/// How a model's weights were quantised; `None`, if neither a configuration nor names say that they were. What cannot be
/// dequantised is described as far as it is understood.
#[must_use]
pub fn quantized(catalog: &Catalog, model: &ModelFacts<'_>) -> Option<QuantizedModel> {
    let scheme = match Scheme::of(&model.config, catalog) {
        Ok(scheme) => scheme?,
        Err(error) => return of_unknown(model, error),
    };
    let layers = Layers::of(catalog, Some(model));
    let (weights, problem) = match of_scheme(&scheme, &layers, false) {
        Ok(Some(weights)) => (weights, None),
        Ok(None) => (Vec::new(), Some(Error::unsupported("dequantize does not know how these are packed"))),
        Err(error) => (of_scheme(&scheme, &layers, true).ok().flatten().unwrap_or_default(), Some(error)),
    };
    let weights = weights.into_iter().map(|weight| {
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
    Some(QuantizedModel {
        method: scheme.name().to_owned(),
        variant: scheme.variant(),
        weights: weights.collect(),
        problem,
    })
}

/// What a configuration says that is not understood.
fn of_unknown(model: &ModelFacts<'_>, error: Error) -> Option<QuantizedModel> {
    let said = model.config.quantization()?;
    let method = said.facts.get("quant_method").and_then(serde_json::Value::as_str);
    let method = method.unwrap_or("a method that its configuration does not name").to_owned();
    Some(QuantizedModel { method, variant: None, weights: Vec::new(), problem: Some(error) })
}
