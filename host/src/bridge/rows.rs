//! A record for each row of the leading dimension, which all tensors share.

use super::columns::Columns;
use super::names;
use super::row_column::{List, RowColumn};
use super::row_values::{Cursor, are_utf8, offsets};
use crate::logical::Logical;
use crate::records::flow::{BATCH_BYTES, BATCH_ROWS, Flow};
use crate::records::steps::Beginning;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, ListArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, MutableBuffer, NullBuffer, OffsetBuffer};
use arrow_schema::{Field, Schema, SchemaRef};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use tensorferry_sdk::{
    CatalogView, Context, Data, Dtype, Error, Result, Tensor, TensorId, arrow_array, arrow_schema,
};

/// Sizes of the leading dimension that an error lists.
const MOST_LISTED: usize = 8;
/// Lists without values in one row, and rows of nothing else.
const MOST_EMPTY_LISTS: u64 = 256;
const MOST_EMPTY_ROWS: u64 = 1 << 20;

/// Tensors whose rows are records.
pub(super) struct EachRow<'a> {
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
    pub(super) fn new(logical: &'a Logical<'a>, kept: &Columns) -> Result<Self> {
        let tensors = logical.catalog().tensors();
        let mut found = names::columns(tensors)?;
        let rows = check_rows(&found, tensors)?;
        check_empty(&found, tensors, rows)?;
        let place = |name: &str| kept.columns.iter().position(|column| column.name == name);
        found.sort_by_key(|column| place(&column.name).unwrap_or(usize::MAX));
        let mut reading = Reading { logical, files: BTreeMap::new() };
        let mut columns = Vec::with_capacity(found.len());
        for column in &found {
            let known = kept.column(&column.name);
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
    pub(super) fn records(&self) -> u64 {
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
            held if held > most => Err(Error::limit("a row of all tensors is held in memory: raise --memory, or take records:tensor")
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
            return Err(Error::unsupported("a row of so many lists without values: records:tensor carries it")
                .tensor(&tensor.name)
                .found(format!("shape {:?}", tensor.shape)));
        }
    }
    if has_values || rows <= MOST_EMPTY_ROWS {
        return Ok(());
    }
    Err(Error::unsupported("rows without any value: records:tensor carries them").found(rows))
}

impl Beginning for EachRow<'_> {
    fn begin<'a>(&'a self) -> Result<Box<dyn Flow + 'a>> {
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

    fn begin_epoch(&mut self, _epoch: u64) {}

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let EachRow { reading, columns, schema, rows } = self.of;
        if self.next >= *rows {
            return Ok(None);
        }
        reading.logical.stored().run().check_cancelled()?;
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
                let made = ListArray::try_new(item(&values), offsets(&ends)?, values, nulls(valid)?.flatten());
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

/// The tensors of a catalog, read by position.
pub(super) struct Reading<'a> {
    logical: &'a Logical<'a>,
    /// Tensors that lie in pieces, brought in order once: they are read in many windows.
    files: BTreeMap<usize, File>,
}

