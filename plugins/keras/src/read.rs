//! Reads each dataset as a tensor. By default, the tensor's name is the path of the dataset. The
//! host copies uncompressed data directly from the file. Compressed chunks are decoded one by one.

use crate::hdf5::{Chunks, DataLocation, Dataset, Element, EncodedChunk, File, Header, TextBudget};
use crate::input::{Input, Weights};
use crate::model::{FoundDataset, Model};
use crate::options::{Opaque, ReadOptions};
use crate::{WEIGHTS, config};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use tensorferry_sdk::{
    Block, ByteOrder, ByteSink, CatalogSink, Context, Dtype, Edges, EncodedStorage, Error, ErrorKind, Grid,
    Loss, LossKind, MemorySource, Order, Region, Result, Severity, Source, Storage, StorageId, TensorDecoder,
    TensorId, TensorReader, Tiles,
};
use tensorferry_zip::Extent;

/// Values of the attribute `dtype` that mark elements for which HDF5 has no type.
const DTYPE_NAMES: &[(&str, Dtype)] =
    &[("bfloat16", Dtype::BF16), ("float8_e4m3fn", Dtype::F8_E4M3), ("float8_e5m2", Dtype::F8_E5M2)];
/// Allowed number of missing chunks: 16 per existing chunk, plus `entries / 64`.
const MAX_MISSING_CHUNKS: (u64, u64) = (16, 64);
/// Number of bytes that are copied at a time.
const PIECE: usize = 64 << 10;

pub(crate) struct Reader {
    pub(crate) options: ReadOptions,
}

impl TensorReader for Reader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let input = Input::find(source, self.options.shard_is_alone, context)?;
        let mut model = Model::default();
        if let Some(bytes) = &input.config {
            model.parts.push(("config", config::parse(bytes, "the configuration", context.limits())?));
        }
        if let Some(bytes) = &input.metadata {
            let metadata = config::parse(bytes, "the metadata", context.limits())?;
            if let Some(version) = metadata.get("keras_version").and_then(Value::as_str) {
                model.metadata.push(("keras_version", version.to_owned()));
            }
        }
        // HDF5 files are not read sequentially, so a deflated archive member is inflated once and
        // then read from memory.
        let mut memory = None;
        if let [Weights::Deflated(member)] = &*input.weights {
            if member.len > context.limits().header_bytes {
                return Err(Error::limit("the compressed weights are too large to inflate in memory")
                    .expected(format!("at most {} bytes", context.limits().header_bytes))
                    .hint("store the weights uncompressed (zip -0)")
                    .found(member.len));
            }
            let mut bytes = Vec::new();
            member.write(source, &mut bytes, context)?;
            memory = Some(Arc::new(MemorySource::file(WEIGHTS, bytes)));
        }
        let (source, extents): (&dyn Source, Vec<Extent>) = match &memory {
            Some(memory) => (&**memory, vec![Extent::whole(&**memory, memory.open(WEIGHTS)?)]),
            None => (source, input.weights.iter().filter_map(Weights::extent).collect()),
        };
        let held = TextBudget::new(context.limits());
        let mut files = Vec::with_capacity(extents.len());
        for &extent in &extents {
            let named = |error: Error| error.file(source.name(extent.file));
            let file = File::open(source, extent, &held, context.limits()).map_err(named)?;
            model.scan(&file, files.len(), context).map_err(named)?;
            files.push(file);
        }
        if let Some(map) = &input.map {
            let names: Vec<&str> = extents.iter().map(|extent| source.name(extent.file)).collect();
            model.check_map(map, &names)?;
        }
        model.metadata.iter().try_for_each(|(name, text)| catalog.metadata_text(name, text))?;
        for name in &input.others {
            let why = "only the weights, the configuration and the metadata of an archive are read; -o like= keeps the other \
                       files of its archive";
            catalog.loss(Loss::new(LossKind::Sidecar, name, why))?;
        }
        for name in &input.unmapped {
            let why = "a shard that the map of shards does not list";
            catalog.loss(Loss::new(LossKind::Tensor, name, why))?;
        }
        let names = model.names(self.options.own_names);
        let mut named = names.iter().zip(&model.datasets).filter(|(name, found)| **name != found.path);
        if self.options.own_names && !names.is_empty() && named.next().is_none() {
            context.note("-i names=name changed nothing: no layer or variable here has a unique name");
        }
        let mut tensors = Tensors {
            catalog,
            context,
            options: self.options,
            bf16: model.is_legacy && model.has_bfloat16(),
            memory: memory.clone(),
            encoded: Vec::new(),
            known: HashMap::new(),
            expanded: 0,
            chunks: 0,
            absent: 0,
        };
        let mut ids = Vec::with_capacity(names.len());
        for (found, name) in model.datasets.iter().zip(&names) {
            context.check_cancelled()?;
            let file = &files[found.file];
            let id = tensors.add(file, found, name).map_err(|error| error.tensor(&found.path));
            ids.push(id.map_err(|error| error.file(source.name(extents[found.file].file)))?);
        }
        let encoded = tensors.encoded;
        model.tree(&names, &ids, catalog)?;
        Ok(Box::new(encoded))
    }
}

