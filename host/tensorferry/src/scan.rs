//! Records of an input, as streams of Arrow batches that any Arrow library takes.

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
use tensorferry_core::read::file_group::{FileGroup, takes_schema};
use tensorferry_core::read::source::FileSource;
use tensorferry_records::conversion::on_records;
use tensorferry_records::rows::{self, Rows};
use tensorferry_records::schema_file::schema_file;
use tensorferry_records::steps::{self, RecordAction};
use tensorferry_sdk::records::{Batched, Batches, RecordReader, RecordSet, Split, batches, from_stream};
use tensorferry_sdk::{Context, Error, Loss, Purpose, Result, arrow_array, arrow_schema};
use tensorferry_tensors::steps::Step;

/// It can go to any thread, and outlive whatever it was made of.
const _: () = {
    const fn is_owned<T: Send + Sync + 'static>() {}
    is_owned::<Scan>();
};

impl Registry {
    /// Opens a file or folder of records: TFRecord, Parquet, JSON lines.
    ///
    /// # Errors
    /// Unsupported, if the input's format has no records; whatever is wrong with the input.
    pub fn scan(&self, path: impl AsRef<Path>) -> Result<Scan> {
        self.scan_with(path, &OpenOptions::new())
    }

    /// Opens a file or folder of records as `options` say; their part is a split, of a folder that has some.
    ///
    /// # Errors
    /// Usage, for a format or option that is not there; as of [`scan`](Self::scan).
    pub fn scan_with(&self, path: impl AsRef<Path>, options: &OpenOptions) -> Result<Scan> {
        let found = options.find(path.as_ref(), self)?;
        let takes_schema = takes_schema(found.format, &found.options);
        let context = found.reading(self.session(), Purpose::FLAT);
        let rows = rows::open(&found.source, found.format, &found.options, &context)?;
        options.check(&rows.losses()?)?;
        Ok(Scan::of(rows, takes_schema, self))
    }

    /// Opens some files of an input of records as [`scan_with`](Self::scan_with) opened all of them: `options` are the
    /// same, with the format that was found.
    ///
    /// # Errors
    /// As of [`scan_with`](Self::scan_with).
    pub fn scan_group(&self, group: &FileGroup, options: &OpenOptions) -> Result<Scan> {
        let (session, choice): (&Session, _) = (self.session(), options.choice());
        let source = group.source(session)?;
        let format = probe(self.as_ref(), &source, choice.from, session)?;
        let context = ReadContext::new(session, Purpose::FLAT);
        let rows = rows::open(&source, format, &group.reader_options(format, choice.options), &context)?;
        Ok(Scan::of(rows, false, self))
    }
}

/// An opened input of records. Clones are cheap; streams keep it open.
#[derive(Clone)]
pub struct Scan {
    opened: Arc<Opened>,
    steps: Arc<[Step<RecordAction>]>,
    /// After the steps.
    schema: SchemaRef,
}

/// Fields are dropped in this order: what the reader made goes before the reader.
struct Opened {
    set: Arc<dyn RecordSet>,
    /// What was lost as it was opened.
    losses: Vec<Loss>,
    _readers: Readers,
    source: Arc<FileSource>,
    format: RegisteredFormat,
    /// Whether its reader would take the schema that it found as an option.
    takes_schema: bool,
    session: Arc<Session>,
}

/// Who keeps the reader that a set of records came from.
enum Readers {
    #[expect(dead_code, reason = "it is kept, and dropped last")]
    Own(Option<Box<dyn RecordReader>>),
    #[expect(dead_code, reason = "it is kept, and dropped last")]
    Others(Arc<Opened>),
}

