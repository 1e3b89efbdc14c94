//! Returns an input's records as streams of Arrow batches, which any Arrow library can read.

mod ahead;
mod c_stream;
mod narrowed;

pub use c_stream::ArrowArrayStream;

use crate::RECORDS;
use crate::model::OpenOptions;
use crate::registry::Registry;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use tensorferry_convert::steps::parse;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::probe::probe;
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_core::read::context::ReadContext;
use tensorferry_core::read::file_group::{FileGroup, accepts_schema};
use tensorferry_core::read::source::FileSource;
use tensorferry_records::conversion::on_records;
use tensorferry_records::rows::{self, Rows};
use tensorferry_records::schema_file::schema_file;
use tensorferry_records::steps::{self, RecordAction};
use tensorferry_sdk::records::{BatchStream, Batches, RecordReader, RecordSet, Split, batches, from_stream};
use tensorferry_sdk::{Context, Error, Loss, Purpose, Result, arrow_array, arrow_schema};
use tensorferry_tensors::steps::Step;

/// Checks at compile time that a scan owns its data and can be sent to any thread.
const _: () = {
    const fn is_owned<T: Send + Sync + 'static>() {}
    is_owned::<Scan>();
};

impl Registry {
    /// Opens a file, folder or URL of records, such as TFRecord, Parquet or JSON lines.
    ///
    /// # Errors
    /// Returns an error if the input's format does not contain records, or if the input is missing,
    /// malformed or unsupported.
    pub fn scan(&self, path: impl AsRef<Path>) -> Result<Scan> {
        self.scan_with(path, &OpenOptions::new())
    }

    /// Opens a file, folder or URL of records with `options`. For a folder with splits,
    /// [`OpenOptions::part`] selects a split by name.
    ///
    /// # Errors
    /// Returns an error if the format or an option does not exist, or for any reason that
    /// [`scan`](Self::scan) lists.
    pub fn scan_with(&self, path: impl AsRef<Path>, options: &OpenOptions) -> Result<Scan> {
        let found = options.find(path.as_ref(), self)?;
        let takes_schema = accepts_schema(found.format, &found.options);
        let context = found.reading(self.session(), Purpose::FLAT);
        let rows = rows::open(&found.source, found.format, &found.options, &context)?;
        options.check(&rows.losses()?)?;
        Ok(Scan::of(rows, takes_schema, self))
    }

    /// Opens some of the files of an input that [`scan_with`](Self::scan_with) has opened. Pass the
    /// `options` of that call, and set their format to the format that the call detected.
    ///
    /// # Errors
    /// Returns an error for any reason that [`scan_with`](Self::scan_with) lists.
    pub fn scan_group(&self, group: &FileGroup, options: &OpenOptions) -> Result<Scan> {
        let (session, choice): (&Session, _) = (self.session(), options.choice());
        let source = group.source(session)?;
        let format = probe(self.as_ref(), &source, choice.from, session)?;
        let context = ReadContext::new(session, Purpose::FLAT);
        let rows = rows::open(&source, format, &group.reader_options(format, choice.options), &context)?;
        Ok(Scan::of(rows, false, self))
    }
}

/// An open record input. Clones are cheap. Streams keep the input open.
///
/// ```no_run
/// # fn main() -> tensorferry::Result<()> {
/// # let registry = tensorferry::Registry::new();
/// let scan = registry.scan("data.parquet")?.steps(["take:10"])?;
/// println!("{:?}: {:?} records", scan.columns(), scan.known_records());
/// let stream = scan.stream(); // an Arrow C data stream
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Scan {
    opened: Arc<OpenedScan>,
    steps: Arc<[Step<RecordAction>]>,
    /// The schema after the steps.
    schema: SchemaRef,
}

/// An open record input. Rust drops fields in the order of their declaration, so the record set is
/// dropped before the reader that created it.
struct OpenedScan {
    set: Arc<dyn RecordSet>,
    /// Losses that were found when the input was opened.
    losses: Vec<Loss>,
    _readers: Readers,
    source: Arc<FileSource>,
    format: RegisteredFormat,
    /// Whether the reader accepts a schema file as an option.
    takes_schema: bool,
    session: Arc<Session>,
}

