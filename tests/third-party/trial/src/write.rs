//! Plans an index and its data files, in one of four ways.

mod carry;
mod encode;
mod grid;
mod tiles;

pub(crate) use grid::column_major_strides;

use crate::index::{DataFile, Index, Stored};
use tensorferry_sdk::{
    Block, ByteOrder, CatalogView, Context, DeferredId, DigestAlgorithm, DigestId, Digests, Error,
    LayoutSink, OptionSpec, Options, OutputId, Region, Result, Role, SealSink, Side, StorageId, Target,
    TensorId, TensorPlan, TensorWriter, TypedOption,
};

pub(crate) const DATA_MAGIC: &[u8; 8] = b"TRIALDAT";
/// The length of the magic, the CRC, and the flag that indicates whether the CRC is known.
pub(crate) const DATA_HEADER_LEN: u64 = 16;
/// The name of the index if the output is a folder.
pub(crate) const INDEX_IN_FOLDER: &str = "index.trial";
/// The alignment of storages.
const ALIGNMENT: u64 = 8;

/// The ways to write tensors.
#[derive(Clone, Copy)]
enum Way {
    Grid,
    Carry,
    Encode,
    Tiles,
}

const DATA: TypedOption<Way> = TypedOption::choice(
    Side::Writer,
    "data",
    &[("grid", Way::Grid), ("carry", Way::Carry), ("encode", Way::Encode), ("tiles", Way::Tiles)],
    "write tensors as a grid of blocks, storages unchanged, chunks encoded in sequence, or a grid of blocks encoded in \
     parallel",
);
const FILES: TypedOption<u64> =
    TypedOption::integer(Side::Writer, "files", 1..=1 << 30, "number of data files").or("2");
const PIECES: TypedOption<u64> =
    TypedOption::integer(Side::Writer, "pieces", 1..=1 << 30, "grid, tiles: blocks along each dimension")
        .or("2");
const CHUNK: TypedOption<u64> =
    TypedOption::size(Side::Writer, "chunk", 1, "encode: bytes of a chunk, at least a row").or("64KiB");

pub(crate) fn options() -> Vec<OptionSpec> {
    vec![DATA.spec(), FILES.spec(), PIECES.spec(), CHUNK.spec()]
}

/// Returns the writer for the options.
pub(crate) fn writer(options: &Options) -> Result<Box<dyn TensorWriter>> {
    let files = FILES.get(options)?;
    Ok(match DATA.get(options)? {
        Way::Carry => Box::new(carry::Writer { files }),
        Way::Encode => Box::new(encode::Writer { files, chunk: CHUNK.get(options)? }),
        Way::Tiles => Box::new(tiles::Writer { files, pieces: PIECES.get(options)? }),
        Way::Grid => Box::new(grid::Writer { files, pieces: PIECES.get(options)? }),
    })
}

fn index_path(target: &Target) -> &str {
    match target {
        Target::File(path) => path,
        Target::Folder => INDEX_IN_FOLDER,
    }
}

/// Returns the path of data file `number`, in the same folder as the index. The index contains only
/// its file name.
fn data_path(index_path: &str, number: u64) -> String {
    format!("{index_path}.{number}")
}

/// Returns an index with the catalog's metadata, attributes and origin, without files, storages or
/// tensors.
fn new_index(catalog: &dyn CatalogView) -> Result<Index> {
    let mut attributes = Vec::new();
    for id in catalog.tensor_ids() {
        let name = catalog.tensor(id).name;
        attributes
            .extend(catalog.attributes(id)?.into_iter().map(|(key, value)| (name.to_owned(), key, value)));
    }
    Ok(Index { metadata: catalog.metadata(), attributes, origin: catalog.origin(), ..Index::default() })
}

/// Adds a tensor to the index, and its dtype if the host does not define it.
fn add_tensor(index: &mut Index, catalog: &dyn CatalogView, id: TensorId, blocks: Vec<Block>) -> Result<()> {
    let tensor = catalog.tensor(id);
    let info = catalog.dtype_info(tensor.dtype)?;
    if tensor.dtype.info().is_none() && !index.dtypes.contains(&info) {
        index.dtypes.push(info.clone());
    }
    index.tensors.push(crate::index::Entry {
        name: tensor.name.to_owned(),
        dtype: info.name().to_owned(),
        shape: tensor.shape.to_vec(),
        blocks,
        grid: None,
    });
    Ok(())
}

/// Returns the position in the index of the tensor with the ID `id`. Another tensor is tied to this
/// tensor.
fn place_in(index: &Index, catalog: &dyn CatalogView, id: TensorId) -> Result<u32> {
    let name = catalog.tensor(id).name;
    let place = index.tensors.iter().position(|tensor| tensor.name == name);
    place
        .and_then(|place| u32::try_from(place).ok())
        .ok_or_else(|| Error::plugin("a tensor is tied to one that comes after it").tensor(name))
}

