//! The reader: it walks the lengths of all rows once, for the splits; a stream decodes those of one.

use crate::MAGIC;
use crate::column::{Column, Kind};
use std::sync::Arc;
use tensorferry_sdk::arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, Float32Builder, Int64Builder, ListBuilder, PrimitiveBuilder,
};
use tensorferry_sdk::arrow_array::types::ArrowPrimitiveType;
use tensorferry_sdk::arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, RecordBatchReader};
use tensorferry_sdk::arrow_schema::{ArrowError, Schema, SchemaRef};
use tensorferry_sdk::records::{Batched, Batches, RecordReader, RecordSet, Split, stream_error};
use tensorferry_sdk::{Context, Error, FileId, Limits, LossSink, Result, Source};

pub(crate) struct Reader {
    pub(crate) split: u64,
}

/// A file, opened.
#[derive(Clone)]
struct File {
    source: Arc<dyn Source>,
    id: FileId,
    limits: Limits,
}

impl File {
    fn name(&self) -> &str {
        self.source.name(self.id)
    }

    fn read(&self, offset: &mut u64, len: u64) -> Result<Vec<u8>> {
        let bytes = self.source.read_vec(self.id, *offset, len, &self.limits)?;
        *offset += len;
        Ok(bytes)
    }

    fn number<const N: usize>(&self, offset: &mut u64) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.source.read_at(self.id, *offset, &mut bytes)?;
        *offset += N as u64;
        Ok(bytes)
    }
}

