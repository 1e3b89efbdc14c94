//! The proof that tensors lie in their storages. A list of tensors becomes a catalog's only through it,
//! whether a reader gives it or a step makes it of another.

use crate::block::{is_row_major, reach};
use crate::region::check_tiling;
use crate::sharing::Sharing;
use crate::{
    Block, Catalog, Data, Dtype, DtypeInfo, Error, Grid, Limits, Region, Result, StorageId, Tensor, TensorId,
    Tree, element_count, row_major_strides,
};
use std::collections::HashSet;
use std::ops::Range;

/// A catalog whose tensors are being proved, one by one.
pub(crate) struct Proof<'a> {
    pub(crate) catalog: Catalog,
    limits: &'a Limits,
    names: HashSet<String>,
    blocks: u64,
    expanded_bytes: u64,
    pub(crate) sharing: Sharing,
}

impl Catalog {
    /// The same catalog with other tensors over its storages; each is proved anew, as a reader's are, so
    /// that no extent is out of bounds, no name there twice, and every tensor tiled by its blocks. Lengths
    /// are computed, whatever [`Tensor::bytes`] says. The tree stays, unless another one is given: it
    /// names tensors by their place, so one that names them by their old place is not what was meant.
    ///
    /// # Errors
    /// Malformed, for what the proof refuses; a plugin error, if the tree names a tensor that is not
    /// there; a limit.
    pub fn with_tensors(self, tensors: Vec<Tensor>, tree: Option<Tree>, limits: &Limits) -> Result<Self> {
        let tree = tree.unwrap_or(self.tree);
        // What its reader's catalog shares was counted; what steps repeat, the user asks for.
        let catalog = Self { tensors: Vec::with_capacity(tensors.len()), tree, ..self };
        let mut proof = Proof { sharing: Sharing::new(None), ..Proof::new(catalog, limits) };
        for tensor in tensors {
            proof.add(tensor)?;
        }
        proof.finish()
    }
}

impl<'a> Proof<'a> {
    /// For a catalog that has no tensors yet.
    pub(crate) fn new(catalog: Catalog, limits: &'a Limits) -> Self {
        debug_assert!(catalog.tensors.is_empty(), "tensors that were not proved");
        let sharing = Sharing::new(Some(limits));
        Self { catalog, limits, names: HashSet::new(), blocks: 0, expanded_bytes: 0, sharing }
    }

    /// The catalog.
    pub(crate) fn finish(self) -> Result<Catalog> {
        self.catalog.check_tree()?;
        Ok(self.catalog)
    }

    /// Adds a tensor; its length is computed here, and its blocks become the simplest equivalent form.
    pub(crate) fn add(&mut self, mut tensor: Tensor) -> Result<TensorId> {
        let proved = match std::mem::replace(&mut tensor.data, Data::Empty) {
            Data::Empty => self.check_empty(&tensor),
            Data::Whole { storage, offset } => self.check_whole(&tensor, storage, offset),
            Data::Blocks(blocks) => self.check_blocks(&tensor, blocks),
            Data::Grid(grid) => self.check_grid(&tensor, *grid),
        };
        (tensor.bytes, tensor.data) = proved.map_err(|e| e.tensor(&tensor.name))?;
        let limits = self.limits;
        if tensor.name.len() as u64 > limits.name_bytes {
            return Err(Error::limit("a tensor's name is too long")
                .expected(format!("at most {} bytes", limits.name_bytes))
                .found(tensor.name.len()));
        }
        let id = u32::try_from(self.catalog.tensors.len())
            .ok()
            .filter(|&id| u64::from(id) < limits.tensors)
            .ok_or_else(|| {
                Error::limit("too many tensors")
                    .expected(format!("at most {}, or --bound tensors=N", limits.tensors))
            })?;
        if !self.names.insert(tensor.name.clone()) {
            return Err(Error::malformed("two tensors have this name").tensor(tensor.name));
        }
        self.catalog.tensors.push(tensor);
        Ok(TensorId(id))
    }

    fn info(&self, dtype: Dtype) -> Result<DtypeInfo> {
        let info = self.catalog.dtype_info(dtype);
        info.cloned().ok_or_else(|| Error::plugin(format!("no dtype {}", dtype.id())))
    }

