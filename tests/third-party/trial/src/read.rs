//! The reader. The host reads raw storages directly from their files, and this module decodes
//! encoded storages.

use crate::codec::{Decoder, MAX_OF_PAIR};
use crate::index::{DataFile, Entry, Fields, Index, Joined, Stored};
use crate::write::{DATA_HEADER_LEN, DATA_MAGIC, INDEX_IN_FOLDER};
use std::collections::HashMap;
use tensorferry_sdk::{
    ByteSink, CatalogSink, Context, Digest, Dtype, DtypeInfo, Error, FileId, Result, Source, Storage,
    StorageId, TensorDecoder, TensorId, TensorReader, check_range,
};

const PIECE: u64 = 64 << 10;

pub(crate) struct Reader;

impl TensorReader for Reader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let path = match source.entry() {
            tensorferry_sdk::Entry::File(path) => path,
            tensorferry_sdk::Entry::Folder => INDEX_IN_FOLDER,
            tensorferry_sdk::Entry::Prefix(_) => {
                return Err(Error::usage("pass the index of a trial checkpoint, a .trial file"));
            }
        };
        let file = source.open(path)?;
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let read = |at, len| source.read_vec(file, at, len, context.limits());
        let mut fields = Fields::open(source.len(file), &read).map_err(|e| e.file(path))?;
        let mut files = None;
        let mut storages = Vec::new();
        let mut index = Index::parse(&mut fields, &is_of_whole_bytes, &mut |data, stored, at| {
            let files = match &mut files {
                Some(files) => files,
                none => none.insert(open_data_files(data, folder, source, context)?),
            };
            storages.push(add_storage(&stored, at, files, source, catalog)?);
            Ok(())
        })
        .map_err(|e| e.file(path))?;
        let files = match files {
            Some(files) => files,
            None => open_data_files(&index.files, folder, source, context)?,
        };
        for joined in &index.joined {
            let id = add_joined(joined, &storages, catalog).map_err(|e| e.file(path))?;
            storages.push(id);
        }
        let tensors = add_tensors(&mut index, &storages, catalog).map_err(|e| e.file(path))?;
        for (key, value) in index.metadata {
            catalog.metadata(&key, value)?;
        }
        for (name, key, value) in index.attributes {
            let tensor = tensors.get(&name).copied();
            let missing = || Error::malformed("an attribute of an unknown tensor").file(path).tensor(&name);
            catalog.attribute(tensor.ok_or_else(missing)?, &key, value)?;
        }
        catalog.origin(&index.origin)?;
        Ok(Box::new(Encoded { index: file, files }))
    }
}

fn open_data_files(
    data: &[DataFile],
    folder: &str,
    source: &dyn Source,
    context: &dyn Context,
) -> Result<Vec<FileId>> {
    let mut files = Vec::new();
    for data in data {
        let name = if folder.is_empty() { data.name.clone() } else { format!("{folder}/{}", data.name) };
        let file = source.open(&name)?;
        if source.len(file) != data.len {
            return Err(Error::malformed("the length of a data file differs from the index")
                .file(name)
                .expected(data.len)
                .found(source.len(file)));
        }
        let header = source.read_vec(file, 0, DATA_HEADER_LEN, context.limits())?;
        if !header.starts_with(DATA_MAGIC) {
            return Err(Error::malformed("not a data file of a trial checkpoint").file(name).offset(0));
        }
        files.push(file);
    }
    Ok(files)
}

/// Adds a storage, whose fields are at `at` in the index.
fn add_storage(
    stored: &Stored,
    at: u64,
    files: &[FileId],
    source: &dyn Source,
    catalog: &mut dyn CatalogSink,
) -> Result<StorageId> {
    let file = data_file(files, stored)?;
    if !stored.is_encoded {
        let storage =
            Storage::file(file, stored.offset, stored.stored_len).digest(Digest::crc32c(stored.crc));
        return catalog.storage(storage.byte_order(stored.byte_order));
    }
    check_range(source.name(file), source.len(file), stored.offset, stored.stored_len)?;
    let most = (stored.stored_len / 2).saturating_mul(MAX_OF_PAIR);
    if stored.len > most {
        return Err(Error::malformed("an encoded storage is longer than its runs can be")
            .expected(most)
            .found(stored.len));
    }
    catalog.storage(Storage::encoded(at, stored.len).byte_order(stored.byte_order))
}

fn add_joined(joined: &Joined, storages: &[StorageId], catalog: &mut dyn CatalogSink) -> Result<StorageId> {
    let mut ranges = joined.ranges.clone();
    for range in &mut ranges {
        let storage = storages.get(range.storage.0 as usize);
        range.storage =
            *storage.ok_or_else(|| Error::malformed(format!("no storage {}", range.storage.0)))?;
    }
    catalog.storage(Storage::joined(ranges).byte_order(joined.byte_order))
}

