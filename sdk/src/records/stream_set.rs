//! Exchanges rows with code that uses a different major version of arrow-rs, a different Arrow
//! library, or no Arrow library. The rows pass through the Arrow C stream interface, which all
//! versions share.
//!
//! | From another arrow-rs | To |
//! |---|---|
//! | `FFI_ArrowSchema` | [`ArrowSchema::from_raw`] |
//! | `FFI_ArrowArrayStream` | [`ArrowArrayStream::from_raw`] |
//! | [`c_stream`], [`c_schema`] | `ArrowArrayStreamReader::from_raw`, `FFI_ArrowSchema::from_raw` |

use super::c_data::{schema_from_abi, schema_to_abi, stream_to_abi};
use super::c_import::CStream;
use super::{BatchStream, Batches, RecordSet, ScanRequest, Split, from_stream, narrowed};
use crate::{Error, Result, records};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{Schema, SchemaRef};
use tensorferry_abi::{ArrowArrayStream, ArrowSchema};

/// A set of rows whose splits are C streams. The set implements ranges of rows, columns, struct
/// fields, comparisons and batch sizes.
pub struct StreamSet<F> {
    schema: SchemaRef,
    splits: Vec<Split>,
    open: F,
}

impl<F: Fn(usize, &Batches) -> Result<ArrowArrayStream> + Send + Sync> StreamSet<F> {
    /// Creates a set with this schema. `open` must return all rows of the split with the given
    /// number, in order. The rows must have either all columns or the columns in
    /// [`Batches::columns`]. `open` may be called several times, on any thread. If a stream fails,
    /// the set returns a malformed-data error with the stream's message and the split's file.
    ///
    /// # Errors
    /// Returns a plugin error if the schema does not describe rows.
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

    fn scan(&self, split: usize, scan: &ScanRequest) -> Result<BatchStream> {
        let batches = scan.batches();
        let of = self.splits.get(split).ok_or_else(|| Error::plugin(format!("no split {split}")))?;
        let wanted = batches.columns.as_deref().map_or(Ok(self.schema.as_ref().clone()), |columns| {
            self.schema.project(columns).map_err(|e| Error::plugin(e.to_string()))
        })?;
        let mut stream = CStream::new((self.open)(split, &batches)?)?;
        let columns = match stream.schema() {
            found if *found == wanted => None,
            found if found == self.schema => batches.columns,
            found => {
                let error =
                    Error::plugin("the columns of a stream differ from those of its set").file(&of.file);
                return Err(error.expected(names(&wanted)).found(names(&found)));
            }
        };
        let (max, file) = (scan.rows.max(1), of.file.clone());
        // The remaining rows of a batch that is too long.
        let mut rest: Option<RecordBatch> = None;
        let rows = records::batches(wanted.into(), move || {
            let batch = match rest.take() {
                Some(rest) => Ok(Some(rest)),
                None => stream.next().transpose().and_then(|batch| match (batch, &columns) {
                    (Some(batch), Some(columns)) => batch.project(columns).map(Some),
                    (batch, _) => Ok(batch),
                }),
            };
            let batch = batch.map_err(|error| from_stream(error).file(&file))?;
            Ok(batch.map(|batch| {
                let rows = batch.num_rows().min(max);
                rest = (rows < batch.num_rows()).then(|| batch.slice(rows, batch.num_rows() - rows));
                batch.slice(0, rows)
            }))
        });
        narrowed(rows, &self.schema, scan)
    }
}

/// Lists the columns of a schema for a message.
fn names(schema: &Schema) -> String {
    let column =
        |field: &arrow_schema::FieldRef| format!("{}: {}", field.name(), super::type_text(field.data_type()));
    schema.fields().iter().map(column).collect::<Vec<_>>().join(", ")
}

/// Converts a schema for a writer that uses a different Arrow library.
///
/// # Errors
/// Returns a plugin error for a type that the C interface cannot represent.
pub fn c_schema(schema: &Schema) -> Result<ArrowSchema> {
    schema_to_abi(schema)
}

/// Returns the batches of a piece as a C stream, for a writer that uses a different Arrow library.
/// The stream shares the memory of the rows.
#[must_use]
pub fn c_stream(schema: &SchemaRef, batches: &[RecordBatch]) -> ArrowArrayStream {
    // The stream may live longer than the slice.
    let owned = batches.to_vec();
    stream_to_abi(Box::new(RecordBatchIterator::new(owned.into_iter().map(Ok), schema.clone())))
}
