//! Joins the two halves of a gated MLP into one tensor of the model. Some Megatron checkpoints
//! store the halves separately.

use crate::megatron::BlockTensor;
use crate::table::TableEntry;
use std::collections::{HashMap, HashSet};
use tensorferry_megatron_model::halves;
use tensorferry_sdk::{Error, Result};

/// Joins halves of tensors. Keeps each half until the other half arrives.
#[derive(Default)]
pub(crate) struct Halves {
    /// Maps the name of each half to the name of the joined tensor. The flag marks the first half.
    pairs: HashMap<String, (String, bool)>,
    waiting: HashMap<String, (BlockTensor, bool)>,
}

impl Halves {
    /// Finds the tensors that are halves. Only Megatron checkpoints contain halves.
    pub(crate) fn of(items: &[TableEntry], is_megatron: bool) -> Self {
        let mut pairs = HashMap::new();
        let names: HashSet<&str> =
            items.iter().map(|item| item.name.as_str()).filter(|_| is_megatron).collect();
        for &name in &names {
            if let Some((whole, second)) =
                halves(name).filter(|(whole, second)| names.contains(&**second) && !names.contains(whole))
            {
                pairs.insert(name.to_owned(), (whole.to_owned(), true));
                pairs.insert(second, (whole.to_owned(), false));
            }
        }
        Self { pairs, waiting: HashMap::new() }
    }

    /// Joins a half with the other half of the same tensor. Returns the joined tensor if the other
    /// half was already passed, or `None` otherwise. Returns any other tensor unchanged.
    pub(crate) fn join(&mut self, tensor: BlockTensor) -> Result<Option<BlockTensor>> {
        let Some((whole, is_first)) = self.pairs.get(&tensor.name).cloned() else { return Ok(Some(tensor)) };
        let Some((other, other_is_first)) = self.waiting.remove(&whole) else {
            self.waiting.insert(whole, (tensor, is_first));
            return Ok(None);
        };
        let (first, second) = if other_is_first { (other, tensor) } else { (tensor, other) };
        let apart = || {
            Error::malformed("the halves of a gated MLP do not match")
                .tensor(&second.name)
                .expected(format!("{:?}", first.shape))
                .found(format!("{:?}", second.shape))
        };
        // The first dimension counts rows, never experts. Models that store these halves have
        // separate tensors for each layer.
        let rows = *first
            .shape
            .first()
            .filter(|_| first.dtype == second.dtype && first.shape == second.shape)
            .ok_or_else(apart)?;
        let mut shape = first.shape.clone();
        shape[0] = rows.checked_mul(2).ok_or_else(apart)?;
        let mut blocks = first.blocks;
        for mut block in second.blocks.iter().cloned() {
            block.region.origin[0] += rows;
            blocks.push(block);
        }
        Ok(Some(BlockTensor { name: whole, dtype: first.dtype, shape, blocks }))
    }
}
