//! Joins the batches of a piece, so that the division of rows into batches does not affect the
//! output.

use crate::fault::write_error;
use arrow_select::concat::concat_batches;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use tensorferry_sdk::arrow_schema::{DataType, SchemaRef};
use tensorferry_sdk::{Error, Result};

/// Returns the rows of all batches as one batch.
pub(super) fn joined(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<RecordBatch> {
    let mut columns: Vec<Vec<ArrayRef>> = batches.iter().map(|batch| batch.columns().to_vec()).collect();
    for (place, field) in schema.fields().iter().enumerate() {
        if matches!(field.data_type(), DataType::Dictionary(..)) {
            share(&mut columns, place);
        }
    }
    let of = |columns: Vec<ArrayRef>, rows: usize| {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(write_error)
    };
    let batches = columns.into_iter().zip(batches).map(|(columns, batch)| of(columns, batch.num_rows()));
    let joined = concat_batches(schema, &batches.collect::<Result<Vec<_>>>()?).map_err(write_error)?;
    // Drop the contents of view buffers that these rows do not use.
    let compact = joined.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()) as ArrayRef,
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => column.clone(),
    });
    let rows = joined.num_rows();
    of(compact.collect(), rows).map_err(|error: Error| error.context("joined rows"))
}

/// Gives a column its longest dictionary in all batches if each of the column's other dictionaries
/// is a prefix of the longest one. Otherwise, the Arrow library would concatenate the dictionaries,
/// because it merges only identical ones.
fn share(batches: &mut [Vec<ArrayRef>], place: usize) {
    let values = |columns: &Vec<ArrayRef>| columns[place].as_any_dictionary().values().clone();
    let Some(longest) = batches.iter().map(values).max_by_key(|values| values.len()) else { return };
    let begins = |columns: &Vec<ArrayRef>| {
        let own = values(columns);
        Arc::ptr_eq(&own, &longest) || longest.slice(0, own.len()).to_data() == own.to_data()
    };
    if batches.iter().all(begins) {
        for columns in batches {
            columns[place] = columns[place].as_any_dictionary().with_values(longest.clone());
        }
    }
}
