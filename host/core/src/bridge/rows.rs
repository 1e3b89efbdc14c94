//! A record for each row of the leading dimension, which all tensors share.

use super::columns::Columns;
use super::names;
use super::reading::Reading;
use super::row_column::{List, RowColumn};
use super::row_values::{Cursor, are_utf8, offsets};
use crate::records::flow::{BATCH_BYTES, BATCH_ROWS, Flow};
use crate::records::steps::FlowSource;
use crate::tensors::logical::Logical;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, ListArray, RecordBatch};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{Field, Schema, SchemaRef};
use std::collections::BTreeMap;
use std::sync::Arc;
use tensorferry_sdk::{Dtype, Error, Result, Tensor, arrow_array, arrow_schema};

/// Sizes of the leading dimension that an error lists.
const MOST_LISTED: usize = 8;
/// Lists without values in one row, and rows of nothing else.
const MOST_EMPTY_LISTS: u64 = 256;
const MOST_EMPTY_ROWS: u64 = 1 << 20;

/// Tensors whose rows are records.
pub(crate) struct EachRow<'a> {
    reading: Reading<'a>,
    columns: Vec<RowColumn>,
    schema: SchemaRef,
    rows: u64,
}

impl<'a> EachRow<'a> {
    /// The tensors of a catalog. `kept`: what is known of the columns that they were.
    ///
    /// # Errors
    /// Usage, where they do not share their leading dimension; unsupported, for a dtype that no column has;
    /// malformed, for splits that are none.
    pub(crate) fn new(logical: &'a Logical<'a>, kept: &Columns) -> Result<Self> {
        let tensors = logical.catalog().tensors();
        let mut found = names::columns(tensors)?;
        let rows = check_rows(&found, tensors)?;
        check_empty(&found, tensors, rows)?;
        let by_name = kept.by_name();
        let known = |column: &names::Column| by_name.get(column.name.as_str()).copied();
        found.sort_by_key(|column| known(column).map_or(usize::MAX, |(place, _)| place));
        let mut reading = Reading::new(logical);
        let mut columns = Vec::with_capacity(found.len());
        for column in &found {
            let known = known(column).map(|(_, known)| known);
            let is_text = tensors[column.values].dtype == Dtype::STR;
            let is_utf8 = is_text && known.is_none() && are_utf8(column.values, &reading)?;
            let column = RowColumn::new(column, tensors, known, is_utf8)?;
            reading.hold(&column)?;
            columns.push(column);
        }
        columns.iter().try_for_each(|column| reading.check_splits(column))?;
        let fields: Vec<Field> = columns.iter().map(|column| column.field.clone()).collect();
        let metadata: arrow_schema::Metadata = kept.metadata.clone().into();
        Ok(Self { reading, columns, schema: Arc::new(Schema::new_with_metadata(fields, metadata)), rows })
    }

    /// How many records there are.
    pub(crate) fn records(&self) -> u64 {
        self.rows
    }

    /// How many rows from `begin` on make a batch.
    fn batch(&self, begin: u64) -> Result<u64> {
        let bytes = |rows: u64| -> Result<u64> {
            let of = |column: &RowColumn| -> Result<u64> {
                let before = |row| column.bytes_before(row, &self.reading);
                Ok(before(begin + rows)?.saturating_sub(before(begin)?))
            };
            self.columns.iter().map(of).try_fold(0_u64, |sum, bytes| Ok(sum.saturating_add(bytes?)))
        };
        let (mut fits, mut too_many) = (1, (self.rows - begin).min(BATCH_ROWS as u64) + 1);
        while fits + 1 < too_many {
            let middle = fits.midpoint(too_many);
            if bytes(middle)? <= BATCH_BYTES { fits = middle } else { too_many = middle }
        }
        let most = self.reading.most_held();
        match bytes(fits)? {
            held if held > most => Err(Error::limit(
                "a row of all tensors is held in memory: raise --memory, or take records:tensor",
            )
            .record(begin)
            .expected(format!("at most {most} bytes"))
            .found(held)),
            _ => Ok(fits),
        }
    }
}

fn check_rows(found: &[names::Column], tensors: &[Tensor]) -> Result<u64> {
    let mut sizes: BTreeMap<Option<u64>, Vec<&str>> = BTreeMap::new();
    for column in found {
        sizes.entry(column.rows).or_default().push(&tensors[column.values].name);
    }
    match sizes.first_key_value() {
        Some((&Some(rows), _)) if sizes.len() == 1 => return Ok(rows),
        None => return Err(Error::usage("there are no tensors that could become records")),
        _ => {}
    }
    let list = |(rows, names): (&Option<u64>, &Vec<&str>)| {
        let rows = rows.map_or_else(|| "no leading dimension".to_owned(), |rows| format!("{rows} rows"));
        let more = if names.len() > 1 { format!(" and {} more", names.len() - 1) } else { String::new() };
        format!("{rows}: {:?}{more}", names[0])
    };
    let mut listed: Vec<String> = sizes.iter().take(MOST_LISTED).map(list).collect();
    if sizes.len() > MOST_LISTED {
        listed.push(format!("and {} sizes more", sizes.len() - MOST_LISTED));
    }
    Err(Error::usage(
        "the tensors do not share a leading dimension, so that their rows are no records: \
         --step records:tensor makes a record of each tensor",
    )
    .found(listed.join("; ")))
}

