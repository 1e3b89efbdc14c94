//! Checks that tensors are inside their storages. The tensors of every catalog pass this check,
//! whether they come from a reader or from a step.

use crate::block::{is_row_major, reach};
use crate::region::check_tiling;
use crate::sharing::SharedBytesAccount;
use crate::{
    Block, Catalog, Data, Dtype, DtypeInfo, Error, Grid, Limits, Region, Result, StorageId, Tensor, TensorId,
    Tree, element_count, row_major_strides,
};
use std::collections::HashSet;
use std::ops::Range;

/// A partly built catalog. Each tensor is checked as it is added.
pub(crate) struct CatalogChecker<'a> {
    pub(crate) catalog: Catalog,
    limits: &'a Limits,
    names: HashSet<String>,
    blocks: u64,
    expanded_bytes: u64,
    pub(crate) sharing: SharedBytesAccount,
}

impl Catalog {
    /// Returns this catalog with different tensors in the same storages. The tensors must pass the
    /// same checks as a reader's tensors. Extents must be in bounds, names must be unique, and
    /// blocks must cover their tensors exactly once. Lengths are computed, and [`Tensor::bytes`] is
    /// ignored. The tree is kept unless a new tree is passed. A tree refers to tensors by id, so
    /// pass a new tree if the ids change.
    ///
    /// # Errors
    /// Returns a malformed-data error if a tensor does not pass the checks. Returns a plugin error
    /// if the tree refers to a tensor that does not exist. Returns a limit error if the tensors
    /// exceed a limit.
    pub fn with_tensors(self, tensors: Vec<Tensor>, tree: Option<Tree>, limits: &Limits) -> Result<Self> {
        let tree = tree.unwrap_or(self.tree);
        // Shared bytes were already counted for the reader's catalog. Steps share additional bytes
        // only at the user's request, so those bytes are not limited.
        let catalog = Self { tensors: Vec::with_capacity(tensors.len()), tree, ..self };
        let mut proof =
            CatalogChecker { sharing: SharedBytesAccount::new(None), ..CatalogChecker::new(catalog, limits) };
        for tensor in tensors {
            proof.add(tensor)?;
        }
        proof.finish()
    }
}

impl<'a> CatalogChecker<'a> {
    /// Starts checking for a catalog that does not contain any tensors yet.
    pub(crate) fn new(catalog: Catalog, limits: &'a Limits) -> Self {
        debug_assert!(catalog.tensors.is_empty(), "all tensors must be checked");
        let sharing = SharedBytesAccount::new(Some(limits));
        Self { catalog, limits, names: HashSet::new(), blocks: 0, expanded_bytes: 0, sharing }
    }

    pub(crate) fn finish(self) -> Result<Catalog> {
        self.catalog.check_tree()?;
        Ok(self.catalog)
    }

