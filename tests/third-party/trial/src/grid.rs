//! Recognition of grids. The index lists blocks, and blocks written with `data=tiles` form a grid.
//! The reader passes such blocks to the host as one grid.

use crate::write::column_major_strides;
use tensorferry_sdk::{Block, Edges, Grid, Order, StorageId, Tiles, row_major_strides};

/// The first blocks of a tensor, if they are the tiles of a grid in row-major order, each at the
/// start of its storage.
pub(crate) struct TileList<'a> {
    shape: &'a [u64],
    tile: Vec<u64>,
    /// The orders of elements that match all tiles so far.
    orders: Vec<Order>,
    storages: Tiles,
}

impl<'a> TileList<'a> {
    /// Creates an empty list for a tensor of this shape.
    pub(crate) fn new(shape: &'a [u64]) -> Self {
        let storages = Tiles::Consecutive { first: StorageId(0), count: 0 };
        Self { shape, tile: Vec::new(), orders: vec![Order::C, Order::Fortran], storages }
    }

    /// Adds a block. Returns false if it is not the next tile.
    pub(crate) fn push(&mut self, block: &Block) -> bool {
        let Self { shape, tile, orders, storages } = self;
        let number = storages.count();
        if number == 0 {
            tile.clone_from(&block.region.shape);
            if tile.contains(&0) {
                return false;
            }
        }
        orders.retain(|order| block.strides == strides(&block.region.shape, *order));
        let mut index = number;
        let is_next = (0..shape.len()).rev().all(|dim| {
            let count = shape[dim].div_ceil(tile[dim]);
            let start = index % count.max(1) * tile[dim];
            index /= count.max(1);
            block.region.origin[dim] == start
                && start < shape[dim]
                && block.region.shape[dim] == tile[dim].min(shape[dim] - start)
        });
        add(storages, block.storage);
        is_next && index == 0 && block.offset == 0 && !orders.is_empty()
    }

    /// Returns the grid, if several blocks were added.
    pub(crate) fn finish(self) -> Option<Grid> {
        let order = *self.orders.first().filter(|_| self.storages.count() > 1)?;
        Some(Grid { tile: self.tile, order, edges: Edges::Clipped, tiles: self.storages, fill: None })
    }
}

/// Adds a tile. Tiles with consecutive storages, which is the usual case, take no memory.
fn add(tiles: &mut Tiles, storage: StorageId) {
    let number = tiles.count();
    if let Tiles::Consecutive { first, count } = tiles {
        if number == 0 {
            *first = storage;
        }
        if u64::from(storage.0) == u64::from(first.0) + number && *count < u32::MAX {
            *count += 1;
            return;
        }
        *tiles = Tiles::Listed((0..number).map(|number| tiles.get(number)).collect());
    }
    if let Tiles::Listed(listed) = tiles {
        listed.push(Some(storage));
    }
}

fn strides(shape: &[u64], order: Order) -> Vec<i64> {
    match order {
        Order::C => row_major_strides(shape),
        Order::Fortran => column_major_strides(shape),
    }
}