/// The owner of the reader behind a record set.
enum Readers {
    #[expect(dead_code, reason = "kept only to be dropped last")]
    Own(Option<Box<dyn RecordReader>>),
    #[expect(dead_code, reason = "kept only to be dropped last")]
    Others(Arc<OpenedScan>),
}

impl Scan {
    fn of(rows: Rows<'_>, takes_schema: bool, registry: &Registry) -> Self {
        let Rows { source, format, set, opened, reader } = rows;
        let schema = set.schema();
        let opened = Arc::new(OpenedScan {
            set,
            losses: opened,
            _readers: Readers::Own(reader),
            source,
            format: format.clone(),
            takes_schema,
            session: registry.session().clone(),
        });
        Self { opened, steps: Arc::default(), schema }
    }

    /// Returns the format in which the input is read.
    #[must_use]
    pub fn format(&self) -> &RegisteredFormat {
        &self.opened.format
    }

    /// Returns this input with steps on its records. Steps have the syntax of `--step`, such as
    /// `map:select,columns=id` or `take:10`. All steps must be passed in one call.
    ///
    /// # Errors
    /// Returns an error if a step does not exist, does not apply to the columns or would never end,
    /// or if the scan already has steps.
    pub fn steps(&self, steps: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        let texts: Vec<String> = steps.into_iter().map(Into::into).collect();
        if texts.is_empty() {
            return Ok(self.clone());
        }
        if !self.steps.is_empty() {
            return Err(Error::usage("the scan already has steps").hint("pass all steps in one call"));
        }
        let steps: Arc<[_]> = on_records(parse(&texts, RECORDS)?)?.into();
        let schema = ahead::schema(&self.opened, &steps)?;
        Ok(Self { steps, schema, opened: self.opened.clone() })
    }

    /// Returns the names of the columns, in order.
    #[must_use]
    pub fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Returns the number of records, if the number is known without reading the records.
    #[must_use]
    pub fn known_records(&self) -> Option<u64> {
        let known = self.opened.set.splits().iter().map(|split| split.records).sum();
        steps::count(&self.steps, known)
    }

    /// Returns the number of splits. A split is a range of records that a separate stream can read
    /// in parallel with other splits. A scan with steps has only one split.
    #[must_use]
    pub fn splits(&self) -> usize {
        if self.steps.is_empty() { self.opened.set.splits().len() } else { 1 }
    }

    /// Returns the ranges of the input's files that are read as units. Steps do not affect these
    /// ranges. File names are relative to [`folder`](Self::folder).
    #[must_use]
    pub fn stretches(&self) -> &[Split] {
        self.opened.set.splits()
    }

