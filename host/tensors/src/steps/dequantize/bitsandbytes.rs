//! Weights from bitsandbytes.
//!
//! ```text
//! 4 bits  W                U8, or any other: two codes a byte, the upper half first, over the whole tensor
//!         W.quant_map      F32 [16]
//!         W.absmax         F32, or U8 where it is quantized itself, one for each block
//!         W.quant_state.bitsandbytes__nf4 (__fp4)   U8: JSON of blocksize, shape, nested_blocksize, nested_offset
//!         W.nested_absmax, W.nested_quant_map       F32
//!         map[code] * absmax;  absmax = nested_map[code] * nested_absmax + nested_offset
//! 8 bits  L.weight I8 [out, in], L.SCB F32 [out], L.weight_format U8: 0
//!         (code * SCB) * f32(1 / 127)
//! ```
//! Source: `bitsandbytes/functional.py` from bitsandbytes 0.50 (`QuantState`, `dequantize_4bit`,
//! `int8_vectorwise_dequant`).

use super::codes::CodePacking;
use super::computed::Weight;
use super::layers::{Layer, Layers, matrix, shaped};
use super::scaled::{Formula, ScaleGrid, Scaled, Scales, row_bytes};
use serde_json::Value;
use std::collections::BTreeSet;
use tensorferry_sdk::{Dtype, Error, Result, element_count};

pub(super) const STATE: &str = ".quant_state.bitsandbytes__";
const MAX_STATE: u64 = 64 << 10;
/// The approximation of 1 / 127 that bitsandbytes uses.
const ONE_127TH: f32 = 0.007_874_016;

/// Returns all weights of a model.
pub(super) fn weights<'a>(layers: &'a Layers<'a>) -> Result<Vec<Weight<'a>>> {
    let of_state = layers.names().filter_map(|name| name.split_once(STATE).map(|(start, _)| start));
    let mut fours: BTreeSet<&str> = of_state.collect();
    fours.extend(layers.ending(".absmax"));
    let fours = fours.into_iter().map(|name| four_bits(layers, name));
    let eights = layers.names().filter(|name| {
        let start = name.strip_suffix(".weight");
        let has_scale = start.is_some_and(|start| layers.get(&format!("{start}.SCB")).is_some());
        has_scale || (start.is_some() && layers.get(name).is_some_and(|tensor| tensor.dtype == Dtype::I8))
    });
    fours.chain(eights.map(|name| eight_bits(layers, name))).collect()
}

