//! Records are rows. A reader opens an input and returns its schema and its *splits*. Each split is
//! a stream of Arrow batches. A writer plans files and encodes batches as pieces. The plugin does
//! not write any files. On many threads, the host pulls batches, transforms them, and writes the
//! pieces to their files.
//!
//! When a plugin's author runs `cargo test`, [`conformance::check`](crate::conformance::check)
//! checks that a record format follows these rules:
//!
//! ```no_run
//! # use tensorferry_sdk::{Format, conformance::{Preset, Sample, check}, Side};
//! # fn test(format: impl Format) {
//! let sample = Sample::file("a.rows", *b"...").holding(&["id", "word"]).of_rows(3);
//! let report = check(&Preset::new(format).with(Side::Writer, "codec", "gzip"), &[sample]);
//! assert!(report.rows == 3 && report.damaged > 0 && report.written > 0);
//! # }
//! ```
//!
//! If the rows of a format are stored sequentially, the plugin only needs to decode a single row
//! ([`DecodeRow`]). [`RowSet`] adds splits, batches, projection and ranges of rows. For example,
//! the complete reader in `tests/third-party/rows` supports a schema, lists, sets of files, and
//! errors with locations, in 73 lines of code. [`memory::records`](crate::memory::records) reads
//! and writes rows in unit tests.
//!
//! Rows cross the boundary through the Arrow C stream interface. Only that interface is guaranteed
//! to remain stable. In this module, rows are arrow-rs batches. The name of the feature for this
//! module, `arrow-60`, contains the major version of arrow-rs. The crates of arrow-rs are
//! re-exported. A later SDK may also support other versions. The feature `records` always selects
//! the newest version.

pub(crate) mod c_data;
pub(crate) mod c_import;
mod c_shape;
mod columns;
mod cursor;
mod dictionary_nulls;
mod expansion;
#[cfg(feature = "arrow-json-60")]
pub mod json;
mod predicate;
mod projection;
mod row_builder;
mod row_set;
mod scan;
mod sharding;
mod stream_set;
mod types;
#[cfg(feature = "arrow-json-60")]
pub mod value_text;

pub use columns::difference;
pub use cursor::{FileCursor, RowBytes};
pub use dictionary_nulls::nulls_in_keys;
pub use expansion::{ExpandedBytes, ExpansionLimit};
pub use predicate::{Bounds, Comparator, ComparedValue, Comparison};
pub use projection::{FieldPath, Projection};
pub use row_builder::{Cell, RowBuilder};
pub use row_set::{DecodeRow, RowSet};
pub use scan::{ScanRequest, narrowed, sliced};
pub use sharding::{ShardFiles, Sharding};
pub use stream_set::{StreamSet, c_schema, c_stream};
pub use tensorferry_abi::{ArrowArrayStream, ArrowSchema};
pub use types::{has_type, type_named, type_text, type_word};

use crate::{ByteSink, Context, LossSink, Result, Source, Target};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use std::sync::Arc;

/// The batches of a stream, in order. An error of this crate is wrapped as
/// [`ArrowError::ExternalError`], and keeps its kind and details across the boundary. See
/// [`stream_error`].
pub type BatchStream = Box<dyn RecordBatchReader + Send>;

/// Creates a stream of batches with this schema. The stream calls `next` until it returns `None` or
/// an error, and then drops `next`.
#[must_use]
pub fn batches(
    schema: SchemaRef,
    next: impl FnMut() -> Result<Option<RecordBatch>> + Send + 'static,
) -> BatchStream {
    let mut next = Some(next);
    let pull = move || {
        let batch = next.as_mut()?();
        if !matches!(batch, Ok(Some(_))) {
            next = None;
        }
        batch.map_err(stream_error).transpose()
    };
    Box::new(RecordBatchIterator::new(std::iter::from_fn(pull), schema))
}

/// A reader of rows, which opens inputs.
pub trait RecordReader: Send + Sync {
    /// Determines the schema and the splits of an input. Content that rows with that schema cannot
    /// represent is a loss. The returned set may keep the source. For
    /// [`Purpose::ONCE`](crate::Purpose::ONCE), the reader may guess the schema and the splits.
    ///
    /// # Errors
    /// Returns an error with a location if the input is malformed or unsupported, exceeds a limit,
    /// or cannot be read.
    fn open(
        &self,
        source: Arc<dyn Source>,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>>;

    /// Checks the framing of every record, and writes an index of the records to a sink. A format
    /// with an index declares [`Capabilities::INDEX`](crate::Capabilities::INDEX).
    ///
    /// # Errors
    /// Returns an unsupported error if the format has no index, or an error if the input is
    /// malformed or cannot be read.
    fn index(
        &self,
        source: &dyn Source,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<IndexTotals> {
        let _ = (source, output, context);
        Err(crate::Error::unsupported("this format has no index"))
    }
}

/// The part of the input that an index covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexTotals {
    /// Number of records.
    pub records: u64,
    /// Size of the decompressed input in bytes, including framing.
    pub bytes: u64,
}

/// An opened input of rows. The host calls the set from many threads. Streams may outlive the calls
/// that created them.
pub trait RecordSet: Send + Sync {
    /// Returns the schema, which applies to every batch of every split.
    fn schema(&self) -> SchemaRef;

