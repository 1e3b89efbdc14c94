//! Open inputs, their tensors, and the tensors' bytes.

mod regions;
mod slices;
mod streamed;
mod whole;

use crate::RECORDS;
use crate::registry::Registry;
use rayon::prelude::*;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use tensorferry_convert::inspect::{InspectOptions, Inspected, inspect_found, temporary};
use tensorferry_convert::statistics::{ModelStatistics, StatisticsRequest, model_statistics};
use tensorferry_core::context::session::Session;
use tensorferry_core::context::suggest::suggest;
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_core::read::input::TensorInput;
use tensorferry_core::read::losses::LossPolicy;
use tensorferry_core::read::part::Part;
use tensorferry_core::read::record_files::{self, FoundInput, InputChoice};
use tensorferry_sdk::{
    self as sdk, ByteOrder, Catalog, CatalogView, Context, Data, Dtype, DtypeInfo, Error, Loss, Order,
    Purpose, Region, Result, StorageId, TensorId, TensorPart, Value, element_count,
};
use tensorferry_tensors::logical::Logical;
use tensorferry_tensors::stored::{DecodedStorages, Stored};

/// Number of bytes of a large tensor that one thread reads at a time.
const CHUNK: usize = 8 << 20;

/// Options for opening an input. [`Registry::open`] uses the defaults.
///
/// ```no_run
/// use tensorferry::{OpenOptions, Registry};
///
/// # fn main() -> tensorferry::Result<()> {
/// # let registry = Registry::new();
/// let options = OpenOptions::new().from("torch").part("model.encoder").strict(true);
/// let encoder = registry.open_with("checkpoint.pt", &options)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    from: Option<String>,
    options: Vec<(String, String)>,
    part: Part,
    unchecked: bool,
    losses: LossPolicy,
}

impl OpenOptions {
    /// Creates default options. The format is detected, and only the model from a checkpoint with
    /// optimizer state is opened.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the input as the format with this ID instead of detecting it.
    #[must_use]
    pub fn from(self, format: impl Into<String>) -> Self {
        Self { from: Some(format.into()), ..self }
    }

    /// Adds an input option of the format; `ferry formats` lists the options.
    #[must_use]
    pub fn option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.push((key.into(), value.into()));
        self
    }

    /// Opens only this branch of the input: a path such as `model.encoder`, or `.` for the whole
    /// input. By default, only the model from a checkpoint with optimizer state is opened.
    #[must_use]
    pub fn part(self, part: &str) -> Self {
        Self { part: Part::parse(part), ..self }
    }

    /// Skips the comparison of tensors with the checksums stored in the input.
    #[must_use]
    pub fn unchecked(self) -> Self {
        Self { unchecked: true, ..self }
    }

    /// Sets whether opening fails if data would be lost. Losses of an [allowed](Self::allow) kind
    /// are ignored.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.losses.strict = strict;
        self
    }

    /// Allows a kind of loss. If [`LossKind::Input`](sdk::LossKind::Input) is allowed, folder
    /// entries that cannot be read are skipped.
    #[must_use]
    pub fn allow(mut self, kind: sdk::LossKind) -> Self {
        self.losses.allowed.push(kind);
        self
    }

    pub(crate) fn choice(&self) -> InputChoice<'_> {
        InputChoice {
            from: self.from.as_deref(),
            options: &self.options,
            part: &self.part,
            losses: Some(&self.losses),
        }
    }

    pub(crate) fn find<'r>(&self, path: &Path, registry: &'r Registry) -> Result<FoundInput<'r>> {
        record_files::find(path, self.choice(), registry.as_ref(), registry.session())
    }

    /// Returns an error for the first loss that the options do not allow.
    pub(crate) fn check(&self, losses: &[Loss]) -> Result<()> {
        self.losses.check(losses)
    }
}

