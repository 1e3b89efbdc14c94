//! A layout is what a writer promises: which files there will be, and what lies where in each.
//!
//! Segments are appended, so that a file has no overlap, and no hole that is not a
//! [`Pad`](Segment::Pad). [`LayoutBuilder::finish`] proves that every tensor is written once, or
//! named as an alias of one that is, or given up with a loss.

use crate::region::check_tiling;
use crate::source::check_name;
use crate::{
    ByteOrder, CatalogView, DigestAlgorithm, Error, Loss, LossKind, Region, Result, StorageId,
    TensorId, element_count,
};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// A file of a layout that is copied: its segments are known before any byte moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutputId(pub u32);

/// Bytes of a file that are known when the digests are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeferredId(pub u32);

/// A digest that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DigestId(pub u32);

/// Where the output goes, as the user named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One file, or the name from which a set of files takes theirs.
    File(String),
    /// A folder: the writer names the files in it.
    Folder,
}

/// When a file becomes visible, where files are not renamed all at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Holds data.
    Data,
    /// Tells readers where the data is: it goes first and comes last.
    Index,
}

/// Which index runs fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// The last one: row-major.
    #[default]
    C,
    /// The first one: column-major.
    Fortran,
}

/// A tensor, or a part of it, as it is to lie in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorPart {
    /// The tensor.
    pub tensor: TensorId,
    /// The part of it; `None` for all.
    pub region: Option<Region>,
    /// The order of its elements.
    pub order: Order,
    /// The order of each element's bytes.
    pub byte_order: ByteOrder,
}

impl TensorPart {
    /// All of a tensor: row-major, little-endian.
    #[must_use]
    pub fn whole(tensor: TensorId) -> Self {
        Self { tensor, region: None, order: Order::C, byte_order: ByteOrder::Little }
    }
}

/// What lies in a stretch of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A tensor or a part of one.
    Tensor(TensorPart),
    /// Bytes of a storage as they lie, `swap_unit` of them reversed together (1: none).
    Storage {
        /// The storage.
        storage: StorageId,
        /// Its first byte.
        offset: u64,
        /// How many bytes are reversed together.
        swap_unit: u32,
    },
    /// Zeros.
    Pad,
    /// Bytes that need digests first.
    Deferred(DeferredId),
}

/// A segment and its place in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Its first byte in the file.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// What lies there.
    pub segment: Segment,
}

/// How a file's bytes come to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// By the host's copy: segments in order, from byte 0, without a hole.
    Copied(Vec<Placed>),
    /// By the writer, in its own order, pushed to a sink.
    Streamed,
    /// By the writer, once the digests are known.
    Late,
}

/// A file of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// Relative to the output's folder, separated by `/`.
    pub path: String,
    /// Data, or an index.
    pub role: Role,
    /// How its bytes come to be.
    pub content: Content,
    /// Bytes so far; 0 for files that are streamed or late.
    pub len: u64,
}

/// A digest over a range of a copied file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestRequest {
    /// The file.
    pub file: OutputId,
    /// The bytes.
    pub range: Range<u64>,
    /// How.
    pub algorithm: DigestAlgorithm,
}

/// Takes what a writer plans.
pub trait LayoutSink {
    /// A file that the host copies; segments are appended to it.
    ///
    /// # Errors
    /// A plugin error, if the path leaves the folder or is there already.
    fn file(&mut self, path: &str, role: Role) -> Result<OutputId>;

    /// A file that [`TensorPlan::stream`](crate::TensorPlan::stream) writes from these tensors.
    ///
    /// # Errors
    /// As [`file`](Self::file).
    fn streamed_file(&mut self, path: &str, role: Role, tensors: &[TensorId]) -> Result<OutputId>;

    /// A file that [`TensorPlan::seal`](crate::TensorPlan::seal) writes.
    ///
    /// # Errors
    /// As [`file`](Self::file).
    fn late_file(&mut self, path: &str, role: Role) -> Result<OutputId>;

    /// Appends bytes; gives their offset, as do the other segments.
    ///
    /// # Errors
    /// A plugin error, if there is no such copied file.
    fn bytes(&mut self, file: OutputId, bytes: &[u8]) -> Result<u64>;

    /// Appends a tensor or a part of it.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes), or if the part is not one of the tensor.
    fn tensor(&mut self, file: OutputId, part: TensorPart) -> Result<u64>;

    /// Appends `len` bytes of a storage from `offset`, as they lie, with `swap_unit` of them
    /// reversed together. A tensor all of whose blocks are inside is written by this.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes), or if the storage is shorter.
    fn storage(&mut self, file: OutputId, storage: StorageId, offset: u64, len: u64, swap_unit: u32) -> Result<u64>;

