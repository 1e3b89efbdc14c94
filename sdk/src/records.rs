//! Records are rows. A reader opens an input as a schema and *splits*, each of which is a stream of
//! Arrow batches; a writer plans files and encodes batches as pieces. As with tensors, neither writes a
//! file: the host pulls, transforms, and puts pieces where they belong, on many threads.
//!
//! [`conformance::check`](crate::conformance::check) holds a format of records to what is written here, in its
//! author's `cargo test`:
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
//! A format whose rows lie one after the other says how one row is decoded ([`DecodeRow`]), and has splits, batches,
//! projection and ranges of rows done for it by [`RowSet`]: the reader of `tests/third-party/rows`, a whole plugin with a
//! schema, lists, sets of files and faults with their places, has 73 lines of code. [`memory::records`](crate::memory::records) reads
//! and writes rows in unit tests.
//!
//! Rows cross the boundary as the Arrow C stream interface has them, and that alone is promised for good. Here they are
//! batches of arrow-rs, behind a feature that is named for its major version, `arrow-60`; its crates are re-exported. A
//! later SDK may offer another version beside it. `records` is the newest one.

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
pub use expansion::{Expanded, Expansion};
pub use predicate::{Bounds, Comparator, Comparison, Value};
pub use projection::{FieldPath, Projection};
pub use row_builder::{Cell, RowBuilder};
pub use row_set::{DecodeRow, RowSet};
pub use scan::{Scan, narrowed, sliced};
pub use sharding::{ShardFiles, Sharding};
pub use stream_set::{StreamSet, c_schema, c_stream};
pub use tensorferry_abi::{ArrowArrayStream, ArrowSchema};
pub use types::{has_type, type_named, type_text, type_word};

use crate::{ByteSink, Context, LossSink, Result, Source, Target};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use std::sync::Arc;

/// The batches of a stream, in order. An error of this crate goes through as
/// [`ArrowError::ExternalError`] and stays what it is across the boundary; see [`stream_error`].
pub type Batched = Box<dyn RecordBatchReader + Send>;

/// A stream of batches with this schema. It calls `next` until that returns `None` or an error, and then drops it.
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

/// Opens inputs of rows.
pub trait RecordReader: Send + Sync {
    /// Finds the schema and the splits; what rows of that schema cannot hold is a loss. The set may keep
    /// the source. For [`Purpose::ONCE`](crate::Purpose::ONCE) schema and splits may be guessed.
    ///
    /// # Errors
    /// Whatever is wrong with the input, with its place.
    fn open(
        &self,
        source: Arc<dyn Source>,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>>;

    /// Checks the framing of every record, and pushes an index of them. A format that has one declares
    /// [`Capabilities::INDEX`](crate::Capabilities::INDEX).
    ///
    /// # Errors
    /// Unsupported, where the format has no index; else whatever is wrong with the input.
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

/// What an index is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Indexed {
    /// Records.
    pub records: u64,
    /// Bytes of the input, once decompressed, framing included.
    pub bytes: u64,
}

/// An opened input of rows. The host calls it from many threads, and streams outlive the calls.
pub trait RecordSet: Send + Sync {
    /// The schema of every batch of every split.
    fn schema(&self) -> SchemaRef;

    /// The splits, in the input's order; together they are all rows.
    fn splits(&self) -> &[Split];

    /// The rows of a split that a [`Scan`] wants, in order. The host may read a split again. A reader that streams all rows
    /// in whole columns drops what is not wanted with [`narrowed`].
    ///
    /// # Errors
    /// A plugin error, if there is no such split or field; whatever is wrong with the input, here or in the stream.
    fn scan(&self, split: usize, scan: &Scan) -> Result<Batched>;

    /// All rows of a split, in order and in whole columns.
    fn stream(&self, split: usize, batches: &Batches) -> Result<Batched> {
        self.scan(split, &batches.clone().into())
    }

    /// At most `most` rows of a split as lines of JSON in the format's own mapping, each line (without a
    /// newline) one write; and how many they were. `None`: the host writes rows as plain objects.
    ///
    /// # Errors
    /// Whatever is wrong with the input; the rows before it were pushed.
    fn json(&self, split: usize, most: u64, output: &mut dyn ByteSink) -> Result<Option<u64>> {
        let _ = (split, most, output);
        Ok(None)
    }

    /// The records that streams have left out so far, where an option lets them go on after errors.
    fn skipped(&self) -> Vec<Skipped> {
        Vec::new()
    }

    /// What rows that were read so far could not hold, beyond the losses of [`RecordReader::open`].
    fn losses(&self, losses: &mut dyn LossSink) -> Result<()> {
        let _ = losses;
        Ok(())
    }
}

/// Rows that can be read without those before them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Split {
    /// The file that they lie in.
    pub file: String,
    /// Where in the file.
    pub offset: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Rows, where that is known without reading them.
    pub records: Option<u64>,
}

/// Which columns a stream reads, and how long its batches are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batches {
    /// The columns that are wanted, by their places in the schema, ascending; `None`: all.
    pub columns: Option<Vec<usize>>,
    /// Rows of one batch, at most.
    pub rows: usize,
    /// Bytes of one batch, roughly; a single row may be longer.
    pub bytes: u64,
}

