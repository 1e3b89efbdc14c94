//! The index lists blocks; those that `data=tiles` wrote are a grid, and are given to the host as one.

use crate::write::column_major_strides;
use tensorferry_sdk::{Block, Edges, Grid, Order, Tiles, row_major_strides};

/// The blocks as a grid, if they are the tiles of one in row-major order, each from the start of its storage.
pub(crate) fn grid_of(shape: &[u64], blocks: &[Block]) -> Option<Grid> {
    let [first, _, ..] = blocks else { return None };
    let tile = first.region.shape.clone();
    if tile.len() != shape.len() || tile.contains(&0) {
        return None;
    }
    let is_of =
        |order: &Order| blocks.iter().all(|block| block.strides == strides(&block.region.shape, *order));
    let order = [Order::C, Order::Fortran].into_iter().find(is_of)?;
    let counts: Vec<u64> = shape.iter().zip(&tile).map(|(len, tile)| len.div_ceil(*tile)).collect();
    let is_tile = |(number, block): (u64, &Block)| {
        let mut index = number;
        block.offset == 0
            && (0..shape.len()).rev().all(|dim| {
                let start = index % counts[dim] * tile[dim];
                index /= counts[dim];
                block.region.origin.get(dim) == Some(&start)
                    && block.region.shape.get(dim) == Some(&tile[dim].min(shape[dim] - start))
            })
            && index == 0
    };
    if !(0..).zip(blocks).all(is_tile) {
        return None;
    }
    let tiles = Tiles::Listed(blocks.iter().map(|block| Some(block.storage)).collect());
    Some(Grid { tile, order, edges: Edges::Clipped, tiles, fill: None })
}

fn strides(shape: &[u64], order: Order) -> Vec<i64> {
    match order {
        Order::C => row_major_strides(shape),
        Order::Fortran => column_major_strides(shape),
    }
}
