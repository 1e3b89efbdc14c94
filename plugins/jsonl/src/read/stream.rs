//! Streams the rows of one range of lines in batches.

use super::blocks::{Block, Blocks};
use super::decode::ExactDecoders;
use super::fault::{LineError, Place, not_an_object, of_json, one_line};
use super::line_range::LineRange;
use arrow_json::ReaderBuilder;
use serde::de::IgnoredAny;
use std::collections::HashMap;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::{RecordBatch, RecordBatchOptions, RecordBatchReader};
use tensorferry_sdk::arrow_schema::{ArrowError, SchemaRef};
use tensorferry_sdk::records::{Batched, Batches, stream_error};
use tensorferry_sdk::{Error, Limits, Result};

/// Streams the columns that are asked for; if it `is_strict`, another key is an error.
///
/// # Errors
/// I/o.
pub(super) fn open(
    range: &LineRange,
    schema: &SchemaRef,
    request: &Batches,
    is_strict: bool,
    limits: &Limits,
) -> Result<Batched> {
    let wanted = match &request.columns {
        None => schema.clone(),
        Some(columns) => {
            let projected = schema.project(columns);
            Arc::new(projected.map_err(|error| Error::plugin(one_line(&error.to_string())))?)
        }
    };
    // A column costs memory for each row, whether the row has it or not.
    let columns = wanted.flattened_fields().len().max(1) as u64;
    let rows = (request.bytes / (2 * columns)).max(1);
    let request = Batches {
        rows: usize::try_from(rows).unwrap_or(usize::MAX).min(request.rows.max(1)),
        ..request.clone()
    };
    Ok(Box::new(Stream {
        blocks: Some(Blocks::new(range, limits)?),
        range: range.clone(),
        wanted,
        is_strict,
        request,
    }))
}

struct Stream {
    range: LineRange,
    /// None when it has ended.
    blocks: Option<Blocks>,
    wanted: SchemaRef,
    is_strict: bool,
    request: Batches,
}

impl Stream {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some(blocks) = &mut self.blocks else { return Ok(None) };
        while let Some(block) = blocks.next(self.request.rows, self.request.bytes)? {
            if block.rows == 0 {
                continue;
            }
            let decoding = Decoding { wanted: &self.wanted, is_strict: self.is_strict };
            let batch = decoding.batch(block.text, block.rows);
            return batch.map(Some).map_err(|error| decoding.culprit(&self.range, &block, &error));
        }
        Ok(None)
    }
}

/// What lines are decoded to.
struct Decoding<'a> {
    wanted: &'a SchemaRef,
    is_strict: bool,
}

impl Decoding<'_> {
    /// The rows of a text that has so many.
    fn batch(&self, text: &[u8], rows: usize) -> Result<RecordBatch, ArrowError> {
        let mut decoder = ReaderBuilder::new(self.wanted.clone())
            .with_batch_size(rows + 1)
            .with_strict_mode(self.is_strict)
            .with_decoder_factory(Arc::new(ExactDecoders))
            .build_decoder()?;
        let mut rest = text;
        while !rest.is_empty() {
            let read = decoder.decode(rest)?;
            if read == 0 {
                break;
            }
            rest = &rest[read..];
        }
        let others = || ArrowError::JsonError("there is not one object a line".to_owned());
        if !rest.trim_ascii().is_empty() || decoder.has_partial_record() {
            return Err(others());
        }
        let batch = decoder.flush()?.ok_or_else(others)?;
        if batch.num_rows() != rows {
            return Err(others());
        }
        if batch.schema_ref() == self.wanted {
            return Ok(batch);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.wanted.clone(), batch.columns().to_vec(), &options)
    }

    /// The error of the first line that cannot be decoded alone; `error` where each can.
    fn culprit(&self, range: &LineRange, block: &Block<'_>, error: &ArrowError) -> Error {
        let mut offset = block.offset;
        for (index, line) in block.text.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let place = Place { range, offset, line: block.line + index as u64 };
            if let Some(error) = self.line_error(line) {
                return place.of(error);
            }
            offset += line.len() as u64;
        }
        Error::malformed(one_line(&error.to_string())).file(range.file()).offset(block.offset)
    }

    fn line_error(&self, line: &[u8]) -> Option<LineError> {
        let trimmed = line.trim_ascii();
        if trimmed.is_empty() {
            return None;
        }
        if trimmed.first() != Some(&b'{') {
            return Some(not_an_object(line));
        }
        if let Err(error) = serde_json::from_slice::<HashMap<String, IgnoredAny>>(line) {
            return Some(of_json(&error));
        }
        let error = self.batch(line, 1).err()?;
        let text = match error {
            ArrowError::JsonError(text) => text,
            other => other.to_string(),
        };
        Some(LineError { at: None, error: Error::malformed(one_line(&text)) })
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.blocks = None;
        }
        next.map(|batch| batch.map_err(stream_error))
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        self.wanted.clone()
    }
}
