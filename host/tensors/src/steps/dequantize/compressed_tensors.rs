//! Weights in the compressed-tensors format of vLLM's llm-compressor.
//!
//! ```text
//! pack-quantized      L.weight_packed I32 [out, in * bits / 32], L.weight_scale [out, groups], L.weight_shape I64 [2]
//!                     L.weight_zero_point I32 [out * bits / 32, groups], packed down the rows; L.weight_g_idx I32 [in]
//!                     (q - z) * scale, both less 2^(bits - 1)
//! int-, naive-, float-quantized   L.weight I8 or F8, L.weight_scale: of the tensor, of rows, of groups, of blocks
//! nvfp4-pack-quantized            L.weight_packed U8 of E2M1, L.weight_scale F8_E4M3, L.weight_global_scale F32
//!                                 code * (scale / global): the global scale is a divisor
//! mxfp4-pack-quantized            L.weight_packed U8 of E2M1, L.weight_scale U8: 2^(s - 127)
//! ```
//! Source: `compressed_tensors/compressors` in compressed-tensors 0.20.

use super::codes::CodePacking;
use super::computed::Weight;
use super::float8::{self, lacks_scale};
use super::layers::{Layer, Layers, matrix, shaped};
use super::scaled::{Formula, ScaleGrid, Scaled, Scales, odd_bits, row_bytes};
use super::scheme::text;
use crate::steps::regexes;
use crate::steps::spec::Field;
use serde_json::Value;
use std::sync::Arc;
use tensorferry_sdk::{Dtype, Error, Result, Tensor};

/// Returns all weights of a model with this configuration.
pub(super) fn weights<'a>(
    layers: &'a Layers<'a>,
    facts: &Value,
    may_lack_scale: bool,
) -> Result<Vec<Weight<'a>>> {
    let transforms = facts.get("transform_config").and_then(|found| found.get("config_groups"));
    if transforms.and_then(Value::as_object).is_some_and(|groups| !groups.is_empty()) {
        return Err(Error::unsupported("weights of a model that also transforms its inputs")
            .found("transform_config"));
    }
    let sparse = facts.get("sparsity_config").and_then(|sparse| text(sparse, "format"));
    if let Some(sparse) = sparse.filter(|format| *format != "dense") {
        return Err(packs_otherwise(sparse));
    }
    let mut weights = Vec::new();
    for name in layers.names() {
        let Some(tensor) = layers.get(name) else { continue };
        if let Some(start) = name.strip_suffix(".weight_packed") {
            weights.push(packed(layers, start, tensor, &Group::of(facts, start)?)?);
        } else if let Some(start) = name.strip_suffix(".weight") {
            let is_float = float8::DTYPES.contains(&tensor.dtype);
            if is_float || tensor.dtype == Dtype::I8 {
                let group = Group::of(facts, start)?;
                weights.push(of_bytes(layers, start, tensor, &group, may_lack_scale && is_float)?);
            }
        }
    }
    Ok(weights)
}

fn packs_otherwise(format: &str) -> Error {
    Error::unsupported("a compressed-tensors format with an unsupported packing")
        .expected(
            "pack-quantized, int-quantized, naive-quantized, float-quantized, nvfp4-pack-quantized or mxfp4-pack-quantized",
        )
        .found(format)
}

/// A group of layers in the configuration, and the settings for the weights of these layers.
struct Group<'a> {
    format: &'a str,
    weights: &'a Value,
}

