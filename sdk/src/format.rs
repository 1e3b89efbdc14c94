//! A format is a plugin's half of a conversion: a reader that describes a catalog, and a writer
//! that describes a layout. Neither opens a file or moves tensor data: the host does.

use crate::file_name::entry_files;
use crate::{
    ByteSink, CatalogSink, CatalogView, Context, DeferredId, Digest, DigestId, EncodedId, Entry, Error,
    FileId, LayoutSink, OptionSpec, Options, OutputId, Result, Source, Target,
};

/// The declaration of a format: its name, how its files are recognized, and what it can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// Id for `--from` and `--to`: lowercase letters, digits, dashes.
    pub id: String,
    /// Display name.
    pub title: String,
    /// File name endings, each with its dot: `.safetensors`. The first one is used for outputs.
    pub suffixes: Vec<String>,
    /// Bytes that identify a file of this format.
    pub magic: Vec<Magic>,
    /// Names of files in a folder of this format; `*` matches any run of characters.
    pub members: Vec<String>,
    /// What the format can do.
    pub capabilities: Capabilities,
    /// Options of its reader and its writer.
    pub options: Vec<OptionSpec>,
    /// Revision of the output, raised whenever the same input and options would give different
    /// bytes.
    pub output_revision: u32,
    /// Facts about the format, as name and value; see [`attribute`](Self::attribute).
    pub attributes: Vec<(String, String)>,
}

impl Description {
    /// Creates the description of a format with this id and title, and without capabilities.
    #[must_use]
    pub fn new(id: impl Into<String>, title: impl Into<String>) -> Self {
        Self { id: id.into(), title: title.into(), ..Self::default() }
    }

    /// Sets the file name endings, each with its dot. The first one is used for outputs.
    #[must_use]
    pub fn suffixes(self, suffixes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { suffixes: suffixes.into_iter().map(Into::into).collect(), ..self }
    }

    /// Adds bytes that its files have at an offset from their start.
    #[must_use]
    pub fn magic(self, offset: u64, bytes: impl Into<Vec<u8>>) -> Self {
        self.magic_at(Magic::new(offset, bytes))
    }

    /// Adds a magic that may be masked or counted from the end of the file.
    #[must_use]
    pub fn magic_at(mut self, magic: Magic) -> Self {
        self.magic.push(magic);
        self
    }

    /// Adds a fact about the format that a host may show. A host ignores names that it does not
    /// know. The value of `specification` says where the format is specified.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: &str) -> Self {
        self.attributes.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the patterns of names of files in a folder of this format.
    #[must_use]
    pub fn members(self, members: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { members: members.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the capabilities.
    #[must_use]
    pub fn capabilities(self, capabilities: Capabilities) -> Self {
        Self { capabilities, ..self }
    }

    /// Sets the options of its reader and its writer.
    #[must_use]
    pub fn options(self, options: impl Into<Vec<OptionSpec>>) -> Self {
        Self { options: options.into(), ..self }
    }

    /// Sets the output revision.
    #[must_use]
    pub fn output_revision(self, output_revision: u32) -> Self {
        Self { output_revision, ..self }
    }

    /// Returns whether the format has this side: a reader or a writer, of tensors or of records.
    #[must_use]
    pub fn has(&self, side: crate::Side) -> bool {
        match side {
            crate::Side::Reader => self.reads(),
            crate::Side::Writer => self.writes(),
        }
    }

    /// Returns whether the format reads tensors or records.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.capabilities.has(Capabilities::READ) || self.capabilities.has(Capabilities::READ_RECORDS)
    }

    /// Returns whether the format writes tensors or records.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.capabilities.has(Capabilities::WRITE) || self.capabilities.has(Capabilities::WRITE_RECORDS)
    }
}

/// Bytes that each file of a format has at a certain offset. A strong magic has four bytes or more,
/// at least one of which is not text, so that no file of a different format has it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Magic {
    /// Offset from the start of the file, or distance from its end.
    pub offset: u64,
    /// Bytes at that offset.
    pub bytes: Vec<u8>,
    /// Mask of the bits to compare in each byte; as long as `bytes`, or empty to compare all bits.
    pub mask: Vec<u8>,
    /// Whether the offset is counted from the end of the file.
    pub from_end: bool,
}

