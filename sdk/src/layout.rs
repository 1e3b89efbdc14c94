//! A layout is a writer's plan: the files, and the bytes in each of them.
//!
//! Segments are appended, so a file has no overlaps, and its only holes are [`Pad`](Segment::Pad)s.
//! [`LayoutBuilder::finish`](crate::LayoutBuilder::finish) proves that every tensor is written
//! once, is declared as an alias of a tensor that is written, or is left out with a loss.

use crate::{ByteOrder, DigestAlgorithm, Loss, LossSink, Region, Result, StorageId, TensorId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// A file of a layout, by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutputId(pub u32);

/// Bytes of a file that are supplied once the digests are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeferredId(pub u32);

/// Bytes of a file that [`TensorPlan::encode`](crate::TensorPlan::encode) produces. Ids count from
/// 0 in the order in which segments are appended, over all files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EncodedId(pub u32);

/// A digest that a writer requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DigestId(pub u32);

/// The destination of the output, as the user named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One file, or the name from which the names of a set of files are derived.
    File(String),
    /// A folder in which the writer names the files.
    Folder,
}

impl Target {
    /// Returns the name of the file, or `usual` for a folder.
    #[must_use]
    pub fn file_or<'n>(&'n self, usual: &'n str) -> &'n str {
        match self {
            Self::File(name) => name,
            Self::Folder => usual,
        }
    }
}

/// Decides when a file becomes visible, if files cannot be renamed all at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// A file with data.
    Data,
    /// A file that tells readers where the data is. An old index is removed first, and the new
    /// index appears last.
    Index,
}

/// The index that varies fastest in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// The last index: row-major.
    #[default]
    C,
    /// The first index: column-major.
    Fortran,
}

/// A tensor or part of a tensor, in the form in which it is written to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorPart {
    /// The tensor.
    pub tensor: TensorId,
    /// Part of the tensor, or `None` for the whole tensor.
    pub region: Option<Region>,
    /// Order of the elements.
    pub order: Order,
    /// Order of the bytes in each element.
    pub byte_order: ByteOrder,
}

impl TensorPart {
    /// Creates a part that is a whole tensor: row-major, little-endian.
    #[must_use]
    pub fn whole(tensor: TensorId) -> Self {
        Self { tensor, region: None, order: Order::C, byte_order: ByteOrder::Little }
    }
}

/// A range of bytes in a file of another input. An option of the writer names that input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRange {
    /// Value of the option, as passed to [`Context::open`](crate::Context::open).
    pub source: String,
    /// Name of the file in that input.
    pub file: String,
    /// Range of bytes in the file.
    pub range: Range<u64>,
}

/// The contents of an encoded segment, and its length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Encoded {
    /// Tensors in the segment; may be empty.
    pub tensors: Vec<TensorId>,
    /// Part of the only tensor in the segment, or `None` for all of each tensor.
    pub region: Option<Region>,
    /// Length in bytes, or `None` if it is not known before the segment is encoded.
    pub len: Option<u64>,
}

impl Encoded {
    /// Creates a segment of whole tensors, whose length is not known in advance.
    #[must_use]
    pub fn tensors(tensors: impl Into<Vec<TensorId>>) -> Self {
        Self { tensors: tensors.into(), ..Self::default() }
    }

    /// Creates a segment of a region of a tensor, whose length is not known in advance.
    #[must_use]
    pub fn region(tensor: TensorId, region: Region) -> Self {
        Self { tensors: vec![tensor], region: Some(region), len: None }
    }

    /// Sets the length in bytes, if it is known in advance.
    #[must_use]
    pub fn of_len(self, len: u64) -> Self {
        Self { len: Some(len), ..self }
    }
}

/// The contents of a stretch of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Literal bytes.
    Bytes(Vec<u8>),
    /// A tensor or part of a tensor.
    Tensor(TensorPart),
    /// Raw bytes of a storage, with each group of `swap_unit` bytes reversed (1: none).
    Storage {
        /// The storage.
        storage: StorageId,
        /// First byte in the storage.
        offset: u64,
        /// Number of bytes that are reversed together.
        swap_unit: u32,
    },
    /// Raw bytes of another input.
    Source(SourceRange),
    /// Zeros.
    Pad,
    /// Bytes that the plan encodes.
    Encoded(EncodedId),
    /// Bytes that depend on digests.
    Deferred(DeferredId),
}