impl<'a> Group<'a> {
    /// Returns the group that names the layer. If no group names the layer, returns the only group
    /// that names a class, because the class of a layer cannot be determined from its name.
    fn of(facts: &'a Value, layer: &str) -> Result<Self> {
        let groups = facts.get("config_groups").and_then(Value::as_object);
        let groups: Vec<&Value> = groups.into_iter().flat_map(|groups| groups.values()).collect();
        let targets = |group: &&'a Value| -> Vec<&'a str> {
            let targets = group.get("targets").and_then(Value::as_array);
            targets.into_iter().flatten().filter_map(Value::as_str).collect()
        };
        let mut named = Vec::new();
        let mut of_classes = Vec::new();
        for group in &groups {
            let mut is_named = false;
            for target in targets(group) {
                is_named |= match target.strip_prefix("re:") {
                    // The pattern must match at the start of the name, as in Python's `re.match`.
                    Some(pattern) => regexes::parse(&Field::new(format!("^(?:{pattern})")))
                        .is_ok_and(|regex| regex.is_match(layer)),
                    None => target == layer,
                };
            }
            if is_named {
                named.push(*group);
            } else if targets(group).iter().any(|target| !target.starts_with("re:") && !target.contains('.'))
            {
                of_classes.push(*group);
            }
        }
        let found = if named.is_empty() { of_classes } else { named };
        let [group] = *found else {
            return Err(Error::malformed(
                "the configuration does not describe how a layer's weights were quantized",
            )
            .tensor(layer)
            .expected("one of config_groups that names it, or its class")
            .found(format!("{} of {}", found.len(), groups.len())));
        };
        let format = text(group, "format").or_else(|| text(facts, "format"));
        let weights = group.get("weights").filter(|weights| weights.is_object());
        match (format, weights) {
            (Some(format), Some(weights)) => Ok(Self { format, weights }),
            _ => Err(Error::malformed(
                "the configuration does not describe how a layer's weights were quantized",
            )
            .tensor(layer)
            .expected("`format`, and `weights` in the layer's entry of config_groups")),
        }
    }

    fn bits(&self, layer: &str) -> Result<u32> {
        let declared = self.weights.get("num_bits").unwrap_or(&Value::Null);
        let bits = declared.as_u64().and_then(|bits| u32::try_from(bits).ok());
        bits.filter(|bits| (1..=8).contains(bits)).ok_or_else(|| odd_bits(layer, declared))
    }

    /// Returns the number of rows and columns of a block, if the weights have one scale per block.
    fn block(&self) -> Option<[u64; 2]> {
        let dims = self.weights.get("block_structure")?.as_array()?;
        match *dims.iter().filter_map(Value::as_u64).filter(|dim| *dim > 0).collect::<Vec<_>>() {
            [rows, columns] => Some([rows, columns]),
            _ => None,
        }
    }
}

fn packed<'a>(layers: &'a Layers<'a>, start: &str, tensor: &Tensor, group: &Group<'_>) -> Result<Weight<'a>> {
    let mut layer = layers.layer(format!("{start}.weight"), &tensor.name)?;
    let scale = layer.needed(&format!("{start}.weight_scale"))?;
    match group.format {
        "pack-quantized" => {
            let bits = group.bits(&tensor.name)?;
            integers(layer, start, tensor, scale, bits)
        }
        "nvfp4-pack-quantized" => {
            let global = layer.needed(&format!("{start}.weight_global_scale"))?;
            let global = layer.floats(global, 1)?[0];
            let scales = Scales::Divided(layer.extent_of(scale, &[Dtype::F8_E4M3])?, global);
            float8::four_bits(layer, tensor, scale, scales)
        }
        "mxfp4-pack-quantized" => {
            let scales = Scales::Powers(layer.extent_of(scale, &[Dtype::U8, Dtype::F8_E8M0])?);
            float8::four_bits(layer, tensor, scale, scales)
        }
        other => Err(packs_otherwise(other)),
    }
}

fn of_bytes<'a>(
    layers: &'a Layers<'a>,
    start: &str,
    tensor: &Tensor,
    group: &Group<'_>,
    may_lack_scale: bool,
) -> Result<Weight<'a>> {
    const FORMATS: [&str; 4] = ["int-quantized", "naive-quantized", "float-quantized", "mxfp8-quantized"];
    if !FORMATS.contains(&group.format) {
        return Err(packs_otherwise(group.format));
    }
    let mut layer = layers.layer(tensor.name.clone(), &tensor.name)?;
    let Some(scale) = layer.part(&format!("{start}.weight_scale")) else {
        return if may_lack_scale {
            float8::floats(layer, tensor, None, None)
        } else {
            Err(lacks_scale(layers, &tensor.name))
        };
    };
    bytes(layer, start, tensor, scale, group.block())
}

