//! Decoders for base64, and for numbers and times that the decoders of `arrow_json` would read
//! incorrectly.

use super::surrogates;
use arrow_json::reader::{ArrayDecoder, Decoder, DecoderContext, DecoderFactory, Tape, TapeElement};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tensorferry_row_text::{ColumnLosses, exact};
use tensorferry_sdk::LossKind;
use tensorferry_sdk::arrow_array::builder::{
    BinaryBuilder, BinaryViewBuilder, FixedSizeBinaryBuilder, LargeBinaryBuilder,
};
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::Float64Type;
use tensorferry_sdk::arrow_array::{Array as _, ArrayRef, RecordBatch, make_array};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, FieldRef, Fields};

/// Decodes lines that contain `rows` rows. After an error, the decoder cannot be used.
pub(super) fn decode_lines(
    decoder: &mut Decoder,
    text: &[u8],
    rows: usize,
) -> Result<RecordBatch, ArrowError> {
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
    decoder.flush()?.filter(|batch| batch.num_rows() == rows).ok_or_else(others)
}

/// A float represents all integers up to this value exactly.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// A factory for decoders that differ from those of `arrow_json`. Bytes are decoded from base64
/// instead of hexadecimal digits. A value that the type cannot represent is rejected instead of
/// truncated.
#[derive(Debug)]
pub(super) struct ExactDecoders {
    fields: Fields,
    losses: ColumnLosses,
    looks_at_keys: bool,
    /// Number of columns for which `arrow_json` has created, or started to create, a decoder.
    /// `arrow_json` creates the decoders in the order of the columns, each together with its nested
    /// decoders.
    columns: AtomicUsize,
}

impl ExactDecoders {
    /// Creates a factory for columns. If `looks_at_keys` is set, the decoders report a loss for
    /// objects that repeat or lack keys of the schema.
    pub(super) fn new(fields: &Fields, losses: ColumnLosses, looks_at_keys: bool) -> Self {
        Self { fields: fields.clone(), losses, looks_at_keys, columns: AtomicUsize::new(0) }
    }

    /// Returns the column that contains a field, or `None` for the struct of all columns.
    fn column(&self, field: &FieldRef) -> Option<String> {
        let begun = self.columns.load(Ordering::Relaxed);
        let is_next = self.fields.get(begun).is_some_and(|next| Arc::ptr_eq(next, field));
        let begun = begun + usize::from(is_next);
        self.columns.store(begun, Ordering::Relaxed);
        Some(self.fields.get(begun.checked_sub(1)?)?.name().clone())
    }
}

impl DecoderFactory for ExactDecoders {
    fn make_default_decoder(
        &self,
        context: &DecoderContext,
        field: &FieldRef,
        is_nullable: bool,
    ) -> Result<Option<Box<dyn ArrayDecoder>>, ArrowError> {
        let data_type = field.data_type().clone();
        let column = self.column(field);
        let is_bytes = matches!(
            data_type,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)
        );
        let decoder: Box<dyn ArrayDecoder> = if is_bytes {
            Box::new(BytesDecoder(data_type))
        } else if data_type.is_numeric() || data_type.is_temporal() {
            let builtin = match exact::with_utc_offset(&data_type) {
                Some(known) => {
                    let known = Arc::new(field.as_ref().clone().with_data_type(known));
                    context.make_builtin_decoder(&known, is_nullable)?
                }
                None => context.make_builtin_decoder(field, is_nullable)?,
            };
            let losses = column.map(|column| (column, self.losses.clone()));
            Box::new(ExactDecoder { builtin, data_type, losses })
        } else if let (DataType::Struct(fields), true) = (&data_type, self.looks_at_keys) {
            Box::new(KeysDecoder::new(
                context.make_builtin_decoder(field, is_nullable)?,
                fields,
                column,
                self.losses.clone(),
            ))
        } else {
            context.make_builtin_decoder(field, is_nullable)?
        };
        Ok(Some(decoder))
    }
}

/// A decoder for numbers and times that accepts only values that the column type can represent
/// exactly.
struct ExactDecoder {
    builtin: Box<dyn ArrayDecoder>,
    data_type: DataType,
    /// Name of the column, and the collection to which its losses are added.
    losses: Option<(String, ColumnLosses)>,
}

impl ExactDecoder {
    /// Returns whether the type can represent a number or a string exactly.
    fn holds(&self, text: &str, is_number: bool) -> bool {
        // 1e3 and 2.0 are also integers. Numbers above 2^53 in this notation are rejected, because
        // a float may not represent them exactly.
        let is_whole = || {
            !text.contains(['.', 'e', 'E'])
                || text
                    .parse::<f64>()
                    .is_ok_and(|number| number.fract() == 0.0 && number.abs() <= MAX_EXACT_INTEGER)
        };
        match &self.data_type {
            whole if whole.is_integer() => !is_number || is_whole(),
            time if time.is_temporal() && is_number => is_whole(),
            other => exact::is_exact(text, other) && (is_number || exact::is_instant(text, other)),
        }
    }

    fn refused(&self, text: &str) -> ArrowError {
        ArrowError::JsonError(format!(
            "failed to parse {text} as {}, which cannot represent it",
            self.data_type
        ))
    }
}

