//! An opened input: what tensors it holds, and their bytes.

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
use tensorferry_convert::inspect::{Inspected, Look, inspect_found, temporary};
use tensorferry_convert::statistics::{ModelStatistics, StatisticsRequest, model_statistics};
use tensorferry_core::context::session::Session;
use tensorferry_core::context::suggest::suggest;
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_core::read::input::Input;
use tensorferry_core::read::losses::LossPolicy;
use tensorferry_core::read::part::Part;
use tensorferry_core::read::record_files::{self, FoundInput, InputChoice};
use tensorferry_sdk::{
    self as sdk, ByteOrder, Catalog, CatalogView, Context, Data, Dtype, DtypeInfo, Error, Loss, Order,
    Purpose, Region, Result, StorageId, TensorId, TensorPart, Value, element_count,
};
use tensorferry_tensors::logical::Logical;
use tensorferry_tensors::stored::{DecodedStorages, Stored};

/// Bytes that one thread reads of a large tensor at a time.
const CHUNK: usize = 8 << 20;

/// How an input is to be opened; [`Registry::open`] opens it without any of these.
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
    /// Everything is found out: the format, and which of the input's mappings is the model.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the input as this format, by its id, instead of finding out which it is.
    #[must_use]
    pub fn from(self, format: impl Into<String>) -> Self {
        Self { from: Some(format.into()), ..self }
    }

    /// An option of the format's reader, as `ferry formats` lists them.
    #[must_use]
    pub fn option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.push((key.into(), value.into()));
        self
    }

    /// Takes this branch of the input: a path such as `model.encoder`, or `.` for all of it. Otherwise, of a
    /// checkpoint with optimizer state, the model is taken.
    #[must_use]
    pub fn part(self, part: &str) -> Self {
        Self { part: Part::parse(part), ..self }
    }

    /// Whole tensors that are read are not compared with the checksums that the format keeps of them.
    #[must_use]
    pub fn unchecked(self) -> Self {
        Self { unchecked: true, ..self }
    }

    /// A loss that is known when the input is opened is an error, unless it is of an allowed kind.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.losses.strict = strict;
        self
    }

    /// A kind of loss that passes: with [`LossKind::Input`](sdk::LossKind::Input), entries of a folder that cannot be read
    /// are left out.
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

    /// Finds the input.
    pub(crate) fn find<'r>(&self, path: &Path, registry: &'r Registry) -> Result<FoundInput<'r>> {
        record_files::find(path, self.choice(), registry.as_ref(), registry.session())
    }

    /// Checks what was lost as it was opened.
    pub(crate) fn check(&self, losses: &[Loss]) -> Result<()> {
        self.losses.check(losses)
    }
}

impl Registry {
    /// Opens a file or folder and reads what it holds; no tensor's bytes are read yet.
    ///
    /// # Errors
    /// Whatever is wrong with the input, with its place.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Model> {
        self.open_with(path, &OpenOptions::new())
    }

    /// Opens a file or folder as `options` say.
    ///
    /// # Errors
    /// Usage, for a format, option or part that is not there; whatever is wrong with the input.
    pub fn open_with(&self, path: impl AsRef<Path>, options: &OpenOptions) -> Result<Model> {
        let OpenOptions { from, options: given, part, .. } = options;
        let look = Look { from: from.as_deref(), options: given, part, purpose: Purpose::FLAT };
        let (path, session) = (path.as_ref(), self.session().clone());
        let inspected =
            session.install(|| inspect_found(&options.find(path, self)?, look, &session, RECORDS))?;
        options.check(&inspected.losses)?;
        Ok(Model::of(inspected, session, options.clone()))
    }
}

/// An opened input. Clones are cheap; it stays open as long as one of them, or a tensor of it, lives.
#[derive(Clone)]
pub struct Model {
    opened: Arc<Opened>,
    session: Arc<Session>,
}

struct Opened {
    input: Input,
    /// What its reader was told, and which part of it this is.
    options: Vec<(String, String)>,
    part: Part,
    catalog: Catalog,
    losses: Vec<Loss>,
    decoded: Arc<DecodedStorages>,
    by_name: BTreeMap<String, TensorId>,
    /// For each tensor the first one that is the same by reference, once somebody has asked.
    ties: OnceLock<Vec<TensorId>>,
    /// Storages that had their checksum; none: they are not compared.
    compared: Option<Mutex<HashSet<StorageId>>>,
}

