//! Builds layouts. Each segment is checked when it is appended, and the whole layout is checked at
//! the end.

use crate::region::check_tiling;
use crate::source::check_name;
use crate::view::{MAX_BLOCKS_PER_CALL, part_len};
use crate::{
    Block, CatalogView, Content, Context, DeferredId, DigestAlgorithm, DigestId, DigestRequest, Encoded,
    EncodedId, Error, Layout, LayoutSink, Loss, LossKind, LossSink, OutputFile, OutputId, PlacedEncoded,
    PlacedSegment, Region, Result, Role, Segment, SourceRange, StorageId, TensorId, TensorPart,
};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Maximum length of a file name in bytes on Linux, macOS and Windows.
const MAX_FILE_NAME: usize = 255;

/// Provisional length of an encoded segment whose length is unknown. The length is one byte, so
/// that no two segments end at the same offset.
const UNKNOWN_LEN: u64 = 1;

/// Builds a [`Layout`] for a catalog, and checks each segment as it is appended.
pub struct LayoutBuilder<'a> {
    catalog: &'a dyn CatalogView,
    context: &'a dyn Context,
    layout: Layout,
    paths: HashSet<String>,
    /// For each tensor id, whether the tensor has been written as a whole exactly once.
    whole: Vec<bool>,
    /// For each tensor that is written in parts, the regions written so far.
    regions: HashMap<TensorId, Vec<Region>>,
    stored: HashMap<StorageId, Vec<Range<u64>>>,
    settled: HashSet<TensorId>,
    aliases: Vec<(TensorId, TensorId)>,
}

impl<'a> LayoutBuilder<'a> {
    /// Creates an empty layout for this catalog. `context` opens the other inputs from which bytes
    /// are copied.
    #[must_use]
    pub fn new(catalog: &'a dyn CatalogView, context: &'a dyn Context) -> Self {
        Self {
            catalog,
            context,
            layout: Layout::default(),
            paths: HashSet::new(),
            whole: Vec::new(),
            regions: HashMap::new(),
            stored: HashMap::new(),
            settled: HashSet::new(),
            aliases: Vec::new(),
        }
    }