/// Returns a weight that consists of one-byte codes, scales, and optional zero points.
pub(super) fn bytes<'a>(
    mut layer: Layer<'a>,
    start: &str,
    tensor: &Tensor,
    scale: &Tensor,
    block: Option<[u64; 2]>,
) -> Result<Weight<'a>> {
    let of = |end: &str| if start.is_empty() { end.to_owned() } else { format!("{start}.{end}") };
    let zeros = layer.part(&of("weight_zero_point"));
    if layer.part(&of("weight_g_idx")).is_some() {
        return Err(
            Error::unsupported("one-byte codes with a separate group for each column").tensor(&tensor.name)
        );
    }
    let Some(zeros) = zeros else { return float8::floats(layer, tensor, Some(scale), block) };
    let [rows, columns] = matrix(tensor)?;
    if zeros.shape != scale.shape {
        return Err(shaped(zeros, format!("{:?}, like the scales", scale.shape)));
    }
    let codes = CodePacking::of_bytes(tensor.dtype).ok_or_else(|| odd_bits(&tensor.name, "another dtype"))?;
    let formula = Formula::SubtractEach(layer.extent_of(zeros, &[Dtype::I8, Dtype::F8_E4M3])?);
    let method = Scaled {
        row_bytes: row_bytes(tensor, rows, columns, &codes)?,
        codes,
        at: layer.extent(tensor)?,
        columns,
        grid: ScaleGrid::of(&tensor.shape, scale, block)?,
        scales: Scales::of(&layer, scale)?,
        formula,
        groups_of: None,
    };
    Ok(Weight { layer, shape: vec![rows, columns], is_turned: false, method: Box::new(method) })
}

fn integers<'a>(
    mut layer: Layer<'a>,
    start: &str,
    tensor: &Tensor,
    scale: &Tensor,
    bits: u32,
) -> Result<Weight<'a>> {
    let wide = u64::from(bits);
    let [packed_rows, words] = matrix(tensor)?;
    let [rows, columns] = match layer.part(&format!("{start}.weight_shape")) {
        Some(shape) => dims(&layer, shape)?,
        None => [packed_rows, words.saturating_mul(32) / wide],
    };
    let dense = columns.checked_mul(wide).map(|bits| bits.div_ceil(32));
    let codes = if dense == Some(words) {
        CodePacking::Bits(bits)
    } else if columns.div_ceil(32 / wide) == words {
        CodePacking::InWords(bits)
    } else {
        return Err(shaped(tensor, format!("words of {columns} codes of {bits} bits")));
    };
    if packed_rows != rows {
        return Err(shaped(tensor, format!("{rows} rows")));
    }
    let grid = ScaleGrid::of(&[rows, columns], scale, None)?;
    let groups = columns.div_ceil(grid.block_columns);
    let mut groups_of = None;
    if let Some(indices) = layer.part(&format!("{start}.weight_g_idx")) {
        groups_of = column_groups(&layer, indices, columns, groups, grid.block_columns)?;
    }
    let formula = match layer.part(&format!("{start}.weight_zero_point")) {
        None => Formula::Subtract(f32::from(1_u8 << (bits - 1))),
        Some(zeros) if matches!(codes, CodePacking::InWords(_)) => {
            return Err(
                Error::unsupported("zero points that leave bits of their words unused").tensor(&zeros.name)
            );
        }
        Some(zeros) => {
            let expected = [(rows * wide).div_ceil(32), groups];
            if zeros.shape != expected {
                return Err(shaped(zeros, format!("{expected:?}")));
            }
            Formula::SubtractPacked(layer.extent_of(zeros, &[Dtype::I32])?, bits)
        }
    };
    let method = Scaled {
        row_bytes: row_bytes(tensor, rows, columns, &codes)?,
        codes,
        at: layer.extent_of(tensor, &[Dtype::I32])?,
        columns,
        grid,
        scales: Scales::of(&layer, scale)?,
        formula,
        groups_of,
    };
    Ok(Weight { layer, shape: vec![rows, columns], is_turned: false, method: Box::new(method) })
}