impl Scan {
    fn of(rows: Rows<'_>, takes_schema: bool, registry: &Registry) -> Self {
        let Rows { source, format, set, opened, reader } = rows;
        let schema = set.schema();
        let opened = Arc::new(Opened {
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

    /// The format that the input is read as.
    #[must_use]
    pub fn format(&self) -> &RegisteredFormat {
        &self.opened.format
    }

    /// The same input with these steps on its records, as `--step` has them: `map:select,columns=id`, `take:10`. All of
    /// them are given at once.
    ///
    /// # Errors
    /// Usage: a step that there is not, or that cannot be done with these columns, or records without end.
    pub fn steps(&self, steps: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        let texts: Vec<String> = steps.into_iter().map(Into::into).collect();
        if texts.is_empty() {
            return Ok(self.clone());
        }
        if !self.steps.is_empty() {
            return Err(Error::usage("a scan that has steps gets no others: give all of them at once"));
        }
        let steps: Arc<[_]> = on_records(parse(&texts, RECORDS)?)?.into();
        let schema = ahead::schema(&self.opened, &steps)?;
        Ok(Self { steps, schema, opened: self.opened.clone() })
    }

    /// The columns' names, in order.
    #[must_use]
    pub fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// How many records there are, where that is known without reading them.
    #[must_use]
    pub fn known_records(&self) -> Option<u64> {
        let known = self.opened.set.splits().iter().map(|split| split.records).sum();
        steps::count(&self.steps, known)
    }

    /// How many splits there are: stretches of records that can be read at the same time, each by a stream of its own.
    /// Records that go through steps are one.
    #[must_use]
    pub fn splits(&self) -> usize {
        if self.steps.is_empty() { self.opened.set.splits().len() } else { 1 }
    }

    /// The stretches of files that it is read in, whatever the steps; the names are relative to [`folder`](Self::folder).
    #[must_use]
    pub fn stretches(&self) -> &[Split] {
        self.opened.set.splits()
    }

    /// The folder of its files, as a path or URL.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.opened.source.folder()
    }

    /// Whether what becomes of a record depends on that record alone, so that stretches can go through the steps each
    /// by itself.
    #[must_use]
    pub fn is_row_wise(&self) -> bool {
        self.steps.iter().all(|step| step.action.is_row_wise())
    }

    /// The schema before the steps as the file that the reader takes as an option, where it does.
    #[must_use]
    pub fn schema_file(&self) -> Option<serde_json::Value> {
        self.opened.takes_schema.then(|| schema_file(&self.opened.set.schema()))
    }

    /// The records of these stretches alone, through the same steps.
    ///
    /// # Errors
    /// Usage: stretches that there are not, or steps for which it matters what other records there are.
    pub fn narrowed(&self, stretches: Range<usize>) -> Result<Self> {
        let all = self.stretches();
        let Some(some) = all.get(stretches.clone()) else {
            return Err(Error::usage("stretches that there are not")
                .expected(format!("of {}", all.len()))
                .found(format!("{stretches:?}")));
        };
        if some.len() < all.len() && !self.is_row_wise() {
            return Err(Error::usage("these steps need all records in one stream"));
        }
        let (set, opened) = (self.opened.set.clone(), &self.opened);
        Ok(Self {
            opened: Arc::new(Opened {
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

    /// What batches of these columns cannot say of the input, as far as it has been read.
    ///
    /// # Errors
    /// A plugin error, if the reader cannot tell.
    pub fn losses(&self) -> Result<Vec<Loss>> {
        let mut losses = self.opened.losses.clone();
        self.opened.set.losses(&mut losses)?;
        Ok(losses)
    }

    /// All records in order, as a C data stream: from the first batch that is asked for on, they are read ahead on all
    /// threads of the session, within its memory, until the stream is released.
    #[must_use]
    pub fn stream(&self) -> c_stream::ArrowArrayStream {
        c_stream::ArrowArrayStream::new(ahead::batches(self.clone()))
    }

    /// The records of these splits in order, as a C data stream, read by whoever asks for the next batch. Splits that
    /// are not there have none.
    #[must_use]
    pub fn stream_of(&self, splits: Range<usize>) -> c_stream::ArrowArrayStream {
        c_stream::ArrowArrayStream::new(self.reader(splits))
    }

    /// All records in order, as batches of the crate `arrow-array`, version 60; read ahead as those of
    /// [`stream`](Self::stream).
    #[cfg(feature = "arrow-60")]
    #[must_use]
    pub fn batches(&self) -> impl arrow_array::RecordBatchReader + Send + 'static {
        ahead::batches(self.clone())
    }

    /// The records of these splits in order, as batches of the crate `arrow-array`, version 60; see
    /// [`stream_of`](Self::stream_of).
    #[cfg(feature = "arrow-60")]
    #[must_use]
    pub fn batches_of(&self, splits: Range<usize>) -> impl arrow_array::RecordBatchReader + Send + 'static {
        self.reader(splits)
    }

    fn reader(&self, splits: Range<usize>) -> Batched {
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
    /// Transient, naming the file that changed.
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

/// The batches of some splits, one split after the other.
struct Records {
    /// Dropped before the scan that it is of.
    current: Option<Batched>,
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

impl Opened {
    fn place(&self, error: Error) -> Error {
        error.file(self.source.entry_path().display().to_string())
    }
}