/// A segment and its location in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedSegment {
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Contents of the segment.
    pub segment: Segment,
}

/// The way in which the bytes of a file are produced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Copied by the host: segments in order, from byte 0, without holes.
    Copied(Vec<PlacedSegment>),
    /// Pushed to a sink by the writer, in order.
    Streamed,
    /// Supplied by the writer once the digests are known.
    Late,
}

/// A file of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// Path relative to the output folder, separated by `/`.
    pub path: String,
    /// Data or index.
    pub role: Role,
    /// The way in which its bytes are produced.
    pub content: Content,
    /// Length in bytes so far; 0 for streamed and late files.
    pub len: u64,
}

/// An encoded segment and its location in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedEncoded {
    /// The file.
    pub file: OutputId,
    /// Range of bytes in the file.
    pub range: Range<u64>,
    /// Contents of the segment.
    pub encoded: Encoded,
}

/// A request for a digest over a range of a copied file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestRequest {
    /// The file.
    pub file: OutputId,
    /// Range of bytes in the file.
    pub range: Range<u64>,
    /// Algorithm of the digest.
    pub algorithm: DigestAlgorithm,
}

/// Receives the plan of a writer. A [loss](LossSink::loss) reports content that the output will not
/// contain; for a whole tensor, call [`omit`](Self::omit) instead.
pub trait LayoutSink: LossSink {
    /// Adds a file that the host copies. Segments are appended to it.
    ///
    /// # Errors
    /// Returns a plugin error if the path leaves the folder or is already used.
    fn file(&mut self, path: &str, role: Role) -> Result<OutputId>;

    /// Adds a file that [`TensorPlan::stream`](crate::TensorPlan::stream) writes from these
    /// tensors.
    fn streamed_file(&mut self, path: &str, role: Role, tensors: &[TensorId]) -> Result<OutputId>;

    /// Adds a file that [`TensorPlan::seal`](crate::TensorPlan::seal) writes.
    fn late_file(&mut self, path: &str, role: Role) -> Result<OutputId>;

    /// Appends literal bytes, and returns their offset in the file.
    ///
    /// # Errors
    /// Returns a plugin error if there is no such copied file.
    fn bytes(&mut self, file: OutputId, bytes: &[u8]) -> Result<u64>;

    /// Appends a tensor or part of a tensor, and returns its offset.
    ///
    /// # Errors
    /// Returns an error if there is no such copied file, or if the tensor has no such part.
    fn tensor(&mut self, file: OutputId, part: TensorPart) -> Result<u64>;

    /// Appends `len` raw bytes of a storage from `offset`, with each group of `swap_unit` bytes
    /// reversed, and returns their offset in the file. A tensor counts as written if all of its
    /// blocks are inside such ranges.
    ///
    /// # Errors
    /// Returns an error if there is no such copied file, or if the storage is shorter.
    fn storage(
        &mut self,
        file: OutputId,
        storage: StorageId,
        offset: u64,
        len: u64,
        swap_unit: u32,
    ) -> Result<u64>;

    /// Appends raw bytes of another input. The host copies them, and checks until the end that the
    /// file does not change.
    ///
    /// # Errors
    /// Returns an error if there is no such copied file, if the source file is shorter, or if
    /// [`Context::open`](crate::Context::open) fails.
    fn copy(&mut self, file: OutputId, from: SourceRange) -> Result<u64>;

    /// Appends zeros.
    fn pad(&mut self, file: OutputId, len: u64) -> Result<u64>;

    /// Appends bytes that [`TensorPlan::encode`](crate::TensorPlan::encode) produces, and returns
    /// their id and offset. The host calls `encode` for many segments at once.
    ///
    /// A segment of unknown length counts as one byte here: in the offsets of what follows it in
    /// the file, and in the ranges of [`digest`](Self::digest). When the file is sealed,
    /// [`Digests::encoded`](crate::Digests::encoded) returns the final location.
    ///
    /// # Errors
    /// Returns an error if there is no such copied file, if a tensor has no such region, or if a
    /// region is specified and the number of tensors is not one.
    fn encoded(&mut self, file: OutputId, encoded: Encoded) -> Result<(EncodedId, u64)>;

