//! The two halves of a gated MLP that some of Megatron's checkpoints have apart: one tensor of the model.

use crate::megatron::Blocks;
use crate::table::TableEntry;
use std::collections::{HashMap, HashSet};
use tensorferry_megatron_model::halves;
use tensorferry_sdk::{Error, Result};

/// The halves that were not joined yet.
#[derive(Default)]
pub(crate) struct Halves {
    /// The first and second halves' names, by both of them.
    pairs: HashMap<String, (String, bool)>,
    waiting: HashMap<String, (Blocks, bool)>,
}

impl Halves {
    /// Those of a checkpoint; none, if it is not Megatron's.
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

    /// The tensor, or the one that it is the last missing half of; `None`, if the other half is to come.
    pub(crate) fn join(&mut self, tensor: Blocks) -> Result<Option<Blocks>> {
        let Some((whole, is_first)) = self.pairs.get(&tensor.name).cloned() else { return Ok(Some(tensor)) };
        let Some((other, other_is_first)) = self.waiting.remove(&whole) else {
            self.waiting.insert(whole, (tensor, is_first));
            return Ok(None);
        };
        let (first, second) = if other_is_first { (other, tensor) } else { (tensor, other) };
        let apart = || {
            Error::malformed("the halves of a gated MLP do not go together")
                .tensor(&second.name)
                .expected(format!("{:?}", first.shape))
                .found(format!("{:?}", second.shape))
        };
        // Experts have no dimension before: these halves are of models whose layers have tensors of their own.
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
        Ok(Some(Blocks { name: whole, dtype: first.dtype, shape, blocks }))
    }
}
