//! A format is a plugin's half of a conversion: a reader that describes a catalog, a writer that
//! describes a layout. Neither opens a file or moves tensor data: the host does.

use crate::file_name::entry_files;
use crate::{
    ByteSink, CatalogSink, CatalogView, Context, DeferredId, Digest, DigestId, EncodedId, Entry, Error,
    FileId, LayoutSink, OptionSpec, Options, OutputId, Result, Source, Target,
};

/// Declares what a format is called, how its files are recognised, and what it can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// The id for `--from` and `--to`: lowercase, digits, dashes.
    pub id: String,
    /// What a person calls it.
    pub title: String,
    /// File name endings, each with its dot: `.safetensors`. The first one names outputs.
    pub suffixes: Vec<String>,
    /// Bytes that such a file has at an offset.
    pub magic: Vec<Magic>,
    /// File names that a folder of this format has; `*` stands for any run of characters.
    pub members: Vec<String>,
    /// What it can do.
    pub capabilities: Capabilities,
    /// The options of its reader and its writer.
    pub options: Vec<OptionSpec>,
    /// Raised whenever the same input and options would give other bytes.
    pub output_revision: u32,
    /// Facts about it by their names.
    pub attributes: Vec<(String, String)>,
}

impl Description {
    /// A format of this id and title, which can do nothing yet.
    #[must_use]
    pub fn new(id: impl Into<String>, title: impl Into<String>) -> Self {
        Self { id: id.into(), title: title.into(), ..Self::default() }
    }

    /// With these file name endings, each with its dot; the first one names outputs.
    #[must_use]
    pub fn suffixes(self, suffixes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { suffixes: suffixes.into_iter().map(Into::into).collect(), ..self }
    }

    /// With these bytes at an offset of its files, beside those that were given before.
    #[must_use]
    pub fn magic(self, offset: u64, bytes: impl Into<Vec<u8>>) -> Self {
        self.magic_at(Magic::new(offset, bytes))
    }

    /// With this magic, beside what was given before: for one that is masked, or counted from a file's end.
    #[must_use]
    pub fn magic_at(mut self, magic: Magic) -> Self {
        self.magic.push(magic);
        self
    }

    /// With a fact about the format that a host may show; one that it does not know it passes over.
    /// `specification` is where the format is written down.
    #[must_use]
    pub fn attribute(mut self, name: &str, value: &str) -> Self {
        self.attributes.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With these patterns of file names, which a folder of this format has.
    #[must_use]
    pub fn members(self, members: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { members: members.into_iter().map(Into::into).collect(), ..self }
    }

    /// With these capabilities.
    #[must_use]
    pub fn capabilities(self, capabilities: Capabilities) -> Self {
        Self { capabilities, ..self }
    }

    /// With these options of its reader and its writer.
    #[must_use]
    pub fn options(self, options: impl Into<Vec<OptionSpec>>) -> Self {
        Self { options: options.into(), ..self }
    }

    /// With this output revision.
    #[must_use]
    pub fn output_revision(self, output_revision: u32) -> Self {
        Self { output_revision, ..self }
    }

    /// Whether it has this side: a reader or a writer, of tensors or of records.
    #[must_use]
    pub fn has(&self, side: crate::Side) -> bool {
        match side {
            crate::Side::Reader => self.reads(),
            crate::Side::Writer => self.writes(),
        }
    }

    /// Whether it reads anything: tensors or records.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.capabilities.has(Capabilities::READ) || self.capabilities.has(Capabilities::READ_RECORDS)
    }

    /// Whether it writes anything.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.capabilities.has(Capabilities::WRITE) || self.capabilities.has(Capabilities::WRITE_RECORDS)
    }
}

/// Bytes that each file of a format has at a place. Strong ones are four bytes or more, of which one is no text: they
/// are found in no file of another format.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Magic {
    /// Where: from the file's start, or how far before its end.
    pub offset: u64,
    /// What stands there.
    pub bytes: Vec<u8>,
    /// Which bits of each byte count, as many bytes; empty where all do.
    pub mask: Vec<u8>,
    /// Whether the offset is counted from the file's end.
    pub from_end: bool,
}

impl Magic {
    /// These bytes at an offset from the file's start.
    #[must_use]
    pub fn new(offset: u64, bytes: impl Into<Vec<u8>>) -> Self {
        Self { offset, bytes: bytes.into(), mask: Vec::new(), from_end: false }
    }