impl ArrayDecoder for ExactDecoder {
    fn decode(&mut self, tape: &Tape<'_>, pos: &[u32]) -> Result<ArrayRef, ArrowError> {
        let text = |place: u32| match tape.get(place) {
            TapeElement::Number(text) => Some((tape.get_string(text), true)),
            TapeElement::String(text) => Some((tape.get_string(text), false)),
            _ => None,
        };
        let is_float = self.data_type.is_floating();
        if !is_float {
            let wrong = pos.iter().filter_map(|&place| text(place));
            if let Some((text, _)) = wrong.into_iter().find(|(text, is_number)| !self.holds(text, *is_number))
            {
                return Err(self.refused(text));
            }
        }
        let values = self.builtin.decode(tape, pos)?;
        let of_row = |row: usize| text(pos[row]).map_or("", |(text, _)| text);
        if let Some(row) = exact::overflowed(&values, of_row) {
            return Err(self.refused(of_row(row)));
        }
        if let (Some(floats), Some((column, losses))) =
            (values.as_primitive_opt::<Float64Type>(), &self.losses)
            && (0..floats.len()).any(|row| exact::loses_digits(of_row(row), floats.value(row)))
        {
            losses.add(column, LossKind::Precision, exact::LOST_DIGITS);
        }
        if values.data_type() == &self.data_type {
            return Ok(values);
        }
        // The values are the same points in time, but their type must contain the time zone's name.
        Ok(make_array(values.to_data().into_builder().data_type(self.data_type.clone()).build()?))
    }
}

/// A decoder for objects that may repeat keys, or whose keys may differ from those of the schema.
struct KeysDecoder {
    builtin: Box<dyn ArrayDecoder>,
    keys: Vec<String>,
    places: HashMap<String, usize>,
    /// Name of the column, or `None` for the struct of all columns.
    column: Option<String>,
    losses: ColumnLosses,
    /// For each key, the number of the last object that contains it. Objects are numbered from 1.
    last: Vec<usize>,
}

impl KeysDecoder {
    fn new(
        builtin: Box<dyn ArrayDecoder>,
        fields: &Fields,
        column: Option<String>,
        losses: ColumnLosses,
    ) -> Self {
        let keys: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
        let places = keys.iter().cloned().zip(0..).collect();
        let last = vec![0; keys.len()];
        Self { builtin, keys, places, column, losses, last }
    }
}

impl ArrayDecoder for KeysDecoder {
    fn decode(&mut self, tape: &Tape<'_>, pos: &[u32]) -> Result<ArrayRef, ArrowError> {
        self.last.fill(0);
        for (object, &place) in (1..).zip(pos) {
            let TapeElement::StartObject(end) = tape.get(place) else { continue };
            let (mut at, mut found) = (place + 1, 0);
            while at < end {
                let TapeElement::String(key) = tape.get(at) else { break };
                if let Some(&key) = self.places.get(tape.get_string(key)) {
                    if self.last[key] == object {
                        self.losses.add(&self.keys[key], LossKind::Record, super::REPEATED_KEY);
                    } else {
                        (self.last[key], found) = (object, found + 1);
                    }
                }
                at = tape.next(at + 1, "field value")?;
            }
            if let Some(column) = self.column.as_ref().filter(|_| found < self.keys.len()) {
                self.losses.add(column, LossKind::Record, super::ABSENT_KEYS);
            }
        }
        self.builtin.decode(tape, pos)
    }
}

struct BytesDecoder(DataType);

impl ArrayDecoder for BytesDecoder {
    fn decode(&mut self, tape: &Tape<'_>, pos: &[u32]) -> Result<ArrayRef, ArrowError> {
        let mut bytes = Vec::new();
        let mut each = |take: &mut dyn FnMut(Option<&[u8]>) -> Result<(), ArrowError>| {
            for &place in pos {
                match tape.get(place) {
                    TapeElement::Null => take(None)?,
                    TapeElement::String(text) => {
                        bytes.clear();
                        let decoded = STANDARD.decode_vec(tape.get_string(text), &mut bytes);
                        decoded.map_err(|error| ArrowError::JsonError(format!("invalid base64: {error}")))?;
                        take(Some(&bytes))?;
                    }
                    _ => return Err(tape.error(place, "bytes in base64")),
                }
            }
            Ok(())
        };
        macro_rules! built {
            ($builder:expr) => {{
                let mut builder = $builder;
                each(&mut |bytes| {
                    builder.append_option(bytes);
                    Ok(())
                })?;
                Arc::new(builder.finish())
            }};
        }
        Ok(match &self.0 {
            DataType::LargeBinary => built!(LargeBinaryBuilder::new()),
            DataType::BinaryView => built!(BinaryViewBuilder::new()),
            DataType::FixedSizeBinary(size) => {
                let mut builder = FixedSizeBinaryBuilder::new(*size);
                each(&mut |bytes| match bytes {
                    None => {
                        builder.append_null();
                        Ok(())
                    }
                    Some(bytes) => builder.append_value(bytes),
                })?;
                Arc::new(builder.finish())
            }
            _ => built!(BinaryBuilder::new()),
        })
    }
}
