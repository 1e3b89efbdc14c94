//! Quantized layers from MLX.
//!
//! ```text
//! L.weight U32 [.., out, in * bits / 32]   a stream of bits in each row, the low ones first
//! affine         L.scales, L.biases [.., out, in / group]   code * scale + bias
//! mxfp4, mxfp8   L.scales U8: powers of two     E2M1, E4M3 times the scale
//! nvfp4          L.scales U8: E4M3              E2M1 times the scale
//! ```
//! The key `quantization` in `config.json` contains `group_size`, `bits` and `mode`. It also
//! contains the settings of single layers, with the layers' paths as keys. A layer with its own
//! settings does not inherit the general settings: a missing setting has the default value for the
//! layer's mode. Source: `mlx/ops.cpp` of MLX 0.32 (`affine_dequantize`, `fp_dequantize`).

use super::codes::{CodePacking, E2M1};
use super::computed::Weight;
use super::layers::{Extent, Layers, shaped};
use super::scaled::{Formula, ScaleGrid, Scaled, Scales, odd_bits, row_bytes};
use super::scheme::text;
use serde_json::Value;
use tensorferry_sdk::{Dtype, Error, Result, element_count};

/// Returns all weights of a model with this configuration.
pub(super) fn weights<'a>(layers: &'a Layers<'a>, facts: &Value) -> Result<Vec<Weight<'a>>> {
    let starts = layers.names().filter_map(|name| name.strip_suffix(".weight"));
    let is_one = |start: &&str| {
        layers.get(&format!("{start}.weight")).is_some_and(|weight| weight.dtype == Dtype::U32)
    };
    starts.filter(is_one).map(|start| weight(layers, start, facts)).collect()
}

fn weight<'a>(layers: &'a Layers<'a>, start: &str, facts: &Value) -> Result<Weight<'a>> {
    let own = facts.get(start).filter(|own| own.is_object());
    let facts = own.unwrap_or(facts);
    let said = |key: &str| facts.get(key).filter(|value| !value.is_null());
    let mode = text(facts, "mode").unwrap_or("affine");
    let name = format!("{start}.weight");
    let (usual_bits, usual_group) = match mode {
        "affine" => (4, 64),
        "nvfp4" => (4, 16),
        "mxfp8" => (8, 32),
        _ => (4, 32),
    };
    let bits = said("bits").map_or(Some(usual_bits), Value::as_u64).unwrap_or(0);
    let bits = u32::try_from(bits).ok().filter(|bits| matches!(bits, 2..=6 | 8));
    let bits = bits.ok_or_else(|| odd_bits(&name, said("bits").unwrap_or(&Value::Null)))?;
    let mut layer = layers.layer(name.clone(), &name)?;
    let (weight, scales) = (layer.needed(&name)?, layer.needed(&format!("{start}.scales"))?);
    let [dims @ .., words] = &*weight.shape else { return Err(shaped(weight, "at least one dimension")) };
    let rows = element_count(dims)?;
    let columns = words.saturating_mul(32) / u64::from(bits);
    let groups = scales.shape.last().copied().unwrap_or(0);
    let group = said("group_size").map_or(Some(usual_group), Value::as_u64).unwrap_or(0);
    let fits = group > 0 && groups.checked_mul(group) == Some(columns);
    if !fits || scales.shape.strip_suffix(&[groups]) != Some(dims) {
        return Err(shaped(scales, format!("{dims:?} and a scale for each {group} of {columns}")));
    }
    let of_floats = |dtype| layer.extent_of(scales, &[Dtype::U8]).map(|at| Extent { dtype, ..at });
    let e2m1 = CodePacking::Nibbles { table: E2M1, high_first: false };
    let needs = |expected: u32| if bits == expected { Ok(()) } else { Err(odd_bits(&name, bits)) };
    let (codes, scales, formula) = match mode {
        "affine" => {
            let biases = layer.needed(&format!("{start}.biases"))?;
            if biases.shape != scales.shape {
                return Err(shaped(biases, format!("{:?}, like the scales", scales.shape)));
            }
            const DTYPES: [Dtype; 3] = [Dtype::F16, Dtype::BF16, Dtype::F32];
            let biases = layer.extent_of(biases, &DTYPES)?;
            (
                CodePacking::Bits(bits),
                Scales::Plain(layer.extent_of(scales, &DTYPES)?),
                Formula::ScaleAdd(biases),
            )
        }
        "mxfp4" => {
            needs(4)?;
            (e2m1, Scales::Powers(of_floats(Dtype::U8)?), Formula::Scale)
        }
        "nvfp4" => {
            needs(4)?;
            (e2m1, Scales::Plain(of_floats(Dtype::F8_E4M3)?), Formula::Scale)
        }
        "mxfp8" => {
            needs(8)?;
            let codes = CodePacking::of_bytes(Dtype::F8_E4M3);
            let codes = codes.ok_or_else(|| Error::unsupported("a table of F8_E4M3"))?;
            (codes, Scales::Powers(of_floats(Dtype::U8)?), Formula::Scale)
        }
        other => {
            return Err(Error::unsupported("dequantize does not support this MLX mode")
                .tensor(&name)
                .expected("affine, mxfp4, nvfp4 or mxfp8")
                .found(other));
        }
    };
    let method = Scaled {
        row_bytes: row_bytes(weight, rows, columns, &codes)?,
        codes,
        at: layer.extent(weight)?,
        columns,
        grid: ScaleGrid { block_rows: 1, block_columns: group, matrix_rows: rows },
        scales,
        formula,
        groups_of: None,
    };
    let shape = [dims, &[columns]].concat();
    Ok(Weight { layer, shape, is_turned: false, method: Box::new(method) })
}
