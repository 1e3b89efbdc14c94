//! Streams the rows of consecutive batches.

use super::{OpenFile, decode, unify};
use std::ops::Range;
use tensorferry_sdk::arrow_array::{RecordBatch, RecordBatchOptions};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, SchemaRef};
use tensorferry_sdk::records::{self, BatchStream, ExpandedBytes, ScanRequest, nulls_in_keys};
use tensorferry_sdk::{Error, Limits, Result};

/// A callback that receives the total number of expanded bytes. If it returns an error, the stream
/// ends.
pub(super) type CountBytes = Box<dyn Fn(ExpandedBytes) -> Result<()> + Send>;

/// Streams the requested rows and columns. Only whole columns can be requested.
pub(super) fn open(
    file: OpenFile,
    batches: Range<usize>,
    schema: &SchemaRef,
    scan: &ScanRequest,
    limits: &Limits,
    count_bytes: CountBytes,
) -> Result<BatchStream> {
    let all = || (0..schema.fields().len()).collect();
    let columns: Vec<usize> = scan.batches().columns.unwrap_or_else(all);
    let schema = schema.project(&columns).map_err(|error| Error::plugin(error.to_string()))?;
    let has_dictionaries = schema.flattened_fields().iter().any(|field| has_dictionary(field.data_type()));
    let schema: SchemaRef = schema.into();
    let mut stream = Stream {
        file,
        batches,
        columns,
        schema: schema.clone(),
        has_dictionaries,
        skip: scan.first_row,
        left: scan.limit.unwrap_or(u64::MAX),
        rows: scan.rows.max(1),
        bytes: scan.bytes.max(1),
        counted: ExpandedBytes::default(),
        count_bytes,
        limits: limits.clone(),
        rest: None,
    };
    Ok(records::batches(schema, move || stream.next_batch()))
}

fn has_dictionary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(..) | DataType::RunEndEncoded(..))
}

struct Stream {
    file: OpenFile,
    /// Batches that have not been read.
    batches: Range<usize>,
    columns: Vec<usize>,
    schema: SchemaRef,
    has_dictionaries: bool,
    /// Number of rows to skip before the first requested row, and number of requested rows that
    /// remain.
    skip: u64,
    left: u64,
    /// Maximum number of rows and bytes in a returned batch.
    rows: usize,
    bytes: u64,
    counted: ExpandedBytes,
    count_bytes: CountBytes,
    limits: Limits,
    /// Rows of the last read batch that have not been returned, and maximum number of rows per
    /// returned batch.
    rest: Option<(RecordBatch, usize)>,
}

impl Stream {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        while self.left > 0 {
            if let Some((batch, max)) = self.rest.take() {
                let left = usize::try_from(self.left).unwrap_or(usize::MAX);
                let rows = batch.num_rows().min(max).min(left);
                if rows < batch.num_rows() {
                    self.rest = Some((batch.slice(rows, batch.num_rows() - rows), max));
                }
                self.left -= rows as u64;
                return Ok(Some(batch.slice(0, rows)));
            }
            let Some(index) = self.batches.next() else { return Ok(None) };
            let known = self.file.contents.batches[index];
            if self.skip >= known.rows {
                self.skip -= known.rows;
                continue;
            }
            let batch = self.read(index)?;
            let skip =
                usize::try_from(std::mem::take(&mut self.skip)).unwrap_or(usize::MAX).min(batch.0.num_rows());
            self.rest = Some((batch.0.slice(skip, batch.0.num_rows() - skip), batch.1));
        }
        Ok(None)
    }

    fn read(&mut self, index: usize) -> Result<(RecordBatch, usize)> {
        let contents = &self.file.contents;
        let known = contents.batches[index];
        let placed = |error: Error| {
            error.context(format!("record batch {index}")).file(contents.name()).offset(known.place.offset)
        };
        // If no column has a dictionary, skip the dictionaries.
        let count = if self.has_dictionaries { known.dictionaries } else { 0 };
        let values = self.file.dictionaries.after(contents, count, &self.limits)?;
        let (batch, held) =
            decode::batch(contents, &known, &self.columns, &values, &self.limits).map_err(placed)?;
        let columns = batch.columns().iter().map(|column| ExpandedBytes::of(column));
        let expanded = columns.fold(ExpandedBytes::default(), ExpandedBytes::and);
        self.counted = self.counted.and(expanded);
        (self.count_bytes)(self.counted).map_err(placed)?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let malformed = |e: ArrowError| placed(Error::malformed(crate::fault::one_line(&e.to_string())));
        let fields = self.schema.fields().iter();
        let columns = batch
            .columns()
            .iter()
            .zip(fields)
            .map(|(column, field)| nulls_in_keys(&unify::converted(column, field.data_type())?));
        let columns = columns.collect::<Result<_, _>>().map_err(malformed)?;
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        let batch = batch.map_err(malformed)?;
        let all = u128::from(held.max(expanded.bytes).max(1));
        let within = u128::from(self.bytes) * (batch.num_rows() as u128) / all;
        Ok((batch, usize::try_from(within).unwrap_or(usize::MAX).clamp(1, self.rows)))
    }
}
