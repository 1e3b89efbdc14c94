//! The writer for `data=grid` divides every tensor into blocks, which alternate between row-major
//! and column-major order, both byte orders, and all data files.

use super::{DataFiles, add_tensor, index_path, new_index, place_in, plain_block};
use crate::index::Index;
use tensorferry_sdk::{
    Block, ByteOrder, CatalogView, Context, LayoutSink, Order, Region, Result, Target, TensorId, TensorPart,
    TensorPlan, TensorWriter,
};

/// The number of dimensions that are divided. Other dimensions are not divided, to limit the number
/// of blocks.
const CUT_DIMENSIONS: usize = 3;

pub(super) struct Writer {
    pub(super) files: u64,
    pub(super) pieces: u64,
}

impl TensorWriter for Writer {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        let path = index_path(target);
        let mut index = new_index(catalog)?;
        let mut files = DataFiles::plan(&mut index, layout, path, self.files)?;
        for id in catalog.tensor_ids() {
            context.check_cancelled()?;
            let first = catalog.tied_to(id);
            if first == id {
                let blocks = self.blocks(catalog, id, &mut index, &mut files, layout)?;
                add_tensor(&mut index, catalog, id, blocks)?;
            } else {
                layout.alias(id, first)?;
                let place = place_in(&index, catalog, first)?;
                index.aliases.push((catalog.tensor(id).name.to_owned(), place));
            }
        }
        Ok(Box::new(files.finish(index, layout, path)?))
    }
}

impl Writer {
    fn blocks(
        &self,
        catalog: &dyn CatalogView,
        tensor: TensorId,
        index: &mut Index,
        files: &mut DataFiles,
        layout: &mut dyn LayoutSink,
    ) -> Result<Vec<Block>> {
        let mut blocks = Vec::new();
        for tile in tiles(catalog, tensor, self.pieces)? {
            let Tile { part, len } = tile.clone();
            let add = |layout: &mut dyn LayoutSink, file| layout.tensor(file, part);
            let storage = files.add(index, layout, len, tile.part.byte_order, add)?;
            blocks.push(tile.block(catalog, storage)?);
        }
        Ok(blocks)
    }
}

/// A part of a tensor, and its length in bytes.
#[derive(Clone)]
pub(super) struct Tile {
    pub(super) part: TensorPart,
    pub(super) len: u64,
}

/// Returns the tiles of a tensor, which alternate between row-major and column-major order and both
/// byte orders. If the elements of a tensor share bytes or are strings, the tensor is one tile.
pub(super) fn tiles(catalog: &dyn CatalogView, tensor: TensorId, pieces: u64) -> Result<Vec<Tile>> {
    let view = catalog.tensor(tensor);
    let Some(width) = catalog.dtype_info(view.dtype)?.element_bytes() else {
        return Ok(vec![Tile { part: TensorPart::whole(tensor), len: view.bytes }]);
    };
    let tile = |(number, region): (usize, Region)| {
        let byte_order = if number % 2 == 0 { ByteOrder::Little } else { ByteOrder::Big };
        let order = if number % 4 < 2 { Order::Fortran } else { Order::C };
        let len = region.shape.iter().product::<u64>() * u64::from(width);
        Tile { part: TensorPart { tensor, region: Some(region), order, byte_order }, len }
    };
    Ok(grid(view.shape, pieces).into_iter().enumerate().map(tile).collect())
}

impl Tile {
    /// Returns the tile as a block of its tensor, in this storage.
    pub(super) fn block(self, catalog: &dyn CatalogView, storage: usize) -> Result<Block> {
        let TensorPart { tensor, region, order, .. } = self.part;
        let region = region.unwrap_or_else(|| Region::whole(catalog.tensor(tensor).shape));
        let mut block = plain_block(region, storage)?;
        if order == Order::Fortran {
            block.strides = column_major_strides(&block.region.shape);
        }
        Ok(block)
    }
}

/// Returns the blocks of a shape, in row-major order, or an empty list for a shape without
/// elements.
fn grid(shape: &[u64], pieces: u64) -> Vec<Region> {
    let mut regions = vec![Region { origin: Vec::new(), shape: Vec::new() }];
    for (dimension, &len) in shape.iter().enumerate() {
        let pieces = if dimension < CUT_DIMENSIONS { pieces.min(len) } else { 1 };
        let step = if pieces == 0 { 1 } else { len.div_ceil(pieces) };
        let mut finer = Vec::new();
        for region in &regions {
            let mut start = 0;
            while start < len {
                let mut block = region.clone();
                block.origin.push(start);
                block.shape.push(step.min(len - start));
                finer.push(block);
                start += step;
            }
        }
        regions = finer;
    }
    regions
}

pub(crate) fn column_major_strides(shape: &[u64]) -> Vec<i64> {
    let mut stride = 1_i64;
    let next = |&dim: &u64| {
        let this = stride;
        stride = stride.saturating_mul(i64::try_from(dim).unwrap_or(i64::MAX));
        this
    };
    shape.iter().map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorferry_sdk::check_tiling;

    #[test]
    fn a_grid_tiles_its_shape() {
        for shape in [&[][..], &[1], &[5], &[4, 6], &[3, 0, 2], &[2, 3, 4, 5], &[7, 1, 1]] {
            for pieces in [1, 2, 3, 100] {
                let regions = grid(shape, pieces);
                assert!(check_tiling(shape, &regions).is_ok(), "{shape:?} {pieces}");
                assert_eq!(regions.is_empty(), shape.contains(&0));
            }
        }
    }
}