    /// The same, of whose bytes only these bits count.
    #[must_use]
    pub fn masked(self, mask: impl Into<Vec<u8>>) -> Self {
        Self { mask: mask.into(), ..self }
    }

    /// The same, so far before the file's end.
    #[must_use]
    pub fn from_end(self) -> Self {
        Self { from_end: true, ..self }
    }

    /// Whether a file has it.
    ///
    /// # Errors
    /// I/o.
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

/// What a format can do: an open set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// Reads tensors.
    pub const READ: Self = Self(1);
    /// Writes tensors.
    pub const WRITE: Self = Self(2);
    /// Its writer keeps the tree of non-tensor state.
    pub const TREE: Self = Self(4);
    /// Its writer keeps key-value metadata; values that are no text only with [`VALUES`](Self::VALUES).
    pub const METADATA: Self = Self(8);
    /// Its writer keeps tied tensors tied.
    pub const TIES: Self = Self(16);
    /// Reads records.
    pub const READ_RECORDS: Self = Self(32);
    /// Writes records.
    pub const WRITE_RECORDS: Self = Self(64);
    /// Makes an index of records.
    pub const INDEX: Self = Self(128);
    /// Its writer makes several files whose names begin with the target's, whatever that ends in.
    pub const PREFIX: Self = Self(256);
    /// Its writer keeps attributes of tensors.
    pub const ATTRIBUTES: Self = Self(512);
    /// Its writer keeps values of metadata as they are. For others the host makes compact JSON of what is no
    /// text, and lists it as changed.
    pub const VALUES: Self = Self(1024);
    /// Its writer knows dtypes that are not built in, by name. For others that keep metadata the host makes U8 of
    /// such tensors, says in the metadata what they are, and lists it as changed.
    pub const DTYPES: Self = Self(2048);
    /// Programs compute with the tensors of its files as numbers. The host refuses to write codes of quantized weights
    /// there, which need the scales that another library has for them.
    pub const NUMBERS: Self = Self(4096);
    /// The file that its reader opens first names the others, by any path. Links in their place that lead out of the folder are
    /// never followed: such a file may be anything, and its bytes would be numbers of a tensor.
    pub const EXTERNAL: Self = Self(8192);

    /// All of both, as `|` gives it; this one can be called in constants.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is here.
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

/// How sure a format is that an input is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score(pub u32);

impl Score {
    /// It is not.
    pub const NO: Self = Self(0);
    /// Nothing speaks against it.
    pub const MAYBE: Self = Self(30);
    /// Most of it fits.
    pub const LIKELY: Self = Self(60);
    /// It can be nothing else.
    pub const CERTAIN: Self = Self(100);

    /// Returns how sure a format is of a folder or prefix with files that satisfy `is_member`; of a prefix it is likely.
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
    /// What it is.
    fn describe(&self) -> Description;

    /// How sure it is of this input, from a few bounded reads; `None` leaves it to the declared
    /// magic, suffixes and members.
    ///
    /// # Errors
    /// I/o only: bytes that do not fit are [`Score::NO`].
    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        let _ = (source, context);
        Ok(None)
    }

    /// A reader with these options.
    ///
    /// # Errors
    /// Unsupported, if it has none; usage, if the options contradict each other.
    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        let _ = options;
        Err(Error::unsupported("this format has no reader"))
    }

    /// A writer with these options.
    ///
    /// # Errors
    /// Unsupported, if it has none; usage, if the options contradict each other.
    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        let _ = options;
        Err(Error::unsupported("this format has no writer"))
    }

    /// A reader of rows with these options.
    ///
    /// # Errors
    /// Unsupported, if it has none; usage, if the options contradict each other.
    #[cfg(feature = "arrow-60")]
    fn record_reader(&self, options: &Options) -> Result<Box<dyn crate::records::RecordReader>> {
        let _ = options;
        Err(Error::unsupported("this format reads no records"))
    }

    /// A writer of rows with these options.
    ///
    /// # Errors
    /// Unsupported, if it has none; usage, if the options contradict each other.
    #[cfg(feature = "arrow-60")]
    fn record_writer(&self, options: &Options) -> Result<Box<dyn crate::records::RecordWriter>> {
        let _ = options;
        Err(Error::unsupported("this format writes no records"))
    }
}