impl Registry {
    /// Opens a file, folder or URL and reads the headers. The bytes of tensors are read later, on
    /// request.
    ///
    /// # Errors
    /// Returns an error that names the location if the input is missing, malformed or unsupported.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Model> {
        self.open_with(path, &OpenOptions::new())
    }

    /// Opens a file, folder or URL with `options`.
    ///
    /// # Errors
    /// Returns an error if the format, an option or the part does not exist, or for any reason that
    /// [`open`](Self::open) lists.
    pub fn open_with(&self, path: impl AsRef<Path>, options: &OpenOptions) -> Result<Model> {
        let OpenOptions { from, options: given, part, .. } = options;
        let look = InspectOptions { from: from.as_deref(), options: given, part, purpose: Purpose::FLAT };
        let (path, session) = (path.as_ref(), self.session().clone());
        let inspected =
            session.install(|| inspect_found(&options.find(path, self)?, look, &session, RECORDS))?;
        options.check(&inspected.losses)?;
        Ok(Model::of(inspected, session, options.clone()))
    }
}

/// An open input. Clones are cheap. The input remains open until all clones and all of its tensors
/// are dropped.
///
/// ```no_run
/// # fn main() -> tensorferry::Result<()> {
/// # let registry = tensorferry::Registry::new();
/// let model = registry.open("model.safetensors")?;
/// for tensor in model.tensors() {
///     println!("{} {} {:?}", tensor.name(), tensor.dtype_name(), tensor.shape());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Model {
    opened: Arc<OpenedModel>,
    session: Arc<Session>,
}

struct OpenedModel {
    input: TensorInput,
    /// The input options that were passed to the reader.
    options: Vec<(String, String)>,
    part: Part,
    catalog: Catalog,
    losses: Vec<Loss>,
    decoded: Arc<DecodedStorages>,
    by_name: BTreeMap<String, TensorId>,
    /// For each tensor, the first tensor to which it is tied. Computed on first use.
    ties: OnceLock<Vec<TensorId>>,
    /// The storages that have been compared with their checksums; `None` if this comparison is
    /// disabled.
    compared: Option<Mutex<HashSet<StorageId>>>,
}

impl Model {
    /// Creates a model from an inspected input, to which steps may have been applied.
    #[must_use]
    pub fn of(inspected: Inspected, session: Arc<Session>, options: OpenOptions) -> Self {
        let decoded = Arc::new(DecodedStorages::new(&inspected.catalog));
        let by_name = inspected.catalog.tensors().iter().zip(0..);
        let by_name = by_name.map(|(tensor, index)| (tensor.name.clone(), TensorId(index))).collect();
        let compared = (!options.unchecked).then(Mutex::default);
        let opened = OpenedModel {
            input: inspected.input,
            options: options.options,
            part: options.part,
            catalog: inspected.catalog,
            losses: inspected.losses,
            decoded,
            by_name,
            ties: OnceLock::new(),
            compared,
        };
        Self { opened: Arc::new(opened), session }
    }

    /// Returns the number of bytes read from the input's files since the input was opened or since
    /// the last call, and resets the count.
    #[must_use]
    pub fn take_read(&self) -> u64 {
        self.opened.input.source.take_read()
    }

    /// Returns the format in which the input was read.
    #[must_use]
    pub fn format(&self) -> &RegisteredFormat {
        &self.opened.input.format
    }

