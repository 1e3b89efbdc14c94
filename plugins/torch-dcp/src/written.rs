//! Writes a checkpoint: one data file and its table.
//!
//! ```text
//! __0_0.distcp   for each chunk, an archive like those of torch.save with one tensor, at a multiple of 64
//! .metadata      a pickled Metadata (protocol 2) with the description of each tensor and the location of its chunks
//! ```
//!
//! Sources: `metadata.py`, `filesystem.py` and `default_planner.py` of
//! `torch/distributed/checkpoint`. The pickled objects store their fields by name, so older and
//! newer versions of torch can each use the fields that they support.

use crate::members::{DATA_SUFFIX, TABLE};
use tensorferry_sdk::{
    CatalogView, Digests, Dtype, Error, LayoutSink, OutputId, Result, Role, SealSink, ShardTag, TensorId,
    TensorPart, TensorPlan,
};
use tensorferry_torch_file::{PickleWriter, TorchDtype, WholeTensor, WrittenArchive, ZipPlan};

/// Root folder inside each archive. torch uses this name for archives without a file name.
const ROOT: &str = "archive";
/// Alignment of archives in bytes. The alignment of an archive also aligns its tensors.
const ALIGNMENT: u64 = 64;
const METADATA: &str = "torch.distributed.checkpoint.metadata";

/// A tensor to write.
#[derive(Debug, Clone)]
pub struct DcpTensor {
    pub name: String,
    pub dtype: Dtype,
    /// Shape of the tensor in the catalog's elements.
    pub shape: Vec<u64>,
    /// The chunks, which together cover each element of the tensor exactly once.
    pub chunks: Vec<DcpChunk>,
}

/// A chunk of a written tensor. The chunk is a complete tensor in the catalog.
#[derive(Debug, Clone)]
pub struct DcpChunk {
    /// The catalog tensor that provides the bytes of the chunk.
    pub tensor: TensorId,
    /// Position of the chunk's first element in the whole tensor.
    pub offsets: Vec<u64>,
    /// Shape of the chunk, with as many dimensions as the whole tensor.
    pub sizes: Vec<u64>,
}

/// A plan that fills in the checksums of its archives in `seal`.
#[derive(Debug)]
pub struct DcpPlan(Vec<ZipPlan>);

impl DcpPlan {
    /// Adds an archive outside the checkpoint, so that `seal` also fills in the checksums of that
    /// archive.
    #[must_use]
    pub fn with(mut self, archive: ZipPlan) -> Self {
        self.0.push(archive);
        self
    }
}

impl TensorPlan for DcpPlan {
    fn seal(
        &self,
        digests: &dyn Digests,
        output: &mut dyn SealSink,
        _context: &dyn tensorferry_sdk::Context,
    ) -> Result<()> {
        self.0.iter().try_for_each(|archive| archive.seal(digests, output))
    }
}

/// Returns the reason why torch does not support tensors with this dtype and shape, or `None` if
/// torch supports them.
#[must_use]
pub fn unsupported_reason(dtype: Dtype, shape: &[u64]) -> Option<String> {
    WholeTensor::new(dtype, shape, 0).err()
}

/// Lays out a checkpoint in `folder`, which must be empty or end with a slash. The name of the data
/// file contains `tag`.
///
/// For each name in `nothing`, the checkpoint contains a list with one `None`. Megatron saves this
/// list for modules whose only state is their parameters, and cannot load a checkpoint without it.
pub fn lay_out(
    tensors: &[DcpTensor],
    nothing: &[String],
    folder: &str,
    tag: ShardTag,
    catalog: &dyn CatalogView,
    layout: &mut dyn LayoutSink,
) -> Result<DcpPlan> {
    let name = format!("__0_0{}{DATA_SUFFIX}", tag.with_separator("-"));
    let file = layout.file(&format!("{folder}{name}"), Role::Data)?;
    let mut plans = Vec::new();
    let mut table =
        WrittenTable { file: &name, rows: Vec::with_capacity(tensors.len()), nothing, place: (0, 0) };
    for tensor in tensors {
        let whole = whole(tensor.dtype, &tensor.shape, 0).map_err(|error| error.tensor(&tensor.name))?;
        let mut row = Row {
            name: &tensor.name,
            dtype: whole.dtype(),
            size: whole.shape().to_vec(),
            chunks: Vec::new(),
        };
        for chunk in &tensor.chunks {
            let bytes = catalog.tensor(chunk.tensor).bytes;
            let stored = whole_of(tensor, chunk, bytes)?;
            let mut pickle = PickleWriter::new();
            stored.push(&mut pickle, 0)?;
            let place = archive(layout, file, &pickle.finish(), Some((chunk.tensor, bytes)), &mut plans)?;
            let offsets = numbers(&chunk.offsets, whole.dtype())?;
            row.chunks.push(StoredChunk { offsets, sizes: stored.shape().to_vec(), place });
        }
        table.rows.push(row);
    }
    if !nothing.is_empty() {
        let mut pickle = PickleWriter::new();
        pickle.empty_list();
        pickle.mark();
        pickle.none();
        pickle.appends();
        table.place = archive(layout, file, &pickle.finish(), None, &mut plans)?;
    }
    let index = layout.file(&format!("{folder}{TABLE}"), Role::Index)?;
    layout.bytes(index, &table.pickle()?)?;
    Ok(DcpPlan(plans))
}