    /// Appends `len` bytes that are supplied once the digests are known.
    fn deferred(&mut self, file: OutputId, len: u64) -> Result<DeferredId>;

    /// Requests a digest over a range of a copied file that contains no deferred bytes.
    ///
    /// # Errors
    /// Returns a plugin error if the file has no such range.
    fn digest(&mut self, file: OutputId, range: Range<u64>, algorithm: DigestAlgorithm) -> Result<DigestId>;

    /// Declares that `tensor` is written as `of`, which has the same dtype, shape and bytes.
    ///
    /// # Errors
    /// Returns a plugin error if the two are not tied.
    fn alias(&mut self, tensor: TensorId, of: TensorId) -> Result<()>;

    /// Leaves a tensor out of the output, with a loss of kind `tensor` and the reason `why`.
    ///
    /// # Errors
    /// Returns a plugin error if there is no such tensor.
    fn omit(&mut self, tensor: TensorId, why: &str) -> Result<()>;

    /// Declares that this format's reader will show a tensor under a different name
    /// ([`Purpose::SHOW`]), so that the output can be verified. A tensor may have several such
    /// names.
    ///
    /// [`Purpose::SHOW`]: crate::Purpose::SHOW
    ///
    /// # Errors
    /// Returns a plugin error if there is no such tensor.
    fn written_as(&mut self, tensor: TensorId, name: &str) -> Result<()> {
        let _ = (tensor, name);
        Ok(())
    }

    /// Declares that a tensor is part of literal [`bytes`](Self::bytes) that the writer produced
    /// while planning, such as a few strings in the format's own form.
    ///
    /// # Errors
    /// Returns a plugin error if the tensor is also written in another way.
    fn written_in_bytes(&mut self, tensor: TensorId) -> Result<()>;

    /// Declares that files with matching names that are not part of this output belong to an older
    /// output that this one replaces, such as shards of a different count. With `--force` they are
    /// removed when the new output is committed. In the pattern, `*` matches any characters except
    /// `/`, `?` matches one character, and `[0-9]` matches one of a range.
    ///
    /// # Errors
    /// Returns a plugin error if the pattern leaves the folder.
    fn supersedes(&mut self, pattern: &str, role: Role) -> Result<()> {
        let _ = (pattern, role);
        Ok(())
    }
}

/// The checked plan of a writer.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    pub(crate) files: Vec<OutputFile>,
    pub(crate) encoded: Vec<PlacedEncoded>,
    pub(crate) deferred: Vec<(OutputId, Range<u64>)>,
    pub(crate) digests: Vec<DigestRequest>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) omitted: Vec<TensorId>,
    pub(crate) names: BTreeMap<TensorId, Vec<String>>,
    pub(crate) superseded: Vec<(String, Role)>,
}

impl Layout {
    /// Returns the files, in the writer's order.
    #[must_use]
    pub fn files(&self) -> &[OutputFile] {
        &self.files
    }

    /// Returns the encoded segments, indexed by [`EncodedId`]. Segments of one file are in order.
    #[must_use]
    pub fn encoded(&self) -> &[PlacedEncoded] {
        &self.encoded
    }

    /// Returns the files whose length is only known once their segments are encoded.
    #[must_use]
    pub fn files_of_unknown_length(&self) -> BTreeSet<OutputId> {
        let unsettled = self.encoded.iter().filter(|placed| placed.encoded.len.is_none());
        unsettled.map(|placed| placed.file).collect()
    }

    /// Sets the actual length of each encoded segment, so that all offsets become final.
    ///
    /// # Panics
    /// Panics if the number of lengths differs from the number of segments.
    pub fn set_encoded_lengths(&mut self, lens: &[u64]) {
        assert_eq!(lens.len(), self.encoded.len(), "one length for each encoded segment");
        let shifts = Shifts::new(&self.encoded, lens);
        for (index, file) in (0..).zip(&mut self.files) {
            let Some(shift) = shifts.of(OutputId(index)) else { continue };
            file.len = shift.shifted(file.len);
            let Content::Copied(segments) = &mut file.content else { continue };
            for placed in segments {
                let end = shift.shifted(placed.offset + placed.len);
                placed.offset = shift.shifted(placed.offset);
                placed.len = end - placed.offset;
            }
        }
        let deferred = self.deferred.iter_mut().map(|(file, range)| (*file, range));
        let digests = self.digests.iter_mut().map(|request| (request.file, &mut request.range));
        let encoded = self.encoded.iter_mut().map(|placed| (placed.file, &mut placed.range));
        for (file, range) in deferred.chain(digests).chain(encoded) {
            if let Some(shift) = shifts.of(file) {
                *range = shift.shifted(range.start)..shift.shifted(range.end);
            }
        }
        for (placed, &len) in self.encoded.iter_mut().zip(lens) {
            placed.encoded.len = Some(len);
        }
    }

