//! A layout is a writer's plan. A layout lists the files and the bytes in each file.
//!
//! Segments are only appended, so the segments of a file cannot overlap. The only gaps are
//! [`Pad`](Segment::Pad)s. [`LayoutBuilder::finish`](crate::LayoutBuilder::finish) checks every
//! tensor. A tensor must be written once, be declared as an alias of a written tensor, or be
//! omitted with a loss.

use crate::{ByteOrder, DigestAlgorithm, Loss, LossSink, Region, Result, StorageId, TensorId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// The id of a file in a layout, which is the file's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutputId(pub u32);

/// The id of bytes in a file that are supplied when the digests are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeferredId(pub u32);

/// The id of bytes in a file that [`TensorPlan::encode`](crate::TensorPlan::encode) produces. Ids
/// count from 0 over all files, in the order in which segments are appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EncodedId(pub u32);

/// The id of a digest that a writer requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DigestId(pub u32);

/// The destination of the output, as the user named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A file, or the prefix that the names of several files share.
    File(String),
    /// A folder. The writer chooses the names of the files in the folder.
    Folder,
}

impl Target {
    /// Returns the name of the target file, or `usual` if the target is a folder.
    #[must_use]
    pub fn file_or<'n>(&'n self, usual: &'n str) -> &'n str {
        match self {
            Self::File(name) => name,
            Self::Folder => usual,
        }
    }
}

/// The role of a file. The role determines when the file becomes visible if not all files can be
/// renamed at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// A file that contains data.
    Data,
    /// A file that contains the locations of the data. The host removes an old index first, and
    /// makes the new index visible last.
    Index,
}

/// The order of elements in memory, defined by the index that varies fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// The last index varies fastest (row-major).
    #[default]
    C,
    /// The first index varies fastest (column-major).
    Fortran,
}

/// A tensor or part of a tensor, and the form in which it is written to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorPart {
    /// Tensor to write.
    pub tensor: TensorId,
    /// Part of the tensor, or `None` for the whole tensor.
    pub region: Option<Region>,
    /// Order of the elements.
    pub order: Order,
    /// Order of the bytes in each element.
    pub byte_order: ByteOrder,
}

impl TensorPart {
    /// Creates a part that contains a whole tensor, in row-major order and little-endian.
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
    /// Tensors in the segment. The list may be empty.
    pub tensors: Vec<TensorId>,
    /// Part of the segment's only tensor, or `None` if the segment contains whole tensors.
    pub region: Option<Region>,
    /// Length in bytes, or `None` if the length is unknown until the segment is encoded.
    pub len: Option<u64>,
}

impl Encoded {
    /// Creates a segment of whole tensors. The length of the segment is not known in advance.
    #[must_use]
    pub fn tensors(tensors: impl Into<Vec<TensorId>>) -> Self {
        Self { tensors: tensors.into(), ..Self::default() }
    }

    /// Creates a segment with a region of a tensor. The length of the segment is not known in
    /// advance.
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

/// The contents of a file segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Literal bytes.
    Bytes(Vec<u8>),
    /// A tensor or part of a tensor.
    Tensor(TensorPart),
    /// Raw bytes of a storage. Each group of `swap_unit` bytes is reversed, so 1 means no change.
    Storage {
        /// The storage.
        storage: StorageId,
        /// Offset of the first byte in the storage.
        offset: u64,
        /// Number of bytes to reverse as a unit.
        swap_unit: u32,
    },
    /// Raw bytes of another input.
    Source(SourceRange),
    /// Zero bytes.
    Pad,
    /// Bytes that the plan encodes.
    Encoded(EncodedId),
    /// Bytes that depend on digests.
    Deferred(DeferredId),
}

/// A segment and its location in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedSegment {
    /// Offset of the segment's first byte in the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Contents of the segment.
    pub segment: Segment,
}

/// How the bytes of a file are produced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The host copies the segments in order, from byte 0 and without gaps.
    Copied(Vec<PlacedSegment>),
    /// The writer writes the bytes to a sink, in order.
    Streamed,
    /// The writer supplies the bytes when the digests are known.
    Late,
}