impl Model {
    /// What was inspected, and maybe changed by steps, as a model.
    #[must_use]
    pub fn of(inspected: Inspected, session: Arc<Session>, options: OpenOptions) -> Self {
        let decoded = Arc::new(DecodedStorages::new(&inspected.catalog));
        let by_name = inspected.catalog.tensors().iter().zip(0..);
        let by_name = by_name.map(|(tensor, index)| (tensor.name.clone(), TensorId(index))).collect();
        let compared = (!options.unchecked).then(Mutex::default);
        let opened = Opened {
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

    /// Bytes of the input's files that were read since it was opened, or since this was last asked.
    #[must_use]
    pub fn take_read(&self) -> u64 {
        self.opened.input.source.take_read()
    }

    /// The format that the input was read as.
    #[must_use]
    pub fn format(&self) -> &RegisteredFormat {
        &self.opened.input.format
    }

    /// Every tensor, in the input's order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor> + '_ {
        let count = u32::try_from(self.opened.catalog.tensors().len()).unwrap_or(u32::MAX);
        (0..count).map(|index| Tensor { model: self.clone(), id: TensorId(index) })
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// Usage, if there is none: with the name that was probably meant.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let id = self.opened.by_name.get(name).copied();
        let id = id.ok_or_else(|| {
            let near = suggest(name, self.opened.by_name.keys().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
            Error::usage(format!("no tensor of this name{near}")).tensor(name)
        })?;
        Ok(Tensor { model: self.clone(), id })
    }

    /// The key-value metadata, each value with the type that it has in the input.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, Value> {
        self.opened.catalog.metadata()
    }

    /// What the input holds and this model does not show.
    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        &self.opened.losses
    }