impl Weights {
    fn extent(&self) -> Option<Extent> {
        match self {
            Self::Stored(extent) => Some(*extent),
            Self::Deflated(_) => None,
        }
    }
}

/// The state that is needed to add datasets to a catalog as tensors.
struct Tensors<'a> {
    catalog: &'a mut dyn CatalogSink,
    context: &'a dyn Context,
    options: ReadOptions,
    /// Whether untyped elements of two bytes are read as BF16 if no attribute defines their dtype.
    bf16: bool,
    memory: Option<Arc<MemorySource>>,
    /// Encoded storages, by handle.
    encoded: Vec<Encoded>,
    /// Datasets that have already been read. A dataset with two links is read only once.
    known: HashMap<(usize, u64), ReadDataset>,
    /// Number of bytes by which the chunks found so far expand when they are decoded.
    expanded: u64,
    /// Number of existing chunks in all datasets.
    chunks: u64,
    /// Number of missing chunks in all tensors.
    absent: u64,
}

/// A dataset that has already been read.
enum ReadDataset {
    /// ferry has no dtype for the dataset. The string is the reason.
    Lost(String),
    Data {
        dtype: Dtype,
        shape: Vec<u64>,
        has_names: bool,
        placed: StoredData,
    },
}

/// Location of a dataset's bytes in the catalog.
enum StoredData {
    Empty,
    Whole(StorageId),
    Fill(StorageId),
    Grid { grid: Grid, absent: u64 },
}

