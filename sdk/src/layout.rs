//! A layout is a writer's plan: which files there will be, and which bytes lie where in each.
//!
//! Segments are appended, so that a file has no overlap, and no hole that is not a
//! [`Pad`](Segment::Pad). [`LayoutBuilder::finish`](crate::LayoutBuilder::finish) proves that every tensor is written once, or
//! named as an alias of one that is, or given up with a loss.

use crate::{ByteOrder, DigestAlgorithm, Loss, LossSink, Region, Result, StorageId, TensorId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// A file of a layout that is copied: its segments are known before any byte moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutputId(pub u32);

/// Bytes of a file that are known when the digests are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeferredId(pub u32);

/// Bytes of a file that [`TensorPlan::encode`](crate::TensorPlan::encode) gives: they are counted from 0 in the order
/// in which they are appended, over all files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EncodedId(pub u32);

/// A digest that a writer requests.
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

impl Target {
    /// The file's name; in a folder, the usual one.
    #[must_use]
    pub fn file_or<'n>(&'n self, usual: &'n str) -> &'n str {
        match self {
            Self::File(name) => name,
            Self::Folder => usual,
        }
    }
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

/// Bytes of a file of another input, which an option of the writer names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRange {
    /// What the option says, as [`Context::open`](crate::Context::open) was asked for it.
    pub source: String,
    /// The name of the file in that input.
    pub file: String,
    /// Its bytes.
    pub range: Range<u64>,
}

/// What an encoded segment holds, and how long it will be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Encoded {
    /// The tensors; none for a segment that holds none.
    pub tensors: Vec<TensorId>,
    /// The part of the one tensor that it holds; `None` for all of each.
    pub region: Option<Region>,
    /// Its length in bytes; `None` where nobody knows before it is encoded.
    pub len: Option<u64>,
}

impl Encoded {
    /// All of these tensors, in a length that is known afterwards.
    #[must_use]
    pub fn tensors(tensors: impl Into<Vec<TensorId>>) -> Self {
        Self { tensors: tensors.into(), ..Self::default() }
    }

    /// A region of a tensor, in a length that is known afterwards.
    #[must_use]
    pub fn region(tensor: TensorId, region: Region) -> Self {
        Self { tensors: vec![tensor], region: Some(region), len: None }
    }

