//! An in-memory host for unit tests of plugins. The in-memory host reads an input, and builds the
//! files that a writer plans, one element at a time. Tests compare the real host's copy code with
//! this implementation.

mod formats;
#[cfg(feature = "arrow-60")]
pub mod records;

pub use formats::{MemoryTensors, formats};

use crate::{
    Block, ByteOrder, ByteSink, Capabilities, Catalog, CatalogBuilder, CatalogBytes, CatalogSink,
    CatalogView, Content, Context, DeferredId, Digest, DigestId, Digests, EncodedId, EncodedLocation, Error,
    Format, Layout, LayoutBuilder, NothingEncoded, Options, Order, OutputId, PlacedEncoded, Region, Result,
    SealSink, Segment, Side, Source, Storage, StorageLocation, Target, TensorDecoder, TensorId, TensorPart,
    TensorPlan,
};
use std::collections::BTreeMap;

/// Converts options or metadata to the type that this module's functions accept.
#[must_use]
pub fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The catalog and the bytes of an input that was read.
pub struct MemoryView<'a> {
    source: &'a dyn Source,
    context: &'a dyn Context,
    decoder: Box<dyn TensorDecoder>,
    catalog: Catalog,
    ties: Vec<TensorId>,
}

impl<'a> MemoryView<'a> {
    /// Reads `source` with a format's reader. The options in `given` override the default options.
    ///
    /// # Errors
    /// Returns an error if the reader fails, or if a check of the catalog fails.
    pub fn read(
        format: &dyn Format,
        given: &[(String, String)],
        source: &'a dyn Source,
        context: &'a dyn Context,
    ) -> Result<Self> {
        let description = format.describe();
        let reader = format.reader(&Options::check(&description.options, Side::Reader, given)?)?;
        Self::build_with_decoder(&description.id, source, context, |catalog| {
            reader.read(source, catalog, context)
        })
    }

    /// Creates a catalog from the calls in `fill`, as if a reader of the format `origin` had filled
    /// it. Use this function to test writers.
    ///
    /// # Errors
    /// Returns an error if `fill` fails, or if a check of the catalog fails.
    pub fn build(
        origin: &str,
        source: &'a dyn Source,
        context: &'a dyn Context,
        fill: impl FnOnce(&mut dyn CatalogSink) -> Result<()>,
    ) -> Result<Self> {
        Self::build_with_decoder(origin, source, context, |catalog| {
            fill(catalog)?;
            Ok(Box::new(NothingEncoded))
        })
    }

    pub(crate) fn build_with_decoder(
        origin: &str,
        source: &'a dyn Source,
        context: &'a dyn Context,
        fill: impl FnOnce(&mut dyn CatalogSink) -> Result<Box<dyn TensorDecoder>>,
    ) -> Result<Self> {
        let mut builder = CatalogBuilder::new(origin, source, context.limits());
        let decoder = fill(&mut builder)?;
        let catalog = builder.finish()?;
        let ties = catalog.ties();
        Ok(Self { source, context, decoder, catalog, ties })
    }

    /// Returns this view in the form that the host passes to a writer with these capabilities. See
    /// [`Catalog::reduced_to`].
    #[must_use]
    pub fn reduced_to(self, capabilities: Capabilities) -> Self {
        Self { catalog: self.catalog.reduced_to(capabilities).0, ..self }
    }

    /// Returns the catalog of the input.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns the dtype name, the shape and the logical bytes of the tensor with this name.
    ///
    /// # Errors
    /// Returns a usage error if the tensor does not exist, or an error if it cannot be read.
    pub fn tensor_named(&self, name: &str) -> Result<(String, Vec<u64>, Vec<u8>)> {
        let index = self.catalog.tensors().iter().position(|t| t.name == name);
        let index = index.ok_or_else(|| Error::usage("no such tensor").tensor(name))?;
        let tensor = &self.catalog.tensors()[index];
        let dtype = self.dtype_info(tensor.dtype)?.name().to_owned();
        let id = TensorId(u32::try_from(index).unwrap_or(u32::MAX));
        Ok((dtype, tensor.shape.clone(), self.logical_bytes(id)?))
    }

