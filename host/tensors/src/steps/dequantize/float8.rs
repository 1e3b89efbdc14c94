//! 8-bit floats with scales, as in DeepSeek's FP8, `fbgemm_fp8` and `ModelOpt`, and 4-bit floats
//! from `ModelOpt`.
//!
//! ```text
//! W F8_E4M3 [.., out, in]   W_scale_inv, W_scale, or of L.weight: L.scale (DeepSeek's own files), L.scale_weight
//!                           (ComfyUI), L.qscale_weight (Mistral's own files): of the tensor, of rows, or of blocks
//!                           code * scale: the scale is a factor, even if it is named scale_inv
//! ModelOpt's NVFP4: W U8 [out, in / 2] of E2M1, W_scale F8_E4M3 [out, in / 16], W_scale_2 F32
//!                           code * (scale * scale_2)
//! ```
//! Sources: `inference/kernel.py` of DeepSeek-V3 (`weight_dequant`),
//! `integrations/finegrained_fp8.py` of transformers, and
//! `modelopt/torch/quantization/qtensor/nvfp4_tensor.py` of `NVIDIA/TensorRT-Model-Optimizer`.

use super::codes::{CodePacking, E2M1};
use super::computed::Weight;
use super::layers::{Layer, Layers, matrix, shaped};
use super::scaled::{Formula, ScaleGrid, Scaled, Scales, row_bytes};
use tensorferry_sdk::{Dtype, Error, Result, Tensor};

/// The 8-bit float dtypes that have a sign.
pub(super) const DTYPES: [Dtype; 3] = [Dtype::F8_E4M3, Dtype::F8_E5M2, Dtype::F8_E4M3FNUZ];
/// Names of tensors next to a weight that do not affect the weight's values. Most of them are
/// scales of the layer's input or output.
const BESIDE: [&str; 8] = [
    "input_scale",
    "activation_scale",
    "input_activation_scale",
    "output_scale",
    "input_scale_ub",
    "scale_input",
    "qscale_act",
    "comfy_quant",
];

/// Returns all weights of a model. If `may_lack_scale` is set, the scale 1 is used for weights
/// without a scale.
pub(super) fn weights<'a>(
    layers: &'a Layers<'a>,
    block: Option<[u64; 2]>,
    may_lack_scale: bool,
) -> Result<Vec<Weight<'a>>> {
    let is_scale = |name: &str| SCALE_ENDS.iter().any(|end| name.ends_with(end));
    let mut weights = Vec::new();
    for name in layers.names().filter(|name| !is_scale(name)) {
        let Some(tensor) = layers.get(name) else { continue };
        let scale = scale_of(layers, name);
        if DTYPES.contains(&tensor.dtype) && (scale.is_some() || name.ends_with(".weight")) {
            let mut layer = layers.layer(name.to_owned(), name)?;
            let scale = match scale {
                Some(scale) => Some(layer.needed(&scale)?),
                None if may_lack_scale => None,
                None => return Err(lacks_scale(layers, name)),
            };
            check_other_parts(layers, name)?;
            weights.push(floats(layer, tensor, scale, block)?);
        } else if tensor.dtype == Dtype::U8 && layers.get(&format!("{name}_scale_2")).is_some() {
            weights.push(nvfp4(layers, name, tensor)?);
        }
    }
    Ok(weights)
}

/// Returns an error if a weight has parts other than its codes and its scale.
pub(super) fn check_other_parts(layers: &Layers<'_>, name: &str) -> Result<()> {
    let start = name.rfind('.').map_or("", |dot| &name[..=dot]);
    for (end, what) in
        [("pre_quant_scale", "whose inputs are also scaled"), ("weight_offset", "with an offset")]
    {
        let other = format!("{start}{end}");
        if layers.get(&other).is_some() {
            return Err(Error::unsupported(format!("a weight {what}")).tensor(name).found(other));
        }
    }
    Ok(())
}

/// Name suffixes of scales, of tensors for the layer's input, and of markers.
const SCALE_ENDS: [&str; 8] =
    ["scale", "_scale_inv", "scales", "_scale_2", "scale_weight", "scale_input", "qscale_act", "scaled_fp8"];

/// Returns the name of the tensor that contains a weight's scale.
fn scale_of(layers: &Layers<'_>, name: &str) -> Option<String> {
    let mut names = vec![format!("{name}_scale_inv"), format!("{name}_scale")];
    if let Some(start) = name.strip_suffix("weight").filter(|start| start.is_empty() || start.ends_with('.'))
    {
        names.extend(["scale", "scale_weight", "qscale_weight"].map(|end| format!("{start}{end}")));
    }
    names.into_iter().find(|name| layers.get(name).is_some())
}