impl Reading<'_> {
    /// The facts of a tensor.
    pub(super) fn tensor(&self, place: usize) -> &Tensor {
        &self.logical.catalog().tensors()[place]
    }

    /// Bytes that a row, or a string, may have.
    fn most_held(&self) -> u64 {
        self.logical.stored().run().held_bytes().max(BATCH_BYTES)
    }

    /// Checks that bytes of a tensor may be held.
    ///
    /// # Errors
    /// A limit.
    pub(super) fn check_held(&self, place: usize, bytes: u64) -> Result<()> {
        let most = self.most_held();
        if bytes <= most {
            return Ok(());
        }
        let error = Error::limit("strings are held in memory: raise --memory");
        Err(error.tensor(&self.tensor(place).name).expected(format!("at most {most} bytes")).found(bytes))
    }

    /// Brings what a column's tensors have in pieces in order.
    fn hold(&mut self, column: &RowColumn) -> Result<()> {
        let of_lists = column.lists.iter().flat_map(|list| match list {
            List::Ragged { splits, valid, .. } => [Some(*splits), *valid],
            List::Dimension { valid, .. } => [None, *valid],
        });
        let places: BTreeSet<usize> = of_lists.flatten().chain(column.values.tensors()).collect();
        for place in places {
            if !matches!(self.tensor(place).data, Data::Blocks(_)) {
                continue;
            }
            let file = self.logical.stored().spill()?;
            let mut at = 0;
            self.logical.each_window(id(place), |bytes| {
                file.write_all_at(bytes, at)?;
                at += bytes.len() as u64;
                Ok(())
            })?;
            self.files.insert(place, file);
        }
        Ok(())
    }

    fn read(&self, place: usize, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self.files.get(&place) {
            Some(file) => file.read_exact_at(buffer, offset).map_err(Error::from),
            None => self.logical.read(id(place), offset, buffer),
        }
    }

    /// Bytes of a tensor, aligned for Arrow.
    pub(super) fn bytes(&self, place: usize, offset: u64, len: u64) -> Result<MutableBuffer> {
        let len = usize::try_from(len).map_err(|_| Error::limit("more bytes than this machine can address"))?;
        let mut bytes = MutableBuffer::from_len_zeroed(len);
        self.read(place, offset, bytes.as_slice_mut())?;
        Ok(bytes)
    }

    /// What is missing from `begin` to `end`, if anything is.
    pub(super) fn nulls(&self, place: usize, begin: u64, end: u64) -> Result<Option<NullBuffer>> {
        let bytes = self.bytes(place, begin, end - begin)?;
        let nulls = NullBuffer::new(BooleanBuffer::collect_bool(bytes.len(), |row| bytes[row] != 0));
        Ok((nulls.null_count() > 0).then_some(nulls))
    }

    /// Where one list begins; `inner` values lie in all.
    pub(super) fn split(&self, place: usize, list: u64, inner: u64) -> Result<u64> {
        Ok(self.splits(place, list, list, inner)?[0])
    }

    /// Where the lists from `begin` to `end` begin, and where the last one ends; `inner` values lie in all.
    ///
    /// # Errors
    /// Malformed, where they descend or lie outside.
    pub(super) fn splits(&self, place: usize, begin: u64, end: u64, inner: u64) -> Result<Vec<u64>> {
        let is_wide = self.tensor(place).dtype == Dtype::I64;
        let width = if is_wide { 8 } else { 4 };
        let bytes = self.bytes(place, begin * width, (end - begin + 1) * width)?;
        let mut before = 0;
        let check = |(list, bytes): (u64, &[u8])| {
            let mut wide = [0; 8];
            wide[..bytes.len()].copy_from_slice(bytes);
            let at = match is_wide {
                true => i64::from_le_bytes(wide),
                false => i64::from(i32::from_le_bytes([wide[0], wide[1], wide[2], wide[3]])),
            };
            let split = u64::try_from(at).ok().filter(|split| (before..=inner).contains(split));
            before = split.ok_or_else(|| {
                Error::malformed("row splits that descend or reach past their values")
                    .tensor(&self.tensor(place).name)
                    .record(list)
                    .expected(format!("{before} to {inner}"))
                    .found(at)
            })?;
            Ok(before)
        };
        (begin..).zip(bytes.chunks_exact(usize::try_from(width).unwrap_or(8))).map(check).collect()
    }

    /// Whether the lists of a column begin with its first value and end with its last.
    fn check_splits(&self, column: &RowColumn) -> Result<()> {
        let of_lists = column.lists.iter().filter_map(|list| match list {
            List::Ragged { splits, inner, .. } => Some((*splits, *inner)),
            List::Dimension { .. } => None,
        });
        for (place, inner) in of_lists.chain(column.values.splits()) {
            let last = self.tensor(place).shape[0] - 1;
            let (begin, end) = (self.split(place, 0, inner)?, self.split(place, last, inner)?);
            if (begin, end) != (0, inner) {
                return Err(Error::malformed("row splits do not cover their values")
                    .tensor(&self.tensor(place).name)
                    .expected(format!("0 to {inner}"))
                    .found(format!("{begin} to {end}")));
            }
        }
        Ok(())
    }
}

fn id(place: usize) -> TensorId {
    TensorId(u32::try_from(place).unwrap_or(u32::MAX))
}