    /// Returns the finished layout.
    ///
    /// # Errors
    /// Returns a plugin error if a tensor is missing, is written only partly, or is written twice.
    /// Also returns a plugin error if a digest covers deferred bytes.
    pub fn finish(mut self) -> Result<Layout> {
        if self.layout.files.is_empty() {
            return Err(Error::plugin("the writer did not plan any files"));
        }
        for (&tensor, regions) in &self.regions {
            let view = self.catalog.tensor(tensor);
            check_tiling(view.shape, regions).map_err(|e| {
                Error::plugin(format!("the layout does not write the tensor exactly once: {}", e.message()))
                    .tensor(view.name)
            })?;
            if self.settled.contains(&tensor) {
                return Err(written_twice(view.name));
            }
        }
        if let Some(&tensor) = self.settled.iter().find(|&&tensor| self.is_whole(tensor)) {
            return Err(written_twice(self.catalog.tensor(tensor).name));
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

    /// Checks that no digest covers deferred bytes, because deferred bytes depend on digests.
    fn check_digests(&self) -> Result<()> {
        // Segments are only appended, so the segments of each file are in order.
        let mut by_file: HashMap<OutputId, Vec<&Range<u64>>> = HashMap::new();
        for (file, range) in &self.layout.deferred {
            by_file.entry(*file).or_default().push(range);
        }
        for request in &self.layout.digests {
            let Some(ranges) = by_file.get(&request.file) else { continue };
            let next = ranges.partition_point(|range| range.end <= request.range.start);
            if ranges.get(next).is_some_and(|range| range.start < request.range.end) {
                return Err(Error::plugin("a digest is requested for deferred bytes"));
            }
        }
        Ok(())
    }

    fn is_written(&self, tensor: TensorId) -> Result<bool> {
        if self.is_whole(tensor)
            || self.settled.contains(&tensor)
            || self.regions.contains_key(&tensor)
            || self.catalog.tensor(tensor).bytes == 0
        {
            return Ok(true);
        }
        let view = self.catalog.tensor(tensor);
        let info = self.catalog.dtype_info(view.dtype)?;
        let is_stored = |block: &Block| {
            let Some(ranges) = self.stored.get(&block.storage) else { return false };
            // Strings are in a single block. Packed elements may be in several blocks if each block
            // consists of whole bytes.
            let elements = block.region.shape.iter().product();
            let packed =
                if info.is_variable() { view.bytes } else { info.bytes_of(elements).unwrap_or(u64::MAX) };
            let extent = block.extent(info.element_bytes(), packed);
            ranges.iter().any(|range| range.start <= extent.start && extent.end <= range.end)
        };
        let mut count = 0;
        loop {
            let blocks = self.catalog.blocks(tensor, count, MAX_BLOCKS_PER_CALL)?;
            if blocks.is_empty() {
                return Ok(count > 0);
            }
            if !blocks.iter().all(is_stored) {
                return Ok(false);
            }
            count += blocks.len() as u64;
        }
    }

    fn add_file(&mut self, path: &str, role: Role, content: Content) -> Result<OutputId> {
        check_name(path)
            .map_err(|e| Error::plugin("the path of a file leaves the output folder").found(e))?;
        if let Some(part) = path.split('/').find(|part| part.len() > MAX_FILE_NAME) {
            return Err(Error::unsupported("the name of an output file is too long")
                .file(path)
                .expected(format!("at most {MAX_FILE_NAME} bytes"))
                .found(format!("{} bytes", part.len())));
        }
        if !self.paths.insert(path.to_owned()) {
            return Err(Error::plugin("the writer uses a file name twice").file(path));
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
            .ok_or_else(|| Error::plugin("the length of a file exceeds 63 bits"))?;
        segments.push(PlacedSegment { offset, len, segment });
        Ok(offset)
    }

    fn check_tensor(&self, tensor: TensorId) -> Result<()> {
        if tensor.0 < self.catalog.tensor_count() {
            Ok(())
        } else {
            Err(Error::plugin(format!("no tensor {}", tensor.0)))
        }
    }

    fn is_whole(&self, tensor: TensorId) -> bool {
        self.whole.get(tensor.0 as usize).is_some_and(|&is_whole| is_whole)
    }

    /// Records that a tensor or a region of it is written.
    fn record_written(&mut self, tensor: TensorId, region: Option<&Region>) {
        let place = tensor.0 as usize;
        let was_whole = self.is_whole(tensor);
        if region.is_none() && !was_whole && !self.regions.contains_key(&tensor) {
            if self.whole.len() <= place {
                self.whole.resize(place + 1, false);
            }
            self.whole[place] = true;
            return;
        }
        let whole = Region::whole(self.catalog.tensor(tensor).shape);
        let regions = self.regions.entry(tensor).or_default();
        if was_whole {
            self.whole[place] = false;
            regions.push(whole.clone());
        }
        regions.push(region.cloned().unwrap_or(whole));
    }

    fn mark_written(&mut self, tensor: TensorId) -> Result<()> {
        self.check_tensor(tensor)?;
        if self.settled.insert(tensor) {
            Ok(())
        } else {
            Err(written_twice(self.catalog.tensor(tensor).name))
        }
    }
}

fn id(index: usize) -> Result<u32> {
    u32::try_from(index).map_err(|_| Error::plugin("the layout has more than 2^32 entries"))
}

fn written_twice(name: &str) -> Error {
    Error::plugin("the layout writes a tensor twice").tensor(name)
}

/// Sorts ranges and joins adjacent or overlapping ranges.
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

impl LossSink for LayoutBuilder<'_> {
    fn loss(&mut self, loss: Loss) -> Result<()> {
        self.layout.losses.push(loss);
        Ok(())
    }
}

impl LayoutSink for LayoutBuilder<'_> {
    fn file(&mut self, path: &str, role: Role) -> Result<OutputId> {
        self.add_file(path, role, Content::Copied(Vec::new()))
    }

    fn streamed_file(&mut self, path: &str, role: Role, tensors: &[TensorId]) -> Result<OutputId> {
        for &tensor in tensors {
            self.mark_written(tensor)?;
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
        let len = part_len(self.catalog, &part)?;
        self.record_written(part.tensor, part.region.as_ref());
        self.append(file, len, Segment::Tensor(part))
    }

    fn storage(
        &mut self,
        file: OutputId,
        storage: StorageId,
        offset: u64,
        len: u64,
        swap_unit: u32,
    ) -> Result<u64> {
        let view = self.catalog.storage(storage)?;
        let end = offset.checked_add(len).filter(|&end| end <= view.len);
        let unit = u64::from(swap_unit.max(1));
        let (Some(end), true) = (end, offset.is_multiple_of(unit) && len.is_multiple_of(unit)) else {
            return Err(Error::plugin("a segment is not part of its storage")
                .expected(format!("at most {} bytes, in units of {unit}", view.len))
                .found(format!("{len} bytes at {offset}")));
        };
        self.stored.entry(storage).or_default().push(offset..end);
        self.append(file, len, Segment::Storage { storage, offset, swap_unit: swap_unit.max(1) })
    }

    fn copy(&mut self, file: OutputId, from: SourceRange) -> Result<u64> {
        let SourceRange { source, file: name, range } = &from;
        let source = self.context.open(source)?;
        let there = source.len(source.open(name)?);
        let len = range.end.checked_sub(range.start).filter(|_| range.end <= there).ok_or_else(|| {
            Error::plugin("a segment is not part of the file that it is copied from")
                .file(name)
                .expected(format!("bytes of 0..{there}"))
                .found(format!("{range:?}"))
        })?;
        self.append(file, len, Segment::Source(from))
    }

    fn pad(&mut self, file: OutputId, len: u64) -> Result<u64> {
        self.append(file, len, Segment::Pad)
    }

    fn encoded(&mut self, file: OutputId, encoded: Encoded) -> Result<(EncodedId, u64)> {
        if encoded.region.is_some() && encoded.tensors.len() != 1 {
            return Err(Error::plugin("an encoded region needs exactly one tensor")
                .expected("1 tensor")
                .found(encoded.tensors.len()));
        }
        for &tensor in &encoded.tensors {
            self.check_tensor(tensor)?;
            self.record_written(tensor, encoded.region.as_ref());
        }
        let id = EncodedId(id(self.layout.encoded.len())?);
        let len = encoded.len.unwrap_or(UNKNOWN_LEN);
        let offset = self.append(file, len, Segment::Encoded(id))?;
        self.layout.encoded.push(PlacedEncoded { file, range: offset..offset + len, encoded });
        Ok((id, offset))
    }

    fn deferred(&mut self, file: OutputId, len: u64) -> Result<DeferredId> {
        let deferred = DeferredId(id(self.layout.deferred.len())?);
        let offset = self.append(file, len, Segment::Deferred(deferred))?;
        self.layout.deferred.push((file, offset..offset + len));
        Ok(deferred)
    }

    fn digest(&mut self, file: OutputId, range: Range<u64>, algorithm: DigestAlgorithm) -> Result<DigestId> {
        algorithm.start()?;
        let copied =
            self.layout.files.get(file.0 as usize).filter(|f| matches!(f.content, Content::Copied(_)));
        if copied.is_none_or(|f| range.end > f.len || range.start > range.end) {
            return Err(Error::plugin("a digest is requested for bytes that no copied file contains"));
        }
        self.layout.digests.push(DigestRequest { file, range, algorithm });
        id(self.layout.digests.len() - 1).map(DigestId)
    }

    fn alias(&mut self, tensor: TensorId, of: TensorId) -> Result<()> {
        self.check_tensor(tensor)?;
        self.check_tensor(of)?;
        if self.catalog.tied_to(tensor) != self.catalog.tied_to(of) || tensor == of {
            return Err(
                Error::plugin("an alias is not tied to its tensor").tensor(self.catalog.tensor(tensor).name)
            );
        }
        self.mark_written(tensor)?;
        self.aliases.push((tensor, of));
        Ok(())
    }

    fn omit(&mut self, tensor: TensorId, why: &str) -> Result<()> {
        self.mark_written(tensor)?;
        self.layout.omitted.push(tensor);
        self.loss(Loss::new(LossKind::Tensor, self.catalog.tensor(tensor).name, why))
    }

    fn written_as(&mut self, tensor: TensorId, name: &str) -> Result<()> {
        if tensor.0 >= self.catalog.tensor_count() {
            return Err(Error::plugin(format!("no tensor {}", tensor.0)));
        }
        self.layout.names.entry(tensor).or_default().push(name.to_owned());
        Ok(())
    }

    fn written_in_bytes(&mut self, tensor: TensorId) -> Result<()> {
        self.mark_written(tensor)
    }

    fn supersedes(&mut self, pattern: &str, role: Role) -> Result<()> {
        check_name(pattern).map_err(|e| Error::plugin("a pattern leaves the output folder").found(e))?;
        self.layout.superseded.push((pattern.to_owned(), role));
        Ok(())
    }
}
