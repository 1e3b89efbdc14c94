//! Megatron's `torch_dist` checkpoints are distributed checkpoints with stacked layers and experts.
//! For example, `decoder.layers.mlp.linear_fc1.weight` has an additional first dimension, with one
//! slice per layer. Each slice becomes a separate tensor that is named as in the model
//! ([`slice_name`]).

use std::collections::BTreeMap;
use tensorferry_megatron_model::{slice_name, stacked_dims};
use tensorferry_sdk::{Block, Dtype, Error, Limits, Result, Source};

/// The file that records which library wrote the checkpoint folder.
const DESCRIPTION: &str = "metadata.json";
/// Maximum length of `metadata.json` in bytes. The file is normally a single line.
const MAX_BYTES: u64 = 1 << 16;

/// A tensor and its blocks. Shapes and blocks count the catalog's elements, which are smaller than
/// torch's for packed dtypes.
pub(crate) struct BlockTensor {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    pub(crate) blocks: Vec<Block>,
}

/// Returns whether a folder is a `torch_dist` checkpoint of Megatron.
pub(crate) fn is_torch_dist(source: &dyn Source, limits: &Limits) -> Result<bool> {
    if !source.contains(DESCRIPTION)? {
        return Ok(false);
    }
    let file = source.open(DESCRIPTION)?;
    if source.len(file) > MAX_BYTES {
        return Ok(false);
    }
    let text = source.read_vec(file, 0, source.len(file), limits)?;
    let said: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
    Ok(said.is_some_and(|said| said["sharded_backend"] == "torch_dist"))
}

/// Splits a stacked tensor and passes each slice to `each`. Passes any other tensor unchanged.
pub(crate) fn each_slice(
    whole: BlockTensor,
    limits: &Limits,
    each: &mut dyn FnMut(BlockTensor) -> Result<()>,
) -> Result<()> {
    let [layers, experts] = stacked_dims(&whole.name);
    let dims = usize::from(layers) + usize::from(experts);
    // Optimizer values whose shapes differ from the shapes of their weights are not stacks.
    let is_flat = whole.shape.len() < dims || whole.shape.contains(&0);
    if dims == 0 || is_flat || whole.dtype.info().is_none_or(|info| info.element_bytes().is_none()) {
        let name = if dims == 0 { slice_name(&whole.name, None, None) } else { whole.name.clone() };
        return each(BlockTensor { name, ..whole });
    }
    let key = whole.name.clone();
    for (index, slice) in (0..).zip(slices(whole, limits)?) {
        match (layers, experts) {
            (true, true) => {
                for (expert, inner) in (0..).zip(slices(slice, limits)?) {
                    each(BlockTensor { name: slice_name(&key, Some(index), Some(expert)), ..inner })?;
                }
            }
            (true, false) => each(BlockTensor { name: slice_name(&key, Some(index), None), ..slice })?,
            _ => each(BlockTensor { name: slice_name(&key, None, Some(index)), ..slice })?,
        }
    }
    Ok(())
}

/// Splits a tensor along its first dimension and returns the slices in order.
fn slices(whole: BlockTensor, limits: &Limits) -> Result<Vec<BlockTensor>> {
    let too_far = || Error::malformed("the position of a slice does not fit in 64 bits");
    let width = whole.dtype.info().and_then(|info| info.element_bytes()).map_or(1, i64::from);
    let mut at: BTreeMap<u64, Vec<Block>> = BTreeMap::new();
    let mut count = 0_u64;
    for block in &whole.blocks {
        count = count.saturating_add(block.region.shape[0]);
        if count > limits.entries {
            return Err(Error::limit("too many layers or experts")
                .expected(format!("at most {}", limits.entries))
                .hint("pass --limit entries=N to raise the limit"));
        }
        for inside in 0..block.region.shape[0] {
            let moved = i64::try_from(inside)
                .ok()
                .and_then(|at| at.checked_mul(block.strides[0])?.checked_mul(width));
            let offset =
                moved.and_then(|moved| block.offset.checked_add_signed(moved)).ok_or_else(too_far)?;
            let mut slice = Block { offset, ..block.clone() };
            let first = slice.region.origin.remove(0).checked_add(inside).ok_or_else(too_far)?;
            slice.region.shape.remove(0);
            slice.strides.remove(0);
            at.entry(first).or_default().push(slice);
        }
    }
    let missing =
        (0..whole.shape[0]).zip(at.keys()).find(|(index, found)| index != *found).map(|(index, _)| index);
    if missing.is_some() || at.len() as u64 != whole.shape[0] {
        let index = missing.unwrap_or(at.len() as u64);
        return Err(Error::malformed("the chunks have too few or too many layers or experts")
            .expected(format!("slices 0 to {}", whole.shape[0] - 1))
            .found(format!("none at {index}")));
    }
    let BlockTensor { dtype, shape, .. } = whole;
    let of = |blocks| BlockTensor { name: String::new(), dtype, shape: shape[1..].to_vec(), blocks };
    Ok(at.into_values().map(of).collect())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{MemorySource, Region, StorageId};

    /// Returns a stack of layers with the shape [2]. One chunk contains the first two layers, and
    /// the other chunk contains the third layer.
    fn stack(layers: u64) -> BlockTensor {
        let block = |origin: u64, count, offset| Block {
            region: Region { origin: vec![origin, 0], shape: vec![count, 2] },
            storage: StorageId(0),
            offset,
            strides: vec![2, 1],
        };
        let name = "decoder.layers.final_norm.weight".to_owned();
        BlockTensor {
            name,
            dtype: Dtype::F32,
            shape: vec![layers, 2],
            blocks: vec![block(2, 1, 100), block(0, 2, 40)],
        }
    }

    #[test]
    fn each_layer_is_a_tensor() {
        let mut found = Vec::new();
        let mut each = |slice: BlockTensor| {
            found.push((slice.name, slice.shape, slice.blocks[0].offset, slice.blocks[0].strides.clone()));
            Ok(())
        };
        each_slice(stack(3), &Limits::default(), &mut each).unwrap();
        let layer =
            |number, offset| (format!("decoder.layers.{number}.final_norm.weight"), vec![2], offset, vec![1]);
        assert_eq!(found, [layer(0, 40), layer(1, 48), layer(2, 100)]);
        for wrong in [2, 4, 1 << 60] {
            let error = each_slice(stack(wrong), &Limits::default(), &mut |_| Ok(())).unwrap_err();
            assert!(error.to_string().contains("layer"), "{error}");
        }
        let mut limits = Limits::default();
        limits.entries = 2;
        assert!(each_slice(stack(3), &limits, &mut |_| Ok(())).is_err());
    }

    #[test]
    fn its_folders_are_known() {
        let said = |text: &str| {
            let source = MemorySource::folder([(DESCRIPTION.to_owned(), text.as_bytes().to_vec())]);
            is_torch_dist(&source, &Limits::default()).unwrap()
        };
        assert!(said(r#"{"sharded_backend": "torch_dist", "sharded_backend_version": 1}"#));
        assert!(!said(r#"{"sharded_backend": "zarr"}"#) && !said("[") && !said(""));
    }
}