    fn storage_bytes(&self, storage: &Storage) -> Result<Vec<u8>> {
        let len = usize::try_from(storage.len).map_err(|_| Error::limit("too long for memory"))?;
        let bytes = match &storage.location {
            StorageLocation::Inline(bytes) => bytes.to_vec(),
            StorageLocation::Cast(_) | StorageLocation::Computed(_) => {
                return Err(Error::unsupported("the in-memory host does not cast or compute"));
            }
            StorageLocation::Joined(joined) => {
                let mut bytes = Vec::with_capacity(len);
                for range in joined.ranges() {
                    let all = self.storage_bytes(&self.catalog.storages()[range.storage.0 as usize])?;
                    let start = usize::try_from(range.offset).unwrap_or(usize::MAX);
                    bytes
                        .extend_from_slice(&all[start..][..usize::try_from(range.len).unwrap_or(usize::MAX)]);
                }
                bytes
            }
            StorageLocation::File { file, offset } => {
                let mut bytes = vec![0; len];
                self.source.read_at(*file, *offset, &mut bytes)?;
                bytes
            }
            StorageLocation::Encoded { handle } => {
                let mut bytes = Vec::new();
                self.decoder.decode(self.source, *handle, &mut bytes, self.context)?;
                if bytes.len() != len {
                    return Err(Error::malformed("decoded bytes have a different length than declared")
                        .expected(len)
                        .found(bytes.len()));
                }
                bytes
            }
        };
        if let Some(digest) = &storage.digest {
            let mut sum = digest.algorithm.start()?;
            sum.update(&bytes);
            if sum.digest() != *digest {
                return Err(Error::malformed(
                    "the checksum of the stored bytes differs from the one in the file",
                ));
            }
        }
        Ok(bytes)
    }

    fn logical_bytes(&self, id: TensorId) -> Result<Vec<u8>> {
        let tensor = self.catalog.tensor(id).ok_or_else(|| Error::plugin(format!("no tensor {}", id.0)))?;
        let info = self.dtype_info(tensor.dtype)?;
        let width = info.element_bytes().map(|w| w as usize);
        let mut logical =
            vec![0_u8; usize::try_from(tensor.bytes).map_err(|_| Error::limit("too long for memory"))?];
        for block in tensor.blocks() {
            let storage = &self.catalog.storages()[block.storage.0 as usize];
            let bytes = self.storage_bytes(storage)?;
            let start = usize::try_from(block.offset).unwrap_or(usize::MAX);
            let Some(width) = width else {
                let (first, count) = block.region.row_major_run(&tensor.shape).unwrap_or((0, 0));
                if info.is_variable() {
                    logical.copy_from_slice(&bytes[start..]);
                } else {
                    let to = usize::try_from(info.bytes_of(first)?).unwrap_or(usize::MAX);
                    let len = usize::try_from(info.bytes_of(count)?).unwrap_or(usize::MAX);
                    logical[to..to + len].copy_from_slice(&bytes[start..start + len]);
                }
                continue;
            };
            for (index, from) in elements(&block, width) {
                let to = linear(&index, &tensor.shape, Order::C) * width;
                logical[to..to + width].copy_from_slice(&bytes[from..from + width]);
                if storage.byte_order == ByteOrder::Big {
                    swap(&mut logical[to..to + width], info.swap_unit());
                }
            }
        }
        Ok(logical)
    }

    /// Returns the bytes of a tensor part, in the order that the part specifies.
    fn part_bytes(&self, part: &TensorPart) -> Result<Vec<u8>> {
        let view = CatalogView::tensor(self, part.tensor);
        let info = self.dtype_info(view.dtype)?;
        let logical = self.logical_bytes(part.tensor)?;
        let region = part.region.clone().unwrap_or_else(|| Region::whole(view.shape));
        let mut bytes = logical.clone();
        if let Some(width) = info.element_bytes().map(|w| w as usize) {
            let elements = usize::try_from(region.shape.iter().product::<u64>()).unwrap_or(usize::MAX);
            bytes.truncate(width * elements);
            for local in indices(&region.shape) {
                let global: Vec<u64> = local.iter().zip(&region.origin).map(|(&i, &o)| i + o).collect();
                let from = linear(&global, view.shape, Order::C) * width;
                let to = linear(&local, &region.shape, part.order) * width;
                bytes[to..to + width].copy_from_slice(&logical[from..from + width]);
            }
        }
        if part.byte_order == ByteOrder::Big {
            swap(&mut bytes, info.swap_unit());
        }
        Ok(bytes)
    }
}

