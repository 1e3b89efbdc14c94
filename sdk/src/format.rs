//! A format is the plugin's part of a conversion: a reader that describes a catalog, and a writer
//! that describes a layout. The plugin does not open files or move tensor data, because the host
//! does that.

use crate::file_name::entry_files;
use crate::{
    ByteSink, CatalogSink, CatalogView, Context, DeferredId, Digest, DigestId, EncodedId, Entry, Error,
    FileId, LayoutSink, OptionSpec, Options, OutputId, Result, Source, Target,
};

/// The description of a format: its name, the properties that identify its files, and its
/// capabilities.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// Id for `--from` and `--to`, which consists of lowercase letters, digits and dashes.
    pub id: String,
    /// Display name.
    pub title: String,
    /// File name suffixes, each with its dot, such as `.safetensors`. Outputs use the first suffix.
    pub suffixes: Vec<String>,
    /// Bytes that identify a file of this format.
    pub magic: Vec<Magic>,
    /// Patterns for the names of files in a folder of this format. `*` matches any characters.
    pub members: Vec<String>,
    /// Capabilities of the format.
    pub capabilities: Capabilities,
    /// Options of the reader and the writer.
    pub options: Vec<OptionSpec>,
    /// Revision of the output. Increase it whenever the same input and options would produce
    /// different bytes.
    pub output_revision: u32,
    /// Additional attributes of the format, as pairs of a name and a value. See
    /// [`attribute`](Self::attribute).
    pub attributes: Vec<(String, String)>,
}

impl Description {
    /// Creates the description of a format with this id and title. The description has no
    /// capabilities yet.
    #[must_use]
    pub fn new(id: impl Into<String>, title: impl Into<String>) -> Self {
        Self { id: id.into(), title: title.into(), ..Self::default() }
    }

    /// Sets the file name suffixes, each with its dot. Outputs use the first suffix.
    #[must_use]
    pub fn suffixes(self, suffixes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { suffixes: suffixes.into_iter().map(Into::into).collect(), ..self }
    }

    /// Adds bytes that all files of the format contain at an offset from the start.
    #[must_use]
    pub fn magic(self, offset: u64, bytes: impl Into<Vec<u8>>) -> Self {
        self.magic_at(Magic::new(offset, bytes))
    }

    /// Adds a magic with a mask, or with an offset from the end of the file.
    #[must_use]
    pub fn magic_at(mut self, magic: Magic) -> Self {
        self.magic.push(magic);
        self
    }

