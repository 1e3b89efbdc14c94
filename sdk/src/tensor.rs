//! A tensor of a catalog: its name, dtype and shape, and where its bytes are.

use crate::{Block, Dtype, Region, StorageId, Value, row_major_strides};
use std::collections::BTreeMap;

/// Where a tensor's bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Data {
    /// It has no bytes.
    Empty,
    /// Row-major, side by side: the common case.
    Whole {
        /// The storage that holds it.
        storage: StorageId,
        /// Bytes from the storage's start.
        offset: u64,
    },
    /// Anything else: blocks that tile it.
    Blocks(Vec<Block>),
}

/// A tensor of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Unique in its catalog; any UTF-8, also empty.
    pub name: String,
    /// What an element is.
    pub dtype: Dtype,
    /// Its dimensions, in elements; a scalar has none.
    pub shape: Vec<u64>,
    /// Its logical length: row-major, little-endian, contiguous.
    pub bytes: u64,
    /// Where its bytes are.
    pub data: Data,
    /// What else the input says of it: units, spacings, names of its axes. Steps that give it other axes leave them
    /// behind, and say so.
    pub attributes: BTreeMap<String, Value>,
}

impl Tensor {
    /// How many blocks it is made of: none if it is empty.
    #[must_use]
    pub fn block_count(&self) -> u64 {
        match &self.data {
            Data::Empty => 0,
            Data::Whole { .. } => 1,
            Data::Blocks(blocks) => blocks.len() as u64,
        }
    }

    /// A block by its number.
    #[must_use]
    pub fn block(&self, number: u64) -> Option<Block> {
        match &self.data {
            Data::Whole { storage, offset } if number == 0 => Some(Block {
                region: Region::whole(&self.shape),
                storage: *storage,
                offset: *offset,
                strides: row_major_strides(&self.shape),
            }),
            Data::Blocks(blocks) => blocks.get(usize::try_from(number).ok()?).cloned(),
            Data::Empty | Data::Whole { .. } => None,
        }
    }

    /// Its blocks in order; each is made when it is asked for.
    pub fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        (0..self.block_count()).filter_map(|number| self.block(number))
    }

    /// The storages that its blocks name, one for each block.
    pub fn storages(&self) -> impl Iterator<Item = StorageId> + '_ {
        let (whole, blocks) = match &self.data {
            Data::Empty => (None, None),
            Data::Whole { storage, .. } => (Some(*storage), None),
            Data::Blocks(blocks) => (None, Some(blocks)),
        };
        whole.into_iter().chain(blocks.into_iter().flatten().map(|block| block.storage))
    }
}