impl Default for Batches {
    fn default() -> Self {
        Self { columns: None, rows: 8192, bytes: 8 << 20 }
    }
}

/// A record that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The file.
    pub file: String,
    /// The record's number in the file, from 0, where it is known.
    pub record: Option<u64>,
    /// Where it lies in the file, once decompressed.
    pub offset: u64,
    /// What is wrong with it.
    pub why: String,
}

/// Writes rows.
pub trait RecordWriter: Send + Sync {
    /// Plans the files for rows of a schema. `rows`: how many there will be, where that is known.
    ///
    /// # Errors
    /// Usage or unsupported: rows that the format cannot hold at all. What it cannot hold in part is a
    /// loss.
    fn plan(
        &self,
        schema: &SchemaRef,
        rows: Option<u64>,
        target: &Target,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordPlan>>;
}

/// The files of an output: each a head, pieces in order, and a tail. Either all are [named](Self::files) in advance, or
/// they [roll](Self::roll): one follows the other, and they are named when the last one is written.
pub trait RecordPlan: Send + Sync {
    /// The files of a plan that takes the options of [`Sharding`]. They answer [`files`](Self::files),
    /// [`roll`](Self::roll), [`name`](Self::name), [`supersedes`](Self::supersedes) and [`group`](Self::group), unless the
    /// plan does.
    fn shard_files(&self) -> Option<&ShardFiles> {
        None
    }

    /// The files, by relative name, over which the host deals rows; none for a plan that rolls.
    fn files(&self) -> &[String] {
        self.shard_files().map_or(&[], ShardFiles::files)
    }

    /// When a file is full and the next one begins, where their number is not known in advance. The host counts.
    fn roll(&self) -> Option<Roll> {
        self.shard_files().and_then(ShardFiles::roll)
    }

    /// The name of a file of a plan that rolls: asked once there are `count` files, at least one.
    ///
    /// # Errors
    /// Unsupported, if there are too many; a plugin error, for a plan that does not roll.
    fn name(&self, file: usize, count: usize) -> Result<String> {
        let files = self.shard_files().ok_or_else(|| crate::Error::plugin("a plan that does not roll"))?;
        files.name(file, count)
    }

    /// Patterns of the names that files of an older output may have, such as shards of another number: with `--force`
    /// they go when these come.
    fn supersedes(&self) -> &[String] {
        self.shard_files().map_or(&[], ShardFiles::supersedes)
    }

    /// How many rows make a piece.
    fn group(&self) -> Group {
        let usual = Group::default();
        self.shard_files().map_or(usual, |files| files.group(usual))
    }

    /// The head of a file.
    fn begin(&self, file: usize, output: &mut dyn ByteSink) -> Result<()> {
        let _ = (file, output);
        Ok(())
    }

    /// Encodes rows as a piece that depends on no other and on no file: many are encoded at once, and where a piece
    /// comes to lie is decided afterwards. The same rows give the same bytes and losses. Returns what
    /// [`finish`](Self::finish) has to know of the piece.
    ///
    /// # Errors
    /// Unsupported, for a value that the format cannot hold; whatever `output` gives.
    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>>;

    /// Notes for the user about the rows that were encoded; the host asks once, after the last piece.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// The tail of a file whose pieces lie in it.
    ///
    /// # Errors
    /// A plugin error, for a note that is not its own; whatever `output` gives.
    fn finish(&self, file: usize, pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
        let _ = (file, pieces, output);
        Ok(())
    }

    /// The names of files over all others, such as a list of shards: they become visible last.
    fn sealed(&self) -> &[String] {
        &[]
    }

    /// All bytes of one of [`sealed`](Self::sealed), once all files are finished.
    fn seal(&self, sealed: usize, files: &[WrittenFile], output: &mut dyn ByteSink) -> Result<()> {
        let _ = (sealed, files, output);
        Err(crate::Error::plugin("a plan that seals nothing"))
    }
}

/// When a file of a plan that rolls is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Roll {
    /// It has so many rows, at least one.
    Rows(u64),
    /// With the next piece it would have more than so many bytes. It has one piece at least.
    Bytes(u64),
}

/// A file that is finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its pieces, in order.
    pub pieces: Vec<PlacedPiece>,
}

impl WrittenFile {
    /// Its rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.rows).sum()
    }
}

/// How many rows make a piece: whichever of the two is reached first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Rows.
    pub rows: usize,
    /// Bytes of the rows in memory.
    pub bytes: u64,
}

impl Default for Group {
    fn default() -> Self {
        Self { rows: 65_536, bytes: 4 << 20 }
    }
}

/// A piece where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedPiece {
    /// Its first byte in the file.
    pub offset: u64,
    /// Its bytes.
    pub len: u64,
    /// Its rows.
    pub rows: u64,
    /// What [`RecordPlan::encode`] returned.
    pub note: Vec<u8>,
}

/// An error as a stream gives it.
#[must_use]
pub fn stream_error(error: crate::Error) -> ArrowError {
    ArrowError::ExternalError(Box::new(error))
}

/// The error that a stream gave: its own, where it came from [`stream_error`], else one of a malformed
/// input.
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
