//! Describes what an index says: raw storages lie in their files, encoded ones are decoded here.

use crate::codec::{Decoder, MOST_OF_PAIR};
use crate::grid::grid_of;
use crate::index::{Index, Joined, Stored};
use crate::write::{DATA_HEADER_LEN, DATA_MAGIC, INDEX_IN_FOLDER};
use std::collections::HashMap;
use tensorferry_sdk::{
    ByteSink, CatalogSink, Context, Digest, Dtype, EncodedStorage, Entry, Error, FileId, Result, Source,
    Storage, StorageId, TensorDecoder, TensorId, TensorReader, check_range,
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
            Entry::File(path) => path,
            Entry::Folder => INDEX_IN_FOLDER,
            Entry::Prefix(_) => {
                return Err(Error::usage("a trial checkpoint is read from its index, a .trial file"));
            }
        };
        let file = source.open(path)?;
        let bytes = source.read_vec(file, 0, source.len(file), context.limits())?;
        let index = Index::parse(&bytes).map_err(|e| e.file(path))?;
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let files = open_data_files(&index, folder, source, context)?;
        let mut encoded = Vec::new();
        let storages =
            index.storages.iter().map(|stored| add_storage(stored, &files, source, catalog, &mut encoded));
        let mut storages = storages.collect::<Result<Vec<StorageId>>>().map_err(|e| e.file(path))?;
        for joined in &index.joined {
            let id = add_joined(joined, &storages, catalog).map_err(|e| e.file(path))?;
            storages.push(id);
        }
        let tensors = add_tensors(&index, &storages, catalog).map_err(|e| e.file(path))?;
        for (key, value) in index.metadata {
            catalog.metadata(&key, value)?;
        }
        for (name, key, value) in index.attributes {
            let tensor = tensors.get(&name).copied();
            let missing = || Error::malformed("an attribute of no tensor").file(path).tensor(&name);
            catalog.attribute(tensor.ok_or_else(missing)?, &key, value)?;
        }
        catalog.origin(&index.origin)?;
        Ok(Box::new(encoded))
    }
}

fn open_data_files(
    index: &Index,
    folder: &str,
    source: &dyn Source,
    context: &dyn Context,
) -> Result<Vec<FileId>> {
    let mut files = Vec::new();
    for data in &index.files {
        let name = if folder.is_empty() { data.name.clone() } else { format!("{folder}/{}", data.name) };
        let file = source.open(&name)?;
        if source.len(file) != data.len {
            return Err(Error::malformed("a data file is not as long as the index says")
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

fn add_storage(
    stored: &Stored,
    files: &[FileId],
    source: &dyn Source,
    catalog: &mut dyn CatalogSink,
    encoded: &mut Vec<Encoded>,
) -> Result<StorageId> {
    let file = files.get(stored.file as usize);
    let file =
        *file.ok_or_else(|| Error::malformed(format!("the index has no data file {}", stored.file)))?;
    if !stored.is_encoded {
        let storage =
            Storage::file(file, stored.offset, stored.stored_len).digest(Digest::crc32c(stored.crc));
        return catalog.storage(storage.byte_order(stored.byte_order));
    }
    check_range(source.name(file), source.len(file), stored.offset, stored.stored_len)?;
    let most = (stored.stored_len / 2).saturating_mul(MOST_OF_PAIR);
    if stored.len > most {
        return Err(Error::malformed("an encoded storage is longer than its runs can be")
            .expected(most)
            .found(stored.len));
    }
    let handle = encoded.len() as u64;
    encoded.push(Encoded { file, stored: *stored });
    catalog.storage(Storage::encoded(handle, stored.len).byte_order(stored.byte_order))
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

/// Adds the tensors; gives them by their names.
fn add_tensors(
    index: &Index,
    storages: &[StorageId],
    catalog: &mut dyn CatalogSink,
) -> Result<HashMap<String, TensorId>> {
    let mut ids = HashMap::new();
    let mut dtypes = HashMap::new();
    for info in &index.dtypes {
        dtypes.insert(info.name(), catalog.dtype(info)?);
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
        let declared = index.dtypes.iter().find(|info| info.name() == tensor.dtype).or(dtype.info());
        let has_whole_bytes = declared.is_some_and(|info| info.element_bytes().is_some());
        let mut blocks = tensor.blocks.clone();
        for block in &mut blocks {
            let storage = storages.get(block.storage.0 as usize);
            let missing = || Error::malformed(format!("no storage {}", block.storage.0)).tensor(name);
            block.storage = *storage.ok_or_else(missing)?;
        }
        let id = match &*blocks {
            // Strings are as long as their storage, and come in one piece.
            [whole] if dtype == Dtype::STR => {
                catalog.tensor(name, dtype, &tensor.shape, whole.storage, whole.offset)?
            }
            _ => match grid_of(&tensor.shape, &blocks).filter(|_| has_whole_bytes) {
                Some(grid) => catalog.tensor_of_tiles(name, dtype, &tensor.shape, grid)?,
                None => catalog.tensor_of_blocks(name, dtype, &tensor.shape, blocks)?,
            },
        };
        ids.insert(name.clone(), id);
    }
    Ok(ids)
}

/// An encoded storage and its file.
struct Encoded {
    file: FileId,
    stored: Stored,
}

impl EncodedStorage for Encoded {
    fn decode(&self, source: &dyn Source, output: &mut dyn ByteSink, context: &dyn Context) -> Result<()> {
        self.push(source, output, context)
            .map_err(|e| e.file(source.name(self.file)).offset(self.stored.offset))
    }
}

impl Encoded {
    fn push(&self, source: &dyn Source, output: &mut dyn ByteSink, context: &dyn Context) -> Result<()> {
        let Self { file, stored } = self;
        let mut decoder = Decoder::default();
        let mut crc = 0;
        let mut done = 0;
        while done < stored.stored_len {
            context.check_cancelled()?;
            let len = (stored.stored_len - done).min(PIECE);
            let offset = stored.offset.saturating_add(done);
            let piece = source.read_vec(*file, offset, len, context.limits())?;
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
}