/// A file of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// Path relative to the output folder, with `/` as the separator.
    pub path: String,
    /// Role of the file: data or index.
    pub role: Role,
    /// How the bytes of the file are produced.
    pub content: Content,
    /// Length in bytes so far. The length is 0 for streamed and late files.
    pub len: u64,
}

/// An encoded segment and its location in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedEncoded {
    /// File that contains the segment.
    pub file: OutputId,
    /// Range of bytes in the file.
    pub range: Range<u64>,
    /// Contents of the segment.
    pub encoded: Encoded,
}

/// A request for a digest of a byte range in a copied file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestRequest {
    /// File that contains the range.
    pub file: OutputId,
    /// Range of bytes in the file.
    pub range: Range<u64>,
    /// Algorithm of the digest.
    pub algorithm: DigestAlgorithm,
}

/// Receives the plan of a writer. Use a [loss](LossSink::loss) to report content that the output
/// will not contain. For a whole tensor, call [`omit`](Self::omit) instead.
pub trait LayoutSink: LossSink {
    /// Adds a file that the host copies. Add its contents by appending segments.
    ///
    /// # Errors
    /// Returns a plugin error if the path leads out of the folder or is already used.
    fn file(&mut self, path: &str, role: Role) -> Result<OutputId>;

    /// Adds a file that [`TensorPlan::stream`](crate::TensorPlan::stream) writes from these
    /// tensors.
    fn streamed_file(&mut self, path: &str, role: Role, tensors: &[TensorId]) -> Result<OutputId>;

    /// Adds a file that [`TensorPlan::seal`](crate::TensorPlan::seal) writes.
    fn late_file(&mut self, path: &str, role: Role) -> Result<OutputId>;

    /// Appends literal bytes, and returns their offset in the file.
    ///
    /// # Errors
    /// Returns a plugin error if the file does not exist or is not a copied file.
    fn bytes(&mut self, file: OutputId, bytes: &[u8]) -> Result<u64>;

    /// Appends a tensor or part of a tensor, and returns its offset.
    ///
    /// # Errors
    /// Returns an error if the file does not exist or is not a copied file, or if the tensor does
    /// not contain the part.
    fn tensor(&mut self, file: OutputId, part: TensorPart) -> Result<u64>;

    /// Appends `len` raw bytes of a storage, starting at `offset`, and returns their offset in the
    /// file. Each group of `swap_unit` bytes is reversed. A tensor counts as written if such ranges
    /// cover all of its blocks.
    ///
    /// # Errors
    /// Returns an error if the file does not exist or is not a copied file, or if the storage is
    /// too short.
    fn storage(
        &mut self,
        file: OutputId,
        storage: StorageId,
        offset: u64,
        len: u64,
        swap_unit: u32,
    ) -> Result<u64>;

    /// Appends raw bytes of another input. The host copies the bytes, and reports an error if the
    /// source file changes before the output is complete.
    ///
    /// # Errors
    /// Returns an error if the file does not exist or is not a copied file, if the source file is
    /// too short, or if [`Context::open`](crate::Context::open) fails.
    fn copy(&mut self, file: OutputId, from: SourceRange) -> Result<u64>;

    /// Appends zero bytes.
    fn pad(&mut self, file: OutputId, len: u64) -> Result<u64>;

    /// Appends bytes that [`TensorPlan::encode`](crate::TensorPlan::encode) produces, and returns
    /// their id and offset. The host encodes many segments concurrently.
    ///
    /// A segment of unknown length counts as one byte in later offsets of the file and in the
    /// ranges of [`digest`](Self::digest). When the file is sealed,
    /// [`Digests::encoded`](crate::Digests::encoded) returns the final location.
    ///
    /// # Errors
    /// Returns an error if the file does not exist or is not a copied file, or if a tensor does not
    /// contain the region. Also returns an error if a region is set and the number of tensors is
    /// not one.
    fn encoded(&mut self, file: OutputId, encoded: Encoded) -> Result<(EncodedId, u64)>;

    /// Appends `len` bytes that the writer supplies when the digests are known.
    fn deferred(&mut self, file: OutputId, len: u64) -> Result<DeferredId>;

    /// Requests a digest of a byte range in a copied file. The range must not contain deferred
    /// bytes.
    ///
    /// # Errors
    /// Returns a plugin error if the file does not contain the range.
    fn digest(&mut self, file: OutputId, range: Range<u64>, algorithm: DigestAlgorithm) -> Result<DigestId>;