    /// Appends zeros.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    fn pad(&mut self, file: OutputId, len: u64) -> Result<u64>;

    /// Appends `len` bytes that are given when the digests are known.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    fn deferred(&mut self, file: OutputId, len: u64) -> Result<DeferredId>;

    /// Asks for a digest over a range of a copied file: bytes, pads, tensors and storages, but
    /// nothing deferred.
    ///
    /// # Errors
    /// A plugin error, if the file has no such range.
    fn digest(&mut self, file: OutputId, range: Range<u64>, algorithm: DigestAlgorithm) -> Result<DigestId>;

    /// Says that `tensor` is written as `of`, which has its dtype, shape and bytes.
    ///
    /// # Errors
    /// A plugin error, if they are not tied.
    fn alias(&mut self, tensor: TensorId, of: TensorId) -> Result<()>;

    /// Gives a tensor up; the loss of kind `tensor` says why.
    ///
    /// # Errors
    /// A plugin error, if there is no such tensor.
    fn omit(&mut self, tensor: TensorId, why: &str) -> Result<()>;

    /// Anything else that the output will not have.
    ///
    /// # Errors
    /// None today.
    fn loss(&mut self, loss: Loss) -> Result<()>;
}

/// What a writer promised, checked.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    files: Vec<OutputFile>,
    deferred: Vec<(OutputId, Range<u64>)>,
    digests: Vec<DigestRequest>,
    losses: Vec<Loss>,
    omitted: Vec<TensorId>,
}

impl Layout {
    /// The files, in the writer's order.
    #[must_use]
    pub fn files(&self) -> &[OutputFile] {
        &self.files
    }

    /// Where the deferred bytes lie, by [`DeferredId`].
    #[must_use]
    pub fn deferred(&self) -> &[(OutputId, Range<u64>)] {
        &self.deferred
    }

    /// The digests asked for, by [`DigestId`].
    #[must_use]
    pub fn digests(&self) -> &[DigestRequest] {
        &self.digests
    }

    /// What the output will not have.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// The tensors that the output will not have.
    #[must_use]
    pub fn omitted(&self) -> &[TensorId] {
        &self.omitted
    }

    /// Bytes of all copied files.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }
}

/// Builds a [`Layout`] for a catalog, checking each segment as it is appended.
pub struct LayoutBuilder<'a> {
    catalog: &'a dyn CatalogView,
    layout: Layout,
    paths: HashSet<String>,
    regions: HashMap<TensorId, Vec<Region>>,
    stored: HashMap<StorageId, Vec<Range<u64>>>,
    settled: HashSet<TensorId>,
    aliases: Vec<(TensorId, TensorId)>,
}

impl<'a> LayoutBuilder<'a> {
    /// An empty layout for this catalog.
    #[must_use]
    pub fn new(catalog: &'a dyn CatalogView) -> Self {
        Self {
            catalog,
            layout: Layout::default(),
            paths: HashSet::new(),
            regions: HashMap::new(),
            stored: HashMap::new(),
            settled: HashSet::new(),
            aliases: Vec::new(),
        }
    }

    /// The layout.
    ///
    /// # Errors
    /// A plugin error, naming the tensor that is written not at all, in part, or twice, or the
    /// digest that covers deferred bytes.
    pub fn finish(mut self) -> Result<Layout> {
        if self.layout.files.is_empty() {
            return Err(Error::plugin("the writer planned no file"));
        }
        for (&tensor, regions) in &self.regions {
            let view = self.catalog.tensor(tensor);
            check_tiling(view.shape, regions).map_err(|e| {
                Error::plugin(format!("the layout does not write the tensor once: {}", e.message())).tensor(view.name)
            })?;
            if self.settled.contains(&tensor) {
                return Err(twice(view.name));
            }
        }
        for ranges in self.stored.values_mut() {
            merge(ranges);
        }
        let aliased: HashSet<TensorId> = self.aliases.iter().map(|&(alias, _)| alias).collect();
        for tensor in self.catalog.tensor_ids() {
            if !aliased.contains(&tensor) && !self.is_written(tensor)? {
                let name = self.catalog.tensor(tensor).name.to_owned();
                return Err(Error::plugin("the layout leaves a tensor out without a loss").tensor(name));
            }
        }
        for &(alias, of) in &self.aliases {
            if !self.is_written(of)? {
                let name = self.catalog.tensor(alias).name.to_owned();
                return Err(Error::plugin("an alias names a tensor that is not written").tensor(name));
            }
        }
        self.check_digests()?;
        Ok(self.layout)
    }

