//! Records are rows. A reader opens an input as a schema and *splits*, each of which is a stream of
//! Arrow batches. A writer plans files and encodes batches as pieces. As with tensors, neither
//! writes a file: the host pulls batches, transforms them, and puts pieces into place, on many
//! threads.
//!
//! [`conformance::check`](crate::conformance::check) checks a format of records against these
//! rules, in the `cargo test` of the plugin:
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
//! A format whose rows follow one another only implements the decoding of one row ([`DecodeRow`]).
//! [`RowSet`] adds splits, batches, projection and ranges of rows. With it, the reader of
//! `tests/third-party/rows`, a whole plugin with a schema, lists, sets of files and errors with
//! their locations, has 73 lines of code. [`memory::records`](crate::memory::records) reads and
//! writes rows in unit tests.
//!
//! Rows cross the boundary through the Arrow C stream interface. Only that interface is guaranteed
//! to stay stable. In this module, rows are batches of arrow-rs, behind a feature that is named for
//! its major version, `arrow-60`. The crates of arrow-rs are re-exported. A later SDK may also
//! offer other versions. The feature `records` is the newest one.

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
/// [`ArrowError::ExternalError`] and keeps its kind and details across the boundary; see
/// [`stream_error`].
pub type Batched = Box<dyn RecordBatchReader + Send>;

/// Creates a stream of batches with this schema. It calls `next` until that returns `None` or an
/// error, and then drops it.
#[must_use]
pub fn batches(
    schema: SchemaRef,
    next: impl FnMut() -> Result<Option<RecordBatch>> + Send + 'static,
) -> Batched {
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

/// A reader of rows: opens inputs.
pub trait RecordReader: Send + Sync {
    /// Determines the schema and the splits. Content that rows of that schema cannot represent is a
    /// loss. The set may keep the source. For [`Purpose::ONCE`](crate::Purpose::ONCE), schema and
    /// splits may be guessed.
    ///
    /// # Errors
    /// Returns an error with its location if the input is malformed, unsupported or over a limit,
    /// or cannot be read.
    fn open(
        &self,
        source: Arc<dyn Source>,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>>;

    /// Checks the framing of every record, and pushes an index of the records. A format with an
    /// index declares [`Capabilities::INDEX`](crate::Capabilities::INDEX).
    ///
    /// # Errors
    /// Returns an unsupported error if the format has no index, or an error if the input is
    /// malformed or cannot be read.
    fn index(
        &self,
        source: &dyn Source,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<Indexed> {
        let _ = (source, output, context);
        Err(crate::Error::unsupported("this format has no index"))
    }
}

/// The extent of the input that an index covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Indexed {
    /// Number of records.
    pub records: u64,
    /// Bytes of the decompressed input, including framing.
    pub bytes: u64,
}

/// An opened input of rows. The host calls it from many threads, and streams outlive the calls.
pub trait RecordSet: Send + Sync {
    /// Returns the schema of every batch of every split.
    fn schema(&self) -> SchemaRef;

    /// Returns the splits, in the order of the input. Together they contain all rows.
    fn splits(&self) -> &[Split];

    /// Returns a stream of the rows of a split that a [`ScanRequest`] requests, in order. The host may
    /// read a split several times. A reader that streams all rows in whole columns can drop the
    /// rest with [`narrowed`].
    ///
    /// # Errors
    /// Returns a plugin error if there is no such split or field. Errors in the input may be
    /// returned here or by the stream.
    fn scan(&self, split: usize, scan: &ScanRequest) -> Result<Batched>;

    /// Returns a stream of all rows of a split, in order and in whole columns.
    fn stream(&self, split: usize, batches: &Batches) -> Result<Batched> {
        self.scan(split, &batches.clone().into())
    }

    /// Writes at most `most` rows of a split as JSON lines in the format's own mapping, and returns
    /// the number of rows that it wrote. Each line, without a newline, is one write. Return `None`
    /// to let the host write rows as plain objects.
    ///
    /// # Errors
    /// Returns an error if the input is malformed or cannot be read. The rows before it were
    /// written.
    fn json(&self, split: usize, max: u64, output: &mut dyn ByteSink) -> Result<Option<u64>> {
        let _ = (split, max, output);
        Ok(None)
    }

    /// Returns the records that streams have skipped so far, if an option lets them continue after
    /// errors.
    fn skipped(&self) -> Vec<Skipped> {
        Vec::new()
    }

    /// Reports content that the rows read so far could not represent, in addition to the losses of
    /// [`RecordReader::open`].
    fn losses(&self, losses: &mut dyn LossSink) -> Result<()> {
        let _ = losses;
        Ok(())
    }
}

/// A run of rows that can be read without the rows before them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Split {
    /// File that contains the rows.
    pub file: String,
    /// Offset of the first row in the file.
    pub offset: u64,
    /// Bytes of the file that the split covers.
    pub bytes: u64,
    /// Number of rows, if it is known without reading them.
    pub records: Option<u64>,
}

/// The columns that a stream reads, and the length of its batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batches {
    /// Requested columns as indices into the schema, ascending; `None` means all.
    pub columns: Option<Vec<usize>>,
    /// Maximum rows of one batch.
    pub rows: usize,
    /// Approximate bytes of one batch; a single row may be longer.
    pub bytes: u64,
}