/// Appends an archive with at most one tensor to a data file. Returns the offset and the length of
/// the archive.
fn archive(
    layout: &mut dyn LayoutSink,
    file: OutputId,
    pickle: &[u8],
    tensor: Option<(TensorId, u64)>,
    plans: &mut Vec<ZipPlan>,
) -> Result<(u64, u64)> {
    let end = layout.bytes(file, &[])?;
    layout.pad(file, end.next_multiple_of(ALIGNMENT) - end)?;
    let start = layout.bytes(file, &[])?;
    let archive = WrittenArchive { root: ROOT, pickle, own: None };
    let append = |_: usize, layout: &mut dyn LayoutSink, file| match tensor {
        Some((tensor, 1..)) => layout.tensor(file, TensorPart::whole(tensor)),
        _ => layout.bytes(file, &[]),
    };
    plans.push(archive.lay_out(layout, file, tensor.map(|(_, bytes)| bytes), append)?);
    Ok((start, layout.bytes(file, &[])? - start))
}

fn whole(dtype: Dtype, shape: &[u64], bytes: u64) -> Result<WholeTensor> {
    WholeTensor::new(dtype, shape, bytes).map_err(Error::unsupported)
}

fn whole_of(tensor: &DcpTensor, chunk: &DcpChunk, bytes: u64) -> Result<WholeTensor> {
    whole(tensor.dtype, &chunk.sizes, bytes).map_err(|error| error.tensor(&tensor.name))
}

/// Converts offsets from the catalog's elements to torch's elements. In the last dimension of a
/// packed dtype, torch counts half as many elements as the catalog.
fn numbers(offsets: &[u64], dtype: &TorchDtype) -> Result<Vec<i64>> {
    let torch = dtype.torch_shape(offsets).or_else(|| offsets.is_empty().then(Vec::new));
    let fits: Option<Vec<i64>> =
        torch.and_then(|offsets| offsets.into_iter().map(|offset| i64::try_from(offset).ok()).collect());
    fits.ok_or_else(|| Error::unsupported("a chunk starts inside one of torch's packed elements"))
}

struct WrittenTable<'t> {
    file: &'t str,
    rows: Vec<Row<'t>>,
    /// Names of modules without extra state. All of them share the list in the archive at `place`.
    nothing: &'t [String],
    place: (u64, u64),
}

struct Row<'t> {
    name: &'t str,
    dtype: &'static TorchDtype,
    size: Vec<i64>,
    chunks: Vec<StoredChunk>,
}

/// A chunk, measured in torch's elements. `place` is the offset and the length of the archive that
/// contains the chunk.
struct StoredChunk {
    offsets: Vec<i64>,
    sizes: Vec<i64>,
    place: (u64, u64),
}

