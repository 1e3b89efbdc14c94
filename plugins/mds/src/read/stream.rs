//! Streams the samples in a part of a shard, in batches.

use super::arrays::Form;
use super::column::Values;
use super::sample;
use super::shard::{OpenShard, Part, Samples};
use crate::index::Column;
use std::ops::Range;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::{RecordBatch, RecordBatchOptions};
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::records::{BatchStream, ScanRequest, batches};
use tensorferry_sdk::{Error, Limits, Result};

/// Maximum size of a batch in bytes. The offsets in a column are limited to 31 bits.
const MAX_BATCH_BYTES: u64 = 1 << 30;
/// Memory per row and column in bytes, in addition to the value, because even an empty string has
/// an offset.
const BYTES_PER_CELL: u64 = 4;

/// The columns of a dataset, and the Arrow representation of each array column.
pub(super) struct Layout {
    pub(super) columns: Arc<[Column]>,
    pub(super) forms: Vec<Option<Form>>,
    /// Whether the forms were guessed from only some of the values.
    pub(super) is_guessed: bool,
}

/// Streams the requested samples and columns. Only whole columns can be requested.
pub(super) fn open(
    shard: &Arc<OpenShard>,
    part: &Part,
    schema: &SchemaRef,
    layout: &Arc<Layout>,
    scan: &ScanRequest,
    limits: &Limits,
) -> Result<BatchStream> {
    let all = || (0..schema.fields().len()).collect();
    let places: Vec<usize> = scan.batches().columns.unwrap_or_else(all);
    let schema = Arc::new(schema.project(&places).map_err(|error| Error::plugin(error.to_string()))?);
    let values = |(&place, field): (&usize, &Arc<tensorferry_sdk::arrow_schema::Field>)| {
        let form = layout.forms[place].as_ref();
        Values::new(&layout.columns[place], form, field.data_type(), layout.is_guessed)
    };
    let columns = places.iter().zip(schema.fields()).map(values).collect();
    let is_whole = scan.first_row == 0 && scan.limit.is_none();
    let mut stream = Stream {
        samples: Samples::new(shard, part, scan.first_row, is_whole, limits)?,
        shard: shard.clone(),
        layout: layout.clone(),
        schema: schema.clone(),
        places,
        columns,
        ranges: Vec::new(),
        left: scan.limit.unwrap_or(u64::MAX),
        rows: scan.rows.max(1),
        bytes: scan.bytes.clamp(1, MAX_BATCH_BYTES),
    };
    let next = move || stream.batch().map_err(|error| error.file(stream.shard.file_name()));
    Ok(batches(schema, next))
}

struct Stream {
    samples: Samples,
    shard: Arc<OpenShard>,
    layout: Arc<Layout>,
    schema: SchemaRef,
    /// Indices of the requested columns, and their builders.
    places: Vec<usize>,
    columns: Vec<Values>,
    ranges: Vec<Range<usize>>,
    /// Number of requested samples that have not been read.
    left: u64,
    rows: usize,
    bytes: u64,
}

impl Stream {
    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        let (mut rows, mut bytes) = (0, 0);
        while rows < self.rows && bytes < self.bytes && self.left > 0 {
            let Some(found) = self.samples.next()? else {
                self.left = 0;
                break;
            };
            let at =
                |error: Error| error.file(self.shard.file_name()).record(found.number).offset(found.offset);
            sample::split(found.bytes, &self.layout.columns, &mut self.ranges).map_err(at)?;
            for (place, column) in self.places.iter().zip(&mut self.columns) {
                let value = &found.bytes[self.ranges[*place].clone()];
                let named = |error: Error| at(error.column(&self.layout.columns[*place].name));
                column.push(value).map_err(named)?;
                bytes += value.len() as u64;
            }
            bytes += BYTES_PER_CELL * self.places.len() as u64;
            (rows, self.left) = (rows + 1, self.left - 1);
        }
        if rows == 0 {
            return Ok(None);
        }
        let columns = self.columns.iter_mut().map(Values::finish).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        batch.map(Some).map_err(|error| Error::plugin(error.to_string()))
    }
}
