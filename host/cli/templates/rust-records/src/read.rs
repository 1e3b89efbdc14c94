//! The reader: it opens a file as a schema and one split, which is read as a stream of batches.

use crate::MAGIC;
use crate::column::{Column, Kind};
use std::sync::Arc;
use tensorferry_sdk::arrow_array::builder::{Float64Builder, Int64Builder, StringBuilder};
use tensorferry_sdk::arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, RecordBatchReader};
use tensorferry_sdk::arrow_schema::{ArrowError, Schema, SchemaRef};
use tensorferry_sdk::records::{Batched, Batches, RecordReader, RecordSet, Split, stream_error};
use tensorferry_sdk::{Context, Entry, Error, FileId, Limits, LossSink, Result, Source};

pub(crate) struct Reader;

impl RecordReader for Reader {
    fn open(
        &self,
        source: Arc<dyn Source>,
        _losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>> {
        let Entry::File(path) = source.entry() else {
            return Err(Error::unsupported("a tray is one file").found(source.entry().name()));
        };
        let id = source.open(path)?;
        let mut file = File { source, id, limits: context.limits().clone(), offset: 0 };
        if file.take(MAGIC.len() as u64)? != MAGIC {
            return Err(Error::malformed("not a tray").file(file.name()).offset(0));
        }
        let mut columns: Vec<Column> = Vec::new();
        for _ in 0..u16::from_le_bytes(file.array()?) {
            let at = file.offset;
            let wrong = |file: &File, what: &str| Error::malformed(what).file(file.name()).offset(at);
            let [code, len] = file.array()?;
            if u64::from(len) > file.limits.name_bytes {
                return Err(Error::limit("a name is too long").file(file.name()).offset(at).found(len));
            }
            let name = String::from_utf8(file.take(len.into())?)
                .map_err(|_| wrong(&file, "a column's name is not UTF-8"))?;
            if columns.iter().any(|column| column.name == name) {
                return Err(wrong(&file, "two columns of one name").found(name));
            }
            let column = Column::coded(code, name);
            columns.push(column.ok_or_else(|| wrong(&file, "no such kind of column").found(code))?);
        }
        let schema = Arc::new(Schema::new(columns.iter().map(Column::field).collect::<Vec<_>>()));
        // A larger format has several splits, which are read on several threads.
        let (name, bytes) = (file.name().to_owned(), file.source.len(id) - file.offset);
        let splits = vec![Split { file: name, offset: file.offset, bytes, records: None }];
        Ok(Box::new(Set { file, columns, schema, splits }))
    }
}

/// A file, and where it is read next.
#[derive(Clone)]
struct File {
    source: Arc<dyn Source>,
    id: FileId,
    limits: Limits,
    offset: u64,
}

impl File {
    fn name(&self) -> &str {
        self.source.name(self.id)
    }

    /// The next bytes. `read_vec` compares the length with the file and with the limits before it allocates.
    fn take(&mut self, len: u64) -> Result<Vec<u8>> {
        let bytes = self.source.read_vec(self.id, self.offset, len, &self.limits)?;
        self.offset += len;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.source.read_at(self.id, self.offset, &mut bytes)?;
        self.offset += N as u64;
        Ok(bytes)
    }
}

struct Set {
    /// Where its first row begins.
    file: File,
    columns: Vec<Column>,
    schema: SchemaRef,
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
        if split >= self.splits.len() {
            return Err(Error::plugin(format!("there is no split {split}")));
        }
        let wanted = batches.columns.clone().unwrap_or_else(|| (0..self.columns.len()).collect());
        let schema = self.schema.project(&wanted).map_err(|error| Error::plugin(error.to_string()))?;
        Ok(Box::new(Stream {
            file: self.file.clone(),
            end: self.file.source.len(self.file.id),
            columns: self.columns.clone(),
            wanted,
            schema: Arc::new(schema),
            row: 0,
            most: batches.clone(),
        }))
    }
}

struct Stream {
    file: File,
    end: u64,
    columns: Vec<Column>,
    wanted: Vec<usize>,
    schema: SchemaRef,
    /// The number of the next row.
    row: u64,
    most: Batches,
}

impl Stream {
    fn batch(&mut self) -> Result<RecordBatch> {
        let mut values: Vec<Values> = self.columns.iter().map(|column| Values::of(column.kind)).collect();
        let (mut rows, mut bytes) = (0, 0);
        while self.file.offset < self.end
            && rows < self.most.rows.max(1)
            && (rows == 0 || bytes < self.most.bytes)
        {
            let (at, number) = (self.file.offset, self.row);
            let len = u64::from(u32::from_le_bytes(self.file.array()?));
            let row = self.file.take(len)?;
            let mut rest = &row[..];
            let place = |file: &File, error: Error| error.file(file.name()).record(number).offset(at);
            for (values, column) in values.iter_mut().zip(&self.columns) {
                values.push(&mut rest).map_err(|error| place(&self.file, error.column(&column.name)))?;
            }
            if !rest.is_empty() {
                return Err(place(&self.file, Error::malformed("a row that is longer than its values")));
            }
            self.row += 1;
            rows += 1;
            bytes += len;
        }
        let arrays = self.wanted.iter().map(|&column| values[column].finish()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options);
        batch.map_err(|error| Error::plugin(error.to_string()))
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.file.offset >= self.end {
            return None;
        }
        let batch = self.batch();
        if batch.is_err() {
            // A stream that failed has ended.
            self.file.offset = self.end;
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
enum Values {
    Integers(Int64Builder),
    Floats(Float64Builder),
    Texts(StringBuilder),
}

impl Values {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Integer => Self::Integers(Int64Builder::new()),
            Kind::Float => Self::Floats(Float64Builder::new()),
            Kind::Text => Self::Texts(StringBuilder::new()),
        }
    }

    /// Takes a row's value from what is left of the row.
    fn push(&mut self, rest: &mut &[u8]) -> Result<()> {
        let [mark] = array(rest)?;
        if mark > 1 {
            return Err(Error::malformed("neither null nor a value").expected("0 or 1").found(mark));
        }
        let is_there = mark == 1;
        match self {
            Self::Integers(values) => {
                values.append_option(is_there.then(|| array(rest)).transpose()?.map(i64::from_le_bytes));
            }
            Self::Floats(values) => {
                values.append_option(is_there.then(|| array(rest)).transpose()?.map(f64::from_le_bytes));
            }
            Self::Texts(values) => values.append_option(is_there.then(|| text(rest)).transpose()?),
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Integers(values) => Arc::new(values.finish()),
            Self::Floats(values) => Arc::new(values.finish()),
            Self::Texts(values) => Arc::new(values.finish()),
        }
    }
}

fn array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    let (bytes, left) = rest.split_first_chunk().ok_or_else(cut)?;
    *rest = left;
    Ok(*bytes)
}

fn text<'a>(rest: &mut &'a [u8]) -> Result<&'a str> {
    let len = usize::try_from(u32::from_le_bytes(array(rest)?)).map_err(|_| cut())?;
    let (bytes, left) = rest.split_at_checked(len).ok_or_else(cut)?;
    *rest = left;
    std::str::from_utf8(bytes).map_err(|_| Error::malformed("a text that is not UTF-8"))
}

fn cut() -> Error {
    Error::malformed("a row that is shorter than its values")
}