    /// Returns the splits, in the order of the input. Together, the splits contain all rows.
    fn splits(&self) -> &[Split];

    /// Returns a stream of the rows that a [`ScanRequest`] requests from a split, in order. The
    /// host may read a split several times. A reader that streams all rows in whole columns can
    /// select the requested part with [`narrowed`].
    ///
    /// # Errors
    /// Returns a plugin error if the split or a field does not exist. Errors in the input may be
    /// returned either by this function or by the stream.
    fn scan(&self, split: usize, scan: &ScanRequest) -> Result<BatchStream>;

    /// Returns a stream of all rows in a split, in order and with whole columns.
    fn stream(&self, split: usize, batches: &Batches) -> Result<BatchStream> {
        self.scan(split, &batches.clone().into())
    }

    /// Writes up to `max` rows of a split as JSON lines in the format's own JSON form. Returns the
    /// number of rows that were written. Each write to the sink must be one line without a newline.
    /// Return `None` to let the host write rows as plain objects.
    ///
    /// # Errors
    /// Returns an error if the input is malformed or cannot be read. The rows before the error have
    /// already been written.
    fn json(&self, split: usize, max: u64, output: &mut dyn ByteSink) -> Result<Option<u64>> {
        let _ = (split, max, output);
        Ok(None)
    }

    /// Returns the records that streams have skipped so far. Streams skip records only if an option
    /// lets them continue after errors.
    fn skipped(&self) -> Vec<SkippedRecord> {
        Vec::new()
    }

    /// Reports content that the rows read so far could not represent. The losses of
    /// [`RecordReader::open`] are not repeated.
    fn losses(&self, losses: &mut dyn LossSink) -> Result<()> {
        let _ = losses;
        Ok(())
    }
}

/// A run of rows that can be read without reading the rows before it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Split {
    /// File that contains the rows.
    pub file: String,
    /// Offset of the first row in the file.
    pub offset: u64,
    /// Number of bytes in the file that the split covers.
    pub bytes: u64,
    /// Number of rows, or `None` if it is not known before the rows are read.
    pub records: Option<u64>,
}

/// The columns of a stream, and the size of its batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batches {
    /// Requested columns, as ascending indices into the schema. `None` means all columns.
    pub columns: Option<Vec<usize>>,
    /// Maximum number of rows in a batch.
    pub rows: usize,
    /// Approximate size of a batch in bytes. A single row may be larger.
    pub bytes: u64,
}

impl Default for Batches {
    fn default() -> Self {
        Self { columns: None, rows: 8192, bytes: 8 << 20 }
    }
}

/// A record that a stream skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRecord {
    /// File that contains the record.
    pub file: String,
    /// Number of the record in the file, counted from 0, if it is known.
    pub record: Option<u64>,
    /// Offset of the record in the decompressed file.
    pub offset: u64,
    /// Reason why the record was skipped.
    pub why: String,
}

/// A writer of rows, which plans outputs.
pub trait RecordWriter: Send + Sync {
    /// Plans the files for rows of a schema. `rows` is the number of rows if it is known.
    ///
    /// # Errors
    /// Returns a usage or unsupported error if the format cannot store the rows in any form. If the
    /// format cannot store part of the content, report that part as a loss instead.
    fn plan(
        &self,
        schema: &SchemaRef,
        rows: Option<u64>,
        target: &Target,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordPlan>>;
}

/// The files of an output. Each file consists of a head, pieces in order, and a tail. A plan either
/// [names](Self::files) all files in advance or [rolls](Self::roll). A plan that rolls starts new
/// files as needed, and names them when the last file is complete.
pub trait RecordPlan: Send + Sync {
    /// Returns the files of a plan that uses the options of [`Sharding`]. The default
    /// implementations of [`files`](Self::files), [`roll`](Self::roll), [`name`](Self::name),
    /// [`supersedes`](Self::supersedes) and [`group`](Self::group) use the result.
    fn shard_files(&self) -> Option<&ShardFiles> {
        None
    }

