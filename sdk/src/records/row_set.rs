//! A record set for files whose rows are stored sequentially. The plugin author only implements the
//! decoding of a single row.

use super::{BatchStream, Batches, FileCursor, RecordSet, RowBuilder, ScanRequest, Split, narrowed};
use crate::{Context, Error, Result, records};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::sync::Arc;

/// A decoder for single rows.
pub trait DecodeRow: Send + Sync {
    /// Decodes the row at the cursor, and pushes a [`Cell`](super::Cell) for each column, in order.
    ///
    /// # Errors
    /// Returns an error if the row is malformed. The caller adds the file, the number and the
    /// offset of the row to the error.
    fn decode(&self, at: &mut FileCursor, row: &mut RowBuilder) -> Result<()>;

    /// Skips the row at the cursor.
    fn skip(&self, at: &mut FileCursor) -> Result<()>;
}

/// The rows of one or more files. In each file, the rows follow the header.
pub struct RowSet<D> {
    schema: SchemaRef,
    files: Vec<FileCursor>,
    splits: Vec<Split>,
    /// For each split, the index of its file and the number of its first row in that file.
    places: Vec<(usize, u64)>,
    decode: Arc<D>,
}

impl<D: DecodeRow + 'static> RowSet<D> {
    /// Creates a set of all rows from each cursor to the end of its file. Each split contains
    /// `rows_of_a_split` rows. The function checks the framing of every row.
    ///
    /// # Errors
    /// Returns an error if the framing is malformed or the user cancels the run.
    pub fn new(
        schema: SchemaRef,
        files: Vec<FileCursor>,
        rows_of_a_split: u64,
        decode: D,
        context: &dyn Context,
    ) -> Result<Self> {
        let (mut splits, mut places) = (Vec::new(), Vec::new());
        for (file, start) in files.iter().enumerate() {
            let (mut at, mut number) = (start.clone(), 0);
            while !at.is_at_end() {
                context.check_cancelled()?;
                let (offset, mut rows) = (at.offset(), 0);
                while rows < rows_of_a_split.max(1) && !at.is_at_end() {
                    decode.skip(&mut at)?;
                    rows += 1;
                }
                let bytes = at.offset() - offset;
                splits.push(Split { file: at.file_name().to_owned(), offset, bytes, records: Some(rows) });
                places.push((file, number));
                number += rows;
            }
        }
        Ok(Self { schema, files, splits, places, decode: Arc::new(decode) })
    }
}

impl<D: DecodeRow + 'static> RecordSet for RowSet<D> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    fn scan(&self, split: usize, scan: &ScanRequest) -> Result<BatchStream> {
        let place = self.splits.get(split).zip(self.places.get(split));
        let (of, &(file, number)) = place.ok_or_else(|| Error::plugin(format!("no split {split}")))?;
        let batches = scan.batches();
        let rows = of.records.unwrap_or(0);
        let mut stream = RowStream {
            decode: self.decode.clone(),
            at: self.files[file].part(of.offset, of.offset + of.bytes),
            builder: RowBuilder::new(&self.schema, batches.columns.as_deref())?,
            number,
            left: scan.limit.unwrap_or(rows).min(rows.saturating_sub(scan.first_row)),
            max: batches,
        };
        let schema = stream.builder.schema();
        for _ in 0..scan.first_row.min(rows) {
            stream.decode.skip(&mut stream.at)?;
            stream.number += 1;
        }
        let next = move || if stream.left > 0 { stream.batch().map(Some) } else { Ok(None) };
        narrowed(
            records::batches(schema, next),
            &self.schema,
            &ScanRequest { first_row: 0, limit: None, ..scan.clone() },
        )
    }
}

struct RowStream<D> {
    decode: Arc<D>,
    at: FileCursor,
    builder: RowBuilder,
    /// Number of the next row.
    number: u64,
    /// Number of requested rows that remain.
    left: u64,
    max: Batches,
}

impl<D: DecodeRow> RowStream<D> {
    fn batch(&mut self) -> Result<RecordBatch> {
        let begin = self.at.offset();
        let mut rows = 0;
        while rows < self.max.rows.max(1)
            && self.left > 0
            && (rows == 0 || self.at.offset() - begin < self.max.bytes)
        {
            let offset = self.at.offset();
            let decoded = self.decode.decode(&mut self.at, &mut self.builder);
            let decoded = decoded.and_then(|()| self.builder.end_row());
            decoded.map_err(|e| e.file(self.at.file_name()).record(self.number).offset(offset))?;
            (rows, self.number, self.left) = (rows + 1, self.number + 1, self.left - 1);
        }
        self.builder.finish()
    }
}