    /// Returns the locations of the deferred bytes, indexed by [`DeferredId`].
    #[must_use]
    pub fn deferred(&self) -> &[(OutputId, Range<u64>)] {
        &self.deferred
    }

    /// Returns the requested digests, indexed by [`DigestId`].
    #[must_use]
    pub fn digests(&self) -> &[DigestRequest] {
        &self.digests
    }

    /// Returns the losses that the writer reported.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Returns the tensors that the output leaves out.
    #[must_use]
    pub fn omitted(&self) -> &[TensorId] {
        &self.omitted
    }

    /// Returns the names under which a tensor is written, if they differ from its own.
    #[must_use]
    pub fn names(&self, tensor: TensorId) -> Option<&[String]> {
        self.names.get(&tensor).map(Vec::as_slice)
    }

    /// Returns the patterns of names of files that belong to an older output.
    #[must_use]
    pub fn superseded(&self) -> &[(String, Role)] {
        &self.superseded
    }

    /// Moves the layout into a sub-folder.
    #[must_use]
    pub fn in_folder(mut self, folder: &str) -> Self {
        let paths = self.files.iter_mut().map(|file| &mut file.path);
        for path in paths.chain(self.superseded.iter_mut().map(|(pattern, _)| pattern)) {
            *path = format!("{folder}/{path}");
        }
        self
    }

    /// Returns the total bytes of all copied files.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }
}

/// The distances by which the bytes of files move when their encoded segments get their lengths.
struct Shifts(HashMap<OutputId, Shift>);

/// The segments of one file whose lengths were unknown.
#[derive(Default)]
struct Shift {
    /// Start offsets, as if each segment had one byte; in order.
    starts: Vec<u64>,
    /// Total bytes of each segment and all before it.
    sums: Vec<u64>,
}

impl Shifts {
    fn new(encoded: &[PlacedEncoded], lens: &[u64]) -> Self {
        let mut shifts: HashMap<OutputId, Shift> = HashMap::new();
        for (placed, len) in encoded.iter().zip(lens).filter(|(placed, _)| placed.encoded.len.is_none()) {
            let shift = shifts.entry(placed.file).or_default();
            shift.starts.push(placed.range.start);
            shift.sums.push(shift.sums.last().unwrap_or(&0) + len);
        }
        Self(shifts)
    }

    fn of(&self, file: OutputId) -> Option<&Shift> {
        self.0.get(&file)
    }
}