    /// Deferred bytes follow the digests, so that no digest can cover them.
    fn check_digests(&self) -> Result<()> {
        // Segments are appended, so those of one file are in order.
        let mut by_file: HashMap<OutputId, Vec<&Range<u64>>> = HashMap::new();
        for (file, range) in &self.layout.deferred {
            by_file.entry(*file).or_default().push(range);
        }
        for request in &self.layout.digests {
            let Some(ranges) = by_file.get(&request.file) else { continue };
            let next = ranges.partition_point(|range| range.end <= request.range.start);
            if ranges.get(next).is_some_and(|range| range.start < request.range.end) {
                return Err(Error::plugin("a digest is asked for bytes that are deferred"));
            }
        }
        Ok(())
    }

    fn is_written(&self, tensor: TensorId) -> Result<bool> {
        if self.settled.contains(&tensor) || self.regions.contains_key(&tensor) || self.catalog.tensor(tensor).bytes == 0 {
            return Ok(true);
        }
        let view = self.catalog.tensor(tensor);
        let info = self.catalog.dtype_info(view.dtype)?;
        let blocks = self.catalog.blocks(tensor);
        Ok(!blocks.is_empty()
            && blocks.iter().all(|block| {
                let Some(ranges) = self.stored.get(&block.storage) else { return false };
                let extent = block.extent(info.element_bytes(), view.bytes);
                ranges.iter().any(|range| range.start <= extent.start && extent.end <= range.end)
            }))
    }

    fn add_file(&mut self, path: &str, role: Role, content: Content) -> Result<OutputId> {
        check_name(path).map_err(|e| Error::plugin("the writer names a file outside the output").found(e))?;
        if !self.paths.insert(path.to_owned()) {
            return Err(Error::plugin("the writer names a file twice").file(path));
        }
        self.layout.files.push(OutputFile { path: path.to_owned(), role, content, len: 0 });
        id(self.layout.files.len() - 1).map(OutputId)
    }

    fn append(&mut self, file: OutputId, len: u64, segment: Segment) -> Result<u64> {
        let output = self.layout.files.get_mut(file.0 as usize);
        let Some(OutputFile { content: Content::Copied(segments), len: end, .. }) = output else {
            return Err(Error::plugin(format!("no copied file {}", file.0)));
        };
        let offset = *end;
        *end = offset
            .checked_add(len)
            .filter(|&end| i64::try_from(end).is_ok())
            .ok_or_else(|| Error::plugin("a file longer than 63 bits"))?;
        segments.push(Placed { offset, len, segment });
        Ok(offset)
    }

    fn check_tensor(&self, tensor: TensorId) -> Result<()> {
        if tensor.0 < self.catalog.tensor_count() {
            Ok(())
        } else {
            Err(Error::plugin(format!("no tensor {}", tensor.0)))
        }
    }

    fn settle(&mut self, tensor: TensorId) -> Result<()> {
        self.check_tensor(tensor)?;
        if self.settled.insert(tensor) { Ok(()) } else { Err(twice(self.catalog.tensor(tensor).name)) }
    }
}

impl crate::Block {
    /// The bytes of its storage that the block reaches. `element_bytes` is that of the dtype;
    /// `packed_bytes` is the block's length where elements share bytes or lengths vary.
    #[must_use]
    pub fn extent(&self, element_bytes: Option<u32>, packed_bytes: u64) -> Range<u64> {
        let Some(width) = element_bytes else {
            return self.offset..self.offset + packed_bytes;
        };
        if self.region.shape.contains(&0) {
            return self.offset..self.offset;
        }
        let (mut start, mut end) = (self.offset, self.offset + u64::from(width));
        for (&len, &stride) in self.region.shape.iter().zip(&self.strides) {
            let reach = (len - 1) * stride.unsigned_abs() * u64::from(width);
            if stride < 0 {
                start -= reach;
            } else {
                end += reach;
            }
        }
        start..end
    }
}

fn id(index: usize) -> Result<u32> {
    u32::try_from(index).map_err(|_| Error::plugin("a layout of more than 32 bits"))
}

fn twice(name: &str) -> Error {
    Error::plugin("the layout writes a tensor twice").tensor(name)
}