/// Shapes without elements cost a file nothing, whatever they claim; rows and lists of them do not.
fn check_empty(found: &[names::Column], tensors: &[Tensor], rows: u64) -> Result<()> {
    let mut has_values = false;
    for column in found {
        let tensor = &tensors[column.values];
        has_values |= tensor.bytes > 0 || !column.lists.is_empty();
        let lists = tensor.shape.iter().skip(1).filter(|&&len| len > 0).try_fold(1_u64, |product, &len| {
            product.checked_mul(len).filter(|&lists| lists <= MOST_EMPTY_LISTS)
        });
        if tensor.shape.iter().skip(1).any(|&len| len == 0) && lists.is_none() {
            return Err(Error::unsupported(
                "a row of so many lists without values: records:tensor carries it",
            )
            .tensor(&tensor.name)
            .found(format!("shape {:?}", tensor.shape)));
        }
    }
    if has_values || rows <= MOST_EMPTY_ROWS {
        return Ok(());
    }
    Err(Error::unsupported("rows without any value: records:tensor carries them").found(rows))
}

impl FlowSource for EachRow<'_> {
    fn flow<'a>(&'a self) -> Result<Box<dyn Flow + 'a>> {
        Ok(Box::new(Rows { of: self, next: 0, cursors: vec![Cursor::default(); self.columns.len()] }))
    }
}

struct Rows<'a> {
    of: &'a EachRow<'a>,
    next: u64,
    cursors: Vec<Cursor>,
}

impl Flow for Rows<'_> {
    fn schema(&self) -> SchemaRef {
        self.of.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let EachRow { reading, columns, schema, rows } = self.of;
        if self.next >= *rows {
            return Ok(None);
        }
        reading.check_cancelled()?;
        let end = self.next + self.of.batch(self.next)?;
        let read = |(column, cursor): (&RowColumn, &mut Cursor)| {
            let read = column.read(0, self.next, end, cursor, reading);
            read.map_err(|error| error.column(column.field.name()))
        };
        let arrays = columns.iter().zip(&mut self.cursors).map(read).collect::<Result<Vec<ArrayRef>>>()?;
        self.next = end;
        let batch = RecordBatch::try_new(schema.clone(), arrays);
        batch.map(Some).map_err(|error| Error::unsupported(format!("rows that do not fit together: {error}")))
    }
}

impl RowColumn {
    /// How many bytes of values lie before a row, about.
    fn bytes_before(&self, row: u64, reading: &Reading<'_>) -> Result<u64> {
        let mut at = row;
        for list in &self.lists {
            at = match list {
                List::Ragged { splits, inner, .. } => reading.split(*splits, at, *inner)?,
                List::Dimension { len, .. } => at.saturating_mul(*len),
            };
        }
        self.values.bytes_before(at, reading)
    }

    /// What lies in the lists from `depth` on, from `begin` to `end`.
    fn read(
        &self,
        depth: usize,
        begin: u64,
        end: u64,
        cursor: &mut Cursor,
        reading: &Reading<'_>,
    ) -> Result<ArrayRef> {
        let Some(list) = self.lists.get(depth) else {
            return self.values.read(begin, end, cursor, reading);
        };
        let nulls = |valid: &Option<usize>| valid.map(|valid| reading.nulls(valid, begin, end)).transpose();
        let item = |inner: &ArrayRef| Arc::new(Field::new_list_field(inner.data_type().clone(), true));
        let wrong = |error: arrow_schema::ArrowError| Error::unsupported(error.to_string());
        Ok(match list {
            List::Ragged { splits, inner, valid } => {
                let ends = reading.splits(*splits, begin, end, *inner)?;
                let (first, last) = (ends[0], ends[ends.len() - 1]);
                let values = self.read(depth + 1, first, last, cursor, reading)?;
                let made =
                    ListArray::try_new(item(&values), offsets(&ends)?, values, nulls(valid)?.flatten());
                Arc::new(made.map_err(wrong)?)
            }
            List::Dimension { len, is_fixed, valid } => {
                let values = self.read(depth + 1, begin * len, end * len, cursor, reading)?;
                let count = usize::try_from(end - begin).unwrap_or(usize::MAX);
                let nulls = nulls(valid)?.flatten();
                if *is_fixed {
                    let size = i32::try_from(*len).unwrap_or(i32::MAX);
                    Arc::new(FixedSizeListArray::try_new(item(&values), size, values, nulls).map_err(wrong)?)
                } else {
                    let len = usize::try_from(*len).unwrap_or(usize::MAX);
                    let offsets = OffsetBuffer::try_from_repeated_length(len, count)
                        .map_err(|_| Error::limit("one batch has more than 2^31 values in its lists"))?;
                    Arc::new(ListArray::try_new(item(&values), offsets, values, nulls).map_err(wrong)?)
                }
            }
        })
    }
}
