//! Encodes rows as lines.

use arrow_json::writer::{LineDelimited, NullableEncoder, WriterBuilder, make_encoder};
use arrow_json::{Encoder, EncoderFactory, EncoderOptions};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use indexmap::IndexMap;
use std::collections::HashSet;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::temporal_conversions::as_datetime;
use tensorferry_sdk::arrow_array::types::{
    ArrowPrimitiveType, ArrowTimestampType, Float16Type, Float32Type, Float64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use tensorferry_sdk::arrow_array::{Array, RecordBatch, UnionArray, new_empty_array};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, FieldRef, Schema, TimeUnit};
use tensorferry_sdk::records::type_text;
use tensorferry_sdk::{Error, Loss, LossKind, Result, Severity};

/// How rows become lines.
#[derive(Debug)]
pub(super) struct Lines {
    /// The columns that JSON can say; all, if nothing is here.
    kept: Option<Vec<usize>>,
    nulls: bool,
}

/// What of `schema` can be written, and what is lost.
///
/// # Errors
/// Unsupported, if no column can be; usage, if two have one name.
pub(super) fn lines(schema: &Schema, nulls: bool) -> Result<(Lines, Vec<Loss>)> {
    let (mut kept, mut losses) = (Vec::new(), Vec::new());
    let mut names = HashSet::new();
    for (index, field) in schema.fields().iter().enumerate() {
        if !names.insert(field.name()) {
            return Err(Error::unsupported("two columns of one name: rename one").found(field.name()));
        }
        if let Err(error) = writable(field) {
            let why = format!("JSON has no {}: {error}", type_text(field.data_type()));
            losses.push(Loss::new(LossKind::Record, field.name(), why));
            continue;
        }
        kept.push(index);
        let strings = "and are read as strings unless the schema says otherwise";
        for (is_such, what, how, so) in [
            (is_bytes as fn(&DataType) -> bool, "bytes", "as base64", strings),
            (is_time, "times", "as text", strings),
            (is_union, "unions", "as their values", "which may be read as another type"),
        ] {
            if has(field.data_type(), is_such) {
                losses
                    .push(changed(field.name(), format!("JSON has no {what}: they are written {how}, {so}")));
            }
        }
    }
    if kept.is_empty() && !losses.is_empty() {
        return Err(Error::unsupported("no column that JSON can say").found(&losses[0].why));
    }
    let kept = (kept.len() < schema.fields().len()).then_some(kept);
    Ok((Lines { kept, nulls }, losses))
}