    /// Iterates over all tensors, in the input's order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor> + '_ {
        let count = u32::try_from(self.opened.catalog.tensors().len()).unwrap_or(u32::MAX);
        (0..count).map(|index| Tensor { model: self.clone(), id: TensorId(index) })
    }

    /// Returns the tensor with this name.
    ///
    /// # Errors
    /// Returns an error if the model does not contain a tensor with this name. The message suggests
    /// a similar name, if one exists.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let id = self.opened.by_name.get(name).copied();
        let id = id.ok_or_else(|| {
            let near = suggest(name, self.opened.by_name.keys().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
            Error::usage(format!("no tensor of this name{near}")).tensor(name)
        })?;
        Ok(Tensor { model: self.clone(), id })
    }

    /// Returns the key-value metadata. Each value has the type that it has in the input.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, Value> {
        self.opened.catalog.metadata()
    }

    /// Returns the losses: the input's content that is not part of this model.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        &self.opened.losses
    }

    /// Returns the catalog behind this model. The catalog also contains the state tree, the ties,
    /// and the calls that pickles would make.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.opened.catalog
    }

    /// Computes summary statistics for all tensors, or only for tensors whose names match one of
    /// the globs. Quantized tensors are dequantized first.
    ///
    /// # Errors
    /// Returns an error if a glob is invalid or matches no name, or if the input cannot be read.
    pub fn statistics(&self, patterns: &[String], histograms: bool) -> Result<ModelStatistics> {
        let OpenedModel { input, options, part, .. } = &*self.opened;
        let request = StatisticsRequest { input, options, part, patterns, histograms };
        self.checked(|| self.session.install(|| model_statistics(&request, &self.session)))
    }

    /// Checks that no file of the input has changed since it was opened.
    ///
    /// # Errors
    /// Returns a transient error that names the file if one has changed.
    pub fn check_unchanged(&self) -> Result<()> {
        self.opened.input.source.check_unchanged()
    }

    /// Returns this model with a different session. Reads then use that session's threads, memory
    /// and cancel token. With a separate session, a program can cancel a single call.
    #[must_use]
    pub fn with_session(&self, session: Arc<Session>) -> Self {
        Self { opened: self.opened.clone(), session }
    }

    /// Returns the session that reads this model.
    #[must_use]
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    fn with_bytes<T: Send>(&self, work: impl FnOnce(&Logical<'_>) -> Result<T> + Send) -> Result<T> {
        self.session.install(|| self.checked(|| work(&self.logical())))
    }

    fn logical(&self) -> Logical<'_> {
        let (OpenedModel { input, catalog, decoded, .. }, session) = (&*self.opened, &*self.session);
        Logical::new(Stored::new(input, catalog, session, temporary()).with_decoded(decoded.clone()))
    }

    /// Runs `read`. If a file of the input has changed by the time `read` returns, returns an error,
    /// because the bytes that were read may be wrong.
    fn checked<T>(&self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        let source = &self.opened.input.source;
        let done = read().map_err(|error| source.attribute_error(error))?;
        source.check_content()?;
        Ok(done)
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("format", &self.opened.input.format.description.id)
            .field("tensors", &self.opened.catalog.tensors().len())
            .finish_non_exhaustive()
    }
}

/// A tensor of a [`Model`].
///
/// ```no_run
/// # fn main() -> tensorferry::Result<()> {
/// # let registry = tensorferry::Registry::new();
/// let embedding = registry.open("model.safetensors")?.tensor("embedding.weight")?;
/// let first_ten = embedding.read_rows(0..10)?;
/// println!("{:?}: {} bytes", embedding.shape(), first_ten.len());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tensor {
    model: Model,
    id: TensorId,
}

impl Tensor {
    fn facts(&self) -> &sdk::Tensor {
        // The index is in bounds, because all IDs are below the length of the catalog.
        &self.model.opened.catalog.tensors()[self.id.0 as usize]
    }

    fn dtype_info(&self) -> Result<&DtypeInfo> {
        let info = self.model.opened.catalog.dtype_info(self.dtype());
        info.ok_or_else(|| Error::plugin("no such dtype").tensor(self.name()))
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.facts().name
    }

