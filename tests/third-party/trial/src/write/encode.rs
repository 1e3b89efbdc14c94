//! The writer for `data=encode` divides tensors into chunks of whole rows, and encodes each chunk
//! when it streams a file. The offsets of the chunks are known when all files are complete.

use super::{
    DATA_HEADER_LEN, add_tensor, data_header, data_path, file_name, index_path, new_index, place_in,
    plain_block, room, seal_index,
};
use crate::codec::encode;
use crate::index::{DataFile, Index, Stored};
use std::sync::Mutex;
use tensorferry_sdk::{
    Block, ByteOrder, ByteSink, CatalogView, Context, Digests, DtypeInfo, Error, LayoutSink, OutputId,
    Region, Result, Role, SealSink, Target, TensorId, TensorPlan, TensorView, TensorWriter,
};

pub(super) struct Writer {
    pub(super) files: u64,
    pub(super) chunk: u64,
}

/// A piece of a tensor's logical bytes, which becomes one storage.
struct Chunk {
    tensor: TensorId,
    offset: u64,
    len: u64,
    file: u32,
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
        let mut chunks: Vec<Chunk> = Vec::new();
        let mut by_file = vec![Vec::new(); usize::try_from(self.files).unwrap_or(1)];
        for id in catalog.tensor_ids() {
            context.check_cancelled()?;
            let first = catalog.tied_to(id);
            if first != id {
                layout.alias(id, first)?;
                let place = place_in(&index, catalog, first)?;
                index.aliases.push((catalog.tensor(id).name.to_owned(), place));
                continue;
            }
            let file = index.tensors.len() % by_file.len();
            by_file[file].push(id);
            let view = catalog.tensor(id);
            let info = catalog.dtype_info(view.dtype)?;
            let mut blocks: Vec<Block> = Vec::new();
            for region in rows(&view, &info, self.chunk)? {
                let offset =
                    chunks.last().filter(|last| last.tensor == id).map_or(0, |last| last.offset + last.len);
                let len = if info.is_variable() {
                    view.bytes
                } else {
                    info.bytes_of(region.shape.iter().product())?
                };
                blocks.push(plain_block(region, chunks.len())?);
                chunks.push(Chunk { tensor: id, offset, len, file: u32::try_from(file).unwrap_or(u32::MAX) });
            }
            add_tensor(&mut index, catalog, id, blocks)?;
        }
        let mut files = Vec::new();
        for (number, tensors) in (0..).zip(by_file) {
            let name = data_path(path, number);
            files.push(layout.streamed_file(&name, Role::Data, &tensors)?);
            index.files.push(DataFile { name: file_name(&name), len: 0 });
        }
        let index_file = layout.late_file(path, Role::Index)?;
        let stored = Mutex::new(vec![None; chunks.len()]);
        Ok(Box::new(Plan { index, index_file, files, chunks, stored }))
    }
}

/// Returns the chunks of a tensor. Each chunk has as many rows as fit into `chunk` bytes, but at
/// least one. If neighboring rows can share a byte, because elements are packed, all rows are one
/// chunk.
fn rows(view: &TensorView<'_>, info: &DtypeInfo, chunk: u64) -> Result<Vec<Region>> {
    if view.bytes == 0 {
        return Ok(Vec::new());
    }
    let whole = Region::whole(view.shape);
    let Some((&count, inner)) = view.shape.split_first() else { return Ok(vec![whole]) };
    let row_elements: u64 = inner.iter().product();
    if info.is_variable() || !row_elements.is_multiple_of(info.block_elements().into()) {
        return Ok(vec![whole]);
    }
    let step = (chunk / info.bytes_of(row_elements)?.max(1)).max(1);
    let mut regions = Vec::new();
    let mut start = 0;
    while start < count {
        let mut region = whole.clone();
        region.origin[0] = start;
        region.shape[0] = step.min(count - start);
        start += region.shape[0];
        regions.push(region);
    }
    Ok(regions)
}

struct Plan {
    index: Index,
    index_file: OutputId,
    files: Vec<OutputId>,
    chunks: Vec<Chunk>,
    /// The location of each chunk. The streams, which run in parallel, fill in the locations.
    stored: Mutex<Vec<Option<Stored>>>,
}

impl TensorPlan for Plan {
    fn stream(
        &self,
        file: OutputId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let number = self.files.iter().position(|&id| id == file);
        let number = number.ok_or_else(|| Error::plugin(format!("file {} is not streamed", file.0)))?;
        output.write(&data_header(None))?;
        let mut offset = DATA_HEADER_LEN;
        for (place, chunk) in
            self.chunks.iter().enumerate().filter(|(_, chunk)| chunk.file as usize == number)
        {
            context.check_cancelled()?;
            // A chunk is at most as long as the option `chunk` allows, or is a single row.
            let mut bytes = room(chunk.len, context)?;
            catalog.read(chunk.tensor, chunk.offset, &mut bytes)?;
            let mut encoded = encode(&bytes);
            let stored = Stored {
                file: chunk.file,
                offset,
                stored_len: encoded.len() as u64,
                len: chunk.len,
                is_encoded: true,
                byte_order: ByteOrder::Little,
                crc: crc32c::crc32c(&encoded),
            };
            encoded.resize(encoded.len().next_multiple_of(8), 0);
            output.write(&encoded)?;
            offset += encoded.len() as u64;
            let mut table = self.stored.lock().map_err(|_| Error::plugin("another stream failed"))?;
            table[place] = Some(stored);
        }
        Ok(())
    }

    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink, _context: &dyn Context) -> Result<()> {
        let mut index = self.index.clone();
        for (data, &file) in index.files.iter_mut().zip(&self.files) {
            data.len = digests.file_len(file)?;
        }
        let table = self.stored.lock().map_err(|_| Error::plugin("a stream failed"))?;
        let all: Option<Vec<Stored>> = table.iter().copied().collect();
        index.storages = all.ok_or_else(|| Error::plugin("a file was not streamed"))?;
        seal_index(&index, self.index_file, output)
    }
}
