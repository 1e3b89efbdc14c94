//! Encodes rows as lines.

use super::values::{ValueLosses, changed};
use arrow_json::writer::make_encoder;
use std::collections::HashSet;
use std::sync::Arc;
use tensorferry_row_text::MIN_BLOCK_BYTES;
use tensorferry_row_text::json::{JsonEncoders, NonFinite, has_fractions};
use tensorferry_sdk::arrow_array::{RecordBatch, StructArray, new_empty_array};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};
use tensorferry_sdk::records::{has_type, type_text};
use tensorferry_sdk::{ByteSink, Error, Loss, LossKind, Result};

#[derive(Debug)]
pub(super) struct Lines {
    /// Indices of the columns that JSON can represent, or `None` for all columns.
    kept: Option<Vec<usize>>,
    nulls: bool,
}

/// Creates an encoder for the columns of `schema` that JSON can represent. Also returns the losses.
pub(super) fn lines(schema: &Schema, nulls: bool) -> Result<(Lines, Vec<Loss>)> {
    let (mut kept, mut losses) = (Vec::new(), Vec::new());
    let mut names = HashSet::new();
    for (index, field) in schema.fields().iter().enumerate() {
        if !names.insert(field.name()) {
            return Err(Error::unsupported("two columns have the same name")
                .column(field.name())
                .hint("rename one of them"));
        }
        if let Err(error) = writable(field) {
            let why = format!("JSON cannot represent {}: {error}", type_text(field.data_type()));
            losses.push(Loss::new(LossKind::Record, field.name(), why));
            continue;
        }
        kept.push(index);
        let strings = "and read as strings unless the schema sets another type";
        for (is_such, what, how, so) in [
            (is_bytes as fn(&DataType) -> bool, "bytes", "as base64", strings),
            (is_time, "times", "as text", strings),
            (
                has_fractions,
                "decimals",
                "as numbers",
                "and read as floats unless the schema sets another type",
            ),
            (is_map, "maps", "as objects", "and read as structs with the keys of all rows"),
            (is_union, "unions", "as their values", "and may be read as a different type"),
        ] {
            if has_type(field.data_type(), &is_such) {
                losses.push(changed(field.name(), format!("JSON has no {what}: written {how}, {so}")));
            }
        }
    }
    if kept.is_empty() && !losses.is_empty() {
        return Err(Error::unsupported("JSON cannot represent any of the columns").found(&losses[0].why));
    }
    let kept = (kept.len() < schema.fields().len()).then_some(kept);
    Ok((Lines { kept, nulls }, losses))
}

/// Checks that `arrow_json` can create an encoder for the column.
fn writable(field: &FieldRef) -> Result<(), ArrowError> {
    let array = new_empty_array(field.data_type());
    let options = JsonEncoders::new(NonFinite::Quoted).options(true);
    make_encoder(field, &array, &options).map(drop)
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    matches!(data_type, Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

fn is_time(data_type: &DataType) -> bool {
    data_type.is_temporal()
}

fn is_map(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Map(..))
}

fn is_union(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Union(..))
}

impl Lines {
    /// Appends the lines for the rows in `batches` to `text`. Returns the losses that encoding the
    /// values caused. If `blocks` is set, it receives the text in blocks, except for the last block.
    pub(super) fn encode(
        &self,
        batches: &[RecordBatch],
        text: &mut Vec<u8>,
        mut blocks: Option<&mut dyn ByteSink>,
    ) -> Result<Vec<Loss>> {
        let refused = |error: ArrowError| {
            Error::unsupported(error.to_string()).context("JSON cannot represent these rows")
        };
        let mut losses = ValueLosses::default();
        let encoders = JsonEncoders::new(NonFinite::Quoted);
        let options = encoders.options(self.nulls);
        for batch in batches {
            let projected =
                self.kept.as_ref().map(|kept| batch.project(kept)).transpose().map_err(refused)?;
            let batch = projected.as_ref().unwrap_or(batch);
            losses.examine(batch);
            let rows = StructArray::from(batch.clone());
            let field = Arc::new(Field::new_struct("", rows.fields().clone(), false));
            let mut encoder = make_encoder(&field, &rows, &options).map_err(refused)?;
            for row in 0..batch.num_rows() {
                encoder.encode(row, text);
                text.push(b'\n');
                if text.len() >= MIN_BLOCK_BYTES
                    && let Some(blocks) = &mut blocks
                {
                    blocks.write(text)?;
                    text.clear();
                }
            }
            encoders.check_batch(batch)?;
        }
        Ok(losses.losses())
    }
}