impl RecordReader for Reader {
    fn open(
        &self,
        source: Arc<dyn Source>,
        _losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>> {
        let id = source.open(source.entry().name())?;
        let file = File { source, id, limits: context.limits().clone() };
        let (columns, mut offset) = header(&file)?;
        let (mut splits, len) = (Vec::new(), file.source.len(id));
        let mut first = 0;
        while offset < len {
            context.check_cancelled()?;
            let start = offset;
            let mut rows = 0;
            while rows < self.split && offset < len {
                let row = u64::from(u32::from_le_bytes(file.number(&mut offset)?));
                tensorferry_sdk::check_range(file.name(), len, offset, row)?;
                offset += row;
                rows += 1;
            }
            let name = file.name().to_owned();
            splits.push((
                first,
                Split { file: name, offset: start, bytes: offset - start, records: Some(rows) },
            ));
            first += rows;
        }
        let (firsts, splits) = splits.into_iter().unzip();
        let schema = Arc::new(Schema::new(columns.iter().map(Column::field).collect::<Vec<_>>()));
        Ok(Box::new(Set { file, columns, schema, firsts, splits }))
    }
}

fn header(file: &File) -> Result<(Vec<Column>, u64)> {
    let mut offset = 0;
    if file.read(&mut offset, MAGIC.len() as u64)? != MAGIC {
        return Err(Error::malformed("not a file of rows").file(file.name()).offset(0));
    }
    let count = u16::from_le_bytes(file.number(&mut offset)?);
    let mut columns: Vec<Column> = Vec::new();
    for _ in 0..count {
        let at = offset;
        let wrong = |what: &str| Error::malformed(what).file(file.name()).offset(at);
        let [code] = file.number(&mut offset)?;
        let len = u64::from(u16::from_le_bytes(file.number(&mut offset)?));
        if len > file.limits.name_bytes {
            return Err(Error::limit("a name is too long").file(file.name()).offset(at).found(len));
        }
        let name =
            String::from_utf8(file.read(&mut offset, len)?).map_err(|_| wrong("a name that is no text"))?;
        if columns.iter().any(|column| column.name == name) {
            return Err(wrong("two columns of one name").found(name));
        }
        columns.push(Column::coded(code, name).ok_or_else(|| wrong("no such kind of column").found(code))?);
    }
    Ok((columns, offset))
}

struct Set {
    file: File,
    columns: Vec<Column>,
    schema: SchemaRef,
    /// The number of each split's first row.
    firsts: Vec<u64>,
    splits: Vec<Split>,
}

impl RecordSet for Set {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    fn stream(&self, split: usize, batches: &Batches) -> Result<Batched> {
        let missing = || Error::plugin(format!("there is no split {split}"));
        let (first, split) = self.firsts.get(split).zip(self.splits.get(split)).ok_or_else(missing)?;
        let wanted = batches.columns.clone().unwrap_or_else(|| (0..self.columns.len()).collect());
        let schema = self.schema.project(&wanted).map_err(|error| Error::plugin(error.to_string()))?;
        Ok(Box::new(Stream {
            file: self.file.clone(),
            columns: self.columns.clone(),
            wanted,
            schema: Arc::new(schema),
            offset: split.offset,
            end: split.offset + split.bytes,
            row: *first,
            most: batches.clone(),
        }))
    }
}

struct Stream {
    file: File,
    columns: Vec<Column>,
    wanted: Vec<usize>,
    schema: SchemaRef,
    offset: u64,
    end: u64,
    /// The number of the next row.
    row: u64,
    most: Batches,
}

impl Stream {
    fn batch(&mut self) -> Result<RecordBatch> {
        let mut builders: Vec<Builder> = self.columns.iter().map(Builder::new).collect();
        let (mut rows, mut bytes) = (0, 0);
        while self.offset < self.end && rows < self.most.rows.max(1) && (rows == 0 || bytes < self.most.bytes)
        {
            let at = self.offset;
            let len = u64::from(u32::from_le_bytes(self.file.number(&mut self.offset)?));
            let row = self.file.read(&mut self.offset, len)?;
            let mut rest = &row[..];
            let place = |error: Error| error.file(self.file.name()).record(self.row).offset(at);
            for (builder, column) in builders.iter_mut().zip(&self.columns) {
                builder.push(&mut rest).map_err(|error| place(error.column(&column.name)))?;
            }
            if !rest.is_empty() {
                return Err(place(Error::malformed("a row that is longer than its values")));
            }
            self.row += 1;
            rows += 1;
            bytes += len;
        }
        let arrays = self.wanted.iter().map(|&column| builders[column].finish()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options);
        batch.map_err(|error| Error::plugin(error.to_string()))
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.end {
            return None;
        }
        let batch = self.batch();
        if batch.is_err() {
            self.offset = self.end;
        }
        Some(batch.map_err(stream_error))
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// A column's values of a batch.
enum Builder {
    Int(Int64Builder),
    Float(Float32Builder),
    Bytes(BinaryBuilder),
    Ints(ListBuilder<Int64Builder>),
    Floats(ListBuilder<Float32Builder>),
    ByteLists(ListBuilder<BinaryBuilder>),
}

impl Builder {
    fn new(column: &Column) -> Self {
        match (column.kind, column.is_list) {
            (Kind::Int, false) => Self::Int(Int64Builder::new()),
            (Kind::Float, false) => Self::Float(Float32Builder::new()),
            (Kind::Bytes, false) => Self::Bytes(BinaryBuilder::new()),
            (Kind::Int, true) => Self::Ints(ListBuilder::new(Int64Builder::new())),
            (Kind::Float, true) => Self::Floats(ListBuilder::new(Float32Builder::new())),
            (Kind::Bytes, true) => Self::ByteLists(ListBuilder::new(BinaryBuilder::new())),
        }
    }

    /// Takes a row's value.
    fn push(&mut self, rest: &mut &[u8]) -> Result<()> {
        let is_there = match take::<1>(rest)? {
            [0] => false,
            [1] => true,
            [other] => {
                return Err(Error::malformed("neither null nor a value").expected("0 or 1").found(other));
            }
        };
        match self {
            Self::Int(values) => values.append_option(is_there.then(|| int(rest)).transpose()?),
            Self::Float(values) => values.append_option(is_there.then(|| float(rest)).transpose()?),
            Self::Bytes(values) => values.append_option(is_there.then(|| bytes(rest)).transpose()?),
            Self::Ints(lists) => list(lists, is_there, rest, |values, rest| number(values, int(rest)))?,
            Self::Floats(lists) => list(lists, is_there, rest, |values, rest| number(values, float(rest)))?,
            Self::ByteLists(lists) => list(lists, is_there, rest, |values, rest| {
                values.append_value(bytes(rest)?);
                Ok(())
            })?,
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Int(values) => Arc::new(values.finish()),
            Self::Float(values) => Arc::new(values.finish()),
            Self::Bytes(values) => Arc::new(values.finish()),
            Self::Ints(lists) => Arc::new(lists.finish()),
            Self::Floats(lists) => Arc::new(lists.finish()),
            Self::ByteLists(lists) => Arc::new(lists.finish()),
        }
    }
}

/// Takes a list. Each value takes at least one of the row's bytes, so that what a count claims is not
/// allocated.
fn list<B: ArrayBuilder>(
    lists: &mut ListBuilder<B>,
    is_there: bool,
    rest: &mut &[u8],
    mut value: impl FnMut(&mut B, &mut &[u8]) -> Result<()>,
) -> Result<()> {
    if is_there {
        for _ in 0..u32::from_le_bytes(take(rest)?) {
            value(lists.values(), rest)?;
        }
    }
    lists.append(is_there);
    Ok(())
}

fn number<T: ArrowPrimitiveType>(values: &mut PrimitiveBuilder<T>, value: Result<T::Native>) -> Result<()> {
    values.append_value(value?);
    Ok(())
}

fn int(rest: &mut &[u8]) -> Result<i64> {
    take(rest).map(i64::from_le_bytes)
}

fn float(rest: &mut &[u8]) -> Result<f32> {
    take(rest).map(f32::from_le_bytes)
}

fn bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let len = u32::from_le_bytes(take(rest)?);
    let split = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
    let (bytes, left) = split.ok_or_else(cut)?;
    *rest = left;
    Ok(bytes)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    let (bytes, left) = rest.split_first_chunk().ok_or_else(cut)?;
    *rest = left;
    Ok(*bytes)
}

fn cut() -> Error {
    Error::malformed("a row that is shorter than its values")
}
