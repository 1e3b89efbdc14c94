//! Streams the rows of one range of lines in batches.

use super::blocks::{Block, Blocks};
use super::decode::ExactDecoders;
use super::fault::{LineError, LinePosition, not_an_object, of_json, one_line};
use super::line_range::LineRange;
use super::surrogates;
use super::values_seen::ValuesSeen;
use arrow_json::ReaderBuilder;
use arrow_json::reader::Decoder;
use serde::de::IgnoredAny;
use std::collections::HashMap;
use std::sync::Arc;
use tensorferry_row_text::ColumnLosses;
use tensorferry_sdk::arrow_array::{RecordBatch, RecordBatchOptions};
use tensorferry_sdk::arrow_schema::{ArrowError, SchemaRef};
use tensorferry_sdk::records::{BatchStream, Projection, ScanRequest, batches};
use tensorferry_sdk::{Error, Limits, Result};

/// Maximum number of rows that are skipped in one step.
const SKIPPED_ROWS: usize = 1 << 16;

/// Settings for the line checks other than the type check.
pub(super) struct Checks {
    /// Whether a key that is not in the schema is an error.
    pub(super) is_strict: bool,
    /// Whether the lines have been scanned. If set, every line is valid JSON, and all losses that
    /// concern keys have already been reported.
    pub(super) is_scanned: bool,
    pub(super) seen: Option<ValuesSeen>,
    pub(super) losses: ColumnLosses,
}

/// Streams the requested fields and rows.
pub(super) fn open(
    range: &LineRange,
    schema: &SchemaRef,
    scan: &ScanRequest,
    checks: Checks,
    limits: &Limits,
) -> Result<BatchStream> {
    let wanted = match &scan.columns {
        None => schema.clone(),
        Some(paths) => Projection::new(schema, paths)?.schema(),
    };
    // A column takes memory for each row, even if the row has no value for the column.
    let columns = wanted.flattened_fields().len().max(1) as u64;
    let rows = (scan.bytes / (2 * columns)).max(1);
    let rows = usize::try_from(rows).unwrap_or(usize::MAX).min(scan.rows.max(1));
    let mut stream = Stream {
        blocks: Blocks::new(range, limits)?,
        range: range.clone(),
        decoding: Decoding { wanted: wanted.clone(), checks, decoder: None },
        rows,
        bytes: scan.bytes,
        skip: scan.first_row,
        left: scan.limit.unwrap_or(u64::MAX),
    };
    Ok(batches(wanted, move || stream.next_batch()))
}

struct Stream {
    range: LineRange,
    blocks: Blocks,
    decoding: Decoding,
    /// Maximum number of rows and bytes in a batch.
    rows: usize,
    bytes: u64,
    /// Number of rows to skip before the first requested row.
    skip: u64,
    /// Number of requested rows that have not been read.
    left: u64,
}

impl Stream {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.left == 0 {
            return Ok(None);
        }
        let most = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
        let (rows, bytes) = match self.skip {
            0 => (self.rows.min(most(self.left)), self.bytes),
            skip => (SKIPPED_ROWS.min(most(skip)), 1 << 20),
        };
        let Some(block) = self.blocks.next(rows, bytes)? else { return Ok(None) };
        if block.rows == 0 || self.skip > 0 {
            self.skip -= block.rows as u64;
            // Return an empty batch so that the caller can check for cancellation.
            return Ok(Some(RecordBatch::new_empty(self.decoding.wanted.clone())));
        }
        self.left -= block.rows as u64;
        if !self.decoding.checks.is_scanned
            && let Some((row, error)) =
                block.row_lines().find_map(|row| malformed(row.text).map(|e| (row, e)))
        {
            return Err(LinePosition { range: &self.range, offset: row.offset, line: row.line }.of(error));
        }
        let batch = self.decoding.batch(block.text, block.rows);
        let batch = batch.map_err(|error| self.decoding.find_bad_line(&self.range, &block, &error))?;
        if let Some(seen) = &self.decoding.checks.seen {
            seen.examine(&batch);
        }
        Ok(Some(batch))
    }
}

/// State for decoding lines.
struct Decoding {
    wanted: SchemaRef,
    checks: Checks,
    /// The decoder of the last batch, and its batch size, which is greater than the number of rows
    /// in any batch. The decoder is reused, because creating a decoder for thousands of columns
    /// takes far longer than decoding a row.
    decoder: Option<(usize, Decoder)>,
}