impl Magic {
    /// Creates a magic at an offset from the start of the file.
    #[must_use]
    pub fn new(offset: u64, bytes: impl Into<Vec<u8>>) -> Self {
        Self { offset, bytes: bytes.into(), mask: Vec::new(), from_end: false }
    }

    /// Restricts the comparison to these bits.
    #[must_use]
    pub fn masked(self, mask: impl Into<Vec<u8>>) -> Self {
        Self { mask: mask.into(), ..self }
    }

    /// Counts the offset back from the end of the file.
    #[must_use]
    pub fn from_end(self) -> Self {
        Self { from_end: true, ..self }
    }

    /// Returns whether a file has this magic.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn is_in(&self, source: &dyn Source, file: FileId) -> Result<bool> {
        let (len, count) = (source.len(file), self.bytes.len() as u64);
        let start = if self.from_end { len.checked_sub(self.offset) } else { Some(self.offset) };
        let fits = |start: &u64| start.checked_add(count).is_some_and(|end| end <= len);
        let Some(start) = start.filter(fits) else { return Ok(false) };
        let mut found = vec![0; self.bytes.len()];
        source.read_at(file, start, &mut found)?;
        let mask = self.mask.iter().copied().chain(std::iter::repeat(0xff));
        let same = |((found, wanted), mask): ((&u8, &u8), u8)| (found ^ wanted) & mask == 0;
        Ok(found.iter().zip(&self.bytes).zip(mask).all(same))
    }
}

/// The capabilities of a format: an open set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Reads tensors.
    pub const READ: Self = Self(1);
    /// Writes tensors.
    pub const WRITE: Self = Self(2);
    /// The writer keeps the tree of non-tensor state.
    pub const TREE: Self = Self(4);
    /// The writer keeps key-value metadata. It keeps values that are not text only with
    /// [`VALUES`](Self::VALUES).
    pub const METADATA: Self = Self(8);
    /// The writer keeps tied tensors tied.
    pub const TIES: Self = Self(16);
    /// Reads records.
    pub const READ_RECORDS: Self = Self(32);
    /// Writes records.
    pub const WRITE_RECORDS: Self = Self(64);
    /// Creates an index of records.
    pub const INDEX: Self = Self(128);
    /// The writer creates several files whose names begin with the target's name, regardless of its
    /// ending.
    pub const PREFIX: Self = Self(256);
    /// The writer keeps attributes of tensors.
    pub const ATTRIBUTES: Self = Self(512);
    /// The writer keeps the types of metadata values. For other formats the host converts values
    /// that are not text to compact JSON, and lists them as changed.
    pub const VALUES: Self = Self(1024);
    /// The writer accepts dtypes that are not built in, by name. For other formats that keep
    /// metadata, the host converts such tensors to U8, describes them in the metadata, and lists
    /// them as changed.
    pub const DTYPES: Self = Self(2048);
    /// Programs compute with the tensors in its files as numbers. The host therefore refuses to
    /// write codes of quantized weights to this format, since they are meaningless without their
    /// scales.
    pub const NUMBERS: Self = Self(4096);
    /// The file that the reader opens first names the other files, by any path. If such a path is a
    /// symbolic link that leads out of the folder, it is never followed: the target could be any
    /// file, and its bytes would become tensor data.
    pub const EXTERNAL: Self = Self(8192);

    /// Returns the union of both sets, as `|` does, but usable in constants.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether this set contains all of `other`.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Capabilities {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

/// The likelihood that an input is of a format, from 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score(pub u32);

impl Score {
    /// The input is not of this format.
    pub const NO: Self = Self(0);
    /// Nothing contradicts this format.
    pub const MAYBE: Self = Self(30);
    /// Most of the input fits this format.
    pub const LIKELY: Self = Self(60);
    /// The input cannot be of any other format.
    pub const CERTAIN: Self = Self(100);