    /// Declares that the output stores `tensor` as `of`, which has the same dtype, shape and bytes.
    ///
    /// # Errors
    /// Returns a plugin error if the two tensors are not tied.
    fn alias(&mut self, tensor: TensorId, of: TensorId) -> Result<()>;

    /// Omits a tensor from the output, and reports a loss of kind `tensor` with the reason `why`.
    ///
    /// # Errors
    /// Returns a plugin error if the tensor does not exist.
    fn omit(&mut self, tensor: TensorId, why: &str) -> Result<()>;

    /// Declares a different name under which this format's reader will show a tensor
    /// ([`Purpose::SHOW`]). The host needs the name to verify the output. A tensor may have several
    /// such names.
    ///
    /// [`Purpose::SHOW`]: crate::Purpose::SHOW
    ///
    /// # Errors
    /// Returns a plugin error if the tensor does not exist.
    fn written_as(&mut self, tensor: TensorId, name: &str) -> Result<()> {
        let _ = (tensor, name);
        Ok(())
    }

    /// Declares that a tensor is part of the literal [`bytes`](Self::bytes) that the writer
    /// appended while planning. An example is a few strings in an encoding that only the format
    /// uses.
    ///
    /// # Errors
    /// Returns a plugin error if the tensor is also written in a different way.
    fn written_in_bytes(&mut self, tensor: TensorId) -> Result<()>;

    /// Declares that other files with matching names are from an older output that this output
    /// replaces. An example is an older set with a different number of shards. With `--force`, the
    /// host removes these files when it commits the new output. In the pattern, `*` matches any
    /// characters except `/`, `?` matches one character, and `[0-9]` matches a digit.
    ///
    /// # Errors
    /// Returns a plugin error if the pattern leads out of the folder.
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
    /// Returns the files, in the order in which the writer added them.
    #[must_use]
    pub fn files(&self) -> &[OutputFile] {
        &self.files
    }

    /// Returns the encoded segments, indexed by [`EncodedId`]. The segments of each file are in
    /// order.
    #[must_use]
    pub fn encoded(&self) -> &[PlacedEncoded] {
        &self.encoded
    }

    /// Returns the files whose lengths are unknown until their segments are encoded.
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

    /// Returns the tensors that the output omits.
    #[must_use]
    pub fn omitted(&self) -> &[TensorId] {
        &self.omitted
    }

    /// Returns the names of a tensor in the output if they differ from its name in the catalog.
    #[must_use]
    pub fn names(&self, tensor: TensorId) -> Option<&[String]> {
        self.names.get(&tensor).map(Vec::as_slice)
    }

    /// Returns the patterns for the names of files from an older output.
    #[must_use]
    pub fn superseded(&self) -> &[(String, Role)] {
        &self.superseded
    }

    /// Moves all files of the layout into a subfolder.
    #[must_use]
    pub fn in_folder(mut self, folder: &str) -> Self {
        let paths = self.files.iter_mut().map(|file| &mut file.path);
        for path in paths.chain(self.superseded.iter_mut().map(|(pattern, _)| pattern)) {
            *path = format!("{folder}/{path}");
        }
        self
    }

    /// Returns the total length of all copied files in bytes.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }
}

/// For each file, the distances by which its bytes move when the lengths of encoded segments become
/// known.
struct Shifts(HashMap<OutputId, Shift>);

/// The segments in one file whose lengths were unknown.
#[derive(Default)]
struct Shift {
    /// Start offsets in order, computed as if each segment had one byte.
    starts: Vec<u64>,
    /// For each segment, the total length of the segment and all earlier segments.
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
        let view = MemoryView::build("made", &source, &context, |_| Ok(())).unwrap();
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
        let view = MemoryView::build("made", &source, &context, |_| Ok(())).unwrap();
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
        let view = MemoryView::build("made", &source, &context, fill).unwrap();
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
        // Half of the tensor is not written.
        builder.encoded(file, Encoded { region: region(0, 1), ..Encoded::tensors([TensorId(0)]) }).unwrap();
        assert!(builder.finish().is_err());
    }
}