/// Returns a packed weight of a model without a configuration. Computes the number of bits per code
/// from `weight_shape` and the length of the rows. Returns `None` if the number of bits is
/// ambiguous.
pub(super) fn packed_by_names<'a>(
    layers: &'a Layers<'a>,
    start: &str,
    tensor: &Tensor,
) -> Result<Option<Weight<'a>>> {
    let of = |end: &str| format!("{start}{end}");
    let mut layer = layers.layer(of("weight"), &tensor.name)?;
    let scale = layer.needed(&of("weight_scale"))?;
    let module = start.trim_end_matches('.');
    match (tensor.dtype, scale.dtype) {
        (Dtype::I32, _) => {
            let Some(shape) = layer.part(&of("weight_shape")) else { return Ok(None) };
            let ([_, words], [_, columns]) = (matrix(tensor)?, dims(&layer, shape)?);
            let fits = |bits: &u32| {
                let wide = u64::from(*bits);
                (columns * wide).div_ceil(32) == words || columns.div_ceil(32 / wide) == words
            };
            let known: Vec<u32> = (1..=8).filter(fits).collect();
            let [bits] = *known else { return Ok(None) };
            integers(layer, module, tensor, scale, bits).map(Some)
        }
        (Dtype::U8, Dtype::F8_E4M3) if layers.get(&of("weight_global_scale")).is_some() => {
            let global = layer.needed(&of("weight_global_scale"))?;
            let global = layer.floats(global, 1)?[0];
            let scales = Scales::Divided(layer.extent_of(scale, &[Dtype::F8_E4M3])?, global);
            float8::four_bits(layer, tensor, scale, scales).map(Some)
        }
        (Dtype::U8, Dtype::U8 | Dtype::F8_E8M0) => {
            let scales = Scales::Powers(layer.extent(scale)?);
            float8::four_bits(layer, tensor, scale, scales).map(Some)
        }
        _ => Ok(None),
    }
}

/// Reads the two dimensions of a weight from a tensor.
fn dims(layer: &Layer<'_>, shape: &Tensor) -> Result<[u64; 2]> {
    layer.extent_of(shape, &[Dtype::I64])?;
    let bytes = layer.bytes(shape, 16)?;
    let dims: Vec<i64> = bytes.as_chunks().0.iter().map(|dim| i64::from_le_bytes(*dim)).collect();
    let wrong = || {
        Error::malformed("the tensor with a weight's shape is invalid")
            .tensor(&shape.name)
            .expected("two numbers above 0")
            .found(format!("{dims:?}"))
    };
    match *dims {
        [rows, columns]
            if rows > 0 && columns > 0 && columns < i64::from(u32::MAX) && rows < i64::from(u32::MAX) =>
        {
            Ok([rows.unsigned_abs(), columns.unsigned_abs()])
        }
        _ => Err(wrong()),
    }
}

/// Returns the group of each column. Returns `None` if the columns of a group are consecutive, or
/// if the groups are not specified (-1).
fn column_groups(
    layer: &Layer<'_>,
    indices: &Tensor,
    columns: u64,
    groups: u64,
    group: u64,
) -> Result<Option<Arc<Vec<u32>>>> {
    /// Maximum number of columns in a weight that stores the group of each column. The groups are
    /// kept in memory.
    const MAX_COLUMNS: u64 = 1 << 20;
    if indices.shape != [columns] || columns > MAX_COLUMNS {
        return Err(shaped(indices, format!("[{columns}], at most {MAX_COLUMNS}")));
    }
    layer.extent_of(indices, &[Dtype::I32])?;
    let bytes = layer.bytes(indices, 4 * columns)?;
    let found: Vec<u32> = bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    if found.iter().all(|found| *found == u32::MAX)
        || (0..).zip(&found).all(|(at, &found)| at / group == u64::from(found))
    {
        return Ok(None);
    }
    if let Some(place) = found.iter().position(|found| u64::from(*found) >= groups) {
        return Err(Error::malformed("a column's group does not exist")
            .tensor(&indices.name)
            .offset(4 * place as u64)
            .expected(format!("0 to {}", groups.saturating_sub(1)))
            .found(found[place].cast_signed()));
    }
    Ok(Some(Arc::new(found)))
}