/// Iterates over all indices of a shape, in row-major order.
fn indices(shape: &[u64]) -> impl Iterator<Item = Vec<u64>> + '_ {
    (0..shape.iter().product::<u64>()).map(move |mut linear| {
        let mut index = vec![0; shape.len()];
        for dim in (0..shape.len()).rev() {
            index[dim] = linear % shape[dim];
            linear /= shape[dim];
        }
        index
    })
}

/// Iterates over the elements of a block. Each item contains the index in the tensor and the offset
/// in the storage.
fn elements(block: &Block, width: usize) -> impl Iterator<Item = (Vec<u64>, usize)> + '_ {
    indices(&block.region.shape).map(move |local| {
        let element: i64 = local.iter().zip(&block.strides).map(|(&i, &s)| i.cast_signed() * s).sum();
        let byte = block.offset.cast_signed() + element * width as i64;
        let global = local.iter().zip(&block.region.origin).map(|(&i, &o)| i + o).collect();
        (global, usize::try_from(byte).unwrap_or(usize::MAX))
    })
}

fn linear(index: &[u64], shape: &[u64], order: Order) -> usize {
    let step = |sum: u64, (&i, &len): (&u64, &u64)| sum * len + i;
    let pairs = index.iter().zip(shape);
    let element = match order {
        Order::C => pairs.fold(0, step),
        Order::Fortran => pairs.rev().fold(0, step),
    };
    usize::try_from(element).unwrap_or(usize::MAX)
}

fn swap(bytes: &mut [u8], unit: u32) {
    for element in bytes.chunks_exact_mut(unit.max(1) as usize) {
        element.reverse();
    }
}

impl CatalogBytes for MemoryView<'_> {
    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn ties(&self) -> &[TensorId] {
        &self.ties
    }

    fn read_tensor(&self, id: TensorId, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let bytes = self.logical_bytes(id)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let part = start.checked_add(buffer.len()).and_then(|end| bytes.get(start..end));
        buffer.copy_from_slice(part.ok_or_else(|| Error::plugin("a read past the tensor's end"))?);
        Ok(())
    }

    fn read_part(&self, part: &TensorPart, buffer: &mut [u8]) -> Result<()> {
        buffer.copy_from_slice(&self.part_bytes(part)?);
        Ok(())
    }
}

/// The files that a writer wrote.
#[derive(Debug, Clone)]
pub struct MemoryOutput {
    /// Bytes of each file, by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Layout of the files.
    pub layout: Layout,
}

/// Writes a view with a format's writer. The options in `given` override the default options.
///
/// # Errors
/// Returns an error if the writer fails, or if a check of the layout fails.
pub fn write(
    format: &dyn Format,
    given: &[(String, String)],
    view: &MemoryView<'_>,
    target: &Target,
    context: &dyn Context,
) -> Result<MemoryOutput> {
    let options = Options::check(&format.describe().options, Side::Writer, given)?;
    let writer = format.writer(&options)?;
    let mut builder = LayoutBuilder::new(view, context);
    let plan = writer.plan(view, target, &mut builder, context)?;
    let mut layout = builder.finish()?;
    let encoded = encode(&layout, &*plan, view, context)?;
    layout.set_encoded_lengths(&encoded.iter().map(|(bytes, _)| bytes.len() as u64).collect::<Vec<_>>());
    let mut outputs = Vec::new();
    for (index, file) in layout.files().iter().enumerate() {
        let mut bytes = Vec::new();
        match &file.content {
            Content::Streamed => {
                let id = OutputId(u32::try_from(index).unwrap_or(u32::MAX));
                plan.stream(id, view, &mut bytes, context)?;
            }
            Content::Late => {}
            Content::Copied(segments) => {
                for placed in segments {
                    let piece = match &placed.segment {
                        Segment::Bytes(bytes) => bytes.clone(),
                        Segment::Tensor(part) => view.part_bytes(part)?,
                        Segment::Storage { storage, offset, swap_unit } => {
                            let all = view.storage_bytes(&view.catalog.storages()[storage.0 as usize])?;
                            let start = usize::try_from(*offset).unwrap_or(usize::MAX);
                            let mut bytes = all
                                [start..start + usize::try_from(placed.len).unwrap_or(usize::MAX)]
                                .to_vec();
                            swap(&mut bytes, *swap_unit);
                            bytes
                        }
                        Segment::Source(from) => {
                            let source = context.open(&from.source)?;
                            let file = source.open(&from.file)?;
                            let len = from.range.end - from.range.start;
                            let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
                            source.read_at(file, from.range.start, &mut bytes)?;
                            bytes
                        }
                        Segment::Encoded(id) => encoded[id.0 as usize].0.clone(),
                        Segment::Pad | Segment::Deferred(_) => {
                            vec![0; usize::try_from(placed.len).unwrap_or(usize::MAX)]
                        }
                    };
                    bytes.extend(piece);
                }
            }
        }
        outputs.push(bytes);
    }
    let notes: Vec<Vec<u8>> = encoded.into_iter().map(|(_, note)| note).collect();
    let mut sealed = MemorySeal { layout: &layout, notes: &notes, outputs };
    let before = MemorySeal { layout: &layout, notes: &notes, outputs: sealed.outputs.clone() };
    plan.seal(&before, &mut sealed, context)?;
    let paths = layout.files().iter().map(|file| file.path.clone());
    let files = paths.zip(sealed.outputs).collect();
    Ok(MemoryOutput { files, layout })
}