    /// The same, of which it is known that it will have so many bytes.
    #[must_use]
    pub fn of_len(self, len: u64) -> Self {
        Self { len: Some(len), ..self }
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
    /// Bytes of another input, as they lie.
    Source(SourceRange),
    /// Zeros.
    Pad,
    /// Bytes that the plan encodes.
    Encoded(EncodedId),
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

/// An encoded segment and its place in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedEncoded {
    /// The file.
    pub file: OutputId,
    /// Its bytes in the file.
    pub range: Range<u64>,
    /// What it holds.
    pub encoded: Encoded,
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

/// Takes what a writer plans; a [loss](LossSink::loss) is what the output will not have, other than a
/// tensor ([`omit`](Self::omit)).
pub trait LayoutSink: LossSink {
    /// A file that the host copies; segments are appended to it.
    ///
    /// # Errors
    /// A plugin error, if the path leaves the folder or is there already.
    fn file(&mut self, path: &str, role: Role) -> Result<OutputId>;

    /// A file that [`TensorPlan::stream`](crate::TensorPlan::stream) writes from these tensors.
    fn streamed_file(&mut self, path: &str, role: Role, tensors: &[TensorId]) -> Result<OutputId>;

    /// A file that [`TensorPlan::seal`](crate::TensorPlan::seal) writes.
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
    fn storage(
        &mut self,
        file: OutputId,
        storage: StorageId,
        offset: u64,
        len: u64,
        swap_unit: u32,
    ) -> Result<u64>;

    /// Appends bytes of another input, as they lie: the host copies them, and checks that the file is the same one
    /// to the end.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes), or if the file is shorter; as [`Context::open`](crate::Context::open).
    fn copy(&mut self, file: OutputId, from: SourceRange) -> Result<u64>;

    /// Appends zeros.
    fn pad(&mut self, file: OutputId, len: u64) -> Result<u64>;

    /// Appends bytes that [`TensorPlan::encode`](crate::TensorPlan::encode) gives, which the host calls for
    /// many segments at once; gives their offset too.
    ///
    /// A segment of unknown length counts as one byte here: in the offset of what follows it in the
    /// file, and in the range of a [`digest`](Self::digest). Where bytes lie at last,
    /// [`Digests::encoded`](crate::Digests::encoded) says when the file is sealed.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor), or if a region is given of other than one tensor.
    fn encoded(&mut self, file: OutputId, encoded: Encoded) -> Result<(EncodedId, u64)>;

    /// Appends `len` bytes that are given when the digests are known.
    fn deferred(&mut self, file: OutputId, len: u64) -> Result<DeferredId>;

    /// Asks for a digest over a range of a copied file, in which nothing is deferred.
    ///
    /// # Errors
    /// A plugin error, if the file has no such range.
    fn digest(&mut self, file: OutputId, range: Range<u64>, algorithm: DigestAlgorithm) -> Result<DigestId>;

    /// Says that `tensor` is written as `of`, which has its dtype, shape and bytes.
    ///
    /// # Errors
    /// A plugin error, if they are not tied.
    fn alias(&mut self, tensor: TensorId, of: TensorId) -> Result<()>;

    /// Leaves a tensor out of the output, with a loss of kind `tensor` and the reason `why`.
    ///
    /// # Errors
    /// A plugin error, if there is no such tensor.
    fn omit(&mut self, tensor: TensorId, why: &str) -> Result<()>;

    /// Says that this format's reader will show a tensor under another name ([`Purpose::SHOW`]), so
    /// that it can be verified. A tensor may get several such names.
    ///
    /// [`Purpose::SHOW`]: crate::Purpose::SHOW
    ///
    /// # Errors
    /// A plugin error, if there is no such tensor.
    fn written_as(&mut self, tensor: TensorId, name: &str) -> Result<()> {
        let _ = (tensor, name);
        Ok(())
    }

    /// Says that a tensor is written in [`bytes`](Self::bytes) of the format's own form: a few strings,
    /// say, which the writer has read while it planned.
    ///
    /// # Errors
    /// A plugin error, if the tensor is written otherwise too.
    fn held_in_bytes(&mut self, tensor: TensorId) -> Result<()>;

    /// Says that files of these names, where they are no part of this output, belong to an older one
    /// that it replaces, such as shards of another number: with `--force` they go when it comes.
    /// In the pattern, `*` stands for any characters but `/`, `?` for one, `[0-9]` for one of a range.
    ///
    /// # Errors
    /// A plugin error, if the pattern leaves the folder.
    fn supersedes(&mut self, pattern: &str, role: Role) -> Result<()> {
        let _ = (pattern, role);
        Ok(())
    }
}

/// What a writer promised, checked.
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
    /// The files, in the writer's order.
    #[must_use]
    pub fn files(&self) -> &[OutputFile] {
        &self.files
    }

    /// The encoded segments, by [`EncodedId`]; those of one file are in order.
    #[must_use]
    pub fn encoded(&self) -> &[PlacedEncoded] {
        &self.encoded
    }

    /// The files whose lengths are known when their segments of unknown length are encoded.
    #[must_use]
    pub fn unsettled(&self) -> BTreeSet<OutputId> {
        let unsettled = self.encoded.iter().filter(|placed| placed.encoded.len.is_none());
        unsettled.map(|placed| placed.file).collect()
    }

    /// Puts in how long each encoded segment has become, so that all offsets are those in the files.
    ///
    /// # Panics
    /// If there are not as many lengths as segments.
    pub fn settle(&mut self, lens: &[u64]) {
        assert_eq!(lens.len(), self.encoded.len(), "a length for each encoded segment");
        let shifts = Shifts::new(&self.encoded, lens);
        for (index, file) in (0..).zip(&mut self.files) {
            let Some(shift) = shifts.of(OutputId(index)) else { continue };
            file.len = shift.settled(file.len);
            let Content::Copied(segments) = &mut file.content else { continue };
            for placed in segments {
                let end = shift.settled(placed.offset + placed.len);
                placed.offset = shift.settled(placed.offset);
                placed.len = end - placed.offset;
            }
        }
        let deferred = self.deferred.iter_mut().map(|(file, range)| (*file, range));
        let digests = self.digests.iter_mut().map(|request| (request.file, &mut request.range));
        let encoded = self.encoded.iter_mut().map(|placed| (placed.file, &mut placed.range));
        for (file, range) in deferred.chain(digests).chain(encoded) {
            if let Some(shift) = shifts.of(file) {
                *range = shift.settled(range.start)..shift.settled(range.end);
            }
        }
        for (placed, &len) in self.encoded.iter_mut().zip(lens) {
            placed.encoded.len = Some(len);
        }
    }

    /// Where the deferred bytes lie, by [`DeferredId`].
    #[must_use]
    pub fn deferred(&self) -> &[(OutputId, Range<u64>)] {
        &self.deferred
    }

    /// The requested digests, by [`DigestId`].
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

    /// The names under which a tensor was written, if its own is not the one.
    #[must_use]
    pub fn names(&self, tensor: TensorId) -> Option<&[String]> {
        self.names.get(&tensor).map(Vec::as_slice)
    }

    /// The patterns of the names of files that belong to an older output.
    #[must_use]
    pub fn superseded(&self) -> &[(String, Role)] {
        &self.superseded
    }

    /// The same layout, in a sub-folder.
    #[must_use]
    pub fn below(mut self, folder: &str) -> Self {
        let paths = self.files.iter_mut().map(|file| &mut file.path);
        for path in paths.chain(self.superseded.iter_mut().map(|(pattern, _)| pattern)) {
            *path = format!("{folder}/{path}");
        }
        self
    }

    /// Bytes of all copied files.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }
}

/// How far the bytes of files move when their encoded segments get their lengths.
struct Shifts(HashMap<OutputId, Shift>);

/// The segments of one file whose lengths were not known.
#[derive(Default)]
struct Shift {
    /// Where they begin, as if each had one byte; in order.
    starts: Vec<u64>,
    /// The bytes of each and of those before it.
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
    fn settled(&self, offset: u64) -> u64 {
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
        assert_eq!(layout.unsettled().len(), 1);
        layout.settle(&[1000, 0, 3]);
        assert!(layout.unsettled().is_empty());
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
        assert!(copy("like", "y", 3..11).unwrap_err().message().contains("not a part of the file"));
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
