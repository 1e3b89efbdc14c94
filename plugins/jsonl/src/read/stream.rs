//! Streams the rows of one range of lines in batches.

use super::blocks::{Block, Blocks};
use super::checks::{Basis, Checks};
use super::columns::column_decoder;
use super::decode::decode_lines;
use super::fault::{LineError, LinePosition, not_an_object, of_json, one_line};
use super::line_range::LineRange;
use super::objects::RowDecoder;
use arrow_json::ReaderBuilder;
use arrow_json::reader::Decoder;
use serde::de::IgnoredAny;
use std::collections::HashMap;
use tensorferry_sdk::arrow_array::{RecordBatch, RecordBatchOptions};
use tensorferry_sdk::arrow_schema::{ArrowError, SchemaRef};
use tensorferry_sdk::records::{BatchStream, Projection, ScanRequest, batches};
use tensorferry_sdk::{Error, ErrorKind, Limits, Result};

/// Maximum number of rows that are skipped in one step.
const SKIPPED_ROWS: usize = 1 << 16;

/// Streams the requested fields and rows.
pub(super) fn open(
    range: &LineRange,
    schema: &SchemaRef,
    scan: &ScanRequest,
    checks: Checks,
    limits: &Limits,
) -> Result<BatchStream> {
    let projection = scan.columns.as_ref().map(|paths| Projection::new(schema, paths)).transpose()?;
    let returned = projection.as_ref().map_or_else(|| schema.clone(), Projection::schema);
    // A guess is checked with all columns.
    let (wanted, projection) = match checks.basis {
        Basis::SampledLines => (schema.clone(), projection),
        _ => (returned.clone(), None),
    };
    // A column takes memory for each row, even if the row has no value for the column.
    let columns = wanted.flattened_fields().len().max(1) as u64;
    let rows = (scan.bytes / (2 * columns)).max(1);
    let rows = usize::try_from(rows).unwrap_or(usize::MAX).min(scan.rows.max(1));
    let mut stream = Stream {
        blocks: Blocks::new(range, limits)?,
        range: range.clone(),
        decoding: Decoding {
            row_decoder: RowDecoder::new(&wanted, &checks, column_decoder),
            wanted,
            checks,
            decoder: None,
        },
        rows,
        bytes: scan.bytes,
        skip: scan.first_row,
        left: scan.limit.unwrap_or(u64::MAX),
    };
    Ok(batches(returned, move || {
        let batch = stream.next_batch()?;
        match &projection {
            Some(projection) => batch.map(|batch| projection.batch(&batch)).transpose(),
            None => Ok(batch),
        }
    }))
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
        let block = self.blocks.next(rows, bytes).map_err(|error| match self.decoding.checks.basis {
            // If all lines were read first, an earlier line might be the first one with an error.
            Basis::SampledLines if matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Limit) => {
                Error::wrong_guess(error.to_string())
            }
            _ => error,
        });
        let Some(block) = block? else { return Ok(None) };
        if block.rows == 0 || self.skip > 0 {
            self.skip -= block.rows as u64;
            // Return an empty batch so that the caller can check for cancellation.
            return Ok(Some(RecordBatch::new_empty(self.decoding.wanted.clone())));
        }
        self.left -= block.rows as u64;
        let batch = self.decoding.decode(&self.range, &block)?;
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
    /// A decoder for the usual forms of values, or `None` if it does not support a type.
    row_decoder: Option<RowDecoder>,
    /// The `arrow_json` decoder of the last batch, and its batch size, which is greater than the
    /// number of rows in any batch. The decoder is reused, because creating a decoder for thousands
    /// of columns takes far longer than decoding a row.
    decoder: Option<(usize, Decoder)>,
}

impl Decoding {
    /// Decodes the rows of a block.
    fn decode(&mut self, range: &LineRange, block: &Block<'_>) -> Result<RecordBatch> {
        if let Some(batch) = self.row_decoder.as_mut().and_then(|rows| rows.batch(block.text, block.rows)) {
            return Ok(batch);
        }
        if self.checks.basis == Basis::SampledLines {
            return Err(Error::wrong_guess("a line does not fit the sampled lines"));
        }
        self.row_decoder = RowDecoder::new(&self.wanted, &self.checks, column_decoder);
        if self.checks.basis == Basis::Given
            && let Some((row, error)) =
                block.row_lines().find_map(|row| malformed(row.text).map(|e| (row, e)))
        {
            return Err(LinePosition { range, offset: row.offset, line: row.line }.of(error));
        }
        self.batch(block.text, block.rows).map_err(|error| self.find_bad_line(range, block, &error))
    }

