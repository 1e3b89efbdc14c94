//! The reader. A file is a header followed by rows. The SDK handles splits, batches, ranges and
//! projection.

use crate::MAGIC;
use crate::column::{Column, Kind};
use std::sync::Arc;
use tensorferry_sdk::arrow_schema::{Field, Schema};
use tensorferry_sdk::records::{
    Cell, DecodeRow, FileCursor, RecordReader, RecordSet, RowBuilder, RowBytes, RowSet,
};
use tensorferry_sdk::{Context, Error, LossSink, Result, Source};

pub(crate) struct Reader(pub(crate) u64);

impl RecordReader for Reader {
    fn open(
        &self,
        source: Arc<dyn Source>,
        _losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>> {
        let (files, columns) = FileCursor::all(&source, ".rows", context.limits(), header)?;
        let schema = Schema::new(columns.iter().map(Column::field).collect::<Vec<Field>>());
        Ok(Box::new(RowSet::new(Arc::new(schema), files, self.0, Rows(columns), context)?))
    }
}

fn header(at: &mut FileCursor) -> Result<Vec<Column>> {
    if at.take(MAGIC.len() as u64)? != MAGIC {
        return Err(Error::malformed("not a file of rows").file(at.file_name()).offset(0));
    }
    let mut columns: Vec<Column> = Vec::new();
    for _ in 0..u16::from_le_bytes(at.array()?) {
        let start = at.offset();
        let [code, low, high] = at.array()?;
        let name = str::from_utf8(at.take(u16::from_le_bytes([low, high]).into())?).ok();
        let column = name.and_then(|name| Column::coded(code, name.to_owned()));
        let column = column.filter(|column| columns.iter().all(|other| other.name != column.name));
        let wrong = || Error::malformed("an unknown kind of column, or a repeated name").found(code);
        columns.push(column.ok_or_else(|| wrong().file(at.file_name()).offset(start))?);
    }
    Ok(columns)
}

struct Rows(Vec<Column>);

impl DecodeRow for Rows {
    fn skip(&self, at: &mut FileCursor) -> Result<()> {
        let len = u32::from_le_bytes(at.array()?);
        at.skip(len.into())
    }

    fn decode(&self, at: &mut FileCursor, row: &mut RowBuilder) -> Result<()> {
        let len = u32::from_le_bytes(at.array()?);
        let mut bytes = RowBytes(at.take(len.into())?);
        for column in &self.0 {
            row.push(cell(column, &mut bytes).map_err(|error| error.column(&column.name))?)?;
        }
        bytes.end()
    }
}

fn cell<'a>(column: &Column, row: &mut RowBytes<'a>) -> Result<Cell<'a>> {
    match row.array()? {
        [0] => Ok(Cell::Null),
        [1] if !column.is_list => value(column.kind, row),
        // A wrong count cannot cause a large allocation, because each value consumes bytes of the
        // row.
        [1] => (0..u32::from_le_bytes(row.array()?))
            .map(|_| value(column.kind, row))
            .collect::<Result<_>>()
            .map(Cell::List),
        [other] => Err(Error::malformed("wrong null marker").expected("0 or 1").found(other)),
    }
}

fn value<'a>(kind: Kind, row: &mut RowBytes<'a>) -> Result<Cell<'a>> {
    Ok(match kind {
        Kind::Int => Cell::Int(i64::from_le_bytes(row.array()?)),
        Kind::Float => Cell::Float(f32::from_le_bytes(row.array()?).into()),
        Kind::Bytes => {
            let len = u32::from_le_bytes(row.array()?);
            Cell::Bytes(row.take(len.into())?)
        }
    })
}