/// Returns a row-major block at the start of its storage.
fn plain_block(region: Region, storage: usize) -> Result<Block> {
    let strides = tensorferry_sdk::row_major_strides(&region.shape);
    Ok(Block { region, storage: storage_id(storage)?, offset: 0, strides })
}

fn storage_id(index: usize) -> Result<StorageId> {
    let id = u32::try_from(index).map_err(|_| Error::unsupported("too many storages for a trial index"))?;
    Ok(StorageId(id))
}

/// The data files, whose bytes the host copies.
struct DataFiles {
    files: Vec<CopiedFile>,
    /// The digest of the bytes of each storage in the index.
    storage_crcs: Vec<DigestId>,
}

struct CopiedFile {
    id: OutputId,
    header: DeferredId,
    len: u64,
}

impl DataFiles {
    fn plan(index: &mut Index, layout: &mut dyn LayoutSink, path: &str, count: u64) -> Result<Self> {
        let mut files = Vec::new();
        for number in 0..count {
            let name = data_path(path, number);
            let id = layout.file(&name, Role::Data)?;
            let header = layout.deferred(id, DATA_HEADER_LEN)?;
            files.push(CopiedFile { id, header, len: DATA_HEADER_LEN });
            index.files.push(DataFile { name: file_name(&name), len: 0 });
        }
        Ok(Self { files, storage_crcs: Vec::new() })
    }

    /// Appends a storage of `len` bytes to the next file in turn. `segment` adds the bytes to the
    /// layout of that file.
    fn add(
        &mut self,
        index: &mut Index,
        layout: &mut dyn LayoutSink,
        len: u64,
        byte_order: ByteOrder,
        segment: impl FnOnce(&mut dyn LayoutSink, OutputId) -> Result<u64>,
    ) -> Result<usize> {
        let number = index.storages.len() % self.files.len();
        let file = &mut self.files[number];
        layout.pad(file.id, file.len.next_multiple_of(ALIGNMENT) - file.len)?;
        let offset = segment(layout, file.id)?;
        file.len = offset + len;
        self.storage_crcs.push(layout.digest(file.id, offset..file.len, DigestAlgorithm::CRC32C)?);
        index.storages.push(Stored {
            file: u32::try_from(number).unwrap_or(u32::MAX),
            offset,
            stored_len: len,
            len,
            is_encoded: false,
            byte_order,
            crc: 0,
        });
        Ok(index.storages.len() - 1)
    }

    /// Returns the plan. All storages must already have been added.
    fn finish(self, mut index: Index, layout: &mut dyn LayoutSink, path: &str) -> Result<CopiedPlan> {
        let mut headers = Vec::new();
        for (file, data) in self.files.iter().zip(&mut index.files) {
            data.len = file.len;
            let body = layout.digest(file.id, DATA_HEADER_LEN..file.len, DigestAlgorithm::CRC32C)?;
            headers.push((file.header, body));
        }
        let index_file = layout.late_file(path, Role::Index)?;
        Ok(CopiedPlan { index, headers, storage_crcs: self.storage_crcs, index_file })
    }
}

/// A plan whose data files are copied. Only the CRCs are filled in later.
struct CopiedPlan {
    index: Index,
    headers: Vec<(DeferredId, DigestId)>,
    storage_crcs: Vec<DigestId>,
    index_file: OutputId,
}

impl TensorPlan for CopiedPlan {
    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink, _context: &dyn Context) -> Result<()> {
        for &(header, body) in &self.headers {
            output.deferred(header, &data_header(Some(digests.crc(body)?)))?;
        }
        let mut index = self.index.clone();
        for (stored, &crc) in index.storages.iter_mut().zip(&self.storage_crcs) {
            stored.crc = digests.crc(crc)?;
        }
        seal_index(&index, self.index_file, output)
    }
}

fn data_header(crc: Option<u32>) -> Vec<u8> {
    let mut header = DATA_MAGIC.to_vec();
    header.extend(crc.unwrap_or(0).to_le_bytes());
    header.extend(u32::from(crc.is_some()).to_le_bytes());
    header
}

/// Writes the index in pieces, because the host accepts only appends to a late file.
fn seal_index(index: &Index, file: OutputId, output: &mut dyn SealSink) -> Result<()> {
    index.to_bytes()?.chunks(4096).try_for_each(|piece| output.late(file, piece))
}

fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// Allocates the bytes of a whole part for one call. Other calls allocate at the same time, and
/// encoding at most doubles the length.
fn room(len: u64, context: &dyn Context) -> Result<Vec<u8>> {
    let most = context.limits().memory_bytes / (4 * context.threads() as u64);
    let room = usize::try_from(len).ok().filter(|_| len <= most).map(|len| vec![0; len]);
    room.ok_or_else(|| {
        Error::limit("a part of a tensor that is encoded whole is too long for memory: raise --memory, or use smaller parts")
            .expected(format!("at most {most} bytes"))
            .found(len)
    })
}