    fn storage_len(&self, storage: StorageId) -> Result<u64> {
        let storage_len = self.catalog.storage(storage).map(|s| s.len);
        storage_len.ok_or_else(|| Error::plugin(format!("no storage {}", storage.0)))
    }

    /// Counts bytes that lie in an extent of a storage.
    pub(crate) fn share(&mut self, id: StorageId, extent: Range<u64>, bytes: u64) -> Result<()> {
        let storage = self.catalog.storage(id);
        let storage = storage.ok_or_else(|| Error::plugin(format!("no storage {}", id.0)))?;
        self.sharing.name(id, storage, extent, bytes)
    }

    fn check_empty(&self, tensor: &Tensor) -> Result<(u64, Data)> {
        self.info(tensor.dtype)?;
        match element_count(&tensor.shape)? {
            0 => Ok((0, Data::Empty)),
            elements => Err(Error::plugin("the tensor has no bytes").found(format!("{elements} elements"))),
        }
    }

    fn check_whole(&mut self, tensor: &Tensor, storage: StorageId, offset: u64) -> Result<(u64, Data)> {
        let info = self.info(tensor.dtype)?;
        let elements = element_count(&tensor.shape)?;
        let bytes = if info.is_variable() && elements > 0 {
            let bytes = self.storage_len(storage)?.saturating_sub(offset);
            // Each element begins with its length, so a shape cannot claim more than is there.
            if bytes / 8 < elements {
                return Err(Error::malformed("strings are missing")
                    .expected(format!("{elements} elements of at least 8 bytes"))
                    .found(format!("{bytes} bytes")));
            }
            bytes
        } else if elements == 0 {
            0
        } else {
            info.bytes_of(elements)?
        };
        if bytes == 0 {
            return Ok((0, Data::Empty));
        }
        check_inside(self.storage_len(storage)?, offset, bytes)?;
        self.share(storage, offset..offset + bytes, bytes)?;
        Ok((bytes, Data::Whole { storage, offset }))
    }

    fn check_blocks(&mut self, tensor: &Tensor, blocks: Vec<Block>) -> Result<(u64, Data)> {
        let info = self.info(tensor.dtype)?;
        self.count_blocks(blocks.len() as u64)?;
        if info.is_variable() && !blocks.is_empty() {
            return Err(Error::unsupported("strings in several blocks"));
        }
        let elements = element_count(&tensor.shape)?;
        for block in &blocks {
            let (extent, bytes) = self.check_block(&info, &tensor.shape, block)?;
            // One element that fills a tensor is a constant, which many formats have.
            if block.strides.iter().any(|&stride| stride != 0) || extent.end - extent.start == bytes {
                self.share(block.storage, extent, bytes)?;
            }
        }
        let regions: Vec<Region> = blocks.iter().map(|block| block.region.clone()).collect();
        check_tiling(&tensor.shape, &regions)?;
        if elements == 0 {
            return Ok((0, Data::Empty));
        }
        let bytes = info.bytes_of(elements)?;
        let data = match &*blocks {
            [one] if is_row_major(one) => Data::Whole { storage: one.storage, offset: one.offset },
            _ => Data::Blocks(blocks),
        };
        Ok((bytes, data))
    }

    fn count_blocks(&mut self, more: u64) -> Result<()> {
        self.blocks = self.blocks.saturating_add(more);
        if self.blocks > self.limits.entries {
            return Err(Error::limit("too many blocks")
                .expected(format!("at most {}, or --bound entries=N", self.limits.entries)));
        }
        Ok(())
    }