    /// Returns the relative names of the files over which the host distributes rows. The result is
    /// empty for a plan that rolls.
    fn files(&self) -> &[String] {
        self.shard_files().map_or(&[], ShardFiles::files)
    }

    /// Returns the condition for starting a new file if the plan does not know the number of files
    /// in advance. The host counts the rows and bytes.
    fn roll(&self) -> Option<Roll> {
        self.shard_files().and_then(ShardFiles::roll)
    }

    /// For a plan that rolls, returns the name of a file. The host calls this function when the
    /// number of files, `count`, is known. `count` is at least one.
    ///
    /// # Errors
    /// Returns an unsupported error if there are too many files, or a plugin error if the plan does
    /// not roll.
    fn name(&self, file: usize, count: usize) -> Result<String> {
        let files = self.shard_files().ok_or_else(|| crate::Error::plugin("this plan does not roll"))?;
        files.name(file, count)
    }

    /// Returns patterns for the names of files from an older output, such as an older set with a
    /// different number of shards. With `--force`, the host removes these files when it commits the
    /// new files.
    fn supersedes(&self) -> &[String] {
        self.shard_files().map_or(&[], ShardFiles::supersedes)
    }

    /// Returns the number of rows in a piece.
    fn group(&self) -> Group {
        let usual = Group::default();
        self.shard_files().map_or(usual, |files| files.group(usual))
    }

    /// Writes the beginning of a file.
    fn begin(&self, file: usize, output: &mut dyn ByteSink) -> Result<()> {
        let _ = (file, output);
        Ok(())
    }

    /// Encodes rows as a piece. A piece must not depend on any other piece or on its file. The host
    /// encodes many pieces concurrently, and chooses their positions afterward. The same rows must
    /// produce the same bytes and losses. Returns a note for [`finish`](Self::finish).
    ///
    /// # Errors
    /// Returns an unsupported error for a value that the format cannot store, or an error from
    /// `output`.
    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>>;

    /// Returns notes for the user about the rows that were encoded. The host calls this function
    /// once, after the last piece.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Writes the end of a file that contains these pieces.
    ///
    /// # Errors
    /// Returns a plugin error for a note that the plan did not create, or an error from `output`.
    fn finish(&self, file: usize, pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
        let _ = (file, pieces, output);
        Ok(())
    }

    /// Returns the names of the files that describe all other files, such as a list of shards.
    /// These files become visible last.
    fn sealed(&self) -> &[String] {
        &[]
    }

    /// Writes a complete [`sealed`](Self::sealed) file, after all other files are finished.
    fn seal(&self, sealed: usize, files: &[WrittenFile], output: &mut dyn ByteSink) -> Result<()> {
        let _ = (sealed, files, output);
        Err(crate::Error::plugin("this plan does not seal files"))
    }
}

/// The condition for starting a new file in a plan that rolls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Roll {
    /// The current file contains this number of rows, which is at least one.
    Rows(u64),
    /// The next piece would make the current file longer than this number of bytes. Each file
    /// contains at least one piece.
    Bytes(u64),
}

/// A finished file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// Name of the file.
    pub name: String,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Pieces of the file, in order.
    pub pieces: Vec<PlacedPiece>,
}

impl WrittenFile {
    /// Returns the number of rows in the file.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.rows).sum()
    }
}

/// The size of a piece. A piece ends at the limit that is reached first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Number of rows.
    pub rows: usize,
    /// Number of bytes that the rows use in memory.
    pub bytes: u64,
}

impl Default for Group {
    fn default() -> Self {
        Self { rows: 65_536, bytes: 4 << 20 }
    }
}

/// A piece and its location in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedPiece {
    /// Offset of the piece's first byte in the file.
    pub offset: u64,
    /// Length of the piece in bytes.
    pub len: u64,
    /// Number of rows in the piece.
    pub rows: u64,
    /// The note that [`RecordPlan::encode`] returned.
    pub note: Vec<u8>,
}

/// Wraps an error so that a stream can return it.
#[must_use]
pub fn stream_error(error: crate::Error) -> ArrowError {
    ArrowError::ExternalError(Box::new(error))
}

/// Returns the error inside a stream's error. If [`stream_error`] created the stream's error, the
/// result is the original error. Otherwise, the result is a malformed-data error.
#[must_use]
pub fn from_stream(error: ArrowError) -> crate::Error {
    match error {
        ArrowError::ExternalError(inner) => match inner.downcast::<crate::Error>() {
            Ok(own) => *own,
            Err(other) => crate::Error::malformed(other.to_string()),
        },
        ArrowError::IoError(_, io) => crate::Error::from(io),
        other => crate::Error::malformed(other.to_string()),
    }
}