/// The library's own word: whether it makes an encoder for such a column.
fn writable(field: &FieldRef) -> Result<(), ArrowError> {
    let array = new_empty_array(field.data_type());
    let options = EncoderOptions::default().with_encoder_factory(Arc::new(StringEncoders::default()));
    make_encoder(field, &array, &options).map(drop)
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    matches!(data_type, Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

fn is_time(data_type: &DataType) -> bool {
    data_type.is_temporal()
}

fn is_union(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Union(..))
}

/// Whether values of such a type are anywhere in a type.
fn has(data_type: &DataType, is_such: fn(&DataType) -> bool) -> bool {
    let has = |data_type: &DataType| has(data_type, is_such);
    match data_type {
        found if is_such(found) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::Map(field, _) => has(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has(field.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has(field.data_type())),
        DataType::Dictionary(_, values) => has(values),
        DataType::RunEndEncoded(_, values) => has(values.data_type()),
        _ => false,
    }
}

impl Lines {
    /// The lines of some rows, and what their values lost.
    ///
    /// # Errors
    /// Unsupported, for values that the library has no text for.
    pub(super) fn encode(&self, batches: &[RecordBatch]) -> Result<(Vec<u8>, Vec<Loss>)> {
        let refused =
            |error: ArrowError| Error::unsupported(error.to_string()).context("JSON cannot say these rows");
        let mut text = Vec::new();
        let mut numbers = FloatColumns::default();
        let has_no_text = Arc::new(AtomicBool::new(false));
        let mut writer = WriterBuilder::new()
            .with_explicit_nulls(self.nulls)
            .with_encoder_factory(Arc::new(StringEncoders { has_no_text: has_no_text.clone() }))
            .build::<_, LineDelimited>(&mut text);
        for batch in batches {
            numbers.look(batch);
            let projected =
                self.kept.as_ref().map(|kept| batch.project(kept)).transpose().map_err(refused)?;
            writer.write(projected.as_ref().unwrap_or(batch)).map_err(refused)?;
        }
        writer.finish().map_err(refused)?;
        drop(writer);
        if has_no_text.load(Ordering::Relaxed) {
            return Err(Error::unsupported("a timestamp beyond the years that have a text"));
        }
        Ok((text, numbers.losses()))
    }
}

/// By column, whether there are numbers that JSON writes as strings, and others.
#[derive(Default)]
struct FloatColumns(IndexMap<String, (bool, bool)>);

impl FloatColumns {
    fn look(&mut self, batch: &RecordBatch) {
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let Some((strings, others)) = numbers(column) else { continue };
            match self.0.get_mut(field.name()) {
                Some((seen, seen_others)) => {
                    *seen |= strings;
                    *seen_others |= others;
                }
                None => drop(self.0.insert(field.name().clone(), (strings, others))),
            }
        }
    }

    /// Where a column has no other numbers, nothing shows that the strings are some.
    fn losses(self) -> Vec<Loss> {
        let why = "JSON has no NaN and no infinity: they are written as strings, and are read so where a column \
                   has no other numbers, unless the schema says otherwise";
        let lost = self.0.into_iter().filter(|(_, (strings, others))| *strings && !others);
        lost.map(|(name, _)| changed(name, why)).collect()
    }
}

/// The values are there, and no longer say what they are.
fn changed(column: impl Into<String>, why: impl Into<String>) -> Loss {
    Loss::new(LossKind::Metadata, column, why).severity(Severity::Changed)
}

/// Whether a column of floats, or lists of them, has some that are not finite, and some that are.
fn numbers(column: &dyn Array) -> Option<(bool, bool)> {
    fn of<T: ArrowPrimitiveType>(column: &dyn Array, is_finite: fn(T::Native) -> bool) -> (bool, bool) {
        let values = column.as_primitive::<T>();
        let finite = values.iter().flatten().filter(|&value| is_finite(value)).count();
        (finite < values.len() - values.null_count(), finite > 0)
    }
    Some(match column.data_type() {
        DataType::Float16 => of::<Float16Type>(column, |value| value.is_finite()),
        DataType::Float32 => of::<Float32Type>(column, f32::is_finite),
        DataType::Float64 => of::<Float64Type>(column, f64::is_finite),
        DataType::List(_) => return numbers(column.as_list::<i32>().values()),
        DataType::LargeList(_) => return numbers(column.as_list::<i64>().values()),
        DataType::FixedSizeList(..) => return numbers(column.as_fixed_size_list().values()),
        _ => return None,
    })
}

/// Encodes in strings what JSON has no other way to say.
#[derive(Debug, Default)]
struct StringEncoders {
    /// Set when a value has no text: an encoder cannot fail.
    has_no_text: Arc<AtomicBool>,
}

impl EncoderFactory for StringEncoders {
    fn make_default_encoder<'a>(
        &self,
        _field: &'a FieldRef,
        array: &'a dyn Array,
        options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Binary => bytes(move |index| array.as_binary::<i32>().value(index)),
            DataType::LargeBinary => bytes(move |index| array.as_binary::<i64>().value(index)),
            DataType::BinaryView => bytes(move |index| array.as_binary_view().value(index)),
            DataType::FixedSizeBinary(_) => bytes(move |index| array.as_fixed_size_binary().value(index)),
            DataType::Float16 => {
                let values = array.as_primitive::<Float16Type>();
                float(move |index| f64::from(values.value(index)), move |index| values.value(index).to_f32())
            }
            DataType::Float32 => {
                let values = array.as_primitive::<Float32Type>();
                float(move |index| f64::from(values.value(index)), move |index| values.value(index))
            }
            DataType::Float64 => {
                let values = array.as_primitive::<Float64Type>();
                float(move |index| values.value(index), move |index| values.value(index))
            }
            DataType::Timestamp(unit, zone) => {
                let is_utc = zone.is_some();
                match unit {
                    TimeUnit::Second => self.time::<TimestampSecondType>(array, is_utc),
                    TimeUnit::Millisecond => self.time::<TimestampMillisecondType>(array, is_utc),
                    TimeUnit::Microsecond => self.time::<TimestampMicrosecondType>(array, is_utc),
                    TimeUnit::Nanosecond => self.time::<TimestampNanosecondType>(array, is_utc),
                }
            }
            DataType::Union(fields, _) => {
                let union = array.as_union();
                let of = |(id, field): (i8, &'a FieldRef)| {
                    Ok((id, make_encoder(field, union.child(id), options)?))
                };
                let values = fields.iter().map(of).collect::<Result<_, ArrowError>>()?;
                Box::new(UnionEncoder { union, values })
            }
            _ => return Ok(None),
        };
        // A union's nulls are those of its values.
        Ok(Some(NullableEncoder::new(encoder, array.logical_nulls())))
    }
}