fn four_bits<'a>(layers: &'a Layers<'a>, name: &str) -> Result<Weight<'a>> {
    let mut layer = layers.layer(name.to_owned(), name)?;
    let codes = layer.needed(name)?;
    let kind = ["nf4", "fp4"].into_iter().find(|kind| layers.get(&format!("{name}{STATE}{kind}")).is_some());
    let state = layer.needed(&format!("{name}{STATE}{}", kind.unwrap_or("nf4")))?;
    let text = layer.bytes(state, MAX_STATE)?;
    let facts: Value = serde_json::from_slice(&text).map_err(|error| {
        Error::malformed(format!("the quantization state of a weight is not JSON: {error}"))
            .tensor(&state.name)
    })?;
    let wrong = |expected: &str| {
        Error::malformed("the quantization state of a weight does not match the weight")
            .tensor(&state.name)
            .expected(expected)
            .found(&facts)
    };
    let dims = facts.get("shape").and_then(Value::as_array);
    let shape: Option<Vec<u64>> = dims.and_then(|dims| dims.iter().map(Value::as_u64).collect());
    let shape = shape.ok_or_else(|| wrong("a shape"))?;
    let count = element_count(&shape).map_err(|_| wrong("a shape whose product fits in 64 bits"))?;
    let width = codes.dtype.info().and_then(|info| info.element_bytes()).map_or(1, u64::from);
    let bytes = count.div_ceil(2);
    if count == 0 || codes.bytes < bytes || codes.bytes - bytes >= width {
        return Err(wrong(&format!("a shape of {} elements", codes.bytes.saturating_mul(2))));
    }
    let number = |key: &str| facts.get(key).and_then(Value::as_u64).filter(|number| *number > 0);
    let block = number("blocksize").ok_or_else(|| wrong("a blocksize above 0"))?;
    let map = layer.needed(&format!("{name}.quant_map"))?;
    let map = layer.floats(map, 16)?;
    let mut table = [0.0; 16];
    table.copy_from_slice(&map);
    let blocks = count.div_ceil(block);
    let absmax = layer.needed(&format!("{name}.absmax"))?;
    if absmax.shape.iter().product::<u64>() != blocks {
        return Err(shaped(absmax, format!("{blocks} numbers")));
    }
    let scales = if absmax.dtype == Dtype::U8 {
        let of_block = number("nested_blocksize").ok_or_else(|| wrong("a nested_blocksize above 0"))?;
        let offset = facts.get("nested_offset").and_then(Value::as_f64);
        let offset = offset.ok_or_else(|| wrong("a nested_offset"))?;
        let nested = layer.needed(&format!("{name}.nested_absmax"))?;
        if nested.shape.iter().product::<u64>() != blocks.div_ceil(of_block) {
            return Err(shaped(nested, format!("{} numbers", blocks.div_ceil(of_block))));
        }
        let map = layer.needed(&format!("{name}.nested_quant_map"))?;
        #[expect(clippy::cast_possible_truncation, reason = "an F32 in decimal notation")]
        let offset = offset as f32;
        Scales::Nested {
            indices: layer.extent(absmax)?,
            map: layer.floats(map, 256)?,
            scales: layer.extent_of(nested, &[Dtype::F32])?,
            block: of_block,
            offset,
        }
    } else {
        Scales::Plain(layer.extent_of(absmax, &[Dtype::F32])?)
    };
    let method = Scaled {
        codes: CodePacking::Nibbles { table, high_first: true },
        at: layer.extent(codes)?,
        row_bytes: codes.bytes,
        columns: count,
        grid: ScaleGrid { block_rows: 1, block_columns: block, matrix_rows: 1 },
        scales,
        formula: Formula::Scale,
        groups_of: None,
    };
    // The codes are treated as a single row, regardless of the weight's shape, because blocks
    // continue across rows.
    Ok(Weight { layer, shape, is_turned: false, method: Box::new(method) })
}

fn eight_bits<'a>(layers: &'a Layers<'a>, name: &str) -> Result<Weight<'a>> {
    let mut layer: Layer<'a> = layers.layer(name.to_owned(), name)?;
    let weight = layer.needed(name)?;
    let start = name.strip_suffix(".weight").unwrap_or(name);
    let scales = layer.needed(&format!("{start}.SCB"))?;
    if let Some(format) = layer.part(&format!("{start}.weight_format")) {
        let found = layer.bytes(format, 8)?;
        if found.iter().any(|byte| *byte != 0) {
            return Err(Error::unsupported("a weight in a GPU-specific tiling")
                .tensor(&format.name)
                .expected("weight_format 0, rows")
                .found(format!("{found:?}")));
        }
    }
    let [rows, columns] = matrix(weight)?;
    if scales.shape != [rows] {
        return Err(shaped(scales, format!("[{rows}]")));
    }
    let at = layer.extent_of(weight, &[Dtype::I8])?;
    let codes = CodePacking::of_bytes(Dtype::I8).ok_or_else(|| Error::unsupported("a table of I8"))?;
    let method = Scaled {
        row_bytes: row_bytes(weight, rows, columns, &codes)?,
        codes,
        at,
        columns,
        grid: ScaleGrid { block_rows: 1, block_columns: columns, matrix_rows: rows },
        scales: Scales::Plain(layer.extent_of(scales, &[Dtype::F32])?),
        formula: Formula::ScaleTimes(ONE_127TH),
        groups_of: None,
    };
    Ok(Weight { layer, shape: vec![rows, columns], is_turned: false, method: Box::new(method) })
}