impl Decoding {
    /// Decodes lines that contain `rows` rows.
    fn batch(&mut self, text: &[u8], rows: usize) -> Result<RecordBatch, ArrowError> {
        // Remove the decoder from `self`, so that it is not reused after a failure.
        let (most, mut decoder) = match self.decoder.take().filter(|(most, _)| rows < *most) {
            Some(kept) => kept,
            None => {
                let losses = self.checks.losses.clone();
                let decoders = ExactDecoders::new(&self.wanted, losses, !self.checks.is_scanned);
                let builder = ReaderBuilder::new(self.wanted.clone())
                    .with_batch_size(rows + 1)
                    .with_strict_mode(self.checks.is_strict)
                    .with_decoder_factory(Arc::new(decoders));
                (rows + 1, builder.build_decoder()?)
            }
        };
        let joined = surrogates::joined(text);
        let mut rest = &*joined;
        while !rest.is_empty() {
            let read = decoder.decode(rest)?;
            if read == 0 {
                break;
            }
            rest = &rest[read..];
        }
        let others = || ArrowError::JsonError("a line does not contain exactly one object".to_owned());
        if !rest.trim_ascii().is_empty() || decoder.has_partial_record() {
            return Err(others());
        }
        let batch = decoder.flush()?.ok_or_else(others)?;
        if batch.num_rows() != rows {
            return Err(others());
        }
        self.decoder = Some((most, decoder));
        if batch.schema_ref() == &self.wanted {
            return Ok(batch);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.wanted.clone(), batch.columns().to_vec(), &options)
    }

    /// Decodes each line separately, and returns the error of the first line that fails. If no line
    /// fails, returns `error`.
    fn find_bad_line(&mut self, range: &LineRange, block: &Block<'_>, error: &ArrowError) -> Error {
        for row in block.row_lines() {
            if let Some(error) = self.line_error(row.text) {
                return LinePosition { range, offset: row.offset, line: row.line }.of(error);
            }
        }
        Error::malformed(one_line(&error.to_string())).file(range.file()).offset(block.offset)
    }

    fn line_error(&mut self, line: &[u8]) -> Option<LineError> {
        if let Some(error) = malformed(line) {
            return Some(error);
        }
        // Parsing to a map also checks the characters and escapes in keys.
        if let Err(error) = serde_json::from_slice::<HashMap<String, IgnoredAny>>(line) {
            return Some(of_json(&error, line));
        }
        let error = self.batch(line, 1).err()?;
        let text = match error {
            ArrowError::JsonError(text) => text,
            other => other.to_string(),
        };
        Some(LineError { at: None, error: Error::malformed(one_line(&text)) })
    }
}

/// Returns the error for a line that is not a valid JSON object. This check is needed because
/// `arrow_json` accepts trailing commas, more than one object, and numbers such as `01` and
/// `1.2.3`.
fn malformed(line: &[u8]) -> Option<LineError> {
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Some(not_an_object(line));
    }
    serde_json::from_slice::<IgnoredAny>(line).err().map(|error| of_json(&error, line))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::JsonLines;
    use tensorferry_sdk::records::Batches;
    use tensorferry_sdk::{Format as _, MemoryContext, MemorySource, Options, Side};

    #[test]
    fn a_column_that_no_row_has_costs_no_row_anything() {
        let text: Vec<_> = (0..200).map(|i| format!("{{\"k{}\": {i}}}", i / 10)).collect();
        let options = Options::check(&JsonLines.describe().options, Side::Reader, &[]).unwrap();
        let source = Arc::new(MemorySource::file("in.jsonl", text.join("\n")));
        let reader = JsonLines.record_reader(&options).unwrap();
        let set = reader.open(source, &mut Vec::new(), &MemoryContext::default()).unwrap();
        let request = Batches { rows: 10, ..Batches::default() };
        let all: Vec<_> = set.stream(0, &request).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(all.len(), 20);
        let mut made = 0;
        for column in 0..20 {
            let arrays = all.iter().map(|batch: &RecordBatch| batch.column(column));
            made += 1 + arrays.clone().zip(arrays.skip(1)).filter(|(a, b)| !Arc::ptr_eq(a, b)).count();
        }
        // Each column has three distinct arrays: one for its only batch with values, one array of
        // nulls before that batch, and one after it. The first and last columns have nulls on only
        // one side.
        assert_eq!(made, 20 * 3 - 2);
        assert_eq!(all[7].column(7).null_count(), 0);
        assert_eq!(all[7].column(8).null_count(), 10);
    }
}