impl StringEncoders {
    /// A timestamp as ISO 8601 writes it, one with a zone in UTC: the library knows no zones by name, and
    /// would write an error's text for one that it has no date for.
    fn time<'a, T: ArrowTimestampType>(&self, array: &'a dyn Array, is_utc: bool) -> Box<dyn Encoder + 'a> {
        let (values, has_no_text) = (array.as_primitive::<T>(), self.has_no_text.clone());
        Box::new(FnEncoder(move |index, out: &mut Vec<u8>| match as_datetime::<T>(values.value(index)) {
            // Into memory: it cannot fail.
            Some(time) => drop(write!(out, "\"{time:?}{}\"", if is_utc { "Z" } else { "" })),
            None => has_no_text.store(true, Ordering::Relaxed),
        }))
    }
}

struct FnEncoder<F>(F);

impl<F: Fn(usize, &mut Vec<u8>)> Encoder for FnEncoder<F> {
    fn encode(&mut self, idx: usize, out: &mut Vec<u8>) {
        (self.0)(idx, out);
    }
}

/// The value alone: which of the types it has, JSON cannot say.
struct UnionEncoder<'a> {
    union: &'a UnionArray,
    values: Vec<(i8, NullableEncoder<'a>)>,
}

impl Encoder for UnionEncoder<'_> {
    fn encode(&mut self, idx: usize, out: &mut Vec<u8>) {
        let (id, offset) = (self.union.type_id(idx), self.union.value_offset(idx));
        match self.values.iter_mut().find(|(other, _)| *other == id) {
            Some((_, values)) if !values.is_null(offset) => values.encode(offset, out),
            _ => out.extend_from_slice(b"null"),
        }
    }
}

fn bytes<'a>(value: impl Fn(usize) -> &'a [u8] + 'a) -> Box<dyn Encoder + 'a> {
    Box::new(FnEncoder(move |index, out: &mut Vec<u8>| {
        out.push(b'"');
        let (bytes, start) = (value(index), out.len());
        out.resize(start + base64::encoded_len(bytes.len(), true).unwrap_or(0), 0);
        // It has the length that was asked for.
        let _ = STANDARD.encode_slice(bytes, &mut out[start..]);
        out.push(b'"');
    }))
}

/// The shortest text that is read as the same number again.
fn float<'a, T: serde::Serialize>(
    wide: impl Fn(usize) -> f64 + 'a,
    value: impl Fn(usize) -> T + 'a,
) -> Box<dyn Encoder + 'a> {
    Box::new(FnEncoder(move |index, out: &mut Vec<u8>| {
        let word = match wide(index) {
            number if number.is_finite() => {
                // A number into memory: it cannot fail.
                let _ = serde_json::to_writer(out, &value(index));
                return;
            }
            number if number.is_nan() => "\"NaN\"",
            number if number > 0.0 => "\"Infinity\"",
            _ => "\"-Infinity\"",
        };
        out.extend_from_slice(word.as_bytes());
    }))
}