    /// Adds an attribute of the format that a host may show. A host ignores names that it does not
    /// know. The value of `specification` refers to the document that specifies the format.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: &str) -> Self {
        self.attributes.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the patterns for the names of files in a folder of this format.
    #[must_use]
    pub fn members(self, members: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { members: members.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the capabilities.
    #[must_use]
    pub fn capabilities(self, capabilities: Capabilities) -> Self {
        Self { capabilities, ..self }
    }

    /// Sets the options of the reader and the writer.
    #[must_use]
    pub fn options(self, options: impl Into<Vec<OptionSpec>>) -> Self {
        Self { options: options.into(), ..self }
    }

    /// Sets the output revision.
    #[must_use]
    pub fn output_revision(self, output_revision: u32) -> Self {
        Self { output_revision, ..self }
    }

    /// Returns whether the format has a reader or a writer, as selected by `side`. Readers and
    /// writers of tensors and of records both count.
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

/// Bytes that every file of a format contains at a certain offset. A strong magic is at least four
/// bytes long, and at least one of its bytes is not text. Files of other formats then do not match
/// the magic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Magic {
    /// Offset from the start of the file, or distance from the end.
    pub offset: u64,
    /// Expected bytes at `offset`.
    pub bytes: Vec<u8>,
    /// Mask of the bits to compare in each byte. The mask is as long as `bytes`, or empty to
    /// compare all bits.
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

    /// Changes the offset to a distance from the end of the file.
    #[must_use]
    pub fn from_end(self) -> Self {
        Self { from_end: true, ..self }
    }

    /// Returns whether a file contains this magic.
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

/// The capabilities of a format, as an open set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// The format can read tensors.
    pub const READ: Self = Self(1);
    /// The format can write tensors.
    pub const WRITE: Self = Self(2);
    /// The writer keeps the tree of non-tensor state.
    pub const TREE: Self = Self(4);
    /// The writer keeps key-value metadata. The writer keeps values that are not text only if the
    /// format also has [`VALUES`](Self::VALUES).
    pub const METADATA: Self = Self(8);
    /// The writer keeps tied tensors tied.
    pub const TIES: Self = Self(16);
    /// The format can read records.
    pub const READ_RECORDS: Self = Self(32);
    /// The format can write records.
    pub const WRITE_RECORDS: Self = Self(64);
    /// The format can create an index of records.
    pub const INDEX: Self = Self(128);
    /// The writer creates several files whose names begin with the target's name, even if that name
    /// has a suffix.
    pub const PREFIX: Self = Self(256);
    /// The writer keeps attributes of tensors.
    pub const ATTRIBUTES: Self = Self(512);
    /// The writer keeps the types of metadata values. For other formats, the host converts values
    /// that are not text to compact JSON, and reports them as changed.
    pub const VALUES: Self = Self(1024);
    /// The writer accepts dtypes that are not built in, by name. For other formats that keep
    /// metadata, the host converts such tensors to U8, describes them in the metadata, and reports
    /// them as changed.
    pub const DTYPES: Self = Self(2048);
    /// Programs use the tensors of this format as numbers in computations. The host therefore
    /// refuses to write the codes of quantized weights to this format, because the codes are
    /// meaningless without their scales.
    pub const NUMBERS: Self = Self(4096);
    /// The first file that the reader opens contains the paths of the other files, and the paths
    /// may be arbitrary. The host never follows a path through a symbolic link that leads out of
    /// the folder. Otherwise, the bytes of any file on the system could become tensor data.
    pub const EXTERNAL: Self = Self(8192);

    /// Returns the union of both sets, like `|`, but can also be used in constants.
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

/// The likelihood, from 0 to 100, that an input is in a certain format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score(pub u32);

impl Score {
    /// The input is not in this format.
    pub const NO: Self = Self(0);
    /// The input may be in this format, because nothing contradicts it.
    pub const MAYBE: Self = Self(30);
    /// Most of the input matches this format.
    pub const LIKELY: Self = Self(60);
    /// The input cannot be in any other format.
    pub const CERTAIN: Self = Self(100);

    /// Returns the score of a folder or prefix that contains files for which `is_member` returns
    /// true. The score of a prefix is only [`LIKELY`](Self::LIKELY).
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

/// A format, implemented by a plugin. The host calls it from many threads.
pub trait Format: Send + Sync {
    /// Returns the description of the format. Every call must return the same description.
    fn describe(&self) -> Description;

    /// Returns how likely it is that this input has this format, after a few bounded reads. If the
    /// result is `None`, the host checks the declared magic, suffixes and members instead.
    ///
    /// # Errors
    /// Returns an error only if the input cannot be read. For bytes that do not match the format,
    /// return [`Score::NO`].
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

/// A reader of tensors, which describes the contents of an input.
pub trait TensorReader: Send + Sync {
    /// Fills the catalog, and returns the decoder of its encoded storages, or [`NothingEncoded`] if
    /// there are none. The reader reads only headers, and the host reads the tensors.
    ///
    /// # Errors
    /// Returns an error with a location if the input is malformed or unsupported, exceeds a limit,
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
    /// Writes all bytes of the storage with this handle to the sink, in order. The host may call
    /// this function several times for the same storage, and may decode several storages
    /// concurrently.
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

/// An encoded storage that can locate and decode its own bytes. A `Vec` of such storages is a
/// [`TensorDecoder`]: the handle is an index into it.
pub trait EncodedStorage: Send + Sync {
    /// Writes all decoded bytes to the sink, in order.
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

/// A writer of tensors, which plans an output.
pub trait TensorWriter: Send + Sync {
    /// Plans the files for a catalog. The host keeps the returned plan until the output is sealed.
    ///
    /// # Errors
    /// Returns a usage or unsupported error if the format cannot store any content of the catalog.
    /// If the format cannot store some of the content, report that content as a loss instead.
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>>;

    /// Returns the steps, in the syntax of `--step`, that turn this catalog into the one that
    /// [`plan`](Self::plan) receives. For example, steps can set the names and the row order that
    /// programs expect in files of this format. These steps run after the user's own steps, and the
    /// host reports each of them to the user. If the list is empty, the catalog does not change.
    fn steps(&self, catalog: &dyn CatalogView, context: &dyn Context) -> Result<Vec<String>> {
        let _ = (catalog, context);
        Ok(Vec::new())
    }
}

/// The tasks of a writer after planning: streamed files, encoded segments, and bytes that depend on
/// checksums and lengths.
pub trait TensorPlan: Send + Sync {
    /// Writes the bytes of a streamed file to the sink, in order. The host may stream several files
    /// concurrently.
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

    /// Writes the bytes of an encoded segment to the sink, in order, and returns a note for
    /// [`seal`](Self::seal). The host encodes several segments concurrently, in any order. All
    /// calls for a segment must produce the same bytes.
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
    /// Returns a plugin error if the plan uses a digest that it did not request.
    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink, context: &dyn Context) -> Result<()> {
        let _ = (digests, output, context);
        Ok(())
    }
}

/// A plan without streamed files, encoded segments or deferred bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct NothingToSeal;

impl TensorPlan for NothingToSeal {}

/// The final location of an encoded segment in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedLocation {
    /// Offset of the segment's first byte in the file.
    pub offset: u64,
    /// Length of the segment in bytes.
    pub len: u64,
    /// The note that [`TensorPlan::encode`] returned.
    pub note: Vec<u8>,
}

/// Information about the written bytes: the digests that the layout requested, and the lengths of
/// files and segments.
pub trait Digests {
    /// Returns a requested digest.
    ///
    /// # Errors
    /// Returns a plugin error if the digest was not requested.
    fn get(&self, id: DigestId) -> Result<Digest>;

    /// Returns a requested 32-bit CRC as a number.
    ///
    /// # Errors
    /// Returns a plugin error if the digest was not requested, or if the digest is not four bytes
    /// long.
    fn crc(&self, id: DigestId) -> Result<u32> {
        let value = self.get(id)?.value;
        let bytes = (*value).try_into().map_err(|_| Error::plugin("the digest is not a 32-bit CRC"))?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Returns the final location of an encoded segment in its file, and the note of the segment.
    ///
    /// # Errors
    /// Returns a plugin error if there is no such segment.
    fn encoded(&self, id: EncodedId) -> Result<EncodedLocation>;

    /// Returns the length of a file in bytes. Streamed files are supported.
    ///
    /// # Errors
    /// Returns a plugin error if the file does not exist, or if it is a late file.
    fn file_len(&self, file: OutputId) -> Result<u64>;
}

/// Receives the bytes that depend on digests.
pub trait SealSink {
    /// Sets all bytes of a deferred segment.
    ///
    /// # Errors
    /// Returns a plugin error if the number of bytes differs from the reserved length, or an error
    /// if the bytes cannot be written.
    fn deferred(&mut self, id: DeferredId, bytes: &[u8]) -> Result<()>;

    /// Appends bytes to a late file. Without any call, the file is empty.
    ///
    /// # Errors
    /// Returns a plugin error if there is no such file, or an error if the bytes cannot be written.
    fn late(&mut self, file: OutputId, bytes: &[u8]) -> Result<()>;
}