/// Sorts ranges and joins those that touch.
fn merge(ranges: &mut Vec<Range<u64>>) {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges.drain(..) {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    *ranges = merged;
}

impl LayoutSink for LayoutBuilder<'_> {
    fn file(&mut self, path: &str, role: Role) -> Result<OutputId> {
        self.add_file(path, role, Content::Copied(Vec::new()))
    }

    fn streamed_file(&mut self, path: &str, role: Role, tensors: &[TensorId]) -> Result<OutputId> {
        for &tensor in tensors {
            self.settle(tensor)?;
        }
        self.add_file(path, role, Content::Streamed)
    }

    fn late_file(&mut self, path: &str, role: Role) -> Result<OutputId> {
        self.add_file(path, role, Content::Late)
    }

    fn bytes(&mut self, file: OutputId, bytes: &[u8]) -> Result<u64> {
        self.append(file, bytes.len() as u64, Segment::Bytes(bytes.to_vec()))
    }

    fn tensor(&mut self, file: OutputId, part: TensorPart) -> Result<u64> {
        self.check_tensor(part.tensor)?;
        let view = self.catalog.tensor(part.tensor);
        let info = self.catalog.dtype_info(view.dtype)?;
        let named = |e: Error| Error::plugin(e.message()).tensor(view.name);
        let region = part.region.clone().unwrap_or_else(|| Region::whole(view.shape));
        let len = if part.region.is_none() {
            view.bytes
        } else {
            info.bytes_of(element_count(&region.shape)?).map_err(named)?
        };
        // Elements that share bytes cannot be picked out or put in another order.
        let as_it_lies = region.is_whole(view.shape) && (part.order == Order::C || view.shape.len() < 2);
        if info.element_bytes().is_none() && !as_it_lies {
            return Err(Error::plugin(format!("{} is written whole and row-major", info.name())).tensor(view.name));
        }
        self.regions.entry(part.tensor).or_default().push(region);
        self.append(file, len, Segment::Tensor(part))
    }

    fn storage(&mut self, file: OutputId, storage: StorageId, offset: u64, len: u64, swap_unit: u32) -> Result<u64> {
        let view = self.catalog.storage(storage)?;
        let end = offset.checked_add(len).filter(|&end| end <= view.len);
        let unit = u64::from(swap_unit.max(1));
        let (Some(end), true) = (end, offset.is_multiple_of(unit) && len.is_multiple_of(unit)) else {
            return Err(Error::plugin("a segment is not a part of its storage")
                .expected(format!("at most {} bytes, in units of {unit}", view.len))
                .found(format!("{len} bytes at {offset}")));
        };
        self.stored.entry(storage).or_default().push(offset..end);
        self.append(file, len, Segment::Storage { storage, offset, swap_unit: swap_unit.max(1) })
    }

    fn pad(&mut self, file: OutputId, len: u64) -> Result<u64> {
        self.append(file, len, Segment::Pad)
    }

    fn deferred(&mut self, file: OutputId, len: u64) -> Result<DeferredId> {
        let deferred = DeferredId(id(self.layout.deferred.len())?);
        let offset = self.append(file, len, Segment::Deferred(deferred))?;
        self.layout.deferred.push((file, offset..offset + len));
        Ok(deferred)
    }

    fn digest(&mut self, file: OutputId, range: Range<u64>, algorithm: DigestAlgorithm) -> Result<DigestId> {
        algorithm.start()?;
        let copied = self.layout.files.get(file.0 as usize).filter(|f| matches!(f.content, Content::Copied(_)));
        if copied.is_none_or(|f| range.end > f.len || range.start > range.end) {
            return Err(Error::plugin("a digest is asked for bytes that no copied file has"));
        }
        self.layout.digests.push(DigestRequest { file, range, algorithm });
        id(self.layout.digests.len() - 1).map(DigestId)
    }

    fn alias(&mut self, tensor: TensorId, of: TensorId) -> Result<()> {
        self.check_tensor(tensor)?;
        self.check_tensor(of)?;
        if self.catalog.tied_to(tensor) != self.catalog.tied_to(of) || tensor == of {
            return Err(Error::plugin("an alias is not tied to its tensor").tensor(self.catalog.tensor(tensor).name));
        }
        self.settle(tensor)?;
        self.aliases.push((tensor, of));
        Ok(())
    }

    fn omit(&mut self, tensor: TensorId, why: &str) -> Result<()> {
        self.settle(tensor)?;
        self.layout.omitted.push(tensor);
        self.loss(Loss::new(LossKind::Tensor, self.catalog.tensor(tensor).name, why))
    }

    fn loss(&mut self, loss: Loss) -> Result<()> {
        self.layout.losses.push(loss);
        Ok(())
    }
}
