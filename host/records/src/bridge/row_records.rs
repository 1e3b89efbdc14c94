//! Converts each row of the tensors to a record. All tensors must have the same leading dimension,
//! which is the number of rows.

use super::column_metadata::ColumnsMetadata;
use super::column_names::{self, ColumnTensors};
use super::row_column::RowColumn;
use super::row_values::{Cursor, are_utf8};
use super::tensor_windows::TensorWindows;
use crate::flow::{BATCH_BYTES, BATCH_ROWS, Flow, from_fn};
use crate::steps::FlowSource;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema, SchemaRef};
use std::collections::BTreeMap;
use std::sync::Arc;
use tensorferry_sdk::{Dtype, Error, Result, Tensor, arrow_array, arrow_schema};
use tensorferry_tensors::logical::Logical;

/// Maximum number of different leading dimensions that an error message lists.
const MAX_LISTED: usize = 8;
/// Limits for lists without values: the maximum number of such lists in one row, and the maximum
/// number of rows that contain only such lists.
const MAX_EMPTY_LISTS: u64 = 256;
const MAX_EMPTY_ROWS: u64 = 1 << 20;

/// Tensors whose rows become records.
pub(crate) struct RowRecords<'a> {
    windows: TensorWindows<'a>,
    columns: Vec<RowColumn>,
    schema: SchemaRef,
    rows: u64,
}

impl<'a> RowRecords<'a> {
    /// Creates the records of a catalog's tensors. `kept` describes the record columns from which
    /// the tensors were created.
    pub(crate) fn new(logical: &'a Logical<'a>, kept: &ColumnsMetadata) -> Result<Self> {
        let tensors = logical.catalog().tensors();
        let mut found = column_names::columns(tensors)?;
        let rows = check_rows(&found, tensors)?;
        check_empty(&found, tensors, rows)?;
        let by_name = kept.by_name();
        let known = |column: &ColumnTensors| by_name.get(column.name.as_str()).copied();
        found.sort_by_key(|column| known(column).map_or(usize::MAX, |(place, _)| place));
        let mut windows = TensorWindows::new(logical);
        let mut columns = Vec::with_capacity(found.len());
        for column in &found {
            let known = known(column).map(|(_, known)| known);
            let is_text = tensors[column.values].dtype == Dtype::STR;
            let is_utf8 = is_text && known.is_none() && are_utf8(column.values, &windows)?;
            let column = RowColumn::new(column, tensors, known, is_utf8)?;
            windows.hold(&column.tensors())?;
            columns.push(column);
        }
        for (splits, inner) in columns.iter().flat_map(RowColumn::splits) {
            windows.check_splits(splits, inner)?;
        }
        let fields: Vec<Field> = columns.iter().map(|column| column.field.clone()).collect();
        let metadata: arrow_schema::Metadata = kept.metadata.clone().into();
        Ok(Self { windows, columns, schema: Arc::new(Schema::new_with_metadata(fields, metadata)), rows })
    }

    /// Returns the number of records.
    pub(crate) fn records(&self) -> u64 {
        self.rows
    }

    /// Returns the number of rows in the batch that starts at row `begin`.
    fn batch(&self, begin: u64) -> Result<u64> {
        let bytes = |rows: u64| -> Result<u64> {
            let of = |column: &RowColumn| -> Result<u64> {
                let before = |row| column.bytes_before(row, &self.windows);
                Ok(before(begin + rows)?.saturating_sub(before(begin)?))
            };
            self.columns.iter().map(of).try_fold(0_u64, |sum, bytes| Ok(sum.saturating_add(bytes?)))
        };
        let (mut fits, mut too_many) = (1, (self.rows - begin).min(BATCH_ROWS as u64) + 1);
        while fits + 1 < too_many {
            let middle = fits.midpoint(too_many);
            if bytes(middle)? <= BATCH_BYTES { fits = middle } else { too_many = middle }
        }
        let most = self.windows.most_held();
        match bytes(fits)? {
            held if held > most => {
                Err(Error::limit("one row of all tensors together is too large for memory")
                    .hint("raise --memory, or use --step records:tensor")
                    .record(begin)
                    .expected(format!("at most {most} bytes"))
                    .found(held))
            }
            _ => Ok(fits),
        }
    }
}

fn check_rows(found: &[ColumnTensors], tensors: &[Tensor]) -> Result<u64> {
    let mut sizes: BTreeMap<Option<u64>, Vec<&str>> = BTreeMap::new();
    for column in found {
        sizes.entry(column.rows).or_default().push(&tensors[column.values].name);
    }
    match sizes.first_key_value() {
        Some((&Some(rows), _)) if sizes.len() == 1 => return Ok(rows),
        None => return Err(Error::usage("the input has no tensors that can become records")),
        _ => {}
    }
    let list = |(rows, names): (&Option<u64>, &Vec<&str>)| {
        let rows = rows.map_or_else(|| "no leading dimension".to_owned(), |rows| format!("{rows} rows"));
        format!("{rows}: {}", tensorferry_sdk::listed(names.iter().map(|name| format!("{name:?}")), 1))
    };
    let mut listed: Vec<String> = sizes.iter().take(MAX_LISTED).map(list).collect();
    if sizes.len() > MAX_LISTED {
        listed.push(format!("and {} more sizes", sizes.len() - MAX_LISTED));
    }
    Err(Error::usage("the tensors do not share a leading dimension, so their rows cannot be records")
        .found(listed.join("; "))
        .hint("use --step records:tensor to convert each tensor to a record"))
}

/// Checks tensors without elements, which have a dimension of length 0. Such a tensor takes no
/// space in a file, regardless of how many rows it declares, but each row or list takes space in a
/// batch.
fn check_empty(found: &[ColumnTensors], tensors: &[Tensor], rows: u64) -> Result<()> {
    let mut has_values = false;
    for column in found {
        let tensor = &tensors[column.values];
        has_values |= tensor.bytes > 0 || !column.lists.is_empty();
        let lists = tensor.shape.iter().skip(1).filter(|&&len| len > 0).try_fold(1_u64, |product, &len| {
            product.checked_mul(len).filter(|&lists| lists <= MAX_EMPTY_LISTS)
        });
        if tensor.shape.iter().skip(1).any(|&len| len == 0) && lists.is_none() {
            return Err(Error::unsupported("a row has too many lists without values")
                .tensor(&tensor.name)
                .found(format!("shape {:?}", tensor.shape))
                .hint("use --step records:tensor"));
        }
    }
    if has_values || rows <= MAX_EMPTY_ROWS {
        return Ok(());
    }
    Err(Error::unsupported("the rows have no values").found(rows).hint("use --step records:tensor"))
}

impl FlowSource for RowRecords<'_> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn flow<'a>(&'a self) -> Result<Box<dyn Flow + 'a>> {
        let Self { windows, columns, schema, rows } = self;
        let mut next = 0;
        let mut cursors = vec![Cursor::default(); columns.len()];
        Ok(from_fn(schema.clone(), move || {
            if next >= *rows {
                return Ok(None);
            }
            windows.check_cancelled()?;
            let end = next + self.batch(next)?;
            let read = |(column, cursor): (&RowColumn, &mut Cursor)| {
                let read = column.read(0, next, end, cursor, windows);
                read.map_err(|error| error.column(column.field.name()))
            };
            let arrays = columns.iter().zip(&mut cursors).map(read).collect::<Result<Vec<ArrayRef>>>()?;
            next = end;
            let batch = RecordBatch::try_new(schema.clone(), arrays);
            batch
                .map(Some)
                .map_err(|error| Error::unsupported(format!("the columns do not form a batch: {error}")))
        }))
    }
}