    /// Returns the score of a folder or prefix with files that satisfy `is_member`. A prefix is
    /// only likely.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be listed.
    pub fn by_names(
        source: &dyn Source,
        is_member: impl Fn(&str) -> bool,
        in_a_folder: Self,
    ) -> Result<Self> {
        let found = if *source.entry() == Entry::Folder { in_a_folder } else { Self::LIKELY };
        Ok(if entry_files(source, is_member)?.is_empty() { Self::NO } else { found })
    }
}

/// A format. The host calls it from many threads.
pub trait Format: Send + Sync {
    /// Returns the description of the format, which must be the same each time.
    fn describe(&self) -> Description;

    /// Returns how likely this input is of this format, after a few bounded reads. If this returns
    /// `None`, the host compares the declared magic, suffixes and members.
    ///
    /// # Errors
    /// Returns an error only if the input cannot be read. Return [`Score::NO`] for bytes that do
    /// not fit.
    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        let _ = (source, context);
        Ok(None)
    }

    /// Creates a tensor reader with these options.
    ///
    /// # Errors
    /// Returns an error if the format has no tensor reader, or if the options contradict each
    /// other.
    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        let _ = options;
        Err(Error::unsupported("this format has no reader"))
    }

    /// Creates a tensor writer with these options.
    ///
    /// # Errors
    /// Returns an error if the format has no tensor writer, or if the options contradict each
    /// other.
    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        let _ = options;
        Err(Error::unsupported("this format has no writer"))
    }

    /// Creates a record reader with these options.
    ///
    /// # Errors
    /// Returns an error if the format has no record reader, or if the options contradict each
    /// other.
    #[cfg(feature = "arrow-60")]
    fn record_reader(&self, options: &Options) -> Result<Box<dyn crate::records::RecordReader>> {
        let _ = options;
        Err(Error::unsupported("this format does not read records"))
    }

    /// Creates a record writer with these options.
    ///
    /// # Errors
    /// Returns an error if the format has no record writer, or if the options contradict each
    /// other.
    #[cfg(feature = "arrow-60")]
    fn record_writer(&self, options: &Options) -> Result<Box<dyn crate::records::RecordWriter>> {
        let _ = options;
        Err(Error::unsupported("this format does not write records"))
    }
}

/// A reader of tensors: describes the contents of an input.
pub trait TensorReader: Send + Sync {
    /// Fills the catalog, and returns the decoder of its encoded storages: [`NothingEncoded`] if
    /// there are none. Reads only headers; the host reads the tensors.
    ///
    /// # Errors
    /// Returns an error with its location if the input is malformed, unsupported or over a limit,
    /// or cannot be read.
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>>;
}

/// A decoder of the encoded storages of one input. The host calls it from many threads.
pub trait TensorDecoder: Send + Sync {
    /// Pushes all bytes of the storage that was declared with this handle, in order. The host may
    /// call this several times for the same storage, and for several storages at once.
    fn decode(
        &self,
        source: &dyn Source,
        handle: u64,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()>;
}

/// The decoder of an input without encoded storages.
#[derive(Debug, Clone, Copy, Default)]
pub struct NothingEncoded;

impl TensorDecoder for NothingEncoded {
    fn decode(&self, _: &dyn Source, handle: u64, _: &mut dyn ByteSink, _: &dyn Context) -> Result<()> {
        Err(no_encoded_storage(handle))
    }
}

/// An encoded storage that knows where its bytes are. A `Vec` of such storages is a
/// [`TensorDecoder`]: the handle is an index into it.
pub trait EncodedStorage: Send + Sync {
    /// Pushes all decoded bytes, in order.
    fn decode(&self, source: &dyn Source, output: &mut dyn ByteSink, context: &dyn Context) -> Result<()>;
}

impl<S: EncodedStorage> TensorDecoder for Vec<S> {
    fn decode(
        &self,
        source: &dyn Source,
        handle: u64,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let storage = usize::try_from(handle).ok().and_then(|index| self.get(index));
        storage.ok_or_else(|| no_encoded_storage(handle))?.decode(source, output, context)
    }
}

fn no_encoded_storage(handle: u64) -> Error {
    Error::plugin(format!("no encoded storage {handle}"))
}

/// A writer of tensors: plans an output.
pub trait TensorWriter: Send + Sync {
    /// Plans the files for a catalog. The returned plan is kept until the output is sealed.
    ///
    /// # Errors
    /// Returns a usage or unsupported error for a catalog that the format cannot store at all.
    /// Report content that it cannot store as a loss.
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>>;

