//! Assembles tensors from chunks. A chunk is a part of a tensor that was saved with its own
//! `torch.save` call. Each chunk becomes blocks that refer to its bytes in the file.

use crate::megatron::BlockTensor;
use crate::table::{ArchiveLocation, Tensor};
use std::collections::{BTreeSet, HashSet};
use tensorferry_sdk::{Block, CatalogSink, Context, Dtype, Error, FileId, Result, Source};
use tensorferry_torch_file::{
    Calls, Extent, Location, ObjectFile, Storages, TorchDtype, ViewLocation, rebuild,
};

/// The files of a checkpoint, along with the storages, globals and calls found in them.
pub(crate) struct Files<'s, 'l> {
    pub(crate) source: &'s dyn Source,
    pub(crate) context: &'s dyn Context,
    pub(crate) storages: Storages<'l>,
    pub(crate) opened: ReadBudget,
    pub(crate) globals: BTreeSet<String>,
    /// Calls in the pickles of chunks. From each of these pickles, the reader uses only the tensor.
    pub(crate) calls: Calls,
}

/// Limits how many bytes of archives are opened in total. Opening an archive parses its pickle, and
/// a hostile table can assign the same archive to a million tensors.
#[derive(Debug, Default)]
pub(crate) struct ReadBudget {
    bytes: u64,
    files: HashSet<FileId>,
    bytes_of_files: u64,
}

/// Maximum total length of all opened archives, as a multiple of the total length of the files. A
/// ratio of 1 is enough if each archive is opened once. If ranks saved without coordination,
/// several tensors may refer to the same archive.
const MAX_READ_RATIO: u64 = 4;

/// Number of bytes allowed in addition to `MAX_READ_RATIO`, so that small files can be read many
/// times.
const READ_ALLOWANCE_BYTES: u64 = 1 << 20;

impl ReadBudget {
    fn count(&mut self, archive: Extent, file_len: u64) -> Result<()> {
        if self.files.insert(archive.file) {
            self.bytes_of_files = self.bytes_of_files.saturating_add(file_len);
        }
        self.bytes = self.bytes.saturating_add(archive.len);
        let max = MAX_READ_RATIO.saturating_mul(self.bytes_of_files).saturating_add(READ_ALLOWANCE_BYTES);
        if self.bytes > max {
            return Err(Error::limit("the table refers to the same bytes too many times")
                .expected(format!("at most {max} bytes in all archives"))
                .found(self.bytes));
        }
        Ok(())
    }
}

impl Files<'_, '_> {
    /// Opens the archive at the given location.
    pub(crate) fn open(&mut self, stored: &ArchiveLocation) -> Result<ObjectFile> {
        let object = self.source.open(&stored.file).and_then(|file| {
            let extent = Extent::within(self.source, file, stored.offset, stored.len)?;
            self.opened.count(extent, self.source.len(file))?;
            ObjectFile::open(self.source, extent, self.context)
        });
        let object = object.map_err(|error| error.file(&stored.file).offset(stored.offset))?;
        self.globals.extend(object.globals().map(str::to_owned));
        Ok(object)
    }

    /// Returns a tensor assembled from its chunks.
    pub(crate) fn blocks(
        &mut self,
        name: &str,
        tensor: &Tensor,
        catalog: &mut dyn CatalogSink,
    ) -> Result<BlockTensor> {
        let too_large = || Error::malformed("a size does not fit in 64 bits");
        let shape = tensor.dtype.logical_shape(&tensor.size).ok_or_else(too_large)?;
        let mut blocks: Vec<Block> = Vec::with_capacity(tensor.chunks.len());
        for chunk in &tensor.chunks {
            self.context.check_cancelled()?;
            let sizes = tensor.dtype.logical_shape(&chunk.sizes).ok_or_else(too_large)?;
            let origin = origin(tensor.dtype, &chunk.offsets, shape.len()).ok_or_else(too_large)?;
            let location = self.chunk(&chunk.stored, tensor.dtype.dtype, &sizes, catalog);
            let location =
                location.map_err(|error| error.file(&chunk.stored.file).offset(chunk.stored.offset))?;
            for mut block in location.blocks() {
                block.region.origin.clone_from(&origin);
                blocks.push(block);
            }
        }
        Ok(BlockTensor { name: name.to_owned(), dtype: tensor.dtype.dtype, shape, blocks })
    }

    fn chunk(
        &mut self,
        stored: &ArchiveLocation,
        dtype: Dtype,
        shape: &[u64],
        catalog: &mut dyn CatalogSink,
    ) -> Result<Location> {
        let object = self.open(stored)?;
        self.calls.add(&stored.file, &object);
        let rebuilt = rebuild::tensor(object.graph(), object.root())?;
        let rebuilt = rebuilt.ok_or_else(|| Error::malformed("a chunk does not contain a tensor"))?;
        let view = rebuilt
            .into_view()
            .map_err(|why| Error::unsupported(format!("a chunk cannot be read: {why}")))?;
        let location = match self.storages.locate(catalog, &object, &view)? {
            ViewLocation::Found(location) => location,
            ViewLocation::Lost(why) => {
                return Err(Error::unsupported(format!("a chunk cannot be read: {why}")));
            }
        };
        if location.dtype != dtype || location.shape != shape {
            return Err(Error::malformed("a chunk does not match the table")
                .expected(described(dtype, shape))
                .found(described(location.dtype, &location.shape)));
        }
        Ok(location)
    }
}

/// Returns the position of a chunk's first element in the whole tensor, counted in the catalog's
/// elements.
fn origin(dtype: &TorchDtype, offsets: &[u64], rank: usize) -> Option<Vec<u64>> {
    let mut origin = offsets.to_vec();
    if let Some(last) = origin.last_mut() {
        *last = last.checked_mul(dtype.packing())?;
    }
    // A packed scalar contains two of the catalog's elements, so the catalog's tensor has one more
    // dimension.
    origin.resize(rank, 0);
    Some(origin)
}

fn described(dtype: Dtype, shape: &[u64]) -> String {
    format!("{} {shape:?}", dtype.info().map_or("?", |info| info.name()))
}