impl Tensors<'_> {
    /// Adds a dataset as a tensor. If ferry has no dtype for its elements, reports a loss and
    /// returns `None`.
    fn add(&mut self, file: &File<'_>, found: &FoundDataset, name: &str) -> Result<Option<TensorId>> {
        let key = (found.file, found.address);
        let known = match self.known.remove(&key) {
            Some(known) => known,
            None => self.read(file, found.address)?,
        };
        let id = self.tensor(&known, name);
        self.known.insert(key, known);
        id
    }

    fn tensor(&mut self, known: &ReadDataset, name: &str) -> Result<Option<TensorId>> {
        let (dtype, shape, placed) = match known {
            ReadDataset::Lost(why) => {
                self.catalog.loss(Loss::new(LossKind::Tensor, name, why))?;
                return Ok(None);
            }
            ReadDataset::Data { dtype, shape, has_names, placed } => {
                if *has_names {
                    let why = "an enumeration: its numbers are kept, the names of its values are not";
                    self.catalog.loss(Loss::new(LossKind::Precision, name, why).severity(Severity::Note))?;
                }
                (*dtype, shape, placed)
            }
        };
        let id = match placed {
            StoredData::Empty => self.catalog.tensor_of_blocks(name, dtype, shape, Vec::new())?,
            StoredData::Whole(storage) => self.catalog.tensor(name, dtype, shape, *storage, 0)?,
            StoredData::Grid { grid, absent } => {
                self.count_absent(*absent)?;
                self.catalog.tensor_of_tiles(name, dtype, shape, grid.clone())?
            }
            StoredData::Fill(storage) => {
                let region = Region { origin: vec![0; shape.len()], shape: shape.clone() };
                let block = Block { region, storage: *storage, offset: 0, strides: vec![0; shape.len()] };
                self.catalog.tensor_of_blocks(name, dtype, shape, vec![block])?
            }
        };
        Ok(Some(id))
    }

    fn read(&mut self, file: &File<'_>, address: u64) -> Result<ReadDataset> {
        let header = Header::read(file, address)?;
        let mut dataset = match Dataset::read(file, &header, self.context.limits()) {
            Ok(dataset) => dataset,
            // A dataset for which ferry has no dtype, such as a table next to the weights, is only
            // reported as a loss. Data in other files and unknown filters are errors.
            Err(fault) if fault.is_datatype => {
                return Ok(ReadDataset::Lost(fault.error.message().to_owned()));
            }
            Err(fault) => return Err(fault.error),
        };
        let (dtype, order) = match dataset.datatype.element {
            Element::Number(dtype, order) => (dtype, order),
            Element::FixedText(_) | Element::VariableText => return self.strings(file, dataset),
            Element::Opaque => match self.opaque(file, &dataset)? {
                Some(Opaque::Dtype(dtype)) => (dtype, ByteOrder::Little),
                Some(Opaque::Bytes) => {
                    dataset.shape.push(dataset.datatype.width);
                    dataset.datatype.inner.push(dataset.datatype.width);
                    (Dtype::U8, ByteOrder::Little)
                }
                _ => {
                    let width = dataset.datatype.width;
                    let why = format!("elements of {width} bytes without a type in the file: see -i opaque");
                    return Ok(ReadDataset::Lost(why));
                }
            },
        };
        let placed = self.place(&dataset, dtype, order)?;
        let has_names = dataset.datatype.has_names;
        Ok(ReadDataset::Data { dtype, shape: dataset.shape, has_names, placed })
    }

    /// Returns how to read elements for which HDF5 has no type, according to the attribute `dtype`,
    /// the configuration, or the user's option.
    fn opaque(&self, file: &File<'_>, dataset: &Dataset) -> Result<Option<Opaque>> {
        let width = dataset.datatype.width;
        let fits = |dtype: Dtype| {
            dtype.info().and_then(|info| info.element_bytes()).is_some_and(|bytes| u64::from(bytes) == width)
        };
        if let Some(mark) = dataset.attributes.text(file, "dtype")? {
            let known = DTYPE_NAMES.iter().find(|(name, dtype)| *name == mark && fits(*dtype));
            if let Some((_, dtype)) = known {
                return Ok(Some(Opaque::Dtype(*dtype)));
            }
        }
        if self.bf16 && fits(Dtype::BF16) {
            return Ok(Some(Opaque::Dtype(Dtype::BF16)));
        }
        Ok(match self.options.opaque {
            Opaque::Dtype(dtype) if !fits(dtype) => None,
            Opaque::Refuse => None,
            declared => Some(declared),
        })
    }

    fn strings(&mut self, file: &File<'_>, dataset: Dataset) -> Result<ReadDataset> {
        let mut logical: Vec<u8> = Vec::new();
        let max = self.context.limits().header_bytes;
        let read = dataset.strings(file, &mut |text| {
            if (logical.len() + text.len()) as u64 > max {
                return Err(Error::limit("the strings of a dataset are too long to keep in memory")
                    .expected(format!("at most {max} bytes"))
                    .hint("pass --limit header_bytes=N to raise the limit"));
            }
            logical.extend((text.len() as u64).to_le_bytes());
            logical.extend(text);
            Ok(())
        });
        match read {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                return Ok(ReadDataset::Lost(error.message().to_owned()));
            }
            Err(error) => return Err(error),
        }
        let placed = StoredData::Whole(self.catalog.storage(Storage::inline(logical))?);
        Ok(ReadDataset::Data { dtype: Dtype::STR, shape: dataset.shape, has_names: false, placed })
    }

    fn place(&mut self, dataset: &Dataset, dtype: Dtype, order: ByteOrder) -> Result<StoredData> {
        Ok(match &dataset.place {
            DataLocation::Empty => StoredData::Empty,
            DataLocation::File(extent) => {
                let storage = self.range(*extent);
                StoredData::Whole(self.catalog.storage(storage.byte_order(order))?)
            }
            DataLocation::Inline(bytes) => {
                StoredData::Whole(self.catalog.storage(Storage::inline(bytes.clone()).byte_order(order))?)
            }
            DataLocation::Fill(fill) => StoredData::Fill(self.fill(fill, dtype, order)?),
            DataLocation::Chunks(chunks) => self.chunks(dataset, chunks, dtype, order)?,
        })
    }

    /// Returns a storage for bytes that need no decoding.
    fn range(&mut self, extent: Extent) -> Storage {
        if self.memory.is_none() {
            return Storage::file(extent.file, extent.offset, extent.len);
        }
        self.encode(Bytes::Range(extent), extent.len)
    }

    fn encode(&mut self, bytes: Bytes, len: u64) -> Storage {
        self.encoded.push(Encoded { bytes, memory: self.memory.clone() });
        Storage::encoded(self.encoded.len() as u64 - 1, len)
    }

    /// Returns a storage that contains a single number, which is the value of all elements.
    fn fill(&mut self, fill: &[u8], dtype: Dtype, order: ByteOrder) -> Result<StorageId> {
        let width = dtype.info().and_then(|info| info.element_bytes()).unwrap_or(1) as usize;
        let (first, rest) = fill.split_at_checked(width).unwrap_or((fill, &[]));
        if rest.chunks(width).any(|other| other != first) {
            return Err(Error::unsupported("a fill value of several different numbers"));
        }
        self.catalog.storage(Storage::inline(first).byte_order(order))
    }

    fn chunks(
        &mut self,
        dataset: &Dataset,
        chunks: &Chunks,
        dtype: Dtype,
        order: ByteOrder,
    ) -> Result<StoredData> {
        let found = chunks.found.len() as u64;
        let absent = chunks.count.saturating_sub(found);
        self.chunks = self.chunks.saturating_add(found);
        self.check_absent(self.absent.saturating_add(absent))?;
        let mut tiles = vec![None; usize::try_from(chunks.count).unwrap_or(0)];
        for (place, chunk) in &chunks.found {
            let storage = if chunks.filters.are_skipped(chunk.mask) {
                self.range(chunk.stored)
            } else {
                self.count_expanded(chunks.len, chunk.stored.len)?;
                let filters = chunks.filters.clone();
                let (stored, mask, width, len) = (chunk.stored, chunk.mask, chunks.width, chunks.len);
                self.encode(Bytes::Chunk(EncodedChunk { stored, filters, mask, width, len }), len)
            };
            let storage = self.catalog.storage(storage.byte_order(order))?;
            let tile = usize::try_from(*place).ok().and_then(|place| tiles.get_mut(place));
            *tile.ok_or_else(|| Error::malformed("a chunk outside of its dataset"))? = Some(storage);
        }
        let fill = match absent {
            0 => None,
            _ => Some(self.fill(&chunks.fill, dtype, order)?),
        };
        let tile = [&chunks.tile[..], &dataset.datatype.inner].concat();
        let tiles = Tiles::Listed(tiles);
        let grid = Grid { tile, order: Order::C, edges: Edges::Padded, tiles, fill };
        Ok(StoredData::Grid { grid, absent })
    }

    /// Counts the missing chunks of a tensor against the limit. A few bytes in a file can declare
    /// millions of missing chunks.
    fn count_absent(&mut self, count: u64) -> Result<()> {
        self.absent = self.absent.saturating_add(count);
        self.check_absent(self.absent)
    }

    fn check_absent(&self, absent: u64) -> Result<()> {
        let (times, share) = MAX_MISSING_CHUNKS;
        let free = self.context.limits().entries / share;
        let max = free.saturating_add(times.saturating_mul(self.chunks));
        if absent <= max {
            return Ok(());
        }
        let error = Error::limit("too many missing chunks").hint("pass --limit entries=N to raise the limit");
        Err(error.expected(format!("at most {max}")).found(absent))
    }

    /// Counts the bytes by which a chunk expands. Fails if all chunks together expand too much.
    fn count_expanded(&mut self, len: u64, stored: u64) -> Result<()> {
        self.expanded = self.expanded.saturating_add(len.saturating_sub(stored));
        let max = self.context.limits().expanded_bytes;
        if self.expanded <= max {
            return Ok(());
        }
        Err(Error::limit("the compressed chunks expand too much")
            .expected(format!("at most {max} bytes more than stored"))
            .hint("pass --limit expanded_bytes=N to raise the limit")
            .found(self.expanded))
    }
}

/// An encoded storage: a chunk to decode, or a byte range of an archive member that was inflated
/// into memory.
#[derive(Debug)]
struct Encoded {
    bytes: Bytes,
    memory: Option<Arc<MemorySource>>,
}

#[derive(Debug)]
enum Bytes {
    Chunk(EncodedChunk),
    Range(Extent),
}

impl EncodedStorage for Encoded {
    fn decode(&self, source: &dyn Source, output: &mut dyn ByteSink, context: &dyn Context) -> Result<()> {
        let source = self.memory.as_deref().map_or(source, |memory| memory);
        let extent = match &self.bytes {
            Bytes::Chunk(chunk) => return chunk.decode(source, output, context),
            Bytes::Range(extent) => *extent,
        };
        let mut buffer = vec![0; PIECE];
        let mut done = 0;
        while done < extent.len {
            context.check_cancelled()?;
            let piece = extent.after(done).read_start(source, &mut buffer)?;
            done += piece.len() as u64;
            output.write(piece)?;
        }
        Ok(())
    }
}