impl Shift {
    fn shifted(&self, offset: u64) -> u64 {
        let before = self.starts.partition_point(|&start| start < offset);
        let sum = before.checked_sub(1).map_or(0, |last| self.sums[last]);
        offset - before as u64 + sum
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::memory::MemoryView;
    use crate::{CatalogView, Dtype, ErrorKind, LayoutBuilder, MemoryContext, MemorySource, Storage};
    use std::sync::Arc;

    #[test]
    fn what_follows_a_segment_moves_when_its_length_is_known() {
        let (source, context) = (MemorySource::file("x", [0]), MemoryContext::default());
        let view = MemoryView::made("made", &source, &context, |_| Ok(())).unwrap();
        let mut builder = LayoutBuilder::new(&view, &context);
        let file = builder.file("a", Role::Data).unwrap();
        builder.bytes(file, b"head").unwrap();
        for len in [None, None, Some(3)] {
            builder.encoded(file, Encoded { len, ..Encoded::default() }).unwrap();
        }
        assert_eq!(builder.bytes(file, b"tail").unwrap(), 9);
        builder.deferred(file, 2).unwrap();
        for range in [0..4, 4..5, 5..6, 4..9, 9..13] {
            builder.digest(file, range, DigestAlgorithm::CRC32C).unwrap();
        }
        let mut layout = builder.finish().unwrap();
        assert_eq!(layout.files_of_unknown_length().len(), 1);
        layout.set_encoded_lengths(&[1000, 0, 3]);
        assert!(layout.files_of_unknown_length().is_empty());
        let Content::Copied(segments) = &layout.files()[0].content else { panic!("a copied file") };
        let places: Vec<_> = segments.iter().map(|placed| (placed.offset, placed.len)).collect();
        assert_eq!(places, [(0, 4), (4, 1000), (1004, 0), (1004, 3), (1007, 4), (1011, 2)]);
        assert_eq!(layout.files()[0].len, 1013);
        assert_eq!(layout.deferred()[0].1, 1011..1013);
        let digests: Vec<_> = layout.digests().iter().map(|request| request.range.clone()).collect();
        assert_eq!(digests, [0..4, 4..1004, 1004..1004, 4..1007, 1007..1011]);
    }

    #[test]
    fn names_that_no_file_can_have_are_refused() {
        let (source, context) = (MemorySource::file("x", [0]), MemoryContext::default());
        let view = MemoryView::made("made", &source, &context, |_| Ok(())).unwrap();
        let mut builder = LayoutBuilder::new(&view, &context);
        let long = "x".repeat(256);
        for path in [long.clone(), format!("a/{long}/b")] {
            let error = builder.file(&path, Role::Data).unwrap_err();
            assert!(
                error.kind() == ErrorKind::Unsupported && error.message().contains("too long"),
                "{error}"
            );
        }
        builder.late_file(&long[1..], Role::Data).unwrap();
    }

    #[test]
    fn parts_that_are_not_there_are_refused() {
        let source = MemorySource::file("x", [1, 2, 3, 4]);
        let like: Arc<dyn crate::Source> = Arc::new(MemorySource::file("y", [0; 10]));
        let mut context = MemoryContext::default();
        context.sources.insert("like".to_owned(), like);
        let fill = |catalog: &mut dyn crate::CatalogSink| {
            let storage = catalog.storage(Storage::inline([1, 2, 3, 4]))?;
            catalog.tensor("t", Dtype::U8, &[2, 2], storage, 0).map(drop)
        };
        let view = MemoryView::made("made", &source, &context, fill).unwrap();
        let mut builder = LayoutBuilder::new(&view, &context);
        let file = builder.file("a", Role::Data).unwrap();
        let mut copy = |source: &str, name: &str, range| {
            let from = SourceRange { source: source.to_owned(), file: name.to_owned(), range };
            builder.copy(file, from)
        };
        assert_eq!(copy("like", "y", 3..10).unwrap(), 0);
        assert_eq!(copy("like", "y", 0..10).unwrap(), 7);
        assert!(copy("like", "y", 3..11).unwrap_err().message().contains("not part of the file"));
        assert!(copy("like", "z", 0..0).is_err() && copy("other", "y", 0..0).is_err());

        let region = |start, len| Some(Region { origin: vec![start, 0], shape: vec![len, 2] });
        let part = |start, len| TensorPart { region: region(start, len), ..TensorPart::whole(TensorId(0)) };
        let column_major = TensorPart { order: Order::Fortran, ..TensorPart::whole(TensorId(0)) };
        let mut bytes = [0; 4];
        view.read_region(&column_major, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 3, 2, 4]);
        view.read_region(&part(1, 1), &mut bytes[..2]).unwrap();
        assert_eq!(bytes[..2], [3, 4]);
        for (part, len) in [(part(1, 2), 4), (part(u64::MAX, 2), 4), (part(0, 1), 3), (part(0, 1), 1)] {
            assert!(view.read_region(&part, &mut vec![0; len]).is_err(), "{part:?}");
        }
        let two = Encoded { region: region(0, 1), ..Encoded::tensors([TensorId(0), TensorId(0)]) };
        assert!(builder.encoded(file, two).is_err());
        // Half of the tensor is missing.
        builder.encoded(file, Encoded { region: region(0, 1), ..Encoded::tensors([TensorId(0)]) }).unwrap();
        assert!(builder.finish().is_err());
    }
}
