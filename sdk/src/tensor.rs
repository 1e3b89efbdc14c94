//! A tensor of a catalog: its name, dtype and shape, and where its bytes are.

use crate::{Block, Dtype, StorageId, Value};
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
