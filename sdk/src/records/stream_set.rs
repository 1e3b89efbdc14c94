//! Rows of another Arrow than this crate's: of another major version of arrow-rs, of another library, or made by hand. They come
//! and go as the C stream interface has them, which all versions share.
//!
//! | From another arrow-rs | To |
//! |---|---|
//! | `FFI_ArrowSchema` | [`ArrowSchema::from_raw`] |
//! | `FFI_ArrowArrayStream` | [`ArrowArrayStream::from_raw`] |
//! | [`c_stream`], [`c_schema`] | `ArrowArrayStreamReader::from_raw`, `FFI_ArrowSchema::from_raw` |

use super::c_data::{schema_from_abi, schema_to_abi, stream_to_abi};
use super::c_import::CStream;
use super::{Batched, Batches, RecordSet, Scan, Split, from_stream, narrowed, stream_error};
use crate::{Error, Result};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use tensorferry_abi::{ArrowArrayStream, ArrowSchema};

/// A set of rows whose splits are C streams. Ranges of rows, columns, fields of structs, comparisons and the length of batches
/// are done behind them.
pub struct StreamSet<F> {
    schema: SchemaRef,
    splits: Vec<Split>,
    open: F,
}

impl<F: Fn(usize, &Batches) -> Result<ArrowArrayStream> + Send + Sync> StreamSet<F> {
    /// A set of this schema. `open` gives all rows of the split of a number, in order, either in all columns or in those
    /// that [`Batches::columns`] names; it may be asked again, on any thread. What a stream fails with is a malformed input,
    /// with its own text and the split's file.
    ///
    /// # Errors
    /// A plugin error, for a schema that is not one of rows.
    pub fn new(schema: ArrowSchema, splits: Vec<Split>, open: F) -> Result<Self> {
        Ok(Self { schema: schema_from_abi(schema)?, splits, open })
    }
}

impl<F: Fn(usize, &Batches) -> Result<ArrowArrayStream> + Send + Sync> RecordSet for StreamSet<F> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    fn scan(&self, split: usize, scan: &Scan) -> Result<Batched> {
        let batches = scan.batches();
        let of = self.splits.get(split).ok_or_else(|| Error::plugin(format!("there is no split {split}")))?;
        let wanted = batches.columns.as_deref().map_or(Ok(self.schema.as_ref().clone()), |columns| {
            self.schema.project(columns).map_err(|e| Error::plugin(e.to_string()))
        })?;
        let stream = CStream::new((self.open)(split, &batches)?)?;
        let columns = match stream.schema() {
            found if *found == wanted => None,
            found if found == self.schema => batches.columns,
            found => {
                let error = Error::plugin("a stream has other columns than its set").file(&of.file);
                return Err(error.expected(names(&wanted)).found(names(&found)));
            }
        };
        let rows = Rows {
            stream: Box::new(stream),
            schema: wanted.into(),
            columns,
            rows: scan.rows.max(1),
            file: of.file.clone(),
            rest: None,
        };
        narrowed(Box::new(rows), &self.schema, scan)
    }
}

/// The columns of a schema as people read them.
fn names(schema: &Schema) -> String {
    let column =
        |field: &arrow_schema::FieldRef| format!("{}: {}", field.name(), super::type_text(field.data_type()));
    schema.fields().iter().map(column).collect::<Vec<_>>().join(", ")
}

/// A stream in the columns that are wanted, in batches that are no longer than was asked for.
struct Rows {
    stream: Batched,
    schema: SchemaRef,
    /// The wanted columns of a stream that has others too.
    columns: Option<Vec<usize>>,
    rows: usize,
    file: String,
    /// What is left of a batch that is too long.
    rest: Option<RecordBatch>,
}

impl Rows {
    fn pull(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        let batch = self.stream.next()?.and_then(|batch| match &self.columns {
            Some(columns) => batch.project(columns),
            None => Ok(batch),
        });
        Some(batch.map_err(|error| stream_error(from_stream(error).file(&self.file))))
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match self.pull()? {
                Ok(batch) => batch,
                failed => return Some(failed),
            },
        };
        if batch.num_rows() <= self.rows {
            return Some(Ok(batch));
        }
        self.rest = Some(batch.slice(self.rows, batch.num_rows() - self.rows));
        Some(Ok(batch.slice(0, self.rows)))
    }
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// A schema, for a writer that has another Arrow.
///
/// # Errors
/// A plugin error, for a type that the C interface has no word for.
pub fn c_schema(schema: &Schema) -> Result<ArrowSchema> {
    schema_to_abi(schema)
}

/// The batches of a piece, for a writer that has another Arrow. They share the rows' memory.
#[must_use]
pub fn c_stream(schema: &SchemaRef, batches: &[RecordBatch]) -> ArrowArrayStream {
    // The stream outlives the slice, as far as its owner knows.
    let owned = batches.to_vec();
    stream_to_abi(Box::new(RecordBatchIterator::new(owned.into_iter().map(Ok), schema.clone())))
}