/// Returns the bytes and the note of each encoded segment.
fn encode(
    layout: &Layout,
    plan: &dyn TensorPlan,
    view: &MemoryView<'_>,
    context: &dyn Context,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let encode = |(index, placed): (u32, &PlacedEncoded)| {
        let mut bytes = Vec::new();
        let note = plan.encode(EncodedId(index), view, &mut bytes, context)?;
        match placed.encoded.len {
            Some(len) if len != bytes.len() as u64 => {
                Err(Error::plugin(format!("encoded segment {index} has a different length than promised"))
                    .file(layout.files()[placed.file.0 as usize].path.clone())
                    .expected(len)
                    .found(bytes.len()))
            }
            _ => Ok((bytes, note)),
        }
    };
    (0..).zip(layout.encoded()).map(encode).collect()
}

struct MemorySeal<'a> {
    layout: &'a Layout,
    notes: &'a [Vec<u8>],
    outputs: Vec<Vec<u8>>,
}

impl Digests for MemorySeal<'_> {
    fn get(&self, id: DigestId) -> Result<Digest> {
        let request = self.layout.digests().get(id.0 as usize);
        let request = request.ok_or_else(|| Error::plugin(format!("no digest {}", id.0)))?;
        let mut sum = request.algorithm.start()?;
        let range = usize::try_from(request.range.start).unwrap_or(usize::MAX)
            ..usize::try_from(request.range.end).unwrap_or(usize::MAX);
        sum.update(&self.outputs[request.file.0 as usize][range]);
        Ok(sum.digest())
    }

    fn encoded(&self, id: EncodedId) -> Result<EncodedLocation> {
        let placed = self.layout.encoded().get(id.0 as usize);
        let placed = placed.ok_or_else(|| Error::plugin(format!("no encoded segment {}", id.0)))?;
        let (offset, len) = (placed.range.start, placed.range.end - placed.range.start);
        Ok(EncodedLocation { offset, len, note: self.notes[id.0 as usize].clone() })
    }

    fn file_len(&self, file: OutputId) -> Result<u64> {
        let output = self.outputs.get(file.0 as usize);
        output.map(|bytes| bytes.len() as u64).ok_or_else(|| Error::plugin(format!("no file {}", file.0)))
    }
}

impl SealSink for MemorySeal<'_> {
    fn deferred(&mut self, id: DeferredId, bytes: &[u8]) -> Result<()> {
        let place = self.layout.deferred().get(id.0 as usize);
        let (file, range) = place.ok_or_else(|| Error::plugin(format!("no deferred segment {}", id.0)))?;
        if range.end - range.start != bytes.len() as u64 {
            return Err(Error::plugin("deferred bytes have a different length than reserved")
                .expected(range.end - range.start)
                .found(bytes.len()));
        }
        let start = usize::try_from(range.start).unwrap_or(usize::MAX);
        self.outputs[file.0 as usize][start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn late(&mut self, file: OutputId, bytes: &[u8]) -> Result<()> {
        let late = self.layout.files().get(file.0 as usize).is_some_and(|f| f.content == Content::Late);
        if !late {
            return Err(Error::plugin(format!("file {} is not a late file", file.0)));
        }
        self.outputs[file.0 as usize].write(bytes)
    }
}
