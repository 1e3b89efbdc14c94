//! Weights in the MXFP4 format, as in gpt-oss.
//!
//! ```text
//! X_blocks U8 [experts, out, in / 32, 16]   E2M1, the lower half of a byte first
//! X_scales U8 [experts, out, in / 32]       2^(s - 127)
//! X        [experts, in, out]               code * scale, turned
//! ```
//! Source: `integrations/mxfp4.py` in transformers (`convert_moe_packed_tensors`).

use super::codes::{CodePacking, E2M1};
use super::computed::Weight;
use super::layers::{Layers, shaped};
use super::scaled::{Formula, ScaleGrid, Scaled, Scales, row_bytes};
use tensorferry_sdk::{Dtype, Result, element_count};

/// Returns all weights of a model.
pub(super) fn weights<'a>(layers: &'a Layers<'a>) -> Result<Vec<Weight<'a>>> {
    layers.ending("_blocks").into_iter().map(|name| weight(layers, name)).collect()
}

fn weight<'a>(layers: &'a Layers<'a>, name: &str) -> Result<Weight<'a>> {
    let blocks = format!("{name}_blocks");
    let mut layer = layers.layer(name.to_owned(), &blocks)?;
    let (blocks, scales) = (layer.needed(&blocks)?, layer.needed(&format!("{name}_scales"))?);
    let [dims @ .., groups, 16] = &*blocks.shape else {
        return Err(shaped(blocks, "blocks of 16 bytes in the last dimension"));
    };
    let columns = groups.checked_mul(32).ok_or_else(|| shaped(blocks, "fewer blocks"))?;
    if dims.is_empty() || *scales.shape != blocks.shape[..blocks.shape.len() - 1] {
        return Err(shaped(
            scales,
            format!("{:?}, a scale for each block", &blocks.shape[..blocks.shape.len() - 1]),
        ));
    }
    let rows = element_count(dims)?;
    let codes = CodePacking::Nibbles { table: E2M1, high_first: false };
    let method = Scaled {
        row_bytes: row_bytes(blocks, rows, columns, &codes)?,
        codes,
        at: layer.extent_of(blocks, &[Dtype::U8])?,
        columns,
        grid: ScaleGrid { block_rows: 1, block_columns: 32, matrix_rows: rows },
        scales: Scales::Powers(layer.extent_of(scales, &[Dtype::U8, Dtype::F8_E8M0])?),
        formula: Formula::Scale,
        groups_of: None,
    };
    let shape = [dims, &[columns]].concat();
    // Weights of several experts are transposed, but a single matrix is not.
    let is_turned = shape.len() > 2;
    Ok(Weight { layer, shape, is_turned, method: Box::new(method) })
}
