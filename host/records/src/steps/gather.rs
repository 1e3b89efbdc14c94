//! Combines rows of several batches into one batch.

use arrow_array::{RecordBatch, RecordBatchOptions, make_array};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType, SchemaRef};
use std::ops::Range;
use tensorferry_sdk::{arrow_array, arrow_schema};

/// Returns a batch that contains the rows of `runs` in order. Each run is a range of rows in one of
/// the batches.
pub(super) fn gather(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    runs: &[(usize, Range<usize>)],
) -> Result<RecordBatch, ArrowError> {
    if let [(batch, rows)] = runs {
        return Ok(batches[*batch].slice(rows.start, rows.len()));
    }
    // For some types, and if schemas differ, the crate arrow-select is used. It reports differing
    // schemas and merges dictionaries. It also copies the bytes of views, so that the bytes of
    // omitted rows are released. It is slower because it is compiled without optimization, but
    // these cases are rare.
    let is_shared = |data_type: &DataType| {
        use DataType::{BinaryView, Dictionary, RunEndEncoded, Union, Utf8View};
        matches!(data_type, Dictionary(..) | RunEndEncoded(..) | Union(..) | Utf8View | BinaryView)
    };
    if batches.iter().any(|batch| batch.schema_ref() != schema)
        || schema.flattened_fields().iter().any(|field| is_shared(field.data_type()))
    {
        let rows = runs.iter().flat_map(|(batch, rows)| rows.clone().map(|row| (*batch, row)));
        let batches: Vec<&RecordBatch> = batches.iter().collect();
        return arrow_select::interleave::interleave_record_batch(&batches, &rows.collect::<Vec<_>>());
    }
    let rows = runs.iter().map(|(_, rows)| rows.len()).sum();
    let column = |place: usize| {
        let columns: Vec<_> = batches.iter().map(|batch| batch.column(place).to_data()).collect();
        let mut gathered = MutableArrayData::new(columns.iter().collect(), false, rows);
        for (batch, rows) in runs {
            gathered.try_extend(*batch, rows.start, rows.end)?;
        }
        Ok(make_array(gathered.freeze()))
    };
    let columns = (0..schema.fields().len()).map(column).collect::<Result<_, ArrowError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}

/// Returns all rows of all batches as one batch.
pub(super) fn join(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<RecordBatch, ArrowError> {
    let runs: Vec<_> = batches.iter().map(|batch| 0..batch.num_rows()).enumerate().collect();
    gather(schema, batches, &runs)
}