    /// Returns the dtype of the elements.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.facts().dtype
    }

    /// Returns the name of the dtype, such as `F32` or `BF16`. Dtypes that a format defines also
    /// have names.
    #[must_use]
    pub fn dtype_name(&self) -> &str {
        self.dtype_info().map_or("?", DtypeInfo::name)
    }

    /// Returns further attributes from the input, such as units or names of axes.
    #[must_use]
    pub fn attributes(&self) -> &BTreeMap<String, Value> {
        &self.facts().attributes
    }

    /// Returns the dimensions, in elements. A scalar has no dimensions.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.facts().shape
    }

    /// Returns the number of bytes that [`read`](Self::read) returns.
    #[must_use]
    pub fn byte_len(&self) -> u64 {
        self.facts().bytes
    }

    /// Returns the tensor's bytes in row-major, little-endian order. Each string is stored as its
    /// length (a little-endian `u64`), followed by its bytes.
    ///
    /// The first read compares the bytes with the checksums that are stored in the input. Checksums
    /// are not compared by mappings or by reads of [rows](Self::read_rows) and regions.
    ///
    /// # Errors
    /// Returns an error if a checksum does not match, if the input cannot be read, or if there is
    /// not enough memory.
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = self.room(self.byte_len())?;
        self.read_into(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads the bytes that [`read`](Self::read) returns into a buffer of exactly
    /// [`byte_len`](Self::byte_len) bytes.
    ///
    /// # Errors
    /// Returns an error if the buffer has the wrong length, or for any reason that
    /// [`read`](Self::read) lists.
    pub fn read_into(&self, buffer: &mut [u8]) -> Result<()> {
        self.check_len(buffer.len(), self.byte_len())?;
        self.model.with_bytes(|logical| self.model.read_whole(logical, self.id, buffer))
    }

    /// Returns the bytes of a range of rows. A row is an index of the first dimension. The bytes
    /// have the same layout as the result of [`read`](Self::read).
    ///
    /// # Errors
    /// Returns an error if the tensor is a scalar or contains strings, or if the rows are out of
    /// range. Also returns an error if rows of a packed dtype do not start at a byte boundary, or
    /// if the input cannot be read.
    pub fn read_rows(&self, rows: Range<u64>) -> Result<Vec<u8>> {
        let (start, end) = self.byte_range(&rows)?;
        let mut bytes = self.room(end - start)?;
        self.read_rows_into(rows, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads a range of rows into a buffer of exactly their length in bytes.
    ///
    /// # Errors
    /// Returns an error if the buffer has the wrong length, or for any reason that
    /// [`read_rows`](Self::read_rows) lists.
    pub fn read_rows_into(&self, rows: Range<u64>, buffer: &mut [u8]) -> Result<()> {
        let (start, end) = self.byte_range(&rows)?;
        self.check_len(buffer.len(), end - start)?;
        let is_gathered = matches!(self.facts().data, Data::Blocks(_) | Data::Grid(_));
        if !is_gathered || self.dtype_info()?.element_bytes().is_none() {
            return self.model.with_bytes(|logical| read_side_by_side(logical, self.id, start, buffer));
        }
        let mut region = Region::whole(self.shape());
        region.origin[0] = rows.start;
        region.shape[0] = rows.end - rows.start;
        let part = TensorPart {
            tensor: self.id,
            region: Some(region),
            order: Order::C,
            byte_order: ByteOrder::Little,
        };
        self.model.with_bytes(|logical| logical.read_part(&part, buffer))
    }

    /// Maps the tensor's bytes into memory without copying them.
    ///
    /// # Safety
    /// The file must not change or shrink during the lifetime of the mapping. If another process
    /// changes the file, reading the mapping is undefined behavior in Rust. If the file shrinks,
    /// reading past its end terminates the process with SIGBUS.
    ///
    /// # Errors
    /// Returns an error if the bytes in the file differ from the bytes that [`read`](Self::read)
    /// would return, or if mapping fails.
    #[cfg(feature = "mmap")]
    #[expect(unsafe_code, reason = "the caller makes the promise that the mapping needs")]
    pub unsafe fn map(&self) -> Result<crate::mapped::Mapped> {
        self.in_its_file(|file, offset, len| {
            // SAFETY: the contract of this function requires that the file does not change.
            unsafe { crate::mapped::Mapped::new(file, offset, len) }
        })
    }

    /// Maps the tensor's bytes into memory for private writes. Writes are visible only in this
    /// mapping. The first write to a page copies the page.
    ///
    /// # Safety
    /// The safety conditions of [`map`](Self::map) apply.
    ///
    /// # Errors
    /// Returns an error for any reason that [`map`](Self::map) lists.
    #[cfg(feature = "mmap")]
    #[expect(unsafe_code, reason = "the caller makes the promise that the mapping needs")]
    pub unsafe fn map_private(&self) -> Result<crate::mapped::MappedPrivate> {
        self.in_its_file(|file, offset, len| {
            // SAFETY: the contract of this function requires that the file does not change.
            unsafe { crate::mapped::MappedPrivate::new(file, offset, len) }
        })
    }

    /// Calls `map` with the file that contains the tensor's bytes unchanged, the offset of the
    /// bytes, and their length.
    #[cfg(feature = "mmap")]
    fn in_its_file<T>(&self, map: impl FnOnce(&std::fs::File, u64, u64) -> Result<T>) -> Result<T> {
        let facts = self.facts();
        let refused = |why| Err(Error::unsupported(why).tensor(&facts.name).hint("call read() instead"));
        let catalog = &self.model.opened.catalog;
        let Data::Whole { storage, offset } = facts.data else {
            return refused("a tensor that is not contiguous cannot be mapped");
        };
        let Some(stored) = catalog.storage(storage) else { return refused("the tensor has no storage") };
        let sdk::StorageLocation::File { file, offset: start } = stored.location else {
            return refused("a tensor that is not stored as plain bytes in a file cannot be mapped");
        };
        if stored.byte_order != ByteOrder::Little && self.dtype_info()?.swap_unit() != 1 {
            return refused("a tensor that is stored big-endian cannot be mapped");
        }
        let file = self.model.opened.input.source.descriptor(file)?;
        map(&file, start + offset, facts.bytes).map_err(|error| error.tensor(&facts.name))
    }

    /// Returns the positions within the tensor's bytes at which the rows start and end.
    fn byte_range(&self, rows: &Range<u64>) -> Result<(u64, u64)> {
        let shape = self.shape();
        let Some((&count, row)) = shape.split_first() else {
            return Err(Error::usage("a scalar has no rows").tensor(self.name()));
        };
        if rows.start > rows.end || rows.end > count {
            let problem = format!("rows {}..{} are not inside 0..{count}", rows.start, rows.end);
            return Err(Error::usage(problem).tensor(self.name()));
        }
        let row = if count == 0 { 0 } else { element_count(row)? };
        let info = self.dtype_info()?;
        let place = |index: u64| info.bytes_of(index * row).map_err(|error| error.tensor(self.name()));
        Ok((place(rows.start)?, place(rows.end)?))
    }

    fn check_len(&self, found: usize, expected: u64) -> Result<()> {
        if found as u64 == expected {
            return Ok(());
        }
        let problem = Error::usage("the buffer has the wrong length");
        Err(problem.tensor(self.name()).expected(expected).found(found))
    }

    fn room(&self, len: u64) -> Result<Vec<u8>> {
        let refused = || Error::limit("not enough memory for the tensor").tensor(self.name()).found(len);
        let len = usize::try_from(len).map_err(|_| refused())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| refused())?;
        bytes.resize(len, 0);
        Ok(bytes)
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tensor")
            .field("name", &self.name())
            .field("dtype", &self.dtype_name())
            .field("shape", &self.shape())
            .finish_non_exhaustive()
    }
}

fn read_side_by_side(logical: &Logical<'_>, id: TensorId, start: u64, buffer: &mut [u8]) -> Result<()> {
    let chunks = buffer.par_chunks_mut(CHUNK).enumerate();
    chunks.try_for_each(|(index, chunk)| {
        logical.stored().session().check_cancelled()?;
        logical.read(id, start + (index * CHUNK) as u64, chunk)
    })
}