/// Returns the error for a weight without a scale. The error suggests a scale of 1 only if no other
/// tensor could be the scale.
pub(super) fn lacks_scale(layers: &Layers<'_>, name: &str) -> Error {
    let module = name.strip_suffix("weight").unwrap_or(name);
    let is_scale = |other: &&str| {
        other.strip_prefix(module).is_some_and(|end| {
            end.contains("scale") && !end.contains('.') && !BESIDE.contains(&end.trim_start_matches('.'))
        })
    };
    let error = Error::malformed("a quantized weight lacks its scale").tensor(name);
    let expected = format!("{name}_scale_inv or {name}_scale");
    match layers.names().find(is_scale) {
        Some(other) => error.expected(expected).found(other),
        None => error.expected(format!("{expected}; or missing_scale=1, if such weights were never scaled")),
    }
}

/// Returns a weight of 8-bit floats.
pub(super) fn floats<'a>(
    mut layer: Layer<'a>,
    tensor: &Tensor,
    scale: Option<&Tensor>,
    block: Option<[u64; 2]>,
) -> Result<Weight<'a>> {
    let start = layer.name.strip_suffix("weight").unwrap_or(&layer.name).to_owned();
    layer.leave(&BESIDE.map(|name| format!("{start}{name}")));
    let (rows, columns) = match &*tensor.shape {
        [rows @ .., columns] => (rows.iter().product::<u64>(), *columns),
        [] => return Err(shaped(tensor, "at least one dimension")),
    };
    let codes = CodePacking::of_bytes(tensor.dtype)
        .ok_or_else(|| Error::unsupported("bytes that are not numbers"))?;
    let grid = match scale {
        // A vector is treated as a matrix with one row, and must have a single scale.
        Some(scale) if tensor.shape.len() > 1 => ScaleGrid::of(&tensor.shape, scale, block)?,
        Some(scale) if scale.shape.iter().product::<u64>() != 1 => return Err(shaped(scale, "one number")),
        _ => ScaleGrid::whole(rows, columns),
    };
    let method = Scaled {
        row_bytes: row_bytes(tensor, rows, columns, &codes)?,
        codes,
        at: layer.extent(tensor)?,
        columns,
        grid,
        scales: scale.map_or(Ok(Scales::One), |scale| Scales::of(&layer, scale))?,
        formula: Formula::Scale,
        groups_of: None,
    };
    Ok(Weight { layer, shape: tensor.shape.clone(), is_turned: false, method: Box::new(method) })
}

/// Returns a weight in the NVFP4 format of `ModelOpt`.
pub(super) fn nvfp4<'a>(layers: &'a Layers<'a>, name: &str, tensor: &Tensor) -> Result<Weight<'a>> {
    let mut layer = layers.layer(name.to_owned(), name)?;
    let scale = layer.needed(&format!("{name}_scale"))?;
    let of_all = layer.needed(&format!("{name}_scale_2"))?;
    let of_all = layer.floats(of_all, 1)?[0];
    check_other_parts(layers, name)?;
    let scales = Scales::Times(layer.extent_of(scale, &[Dtype::F8_E4M3])?, of_all);
    four_bits(layer, tensor, scale, scales)
}

/// Returns a weight with two E2M1 numbers per byte. The first number is in the lower half.
pub(super) fn four_bits<'a>(
    mut layer: Layer<'a>,
    tensor: &Tensor,
    scale: &Tensor,
    scales: Scales,
) -> Result<Weight<'a>> {
    let start = layer.name.strip_suffix("weight").unwrap_or(&layer.name).to_owned();
    layer.leave(&BESIDE.map(|name| format!("{start}{name}")));
    layer.leave(&[format!("{start}input_global_scale")]);
    let [rows, bytes] = matrix(tensor)?;
    let columns = bytes * 2;
    let codes = CodePacking::Nibbles { table: E2M1, high_first: false };
    let method = Scaled {
        row_bytes: row_bytes(tensor, rows, columns, &codes)?,
        codes,
        at: layer.extent_of(tensor, &[Dtype::U8])?,
        columns,
        grid: ScaleGrid::of(&[rows, columns], scale, None)?,
        scales,
        formula: Formula::Scale,
        groups_of: None,
    };
    Ok(Weight { layer, shape: vec![rows, columns], is_turned: false, method: Box::new(method) })
}