    /// Adds a tensor, computes its length, and simplifies its blocks.
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
            return Err(Error::limit("the name of a tensor is too long")
                .expected(format!("at most {} bytes", limits.name_bytes))
                .found(tensor.name.len()));
        }
        let id = u32::try_from(self.catalog.tensors.len())
            .ok()
            .filter(|&id| u64::from(id) < limits.tensors)
            .ok_or_else(|| {
                Error::limit("too many tensors")
                    .expected(format!("at most {}", limits.tensors))
                    .hint("if you trust the file, raise the limit with --limit tensors=N")
            })?;
        if !self.names.insert(tensor.name.clone()) {
            return Err(Error::malformed("two tensors have the same name").tensor(tensor.name));
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

    /// Counts the `bytes` of a tensor that refer to an extent of a storage.
    pub(crate) fn share(&mut self, id: StorageId, extent: Range<u64>, bytes: u64) -> Result<()> {
        let storage = self.catalog.storage(id);
        let storage = storage.ok_or_else(|| Error::plugin(format!("no storage {}", id.0)))?;
        self.sharing.name(id, storage, extent, bytes)
    }

    fn check_empty(&self, tensor: &Tensor) -> Result<(u64, Data)> {
        self.info(tensor.dtype)?;
        match element_count(&tensor.shape)? {
            0 => Ok((0, Data::Empty)),
            elements => Err(Error::plugin("the tensor has no data").found(format!("{elements} elements"))),
        }
    }

    fn check_whole(&mut self, tensor: &Tensor, storage: StorageId, offset: u64) -> Result<(u64, Data)> {
        let info = self.info(tensor.dtype)?;
        let elements = element_count(&tensor.shape)?;
        let bytes = if info.is_variable() && elements > 0 {
            let bytes = self.storage_len(storage)?.saturating_sub(offset);
            // Each element begins with its length in 8 bytes, so a shape with too many elements is
            // detected here.
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
            return Err(Error::unsupported("tensors of strings cannot have several blocks"));
        }
        let elements = element_count(&tensor.shape)?;
        for block in &blocks {
            let (extent, bytes) = self.check_block(&info, &tensor.shape, block)?;
            // A single element that fills a tensor is a constant. Constants are common in many
            // formats and are not counted.
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
                .expected(format!("at most {}", self.limits.entries))
                .hint("if you trust the file, raise the limit with --limit entries=N"));
        }
        Ok(())
    }

    /// Checks each tile like a block. Tiles of one shape always cover the tensor exactly once.
    fn check_grid(&mut self, tensor: &Tensor, grid: Grid) -> Result<(u64, Data)> {
        let info = self.info(tensor.dtype)?;
        if info.element_bytes().is_none() {
            return Err(Error::unsupported(format!(
                "a grid needs elements of whole bytes, which {} does not have",
                info.name()
            )));
        }
        if grid.tile.len() != tensor.shape.len() || grid.tile.contains(&0) {
            return Err(Error::malformed("the tile shape does not fit the tensor")
                .expected(format!("{} dimensions, none of them 0", tensor.shape.len()))
                .found(format!("{:?}", grid.tile)));
        }
        let elements = element_count(&tensor.shape)?;
        let tiles = grid.counts(&tensor.shape).try_fold(1_u64, u64::checked_mul);
        let tiles = tiles.ok_or_else(|| Error::limit("too many tiles"))?;
        if tiles != grid.tiles.count() {
            return Err(Error::malformed("the grid has the wrong number of tiles")
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
            let block = block.ok_or_else(|| Error::plugin("a tile is absent and the grid has no fill"))?;
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

    /// Checks a block. Returns the extent of the block in its storage, and the length of its
    /// elements in bytes.
    fn check_block(&mut self, info: &DtypeInfo, shape: &[u64], block: &Block) -> Result<(Range<u64>, u64)> {
        let region = &block.region;
        if block.strides.len() != region.shape.len() {
            return Err(Error::plugin("the strides and the shape of a block differ in rank"));
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
            reach(block, width).ok_or_else(|| Error::malformed("the extent of a view exceeds 64 bits"))?;
        let extent = before + after;
        let start = block.offset.checked_sub(before).ok_or_else(|| {
            Error::malformed("a view starts before its storage")
                .found(format!("-{before} bytes from {}", block.offset))
        })?;
        check_inside(storage_len, start, extent)?;
        self.expand(logical, extent)?;
        Ok((start..start + extent, logical))
    }

    /// Counts the bytes by which the elements of a block exceed the stored bytes.
    fn expand(&mut self, logical: u64, stored: u64) -> Result<()> {
        self.expanded_bytes = self.expanded_bytes.saturating_add(logical.saturating_sub(stored));
        if self.expanded_bytes > self.limits.expanded_bytes {
            return Err(Error::limit("views repeat stored bytes too often")
                .expected(format!("at most {} bytes more than are stored", self.limits.expanded_bytes))
                .hint("if you trust the file, raise the limit with --limit expanded_bytes=N")
                .found(self.expanded_bytes));
        }
        Ok(())
    }
}

/// Checks that a block of packed elements is contiguous and starts at the first element of a byte.
fn check_packed(info: &DtypeInfo, shape: &[u64], block: &Block) -> Result<()> {
    let run = block.region.row_major_run(shape);
    let row_major = block.strides == row_major_strides(&block.region.shape);
    match run {
        Some((start, _)) if row_major && start.is_multiple_of(info.block_elements().into()) => Ok(()),
        _ => Err(Error::unsupported(format!("strided views of {} are not supported", info.name()))),
    }
}

/// Checks that the bytes of a tensor are inside a storage. The error does not name the storage,
/// because storages have no names.
fn check_inside(storage_len: u64, start: u64, len: u64) -> Result<()> {
    match start.checked_add(len) {
        Some(end) if end <= storage_len => Ok(()),
        _ => Err(Error::malformed("the tensor's storage ends too early")
            .offset(start)
            .expected(format!("{len} bytes"))
            .found(format!("{} bytes", storage_len.saturating_sub(start)))),
    }
}
