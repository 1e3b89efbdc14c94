//! A tensor of a catalog: its name, dtype and shape, and where its bytes are.

use crate::{Block, Dtype, Grid, Region, StorageId, Value, row_major_strides};
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
    /// Tiles of one shape with a storage each: chunked formats.
    Grid(Box<Grid>),
}

/// The attribute of a tensor whose elements are codes of quantized numbers, and not numbers: the text names what
/// dequantizes them. Steps and writers that need numbers refuse such a tensor.
pub const CODES_OF: &str = "codes_of";

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
            Data::Grid(grid) => grid.tiles.count(),
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
            Data::Grid(grid) => grid.block(&self.shape, number),
            Data::Empty | Data::Whole { .. } => None,
        }
    }

    /// Those of its blocks that have a part of `region`, and maybe others.
    pub fn blocks_of<'a>(&'a self, region: &Region) -> impl Iterator<Item = Block> + use<'a> {
        let grid = if let Data::Grid(grid) = &self.data { Some(&**grid) } else { None };
        let touching = grid.map(|grid| grid.touching(&self.shape, region));
        let all = 0..if grid.is_some() { 0 } else { self.block_count() };
        touching.into_iter().flatten().chain(all).filter_map(|number| self.block(number))
    }

    /// Its blocks in order; each is made when it is asked for.
    pub fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        (0..self.block_count()).filter_map(|number| self.block(number))
    }

    /// The storages that its blocks name, once for each, and that of a grid's fill.
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