fn data_file(files: &[FileId], stored: &Stored) -> Result<FileId> {
    let file = files.get(stored.file as usize).copied();
    file.ok_or_else(|| Error::malformed(format!("the index has no data file {}", stored.file)))
}

/// Reports whether the elements of a dtype are whole bytes, as a grid requires.
fn is_of_whole_bytes(dtypes: &[DtypeInfo], dtype: &str) -> bool {
    let built_in = Dtype::named(dtype);
    let info = dtypes.iter().find(|info| info.name() == dtype).or(built_in.and_then(Dtype::info));
    built_in != Some(Dtype::STR) && info.is_some_and(|info| info.element_bytes().is_some())
}

/// Adds the tensors, and returns their ids by name.
fn add_tensors(
    index: &mut Index,
    storages: &[StorageId],
    catalog: &mut dyn CatalogSink,
) -> Result<HashMap<String, TensorId>> {
    let mut ids = HashMap::new();
    let mut dtypes = HashMap::new();
    for info in &index.dtypes {
        dtypes.insert(info.name(), catalog.dtype(info)?);
    }
    let place = |storage: &mut StorageId, name: &str| {
        let known = storages.get(storage.0 as usize);
        let missing = || Error::malformed(format!("no storage {}", storage.0)).tensor(name);
        *storage = *known.ok_or_else(missing)?;
        Ok::<_, Error>(())
    };
    for tensor in &mut index.tensors {
        let name = &tensor.name;
        tensor.blocks.iter_mut().try_for_each(|block| place(&mut block.storage, name))?;
        if let Some(grid) = &mut tensor.grid {
            let last = (0..grid.tiles.count()).filter_map(|number| grid.tiles.get(number)).max();
            last.map_or(Ok(()), |mut last| place(&mut last, name))?;
            *grid = grid.map_storages(|tile| storages[tile.0 as usize]);
        }
    }
    let mut named: Vec<_> = index.tensors.iter().map(|tensor| (&tensor.name, tensor)).collect();
    for (name, of) in &index.aliases {
        let tensor = index.tensors.get(*of as usize);
        named.push((name, tensor.ok_or_else(|| Error::malformed(format!("no tensor {of}")).tensor(name))?));
    }
    for (name, tensor) in named {
        let dtype = dtypes.get(&*tensor.dtype).copied().or_else(|| Dtype::named(&tensor.dtype));
        let dtype = dtype.ok_or_else(|| {
            Error::unsupported("a dtype that the index does not declare")
                .tensor(name)
                .found(format!("{:?}", tensor.dtype))
        })?;
        let Entry { shape, blocks, grid, .. } = tensor;
        let id = match (grid, &**blocks) {
            (Some(grid), _) => catalog.tensor_of_tiles(name, dtype, shape, grid.clone())?,
            // Strings are in one block, which has the length of the storage.
            (None, [whole]) if dtype == Dtype::STR => {
                catalog.tensor(name, dtype, shape, whole.storage, whole.offset)?
            }
            (None, blocks) => catalog.tensor_of_blocks(name, dtype, shape, blocks.to_vec())?,
        };
        ids.insert(name.clone(), id);
    }
    Ok(ids)
}

/// A decoder that finds a storage by the offset of its fields in the index, so that no storages are
/// kept in memory.
struct Encoded {
    index: FileId,
    files: Vec<FileId>,
}

impl TensorDecoder for Encoded {
    fn decode(
        &self,
        source: &dyn Source,
        handle: u64,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let read = |at, len| source.read_vec(self.index, at, len, context.limits());
        let stored = Fields::stored_at(handle, &read)?;
        let file = data_file(&self.files, &stored)?;
        push(file, &stored, source, output, context)
            .map_err(|e| e.file(source.name(file)).offset(stored.offset))
    }
}

fn push(
    file: FileId,
    stored: &Stored,
    source: &dyn Source,
    output: &mut dyn ByteSink,
    context: &dyn Context,
) -> Result<()> {
    let mut decoder = Decoder::default();
    let mut crc = 0;
    let mut done = 0;
    while done < stored.stored_len {
        context.check_cancelled()?;
        let len = (stored.stored_len - done).min(PIECE);
        let offset = stored.offset.saturating_add(done);
        let piece = source.read_vec(file, offset, len, context.limits())?;
        crc = crc32c::crc32c_append(crc, &piece);
        decoder.write(&piece, output)?;
        done += len;
    }
    decoder.finish(output)?;
    if crc != stored.crc {
        return Err(Error::malformed("the crc32c of an encoded storage is wrong")
            .expected(format!("{:08x}", stored.crc))
            .found(format!("{crc:08x}")));
    }
    Ok(())
}