    /// The catalog that it shows: also the tree of state, the ties, what pickles would have called.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.opened.catalog
    }

    /// What the numbers of its tensors come to, or of those whose names a glob matches; of quantised ones, what they
    /// stand for.
    ///
    /// # Errors
    /// Usage, for a glob that is none, or matches no name; whatever reading gives.
    pub fn statistics(&self, patterns: &[String], histograms: bool) -> Result<ModelStatistics> {
        let Opened { input, options, part, .. } = &*self.opened;
        let request = StatisticsRequest { input, options, part, patterns, histograms };
        self.checked(|| self.session.install(|| model_statistics(&request, &self.session)))
    }

    /// Checks that no file of the input has changed since it was opened.
    ///
    /// # Errors
    /// Transient, naming the file that changed.
    pub fn check_unchanged(&self) -> Result<()> {
        self.opened.input.source.check_unchanged()
    }

    /// The same model, read with the threads, memory and cancel token of another session: so that one call can be
    /// cancelled alone.
    #[must_use]
    pub fn with_session(&self, session: Arc<Session>) -> Self {
        Self { opened: self.opened.clone(), session }
    }

    /// What it is read with.
    #[must_use]
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    fn with_bytes<T: Send>(&self, work: impl FnOnce(&Logical<'_>) -> Result<T> + Send) -> Result<T> {
        self.session.install(|| self.checked(|| work(&self.logical())))
    }

    fn logical(&self) -> Logical<'_> {
        let (Opened { input, catalog, decoded, .. }, session) = (&*self.opened, &*self.session);
        Logical::new(Stored::new(input, catalog, session, temporary()).with_decoded(decoded.clone()))
    }

    /// What `read` reads, if no file was written to meanwhile: what it holds then is no tensor of this model.
    fn checked<T>(&self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        let source = &self.opened.input.source;
        let done = read().map_err(|error| source.blame(error))?;
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
#[derive(Clone)]
pub struct Tensor {
    model: Model,
    id: TensorId,
}

impl Tensor {
    fn facts(&self) -> &sdk::Tensor {
        // Ids are made of the catalog's own length.
        &self.model.opened.catalog.tensors()[self.id.0 as usize]
    }

    fn dtype_info(&self) -> Result<&DtypeInfo> {
        let info = self.model.opened.catalog.dtype_info(self.dtype());
        info.ok_or_else(|| Error::plugin("no such dtype").tensor(self.name()))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.facts().name
    }

    /// What an element is.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.facts().dtype
    }

    /// The dtype's name: `F32`, `BF16`; also of one that the format brought along.
    #[must_use]
    pub fn dtype_name(&self) -> &str {
        self.dtype_info().map_or("?", DtypeInfo::name)
    }

    /// What else the input says of it: units, names of its axes.
    #[must_use]
    pub fn attributes(&self) -> &BTreeMap<String, Value> {
        &self.facts().attributes
    }

    /// Its dimensions, in elements; a scalar has none.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.facts().shape
    }

    /// The length of its bytes as [`read`](Self::read) gives them.
    #[must_use]
    pub fn byte_len(&self) -> u64 {
        self.facts().bytes
    }

    /// Its bytes: row-major, little-endian. A string is its length as a little-endian u64, then its bytes. They are
    /// compared with the checksums that the format keeps of them, the first time that they are read; those of
    /// [rows](Self::read_rows), regions and mappings are not.
    ///
    /// # Errors
    /// Malformed, if a checksum is wrong; whatever reading gives; limit, if this machine has no room for them.
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut bytes = self.room(self.byte_len())?;
        self.read_into(&mut bytes)?;
        Ok(bytes)
    }

    /// The same, into a buffer of exactly [`byte_len`](Self::byte_len) bytes.
    ///
    /// # Errors
    /// Usage, if the buffer has another length; whatever reading gives.
    pub fn read_into(&self, buffer: &mut [u8]) -> Result<()> {
        self.check_len(buffer.len(), self.byte_len())?;
        self.model.with_bytes(|logical| self.model.read_whole(logical, self.id, buffer))
    }

    /// Rows `rows` of its first dimension, as [`read`](Self::read) gives all of them.
    ///
    /// # Errors
    /// Usage, for a scalar or rows that are not there; unsupported, for strings; malformed, where a packed
    /// dtype's rows begin inside a byte; whatever reading gives.
    pub fn read_rows(&self, rows: Range<u64>) -> Result<Vec<u8>> {
        let (start, end) = self.byte_range(&rows)?;
        let mut bytes = self.room(end - start)?;
        self.read_rows_into(rows, &mut bytes)?;
        Ok(bytes)
    }

    /// The same, into a buffer of exactly as many bytes.
    ///
    /// # Errors
    /// As of [`read_rows`](Self::read_rows); usage, if the buffer has another length.
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

    /// Its bytes where they lie, without a copy.
    ///
    /// # Safety
    /// The file must not change or shrink while the mapping lives. What is read of a file that was changed
    /// by somebody is undefined behaviour for Rust; a file that shrinks ends the process with SIGBUS at the
    /// next look behind its end.
    ///
    /// # Errors
    /// Unsupported, where the bytes do not lie in a file as [`read`](Self::read) would give them; i/o.
    #[cfg(feature = "mmap")]
    #[expect(unsafe_code, reason = "the caller's promise is handed on")]
    pub unsafe fn map(&self) -> Result<crate::mapped::Mapped> {
        self.in_its_file(|file, offset, len| {
            // SAFETY: the caller's promise, as this function's contract has it.
            unsafe { crate::mapped::Mapped::new(file, offset, len) }
        })
    }

    /// Its bytes where they lie, to be written to: what is written is seen here alone, and costs a copy of its page.
    ///
    /// # Safety
    /// As of [`map`](Self::map).
    ///
    /// # Errors
    /// As of [`map`](Self::map).
    #[cfg(feature = "mmap")]
    #[expect(unsafe_code, reason = "the caller's promise is handed on")]
    pub unsafe fn map_private(&self) -> Result<crate::mapped::MappedPrivate> {
        self.in_its_file(|file, offset, len| {
            // SAFETY: the caller's promise, as this function's contract has it.
            unsafe { crate::mapped::MappedPrivate::new(file, offset, len) }
        })
    }

    /// Gives `map` the file in which the bytes lie as they are, with the first of them and how many they are.
    #[cfg(feature = "mmap")]
    fn in_its_file<T>(&self, map: impl FnOnce(&std::fs::File, u64, u64) -> Result<T>) -> Result<T> {
        let facts = self.facts();
        let refused = |why| Err(Error::unsupported(why).tensor(&facts.name).expected("a use of read()"));
        let catalog = &self.model.opened.catalog;
        let Data::Whole { storage, offset } = facts.data else {
            return refused("its bytes do not lie side by side: they cannot be mapped");
        };
        let Some(stored) = catalog.storage(storage) else { return refused("it has no storage") };
        let sdk::Place::File { file, offset: start } = stored.place else {
            return refused("its bytes do not lie in a file as they are: they cannot be mapped");
        };
        if stored.byte_order != ByteOrder::Little && self.dtype_info()?.swap_unit() != 1 {
            return refused("its bytes are big-endian in the file: they cannot be mapped");
        }
        let file = self.model.opened.input.source.descriptor(file)?;
        map(&file, start + offset, facts.bytes).map_err(|error| error.tensor(&facts.name))
    }

    /// Where rows begin and end among the tensor's bytes.
    fn byte_range(&self, rows: &Range<u64>) -> Result<(u64, u64)> {
        let shape = self.shape();
        let Some((&count, row)) = shape.split_first() else {
            return Err(Error::usage("a scalar has no rows").tensor(self.name()));
        };
        if rows.start > rows.end || rows.end > count {
            let found = format!("{}..{}", rows.start, rows.end);
            return Err(Error::usage("no such rows")
                .tensor(self.name())
                .expected(format!("0..{count}"))
                .found(found));
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
        let problem = Error::usage("the buffer has another length than the bytes");
        Err(problem.tensor(self.name()).expected(expected).found(found))
    }

    fn room(&self, len: u64) -> Result<Vec<u8>> {
        let refused = || Error::limit("no room in memory for its bytes").tensor(self.name()).found(len);
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
