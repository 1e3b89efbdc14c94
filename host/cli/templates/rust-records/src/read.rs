//! The reader. A file consists of a header and a sequence of rows. The SDK implements splits,
//! batches, ranges and projection.

use crate::MAGIC;
use crate::column::{Column, Kind};
use std::sync::Arc;
use tensorferry_sdk::arrow_schema::Schema;
use tensorferry_sdk::records::{
    Cell, DecodeRow, FileCursor, RecordReader, RecordSet, RowBuilder, RowBytes, RowSet,
};
use tensorferry_sdk::{Context, Error, LossSink, Result, Source};

/// Each split is read in a separate thread.
const ROWS_OF_A_SPLIT: u64 = 65_536;

pub(crate) struct Reader;

impl RecordReader for Reader {
    fn open(
        &self,
        source: Arc<dyn Source>,
        _losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>> {
        let (files, columns) = FileCursor::all(&source, ".tray", context.limits(), header)?;
        let schema = Schema::new(columns.iter().map(Column::field).collect::<Vec<_>>());
        Ok(Box::new(RowSet::new(Arc::new(schema), files, ROWS_OF_A_SPLIT, Rows(columns), context)?))
    }
}

fn header(at: &mut FileCursor) -> Result<Vec<Column>> {
    if at.take(MAGIC.len() as u64)? != MAGIC {
        return Err(Error::malformed("not a tray").file(at.file_name()).offset(0));
    }
    let mut columns: Vec<Column> = Vec::new();
    for _ in 0..u16::from_le_bytes(at.array()?) {
        let start = at.offset();
        let wrong = |what: &str| Error::malformed(what).offset(start);
        let [code, len] = at.array()?;
        let name = str::from_utf8(at.take(len.into())?).map(str::to_owned);
        let column = name.map_err(|_| wrong("a column's name is not UTF-8")).and_then(|name| {
            if columns.iter().any(|column| column.name == name) {
                return Err(wrong("two columns have the same name").found(name));
            }
            Column::coded(code, name).ok_or_else(|| wrong("no such kind of column").found(code))
        });
        columns.push(column.map_err(|error| error.file(at.file_name()))?);
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
        // Lengths are checked against the file and the limits before anything is allocated.
        let mut bytes = RowBytes(at.take(len.into())?);
        for column in &self.0 {
            row.push(cell(column.kind, &mut bytes).map_err(|error| error.column(&column.name))?)?;
        }
        bytes.end()
    }
}

fn cell<'a>(kind: Kind, row: &mut RowBytes<'a>) -> Result<Cell<'a>> {
    match (row.array()?, kind) {
        ([0], _) => Ok(Cell::Null),
        ([1], Kind::Integer) => Ok(Cell::Int(i64::from_le_bytes(row.array()?))),
        ([1], Kind::Float) => Ok(Cell::Float(f64::from_le_bytes(row.array()?))),
        ([1], Kind::Text) => {
            let len = u32::from_le_bytes(row.array()?);
            let text = str::from_utf8(row.take(len.into())?);
            text.map(Cell::Text).map_err(|_| Error::malformed("a string that is not UTF-8"))
        }
        ([other], _) => Err(Error::malformed("neither null nor a value").expected("0 or 1").found(other)),
    }
}