    /// Returns the folder of the input's files, as a path or URL.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.opened.source.folder()
    }

    /// Returns whether the steps process each record independently. If so, the steps can be applied
    /// to ranges of records separately.
    #[must_use]
    pub fn is_row_wise(&self) -> bool {
        self.steps.iter().all(|step| step.action.is_row_wise())
    }

    /// Returns the schema before the steps as the content of a schema file, or `None` if the reader
    /// has no option for a schema file.
    #[must_use]
    pub fn schema_file(&self) -> Option<serde_json::Value> {
        self.opened.takes_schema.then(|| schema_file(&self.opened.set.schema()))
    }

    /// Returns a scan with the same steps that reads only these [stretches](Self::stretches).
    ///
    /// # Errors
    /// Returns an error if the range is out of bounds, or if the steps depend on other records.
    pub fn narrowed(&self, stretches: Range<usize>) -> Result<Self> {
        let all = self.stretches();
        let Some(some) = all.get(stretches.clone()) else {
            let problem = format!("stretches {stretches:?} are not inside 0..{}", all.len());
            return Err(Error::usage(problem));
        };
        if some.len() < all.len() && !self.is_row_wise() {
            return Err(Error::usage("these steps need all records in one stream"));
        }
        let (set, opened) = (self.opened.set.clone(), &self.opened);
        Ok(Self {
            opened: Arc::new(OpenedScan {
                set: Arc::new(narrowed::Narrowed::new(set, stretches.start, some.to_vec())),
                losses: opened.losses.clone(),
                _readers: Readers::Others(opened.clone()),
                source: opened.source.clone(),
                format: opened.format.clone(),
                takes_schema: opened.takes_schema,
                session: opened.session.clone(),
            }),
            ..self.clone()
        })
    }

    /// Returns the losses found so far: the input's content that the batches cannot represent.
    ///
    /// # Errors
    /// Returns an error if the reader cannot list its losses.
    pub fn losses(&self) -> Result<Vec<Loss>> {
        let mut losses = self.opened.losses.clone();
        self.opened.set.losses(&mut losses)?;
        Ok(losses)
    }

    /// Returns all records in order, as a C data stream. When the first batch is requested, the
    /// session's threads start to read ahead within its memory budget. Reading ahead continues
    /// until the stream is released.
    #[must_use]
    pub fn stream(&self) -> c_stream::ArrowArrayStream {
        c_stream::ArrowArrayStream::new(ahead::batches(self.clone()))
    }

    /// Returns the records of these splits in order, as a C data stream. Each batch is read by the
    /// thread that requests it. Splits that do not exist are empty.
    #[must_use]
    pub fn stream_of(&self, splits: Range<usize>) -> c_stream::ArrowArrayStream {
        c_stream::ArrowArrayStream::new(self.reader(splits))
    }

    /// Returns all records in order, as batches from version 60 of the crate `arrow-array`. The
    /// batches are read ahead as in [`stream`](Self::stream).
    #[cfg(feature = "arrow-60")]
    #[must_use]
    pub fn batches(&self) -> impl arrow_array::RecordBatchReader + Send + 'static {
        ahead::batches(self.clone())
    }

    /// Returns the records of these splits in order, as batches from version 60 of the crate
    /// `arrow-array`. See [`stream_of`](Self::stream_of).
    #[cfg(feature = "arrow-60")]
    #[must_use]
    pub fn batches_of(&self, splits: Range<usize>) -> impl arrow_array::RecordBatchReader + Send + 'static {
        self.reader(splits)
    }

    fn reader(&self, splits: Range<usize>) -> BatchStream {
        let splits = splits.start..splits.end.min(self.splits());
        if !self.steps.is_empty() && splits.start == 0 && splits.end == 1 {
            return ahead::batches(self.clone());
        }
        let mut records = Records { current: None, scan: self.clone(), splits };
        batches(self.schema.clone(), move || records.next_batch())
    }

    /// Checks that no file of the input has changed since it was opened.
    ///
    /// # Errors
    /// Returns a transient error that names the file if one has changed.
    pub fn check_unchanged(&self) -> Result<()> {
        self.opened.source.check_unchanged()
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan")
            .field("format", &self.opened.format.description.id)
            .field("columns", &self.columns())
            .field("splits", &self.splits())
            .finish_non_exhaustive()
    }
}

/// The batches of several splits, in the order of the splits.
struct Records {
    /// The batches of the current split. This field is dropped before `scan`.
    current: Option<BatchStream>,
    scan: Scan,
    splits: Range<usize>,
}

impl Records {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let opened = &self.scan.opened;
        loop {
            opened.session.check_cancelled()?;
            if let Some(batches) = &mut self.current {
                match batches.next().transpose().map_err(from_stream)? {
                    Some(batch) if batch.num_rows() == 0 => {}
                    Some(batch) => return Ok(Some(batch)),
                    None => self.current = None,
                }
            } else if let Some(split) = self.splits.next() {
                let batches = opened.set.stream(split, &Batches::default());
                self.current = Some(batches.map_err(|error| opened.place(error))?);
            } else {
                return Ok(None);
            }
        }
    }
}

impl OpenedScan {
    fn place(&self, error: Error) -> Error {
        error.file(self.source.entry_path().display().to_string())
    }
}