/// Describes what an input holds.
pub trait TensorReader: Send + Sync {
    /// Fills the catalog, and returns what decodes its encoded storages: [`NothingEncoded`], if it has
    /// none. Reads headers only; the host reads tensors.
    ///
    /// # Errors
    /// Whatever is wrong with the input, with its place.
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>>;
}

/// Decodes the encoded storages of one input. The host calls it from many threads.
pub trait TensorDecoder: Send + Sync {
    /// Pushes all bytes of the storage that was declared with this handle, in order. The host may call
    /// it again for the same storage, and for several storages at once.
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

/// An encoded storage that knows where its bytes are. A list of them is a [`TensorDecoder`]: a handle is
/// an index into the list.
pub trait EncodedStorage: Send + Sync {
    /// Pushes all bytes, in order.
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

/// Describes an output.
pub trait TensorWriter: Send + Sync {
    /// Plans the files for a catalog. The plan stays until the output is sealed.
    ///
    /// # Errors
    /// Usage or unsupported: a catalog that the format cannot hold at all. What it cannot hold in
    /// part is a loss.
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>>;

    /// The steps, as users write them, that make of this catalog the one that [`plan`](Self::plan) is given: the names
    /// and the order of rows that programs want in this format's files, say. They come after the user's own, and each is
    /// told to the user. None, where the catalog can stay as it is.
    fn steps(&self, catalog: &dyn CatalogView, context: &dyn Context) -> Result<Vec<String>> {
        let _ = (catalog, context);
        Ok(Vec::new())
    }
}

/// What a writer still has to do once it has planned: to write streamed files and encoded segments, and to fill in
/// what depends on checksums and lengths.
pub trait TensorPlan: Send + Sync {
    /// Pushes a streamed file's bytes, in order. Files are streamed at the same time.
    fn stream(
        &self,
        file: OutputId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let _ = (file, catalog, output, context);
        Err(Error::plugin("this writer streams no file"))
    }

    /// Pushes an encoded segment's bytes, in order; gives what [`seal`](Self::seal) is to know of it. Segments are
    /// encoded at the same time, in any order. A call gives the same bytes each time.
    fn encode(
        &self,
        id: EncodedId,
        catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<Vec<u8>> {
        let _ = (id, catalog, output, context);
        Err(Error::plugin("this writer encodes no segment"))
    }

    /// Gives the deferred bytes and the late files.
    ///
    /// # Errors
    /// A plugin error, for a digest that was not requested.
    fn seal(&self, digests: &dyn Digests, output: &mut dyn SealSink, context: &dyn Context) -> Result<()> {
        let _ = (digests, output, context);
        Ok(())
    }
}

/// A plan that is done when the bytes have moved.
#[derive(Debug, Clone, Copy, Default)]
pub struct NothingToSeal;

impl TensorPlan for NothingToSeal {}

/// Where an encoded segment came to lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedPlace {
    /// Its first byte in the file.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// What [`TensorPlan::encode`] gave.
    pub note: Vec<u8>,
}

/// What is known of the bytes once they have moved: the digests that the layout requested, and lengths.
pub trait Digests {
    /// One of them.
    ///
    /// # Errors
    /// A plugin error, if it was not requested.
    fn get(&self, id: DigestId) -> Result<Digest>;

    /// A CRC's number.
    ///
    /// # Errors
    /// As [`get`](Self::get), or if it is not four bytes.
    fn crc(&self, id: DigestId) -> Result<u32> {
        let value = self.get(id)?.value;
        let bytes = (*value).try_into().map_err(|_| Error::plugin("the digest is not a CRC of 32 bits"))?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Where an encoded segment lies in its file, and what was said of it.
    ///
    /// # Errors
    /// A plugin error, if there is no such segment.
    fn encoded(&self, id: EncodedId) -> Result<EncodedPlace>;

    /// The length of a file, also of a streamed one.
    ///
    /// # Errors
    /// A plugin error, if there is no such file, or if it is late.
    fn file_len(&self, file: OutputId) -> Result<u64>;
}

/// Takes what needed digests.
pub trait SealSink {
    /// All bytes of a deferred segment.
    ///
    /// # Errors
    /// A plugin error, if they are not as many as were reserved; i/o.
    fn deferred(&mut self, id: DeferredId, bytes: &[u8]) -> Result<()>;

    /// Appends to a late file; a file that is never appended to is empty.
    ///
    /// # Errors
    /// A plugin error, if there is no such file; i/o.
    fn late(&mut self, file: OutputId, bytes: &[u8]) -> Result<()>;
}