impl WrittenTable<'_> {
    fn pickle(&self) -> Result<Vec<u8>> {
        let mut pickle = PickleWriter::new();
        object(&mut pickle, METADATA, "Metadata", |pickle| {
            pickle.text("state_dict_metadata")?;
            self.described(pickle)?;
            pickle.text("planner_data")?;
            pickle.none();
            pickle.text("storage_data")?;
            self.stored(pickle)?;
            pickle.text("storage_meta")?;
            pickle.none();
            Ok(())
        })?;
        Ok(pickle.finish())
    }

    /// Writes `state_dict_metadata`, which describes each tensor.
    fn described(&self, pickle: &mut PickleWriter) -> Result<()> {
        pickle.empty_dict();
        pickle.mark();
        for row in &self.rows {
            pickle.text(row.name)?;
            object(pickle, METADATA, "TensorStorageMetadata", |pickle| {
                pickle.text("properties")?;
                properties(pickle, row.dtype)?;
                pickle.text("size")?;
                size(pickle, &row.size);
                pickle.text("chunks")?;
                pickle.empty_list();
                pickle.mark();
                for chunk in &row.chunks {
                    object(pickle, METADATA, "ChunkStorageMetadata", |pickle| {
                        pickle.text("offsets")?;
                        size(pickle, &chunk.offsets);
                        pickle.text("sizes")?;
                        size(pickle, &chunk.sizes);
                        Ok(())
                    })?;
                }
                pickle.appends();
                Ok(())
            })?;
        }
        for name in self.nothing {
            pickle.text(name)?;
            pickle.global(METADATA, "BytesStorageMetadata");
            pickle.tuple(0);
            pickle.new_object();
        }
        pickle.set_items();
        Ok(())
    }

    /// Writes `storage_data`, which records the location of each chunk.
    fn stored(&self, pickle: &mut PickleWriter) -> Result<()> {
        pickle.empty_dict();
        pickle.mark();
        for row in &self.rows {
            for (number, chunk) in (0..).zip(&row.chunks) {
                self.row(pickle, row.name, Some((&chunk.offsets, number)), chunk.place)?;
            }
        }
        self.nothing.iter().try_for_each(|name| self.row(pickle, name, None, self.place))?;
        pickle.set_items();
        Ok(())
    }

    /// Writes an entry of `storage_data`: the name, the chunk's offsets and index if any, and the
    /// location.
    fn row(
        &self,
        pickle: &mut PickleWriter,
        name: &str,
        chunk: Option<(&[i64], i64)>,
        place: (u64, u64),
    ) -> Result<()> {
        object(pickle, METADATA, "MetadataIndex", |pickle| {
            pickle.text("fqn")?;
            pickle.text(name)?;
            pickle.text("offset")?;
            match chunk {
                Some((offsets, _)) => size(pickle, offsets),
                None => pickle.none(),
            }
            pickle.text("index")?;
            match chunk {
                Some((_, number)) => pickle.int(number),
                None => pickle.none(),
            }
            Ok(())
        })?;
        object(pickle, "torch.distributed.checkpoint.filesystem", "_StorageInfo", |pickle| {
            pickle.text("relative_path")?;
            pickle.text(self.file)?;
            pickle.text("offset")?;
            pickle.int(place.0.cast_signed());
            pickle.text("length")?;
            pickle.int(place.1.cast_signed());
            Ok(())
        })
    }
}

/// Writes a pickled object. The closure `state` writes the names and values of its attributes.
fn object(
    pickle: &mut PickleWriter,
    module: &'static str,
    class: &'static str,
    state: impl FnOnce(&mut PickleWriter) -> Result<()>,
) -> Result<()> {
    pickle.global(module, class);
    pickle.tuple(0);
    pickle.new_object();
    pickle.empty_dict();
    pickle.mark();
    state(pickle)?;
    pickle.set_items();
    pickle.build();
    Ok(())
}

/// Writes `TensorProperties`, whose state is a tuple: dtype, layout, `requires_grad`, memory
/// format, and whether the memory is pinned.
fn properties(pickle: &mut PickleWriter, dtype: &TorchDtype) -> Result<()> {
    pickle.global(METADATA, "TensorProperties");
    pickle.tuple(0);
    pickle.new_object();
    pickle.mark();
    pickle.global("torch", dtype.name);
    pickle.global("torch.serialization", "_get_layout");
    pickle.text("torch.strided")?;
    pickle.call(1);
    pickle.bool(false);
    pickle.global(METADATA, "_MEM_FORMAT_ENCODING");
    // The value 0 means TORCH_CONTIGUOUS_FORMAT.
    pickle.int(0);
    pickle.call(1);
    pickle.bool(false);
    pickle.tuple_since_mark();
    pickle.build();
    Ok(())
}

fn size(pickle: &mut PickleWriter, numbers: &[i64]) {
    pickle.global("torch", "Size");
    pickle.int_tuple(numbers);
    pickle.call(1);
}