    /// Decodes lines that contain `rows` rows with `arrow_json`.
    fn batch(&mut self, text: &[u8], rows: usize) -> Result<RecordBatch, ArrowError> {
        // Remove the decoder from `self`, so that it is not reused after a failure.
        let (most, mut decoder) = match self.decoder.take().filter(|(most, _)| rows < *most) {
            Some(kept) => kept,
            None => {
                let builder = ReaderBuilder::new(self.wanted.clone()).with_batch_size(rows + 1);
                (rows + 1, self.checks.decoders(builder, self.wanted.fields()).build_decoder()?)
            }
        };
        let batch = decode_lines(&mut decoder, text, rows)?;
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
    use std::sync::Arc;
    use tensorferry_row_text::ColumnLosses;
    use tensorferry_sdk::arrow_schema::{DataType, Field, Schema, TimeUnit};
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

    /// Decodes lines with `RowDecoder` and with `arrow_json`.
    fn both(data_type: &DataType, value: &str) -> (Option<RecordBatch>, Option<RecordBatch>) {
        let schema = Arc::new(Schema::new(vec![Field::new("v", data_type.clone(), true)]));
        let (losses, basis) = (ColumnLosses::default(), Basis::Given);
        let checks = Checks { is_strict: false, basis, seen: None, losses };
        let row_decoder = RowDecoder::new(&schema, &checks, column_decoder);
        let mut decoding = Decoding { wanted: schema, checks, row_decoder, decoder: None };
        let text = format!("{{\"v\": {value}}}\n{{\"other\": [{value}]}}\n {{}}\r\n\n{{\"v\":{value} }}");
        let fast = decoding.row_decoder.as_mut().unwrap().batch(text.as_bytes(), 4);
        let is_valid = text.lines().all(|line| line.is_empty() || malformed(line.as_bytes()).is_none());
        let slow = decoding.batch(text.as_bytes(), 4).ok().filter(|_| is_valid);
        (fast, slow)
    }

    #[test]
    fn both_decoders_return_the_same_rows() {
        use DataType::{
            Binary, Boolean, Decimal128, FixedSizeList, Float16, Float32, Float64, Int8, Int64, LargeUtf8,
            List, Null, Struct, Timestamp, UInt64, Utf8, Utf8View,
        };
        let item = |data_type: DataType| Arc::new(Field::new_list_field(data_type, true));
        let part = |name: &str, data_type| Field::new(name, data_type, true);
        let time = Timestamp(TimeUnit::Millisecond, None);
        let parts = Struct(vec![part("a", Int64), part("q\"é", Utf8), part("t", time.clone())].into());
        let entries = Struct(vec![Field::new("key", Utf8, false), part("value", Float64)].into());
        let map = DataType::Map(Arc::new(Field::new("entries", entries, false)), false);
        // `RowDecoder` handles the values in the first list of each type.
        let cases: [(DataType, &[&str], &[&str]); 18] = [
            (Null, &["null"], &["1"]),
            (Boolean, &["true", "false", "null"], &["1", "truex", "\"true\""]),
            (Int8, &["-128", "127", "0"], &["128", "-129", "-0", "1e1", "1.0", "\"5\"", "1.5", "01"]),
            (Int64, &["9223372036854775807", "-9223372036854775808"], &["9223372036854775808", "[]"]),
            (UInt64, &["18446744073709551615", "0"], &["18446744073709551616", "-1"]),
            (Float16, &["1.5", "\"NaN\"", "65504"], &["70000"]),
            (Float32, &["0.1", "16777217", "\"Infinity\"", "3.4028235e38", "-0"], &["1e39", "\"1.5\""]),
            (Float64, &["0.1", "5e-324", "-0", "\"-Infinity\"", "12345678901234567890"], &["1e400", "\"x\""]),
            (Utf8, &["\"\"", "\"a\\u00e9\\ud83d\\ude00\"", "\"é\"", "null"], &["1", "\"\\ud800\"", "\"\t\""]),
            (LargeUtf8, &["\"a\""], &["true"]),
            (Utf8View, &["\"a\"", "\"a much longer string\""], &["1"]),
            (Binary, &["\"/wBh\"", "null"], &["\"?\"", "1"]),
            (time, &["\"2020-01-01T12:34:56.789\"", "5"], &["\"2020-01-01T12:34:56.7891\"", "1.5"]),
            (Decimal128(10, 2), &["1.25", "\"1.5\"", "125e-2"], &["1.255", "\"x\""]),
            (List(item(List(item(Int64)))), &["[]", "[[1, 2], null, []]", "null"], &["[1]", "[[1,]]"]),
            (FixedSizeList(item(Float64), 2), &["[1,null]", "null"], &["[1]", "[1, 2, 3]"]),
            (
                List(item(parts)),
                &[
                    "[{\"a\": 1, \"q\\\"é\": \"x\"}, {\"t\": 5, \"q\\u0022\\u00e9\": null, \"z\": {}}, {}, null]",
                ],
                &["[{\"a\": 1, \"a\": 2}]", "[{\"a\" 1}]", "{}"],
            ),
            (map, &["{}", "{\"a\": 0.5, \"b\": null}"], &["[]", "{\"a\": \"x\"}"]),
        ];
        for (data_type, plain, others) in cases {
            for value in plain {
                let (fast, slow) = both(&data_type, value);
                assert!(fast.is_some() && fast == slow, "{data_type} {value}: {fast:?} {slow:?}");
            }
            for value in others {
                assert_eq!(both(&data_type, value).0, None, "{data_type} {value}");
            }
        }
    }
}
