//! Records of an input, as streams of Arrow batches that any Arrow library takes.

use crate::context::session::Session;
use crate::formats::placeholder::explain;
use crate::formats::registry::{RegisteredFormat, Registry};
use crate::model::OpenOptions;
use crate::read::context::ReadContext;
use crate::read::record_files;
use crate::read::source::FileSource;
use crate::records::rows::reader;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use tensorferry_sdk::records::{Batched, Batches, RecordReader, RecordSet, stream_error};
use tensorferry_sdk::{Context, Loss, Purpose, Result, arrow_array, arrow_schema};

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
        let session = self.session().clone();
        let found = record_files::find(path.as_ref(), options.choice(), self, &session)?;
        let (format, source) = (found.format.clone(), Arc::new(found.source.afresh()));
        let reader = reader(&format, &found.options)?;
        let mut losses = Vec::new();
        let set = reader
            .open(source.clone(), &mut losses, &ReadContext::new(&session, Purpose::FLAT))
            .map_err(|error| explain(&*source, error).file(source.entry_path().display().to_string()))?;
        Ok(Scan(Arc::new(Opened { set, losses, _reader: reader, source, format, session })))
    }
}

/// An opened input of records. Clones are cheap; streams keep it open.
#[derive(Clone)]
pub struct Scan(Arc<Opened>);

/// Fields are dropped in this order: what the reader made goes before the reader.
struct Opened {
    set: Box<dyn RecordSet>,
    /// What was lost as it was opened.
    losses: Vec<Loss>,
    _reader: Box<dyn RecordReader>,
    source: Arc<FileSource>,
    format: RegisteredFormat,
    session: Arc<Session>,
}

impl Scan {
    /// The format that the input is read as.
    #[must_use]
    pub fn format(&self) -> &RegisteredFormat {
        &self.0.format
    }

    /// The columns' names, in order.
    #[must_use]
    pub fn columns(&self) -> Vec<String> {
        self.0.set.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// How many records there are, where that is known without reading them.
    #[must_use]
    pub fn known_records(&self) -> Option<u64> {
        self.0.set.splits().iter().map(|split| split.records).sum()
    }

    /// How many splits there are: stretches of records that can be read at the same time, each by a stream of its own.
    #[must_use]
    pub fn splits(&self) -> usize {
        self.0.set.splits().len()
    }

    /// What batches of these columns cannot say of the input, as far as it has been read.
    ///
    /// # Errors
    /// A plugin error, if the reader cannot tell.
    pub fn losses(&self) -> Result<Vec<Loss>> {
        let mut losses = self.0.losses.clone();
        self.0.set.losses(&mut losses)?;
        Ok(losses)
    }

    /// All records in order, as a C data stream.
    #[must_use]
    pub fn stream(&self) -> crate::c_stream::ArrowArrayStream {
        self.stream_of(0..self.splits())
    }

    /// The records of these splits in order, as a C data stream. Splits that are not there have none.
    #[must_use]
    pub fn stream_of(&self, splits: Range<usize>) -> crate::c_stream::ArrowArrayStream {
        crate::c_stream::ArrowArrayStream::new(Box::new(self.reader(splits)))
    }

    /// All records in order, as batches of the crate `arrow-array`, version 60.
    #[cfg(feature = "arrow-60")]
    #[must_use]
    pub fn batches(&self) -> impl RecordBatchReader + Send + 'static {
        self.reader(0..self.splits())
    }

    /// The records of these splits in order, as batches of the crate `arrow-array`, version 60.
    #[cfg(feature = "arrow-60")]
    #[must_use]
    pub fn batches_of(&self, splits: Range<usize>) -> impl RecordBatchReader + Send + 'static {
        self.reader(splits)
    }

    fn reader(&self, splits: Range<usize>) -> Records {
        let splits = splits.start..splits.end.min(self.splits());
        Records { current: None, scan: self.clone(), splits }
    }

    /// Checks that no file of the input has changed since it was opened.
    ///
    /// # Errors
    /// Transient, naming the file that changed.
    pub fn check_unchanged(&self) -> Result<()> {
        self.0.source.check_unchanged()
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan")
            .field("format", &self.0.format.description.id)
            .field("columns", &self.columns())
            .field("splits", &self.splits())
            .finish_non_exhaustive()
    }
}

/// The batches of some splits, one split after the other. After an error nothing follows.
struct Records {
    /// Dropped before the scan that it is of.
    current: Option<Batched>,
    scan: Scan,
    splits: Range<usize>,
}

impl Records {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let opened = &self.scan.0;
        loop {
            opened.session.check_cancelled().map_err(stream_error)?;
            if let Some(batches) = &mut self.current {
                match batches.next().transpose()? {
                    Some(batch) if batch.num_rows() == 0 => {}
                    Some(batch) => return Ok(Some(batch)),
                    None => self.current = None,
                }
            } else if let Some(split) = self.splits.next() {
                let batches = opened.set.stream(split, &Batches::default());
                self.current = Some(batches.map_err(|error| stream_error(opened.place(error)))?);
            } else {
                return Ok(None);
            }
        }
    }
}

impl Opened {
    fn place(&self, error: tensorferry_sdk::Error) -> tensorferry_sdk::Error {
        error.file(self.source.entry_path().display().to_string())
    }
}

impl Iterator for Records {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch();
        if next.is_err() {
            self.current = None;
            self.splits = 0..0;
        }
        next.transpose()
    }
}

impl RecordBatchReader for Records {
    fn schema(&self) -> SchemaRef {
        self.scan.0.set.schema()
    }
}
