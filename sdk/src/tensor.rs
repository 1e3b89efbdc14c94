//! A tensor of a catalog has a name, a dtype, a shape, and a location for its bytes.

use crate::{Block, Dtype, Grid, Region, StorageId, Value, row_major_strides};
use std::collections::BTreeMap;

/// The location of a tensor's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Data {
    /// The tensor has no bytes.
    Empty,
    /// The bytes are contiguous and row-major, which is the most common layout.
    Whole {
        /// Storage that contains the tensor.
        storage: StorageId,
        /// Offset in the storage, in bytes.
        offset: u64,
    },
    /// Blocks that cover the tensor exactly once. Used for all other layouts.
    Blocks(Vec<Block>),
    /// Tiles of one shape, each with its own storage, as in chunked formats.
    Grid(Box<Grid>),
}

/// The attribute of a tensor whose elements are codes of quantized numbers. The value of the
/// attribute is the method that dequantizes the codes. Steps and writers that need numbers refuse
/// such a tensor.
pub const CODES_OF: &str = "codes_of";

/// A tensor of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Name of the tensor, which is unique in its catalog. The name may be any UTF-8 string,
    /// including an empty one.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Dimensions, in elements. The list is empty for a scalar.
    pub shape: Vec<u64>,
    /// Length in bytes of the tensor in contiguous, row-major form.
    pub bytes: u64,
    /// Location of the tensor's bytes.
    pub data: Data,
    /// Other properties of the tensor, such as its unit, or the spacings and names of its axes.
    /// Steps that change the axes remove the attributes and report a loss.
    pub attributes: BTreeMap<String, Value>,
}

impl Tensor {
    /// Returns the number of blocks, which is 0 for an empty tensor.
    #[must_use]
    pub fn block_count(&self) -> u64 {
        match &self.data {
            Data::Empty => 0,
            Data::Whole { .. } => 1,
            Data::Blocks(blocks) => blocks.len() as u64,
            Data::Grid(grid) => grid.tiles.count(),
        }
    }

    /// Returns a block by its number.
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
            Data::Grid(grid) => grid.block(&self.shape, number),
            Data::Empty | Data::Whole { .. } => None,
        }
    }

    /// Iterates over all blocks that overlap `region`. Other blocks may also be included.
    pub fn blocks_of<'a>(&'a self, region: &Region) -> impl Iterator<Item = Block> + use<'a> {
        let grid = if let Data::Grid(grid) = &self.data { Some(&**grid) } else { None };
        let touching = grid.map(|grid| grid.tiles_overlapping(&self.shape, region));
        let all = 0..if grid.is_some() { 0 } else { self.block_count() };
        touching.into_iter().flatten().chain(all).filter_map(|number| self.block(number))
    }

    /// Iterates over the blocks in order. The iterator creates each block on request.
    pub fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        (0..self.block_count()).filter_map(|number| self.block(number))
    }

    /// Iterates over the storages that the tensor's blocks refer to, without repetitions. The
    /// storage of a grid's fill element is included.
    pub fn storages(&self) -> impl Iterator<Item = StorageId> + '_ {
        let (whole, blocks, grid) = match &self.data {
            Data::Empty => (None, None, None),
            Data::Whole { storage, .. } => (Some(*storage), None, None),
            Data::Blocks(blocks) => (None, Some(blocks), None),
            Data::Grid(grid) => (None, None, Some(grid)),
        };
        let blocks = blocks.into_iter().flatten().map(|block| block.storage);
        whole.into_iter().chain(blocks).chain(grid.into_iter().flat_map(|grid| grid.storages()))
    }
}