    /// Returns the steps, in the syntax of `--step`, that turn this catalog into the one that
    /// [`plan`](Self::plan) receives. They can set the names and the row order that programs expect
    /// in files of this format, for example. They run after the user's own steps, and each is
    /// reported to the user. An empty list leaves the catalog as it is.
    fn steps(&self, catalog: &dyn CatalogView, context: &dyn Context) -> Result<Vec<String>> {
        let _ = (catalog, context);
        Ok(Vec::new())
    }
}

/// The part of a writer's work that follows planning: streamed files, encoded segments, and bytes
/// that depend on checksums and lengths.
pub trait TensorPlan: Send + Sync {
    /// Pushes the bytes of a streamed file, in order. The host may stream several files at the same
    /// time.
    fn stream(
        &self,
        file: OutputId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let _ = (file, catalog, output, context);
        Err(Error::plugin("this writer does not stream files"))
    }

    /// Pushes the bytes of an encoded segment, in order, and returns a note for
    /// [`seal`](Self::seal). The host encodes several segments at the same time, in any order. Each
    /// call for a segment must give the same bytes.
    fn encode(
        &self,
        id: EncodedId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<Vec<u8>> {
        let _ = (id, catalog, output, context);
        Err(Error::plugin("this writer does not encode segments"))
    }

    /// Writes the deferred bytes and the late files.
    ///
    /// # Errors
    /// Returns a plugin error if a digest was not requested.
    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink, context: &dyn Context) -> Result<()> {
        let _ = (digests, output, context);
        Ok(())
    }
}

/// A plan without streamed files, encoded segments and deferred bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct NothingToSeal;

impl TensorPlan for NothingToSeal {}

/// The location of an encoded segment in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedPlace {
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Note that [`TensorPlan::encode`] returned.
    pub note: Vec<u8>,
}

/// Facts about the written bytes: the digests that the layout requested, and lengths.
pub trait Digests {
    /// Returns a requested digest.
    ///
    /// # Errors
    /// Returns a plugin error if the digest was not requested.
    fn get(&self, id: DigestId) -> Result<Digest>;

    /// Returns a requested 32-bit CRC as a number.
    ///
    /// # Errors
    /// Returns a plugin error if the digest was not requested, or if it is not four bytes long.
    fn crc(&self, id: DigestId) -> Result<u32> {
        let value = self.get(id)?.value;
        let bytes = (*value).try_into().map_err(|_| Error::plugin("the digest is not a 32-bit CRC"))?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Returns the location of an encoded segment in its file, and its note.
    ///
    /// # Errors
    /// Returns a plugin error if there is no such segment.
    fn encoded(&self, id: EncodedId) -> Result<EncodedPlace>;

    /// Returns the length of a file in bytes, including a streamed file.
    ///
    /// # Errors
    /// Returns a plugin error if there is no such file, or if it is a late file.
    fn file_len(&self, file: OutputId) -> Result<u64>;
}

/// Takes the bytes that depend on digests.
pub trait SealSink {
    /// Sets all bytes of a deferred segment.
    ///
    /// # Errors
    /// Returns a plugin error if their number differs from the reserved length, or an error if they
    /// cannot be written.
    fn deferred(&mut self, id: DeferredId, bytes: &[u8]) -> Result<()>;

    /// Appends to a late file. A file that is never appended to is empty.
    ///
    /// # Errors
    /// Returns a plugin error if there is no such file, or an error if it cannot be written.
    fn late(&mut self, file: OutputId, bytes: &[u8]) -> Result<()>;
}