    /// Each tile is proved as a block is; that tiles of one shape tile the tensor needs no proof.
    fn check_grid(&mut self, tensor: &Tensor, grid: Grid) -> Result<(u64, Data)> {
        let info = self.info(tensor.dtype)?;
        if info.element_bytes().is_none() {
            return Err(Error::unsupported(format!(
                "a grid of {}, which has no elements of whole bytes",
                info.name()
            )));
        }
        if grid.tile.len() != tensor.shape.len() || grid.tile.contains(&0) {
            return Err(Error::malformed("the tiles' shape is not one for this tensor")
                .expected(format!("{} dimensions, none of them 0", tensor.shape.len()))
                .found(format!("{:?}", grid.tile)));
        }
        let elements = element_count(&tensor.shape)?;
        let tiles = grid.counts(&tensor.shape).try_fold(1_u64, u64::checked_mul);
        let tiles = tiles.ok_or_else(|| Error::limit("too many tiles"))?;
        if tiles != grid.tiles.count() {
            return Err(Error::malformed("the grid has another number of tiles")
                .expected(format!("{tiles}, of shape {:?} in {:?}", grid.tile, tensor.shape))
                .found(grid.tiles.count()));
        }
        self.count_blocks(tiles)?;
        if elements == 0 {
            return Ok((0, Data::Empty));
        }
        let grid = grid.simplified();
        for number in 0..tiles {
            let block = grid.block(&tensor.shape, number);
            let block =
                block.ok_or_else(|| Error::plugin("a tile is absent, and there is no fill for it"))?;
            let (_, bytes) = self.check_block(&info, &tensor.shape, &block)?;
            if grid.tiles.get(number).is_some() {
                self.sharing.tile(block.storage, bytes)?;
            }
        }
        let data = match grid.block(&tensor.shape, 0) {
            Some(one) if tiles == 1 && is_row_major(&one) => {
                Data::Whole { storage: one.storage, offset: one.offset }
            }
            _ => Data::Grid(Box::new(grid)),
        };
        Ok((info.bytes_of(elements)?, data))
    }

    /// The extent of a block in its storage, and how many bytes it has.
    fn check_block(&mut self, info: &DtypeInfo, shape: &[u64], block: &Block) -> Result<(Range<u64>, u64)> {
        let region = &block.region;
        if block.strides.len() != region.shape.len() {
            return Err(Error::plugin("a block's strides and shape differ in rank"));
        }
        let elements = element_count(&region.shape)?;
        if elements == 0 {
            return Ok((block.offset..block.offset, 0));
        }
        let storage_len = self.storage_len(block.storage)?;
        let logical = info.bytes_of(elements)?;
        let Some(width) = info.element_bytes() else {
            check_packed(info, shape, block)?;
            check_inside(storage_len, block.offset, logical)?;
            return Ok((block.offset..block.offset + logical, logical));
        };
        let (before, after) =
            reach(block, width).ok_or_else(|| Error::malformed("a view's extent does not fit 64 bits"))?;
        let extent = before + after;
        let start = block.offset.checked_sub(before).ok_or_else(|| {
            Error::malformed("a view starts before its storage")
                .found(format!("-{before} bytes from {}", block.offset))
        })?;
        check_inside(storage_len, start, extent)?;
        self.expand(logical, extent)?;
        Ok((start..start + extent, logical))
    }

    /// Counts what a block has beyond the bytes that are stored for it.
    fn expand(&mut self, logical: u64, stored: u64) -> Result<()> {
        self.expanded_bytes = self.expanded_bytes.saturating_add(logical.saturating_sub(stored));
        if self.expanded_bytes > self.limits.expanded_bytes {
            return Err(Error::limit("views repeat stored bytes too often")
                .expected(format!(
                    "at most {} bytes more than are stored, or --bound expanded_bytes=N",
                    self.limits.expanded_bytes
                ))
                .found(self.expanded_bytes));
        }
        Ok(())
    }
}

/// Elements that share bytes can only be read as they lie, from a byte's first element.
fn check_packed(info: &DtypeInfo, shape: &[u64], block: &Block) -> Result<()> {
    let run = block.region.row_major_run(shape);
    let row_major = block.strides == row_major_strides(&block.region.shape);
    match run {
        Some((start, _)) if row_major && start.is_multiple_of(info.block_elements().into()) => Ok(()),
        _ => Err(Error::unsupported(format!("a strided view of packed {}", info.name()))),
    }
}

/// Whether bytes of a tensor lie in its storage, which has no name to be called by.
fn check_inside(storage_len: u64, start: u64, len: u64) -> Result<()> {
    match start.checked_add(len) {
        Some(end) if end <= storage_len => Ok(()),
        _ => Err(Error::malformed("the tensor's storage ends too early")
            .offset(start)
            .expected(format!("{len} bytes"))
            .found(format!("{} bytes", storage_len.saturating_sub(start)))),
    }
}
