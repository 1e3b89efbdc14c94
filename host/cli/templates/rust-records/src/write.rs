//! The writer. Each file starts with the header. Each piece is a sequence of rows that does not
//! depend on other pieces.

use crate::MAGIC;
use crate::column::{Column, Kind};
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::{Float64Type, Int64Type};
use tensorferry_sdk::arrow_array::{Array, ArrayRef, RecordBatch};
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::records::{RecordPlan, RecordWriter};
use tensorferry_sdk::{ByteSink, Context, Error, Loss, LossKind, LossSink, Result, Target};

pub(crate) struct Writer;

impl RecordWriter for Writer {
    fn plan(
        &self,
        schema: &SchemaRef,
        _rows: Option<u64>,
        target: &Target,
        losses: &mut dyn LossSink,
        _context: &dyn Context,
    ) -> Result<Box<dyn RecordPlan>> {
        let mut columns: Vec<(usize, Column)> = Vec::new();
        for (place, field) in schema.fields().iter().enumerate() {
            let Some(column) = Column::of(field) else {
                // A column that is missing from the output is reported to the user as a loss.
                let why = format!("a tray stores only int64, float64 and text with short names, not {}", field.data_type());
                losses.loss(Loss::new(LossKind::Record, field.name(), why))?;
                continue;
            };
            if columns.iter().any(|(_, other)| other.name == column.name) {
                return Err(Error::unsupported("two columns have the same name: rename one").column(column.name));
            }
            columns.push((place, column));
        }
        if u16::try_from(columns.len()).is_err() || (columns.is_empty() && !schema.fields().is_empty()) {
            return Err(Error::unsupported("no column that a tray can store, or more than 65535 columns"));
        }
        Ok(Box::new(Plan { files: vec![target.file_or("rows.tray").to_owned()], columns }))
    }
}

struct Plan {
    files: Vec<String>,
    /// The columns, each with its index in a row.
    columns: Vec<(usize, Column)>,
}

impl RecordPlan for Plan {
    fn files(&self) -> &[String] {
        &self.files
    }

    fn begin(&self, _file: usize, output: &mut dyn ByteSink) -> Result<()> {
        let mut header = MAGIC.to_vec();
        header.extend(u16::try_from(self.columns.len()).unwrap_or(u16::MAX).to_le_bytes());
        for (_, column) in &self.columns {
            header.extend([column.code, u8::try_from(column.name.len()).unwrap_or(u8::MAX)]);
            header.extend(column.name.as_bytes());
        }
        output.write(&header)
    }

    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        _losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for batch in batches {
            for row in 0..batch.num_rows() {
                let start = bytes.len();
                bytes.extend([0; 4]);
                for (place, column) in &self.columns {
                    push(&mut bytes, column.kind, batch.column(*place), row)
                        .map_err(|error| error.column(&column.name))?;
                }
                let len = len(bytes.len() - start - 4)?;
                bytes[start..start + 4].copy_from_slice(&len);
            }
        }
        output.write(&bytes)?;
        // `finish` does not need any information about the piece.
        Ok(Vec::new())
    }
}

fn push(bytes: &mut Vec<u8>, kind: Kind, column: &ArrayRef, row: usize) -> Result<()> {
    bytes.push(u8::from(column.is_valid(row)));
    if column.is_null(row) {
        return Ok(());
    }
    match kind {
        Kind::Integer => bytes.extend(column.as_primitive::<Int64Type>().value(row).to_le_bytes()),
        Kind::Float => bytes.extend(column.as_primitive::<Float64Type>().value(row).to_le_bytes()),
        Kind::Text => {
            let text = column.as_string::<i32>().value(row);
            bytes.extend(len(text.len())?);
            bytes.extend(text.as_bytes());
        }
    }
    Ok(())
}

fn len(len: usize) -> Result<[u8; 4]> {
    u32::try_from(len).map(u32::to_le_bytes).map_err(|_| Error::unsupported("a row of more than 4 GiB"))
}
