//! Streams the rows of consecutive batches.

use super::decoders::DecoderCache;
use super::slices::{SLICE, Slices};
use super::{OpenFile, decode, unify};
use std::ops::Range;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::{RecordBatch, RecordBatchOptions};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, SchemaRef};
use tensorferry_sdk::records::{self, BatchStream, ExpandedBytes, ScanRequest, nulls_in_keys};
use tensorferry_sdk::{Error, Limits, Result};

/// Compressed batches with at most this many bytes are read as a whole, and larger batches in
/// slices. Decoders cost more time in short buffers. Other batches are at most as large as a slice.
const WHOLE: u64 = 16 << 20;

/// A callback that receives the total number of expanded bytes. If it returns an error, the stream
/// ends.
pub(super) type CountBytes = Box<dyn Fn(ExpandedBytes) -> Result<()> + Send>;

/// Streams the requested rows and columns of a split. Only whole columns can be requested.
pub(super) fn open(
    file: OpenFile,
    (split, batches): (usize, Range<usize>),
    schema: &SchemaRef,
    scan: &ScanRequest,
    limits: &Limits,
    decoders: Arc<DecoderCache>,
    count_bytes: CountBytes,
) -> Result<BatchStream> {
    let all = || (0..schema.fields().len()).collect();
    let columns: Vec<usize> = scan.batches().columns.unwrap_or_else(all);
    let schema = schema.project(&columns).map_err(|error| Error::plugin(error.to_string()))?;
    let has_dictionaries = schema.flattened_fields().iter().any(|field| has_dictionary(field.data_type()));
    let schema: SchemaRef = schema.into();
    let mut stream = Stream {
        file,
        split,
        batches,
        large: None,
        decoders,
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
    split: usize,
    /// Batches that have not been read.
    batches: Range<usize>,
    /// Index and slices of the batch that is being read in slices.
    large: Option<(usize, Slices)>,
    decoders: Arc<DecoderCache>,
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
            if let Some((index, mut slices)) = self.large.take() {
                if let Some(slice) = self.slice(index, &mut slices)? {
                    (self.rest, self.large) = (Some(slice), Some((index, slices)));
                }
                continue;
            }
            let Some(index) = self.batches.next() else { return Ok(None) };
            let known = self.file.contents.batches[index];
            if self.skip >= known.rows {
                self.skip -= known.rows;
                continue;
            }
            let skip = std::mem::take(&mut self.skip);
            self.read(index, skip).map_err(|error| self.placed(index, error))?;
        }
        Ok(None)
    }

    fn placed(&self, index: usize, error: Error) -> Error {
        let contents = &self.file.contents;
        let offset = contents.batches[index].place.offset;
        error.context(format!("record batch {index}")).file(contents.name()).offset(offset)
    }

    /// Reads a batch after `skip` rows, or prepares to read it in slices.
    fn read(&mut self, index: usize, skip: u64) -> Result<()> {
        let contents = &self.file.contents;
        let known = contents.batches[index];
        // If no column has a dictionary, skip the dictionaries.
        let count = if self.has_dictionaries { known.dictionaries } else { 0 };
        let values = self.file.dictionaries.after(contents, count, &self.limits)?;
        let whole = if known.is_compressed { WHOLE } else { SLICE }.min(self.limits.header_bytes);
        if let Some((batch, held)) =
            decode::batch(contents, &known, &self.columns, &values, whole, &self.limits)?
        {
            let (batch, max) = self.finished(&batch, held)?;
            let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(batch.num_rows());
            self.rest = Some((batch.slice(skip, batch.num_rows() - skip), max));
            return Ok(());
        }
        let decoders = (&self.decoders, self.split);
        let mut slices = Slices::open(contents, &known, &self.columns, values, decoders, &self.limits)?;
        slices.skip(skip);
        self.large = Some((index, slices));
        Ok(())
    }

    /// Reads the next slice of a large batch.
    fn slice(&mut self, index: usize, slices: &mut Slices) -> Result<Option<(RecordBatch, usize)>> {
        // A slice consists of complete batches.
        let max = slices.rows_in(self.bytes).clamp(1, self.rows as u64);
        let rows = max * (slices.rows_in(SLICE) / max).max(1);
        let read = slices.next(rows.min(self.left)).and_then(|batch| {
            let Some(batch) = batch else { return Ok(None) };
            let (batch, within) = self.finished(&batch, 0)?;
            Ok(Some((batch, within.min(usize::try_from(max).unwrap_or(usize::MAX)))))
        });
        read.map_err(|error| self.placed(index, error))
    }

    /// Counts the bytes that rows expand to, and converts the rows to the schema of all files. Also
    /// returns the maximum number of rows per returned batch. The rows take up at least `held`
    /// bytes.
    fn finished(&mut self, batch: &RecordBatch, held: u64) -> Result<(RecordBatch, usize)> {
        let columns = batch.columns().iter().map(|column| ExpandedBytes::of(column));
        let expanded = columns.fold(ExpandedBytes::default(), ExpandedBytes::and);
        self.counted = self.counted.and(expanded);
        (self.count_bytes)(self.counted)?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let malformed = |e: ArrowError| Error::malformed(crate::fault::one_line(&e.to_string()));
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