impl Default for Batches {
    fn default() -> Self {
        Self { columns: None, rows: 8192, bytes: 8 << 20 }
    }
}

/// A record that was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// File that contains the record.
    pub file: String,
    /// Number of the record in the file, from 0, if known.
    pub record: Option<u64>,
    /// Offset in the decompressed file.
    pub offset: u64,
    /// Why the record was skipped.
    pub why: String,
}

/// A writer of rows: plans outputs.
pub trait RecordWriter: Send + Sync {
    /// Plans the files for rows of a schema. `rows` is the number of rows, if known.
    ///
    /// # Errors
    /// Returns a usage or unsupported error for rows that the format cannot store at all. Report
    /// content that it cannot store as a loss.
    fn plan(
        &self,
        schema: &SchemaRef,
        rows: Option<u64>,
        target: &Target,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordPlan>>;
}

/// The files of an output, each of which is a head, pieces in order, and a tail. Either all files
/// are [named](Self::files) in advance, or they [roll](Self::roll): one follows another, and they
/// are named when the last one is complete.
pub trait RecordPlan: Send + Sync {
    /// Returns the files of a plan that uses the options of [`Sharding`]. The default
    /// implementations of [`files`](Self::files), [`roll`](Self::roll), [`name`](Self::name),
    /// [`supersedes`](Self::supersedes) and [`group`](Self::group) use the returned value.
    fn shard_files(&self) -> Option<&ShardFiles> {
        None
    }

    /// Returns the relative names of the files over which the host distributes rows; empty for a
    /// plan that rolls.
    fn files(&self) -> &[String] {
        self.shard_files().map_or(&[], ShardFiles::files)
    }

    /// Returns when a file is full and the next one begins, if the number of files is not known in
    /// advance. The host does the counting.
    fn roll(&self) -> Option<Roll> {
        self.shard_files().and_then(ShardFiles::roll)
    }

    /// Returns the name of a file of a plan that rolls. The host calls this once the number of
    /// files, `count`, is known. It is at least one.
    ///
    /// # Errors
    /// Returns an unsupported error if there are too many files, or a plugin error if the plan does
    /// not roll.
    fn name(&self, file: usize, count: usize) -> Result<String> {
        let files = self.shard_files().ok_or_else(|| crate::Error::plugin("this plan does not roll"))?;
        files.name(file, count)
    }

    /// Returns patterns of names of files of an older output, such as shards of a different count.
    /// With `--force` they are removed when the new files are committed.
    fn supersedes(&self) -> &[String] {
        self.shard_files().map_or(&[], ShardFiles::supersedes)
    }

    /// Returns how many rows make a piece.
    fn group(&self) -> Group {
        let usual = Group::default();
        self.shard_files().map_or(usual, |files| files.group(usual))
    }

    /// Writes the head of a file.
    fn begin(&self, file: usize, output: &mut dyn ByteSink) -> Result<()> {
        let _ = (file, output);
        Ok(())
    }

    /// Encodes rows as a piece that does not depend on any other piece or on its file. Many pieces
    /// are encoded at once, and their positions are decided afterwards. The same rows must give the
    /// same bytes and losses. Returns a note for [`finish`](Self::finish).
    ///
    /// # Errors
    /// Returns an unsupported error for a value that the format cannot store, or an error of
    /// `output`.
    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>>;

    /// Returns notes for the user about the rows that were encoded. The host calls this once, after
    /// the last piece.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Writes the tail of a file with these pieces.
    ///
    /// # Errors
    /// Returns a plugin error for a note that the plan did not create, or an error of `output`.
    fn finish(&self, file: usize, pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
        let _ = (file, pieces, output);
        Ok(())
    }

    /// Returns the names of files that describe all others, such as a list of shards. They become
    /// visible last.
    fn sealed(&self) -> &[String] {
        &[]
    }

    /// Writes all bytes of one of the [`sealed`](Self::sealed) files, once all other files are
    /// finished.
    fn seal(&self, sealed: usize, files: &[WrittenFile], output: &mut dyn ByteSink) -> Result<()> {
        let _ = (sealed, files, output);
        Err(crate::Error::plugin("this plan does not seal files"))
    }
}

/// The point at which a plan that rolls starts a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Roll {
    /// The file has this many rows, at least one.
    Rows(u64),
    /// The next piece would make the file longer than this many bytes. A file has at least one
    /// piece.
    Bytes(u64),
}

/// A finished file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// Name of the file.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Pieces, in order.
    pub pieces: Vec<PlacedPiece>,
}

impl WrittenFile {
    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.rows).sum()
    }
}

/// The size of a piece: the limit that is reached first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Number of rows.
    pub rows: usize,
    /// Bytes of the rows in memory.
    pub bytes: u64,
}

impl Default for Group {
    fn default() -> Self {
        Self { rows: 65_536, bytes: 4 << 20 }
    }
}

/// A piece and its location in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedPiece {
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Number of rows.
    pub rows: u64,
    /// Note that [`RecordPlan::encode`] returned.
    pub note: Vec<u8>,
}

/// Wraps an error for a stream.
#[must_use]
pub fn stream_error(error: crate::Error) -> ArrowError {
    ArrowError::ExternalError(Box::new(error))
}

/// Returns the error that a stream's error contains: the original error if it came from
/// [`stream_error`], otherwise a malformed error.
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
