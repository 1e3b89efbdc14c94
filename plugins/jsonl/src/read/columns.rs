//! Decodes the values of one column from JSON text.
//!
//! These decoders handle the forms in which nearly all values are written. If they return `None`,
//! the value is invalid or has a different form, such as an integer that is written as `1e3`.
//! [`arrow_json`] then decodes the lines again, or finds the error.

use super::checks::Basis;
use super::column_decoder::{ColumnContext, ColumnDecoder, Validity};
use super::cursor::{Cursor, Number};
use super::decode::decode_lines;
use super::objects::ObjectDecoder;
use arrow_buffer::OffsetBuffer;
use arrow_json::ReaderBuilder;
use std::sync::Arc;
use tensorferry_row_text::{ColumnLosses, exact};
use tensorferry_sdk::LossKind;
use tensorferry_sdk::arrow_array::builder::{ArrayBuilder as _, BooleanBuilder, GenericStringBuilder};
use tensorferry_sdk::arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use tensorferry_sdk::arrow_array::{
    ArrayRef, FixedSizeListArray, GenericListArray, NullArray, OffsetSizeTrait, PrimitiveArray,
    new_empty_array,
};
use tensorferry_sdk::arrow_schema::{DataType, FieldRef};

/// Creates a decoder for a field. Returns `None` if the type is not supported.
pub(super) fn column_decoder(field: &FieldRef, context: ColumnContext<'_>) -> Option<Box<dyn ColumnDecoder>> {
    let validity = Validity::new(field.is_nullable());
    Some(match field.data_type() {
        DataType::Null => Box::new(NullDecoder(validity)),
        DataType::Boolean => {
            Box::new(BooleanDecoder { values: BooleanBuilder::new(), is_nullable: field.is_nullable() })
        }
        DataType::Int8 => Box::new(IntegerDecoder::<Int8Type>::new(validity)),
        DataType::Int16 => Box::new(IntegerDecoder::<Int16Type>::new(validity)),
        DataType::Int32 => Box::new(IntegerDecoder::<Int32Type>::new(validity)),
        DataType::Int64 => Box::new(IntegerDecoder::<Int64Type>::new(validity)),
        DataType::UInt8 => Box::new(IntegerDecoder::<UInt8Type>::new(validity)),
        DataType::UInt16 => Box::new(IntegerDecoder::<UInt16Type>::new(validity)),
        DataType::UInt32 => Box::new(IntegerDecoder::<UInt32Type>::new(validity)),
        DataType::UInt64 => Box::new(IntegerDecoder::<UInt64Type>::new(validity)),
        DataType::Float32 => Box::new(FloatDecoder::<Float32Type>::new(validity, context)),
        DataType::Float64 => Box::new(FloatDecoder::<Float64Type>::new(validity, context)),
        DataType::Utf8 => Box::new(TextDecoder::<i32>::new(field.is_nullable())),
        DataType::LargeUtf8 => Box::new(TextDecoder::<i64>::new(field.is_nullable())),
        DataType::List(item) => Box::new(ListDecoder::<i32>::new(item, validity, context)?),
        DataType::LargeList(item) => Box::new(ListDecoder::<i64>::new(item, validity, context)?),
        DataType::FixedSizeList(item, len) => Box::new(FixedSizeListDecoder {
            item: item.clone(),
            len: *len,
            items: column_decoder(item, context)?,
            validity,
        }),
        DataType::Struct(fields) => Box::new(ObjectDecoder::new(fields, validity, context)?),
        _ => Box::new(OtherDecoder::new(field, context)?),
    })
}

struct NullDecoder(Validity);

impl ColumnDecoder for NullDecoder {
    fn value(&mut self, _cursor: &mut Cursor<'_>) -> Option<()> {
        None
    }

    fn append_nulls(&mut self, count: usize) -> Option<()> {
        self.0.append_nulls(count)
    }

    fn finish(&mut self) -> Option<ArrayRef> {
        let len = self.0.len();
        self.0.finish();
        Some(Arc::new(NullArray::new(len)))
    }
}

struct BooleanDecoder {
    values: BooleanBuilder,
    is_nullable: bool,
}

impl ColumnDecoder for BooleanDecoder {
    fn value(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let value = cursor.eat_all(b"true");
        self.values.append_value(value);
        (value || cursor.eat_all(b"false")).then_some(())
    }

    fn append_nulls(&mut self, count: usize) -> Option<()> {
        self.values.append_nulls(count);
        self.is_nullable.then_some(())
    }

    fn finish(&mut self) -> Option<ArrayRef> {
        Some(Arc::new(self.values.finish()))
    }
}

/// The values of a column of numbers.
struct Primitives<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    validity: Validity,
    /// Number of values in the last batch.
    last: usize,
}

impl<T: ArrowPrimitiveType> Primitives<T> {
    fn new(validity: Validity) -> Self {
        Self { values: Vec::new(), validity, last: 0 }
    }

    #[inline]
    fn append(&mut self, value: T::Native) {
        if self.values.is_empty() {
            self.values.reserve(self.last);
        }
        self.values.push(value);
        self.validity.append_value();
    }

    fn append_nulls(&mut self, count: usize) -> Option<()> {
        self.values.resize(self.values.len() + count, T::Native::default());
        self.validity.append_nulls(count)
    }

    fn finish(&mut self) -> Option<ArrayRef> {
        let values = std::mem::take(&mut self.values);
        self.last = values.len();
        Some(Arc::new(PrimitiveArray::<T>::try_new(values.into(), self.validity.finish()).ok()?))
    }
}

struct IntegerDecoder<T: ArrowPrimitiveType>(Primitives<T>);

impl<T: ArrowPrimitiveType> IntegerDecoder<T> {
    fn new(validity: Validity) -> Self {
        Self(Primitives::new(validity))
    }
}

impl<T: ArrowPrimitiveType> ColumnDecoder for IntegerDecoder<T>
where
    T::Native: TryFrom<i128>,
{
    fn value(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let integer = cursor.number()?.to_integer()?;
        self.0.append(integer.try_into().ok()?);
        Some(())
    }

    fn append_nulls(&mut self, count: usize) -> Option<()> {
        self.0.append_nulls(count)
    }

    fn finish(&mut self) -> Option<ArrayRef> {
        self.0.finish()
    }
}

/// A type of floats.
trait FloatType: ArrowPrimitiveType<Native: Into<f64>> {
    /// Returns the nearest float. Returns `None` if the number is too large.
    fn of_number(number: &Number<'_>) -> Option<Self::Native>;

    /// Returns the float for one of the words for NaN and infinities.
    fn of_word(word: f32) -> Self::Native;

    /// Returns whether the float has fewer digits than the number.
    fn loses_digits(number: &Number<'_>, value: Self::Native) -> bool;
}

impl FloatType for Float64Type {
    #[inline]
    fn of_number(number: &Number<'_>) -> Option<f64> {
        number.to_f64().filter(|value| value.is_finite())
    }

    fn of_word(word: f32) -> f64 {
        word.into()
    }

    #[inline]
    fn loses_digits(number: &Number<'_>, value: f64) -> bool {
        // A float represents 15 digits exactly, unless it is subnormal.
        let is_short = number.digits.is_some_and(|digits| digits < 1_000_000_000_000_000);
        !(is_short && (value.is_normal() || number.digits == Some(0)))
            && exact::loses_digits(number.text, value)
    }
}

impl FloatType for Float32Type {
    fn of_number(number: &Number<'_>) -> Option<f32> {
        number.text.parse().ok().filter(|value: &f32| value.is_finite())
    }

    fn of_word(word: f32) -> f32 {
        word
    }

    fn loses_digits(_number: &Number<'_>, _value: f32) -> bool {
        false
    }
}

struct FloatDecoder<T: ArrowPrimitiveType> {
    values: Primitives<T>,
    /// Whether a number has more digits than its float.
    has_lost_digits: bool,
    column: String,
    losses: ColumnLosses,
    is_guess: bool,
}

impl<T: FloatType> FloatDecoder<T> {
    fn new(validity: Validity, context: ColumnContext<'_>) -> Self {
        Self {
            values: Primitives::new(validity),
            has_lost_digits: false,
            column: context.column.to_owned(),
            losses: context.checks.losses.clone(),
            is_guess: context.checks.basis == Basis::SampledLines,
        }
    }
}

/// Returns whether only a scan of all lines handles a number. The scan reports a loss for a long
/// integer, and may reject a float that is close to the maximum.
fn needs_scan(number: &Number<'_>, value: f64) -> bool {
    let is_long = number.is_integer && number.digits.is_none_or(|digits| digits > Number::MAX_EXACT);
    is_long || value.abs() >= 1e307
}

impl<T: FloatType> ColumnDecoder for FloatDecoder<T> {
    fn value(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        if cursor.peek() == b'"' {
            let word = match cursor.string()? {
                "NaN" => f32::NAN,
                "Infinity" => f32::INFINITY,
                "-Infinity" => f32::NEG_INFINITY,
                _ => return None,
            };
            self.values.append(T::of_word(word));
            return Some(());
        }
        let number = cursor.number()?;
        let value = T::of_number(&number)?;
        if self.is_guess && needs_scan(&number, value.into()) {
            return None;
        }
        self.values.append(value);
        self.has_lost_digits = self.has_lost_digits || T::loses_digits(&number, value);
        Some(())
    }

    fn append_nulls(&mut self, count: usize) -> Option<()> {
        self.values.append_nulls(count)
    }

    fn finish(&mut self) -> Option<ArrayRef> {
        if self.has_lost_digits {
            self.losses.add(&self.column, LossKind::Precision, exact::LOST_DIGITS);
        }
        self.values.finish()
    }
}

struct TextDecoder<O: OffsetSizeTrait> {
    values: GenericStringBuilder<O>,
    is_nullable: bool,
    /// Number of values and bytes in the last batch.
    last: (usize, usize),
}

impl<O: OffsetSizeTrait> TextDecoder<O> {
    fn new(is_nullable: bool) -> Self {
        Self { values: GenericStringBuilder::with_capacity(0, 0), is_nullable, last: (0, 0) }
    }
}

impl<O: OffsetSizeTrait> ColumnDecoder for TextDecoder<O> {
    fn value(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        if self.values.is_empty() && self.last.0 > 0 {
            self.values = GenericStringBuilder::with_capacity(self.last.0, self.last.1);
            self.last = (0, 0);
        }
        self.values.append_value(cursor.string()?);
        Some(())
    }

    fn append_nulls(&mut self, count: usize) -> Option<()> {
        self.values.append_nulls(count);
        self.is_nullable.then_some(())
    }

    fn finish(&mut self) -> Option<ArrayRef> {
        self.last = (self.values.len(), self.values.values_slice().len());
        Some(Arc::new(self.values.finish()))
    }
}

struct ListDecoder<O: OffsetSizeTrait> {
    item: FieldRef,
    items: Box<dyn ColumnDecoder>,
    /// The end of each list.
    offsets: Vec<O>,
    validity: Validity,
}

impl<O: OffsetSizeTrait> ListDecoder<O> {
    fn new(item: &FieldRef, validity: Validity, context: ColumnContext<'_>) -> Option<Self> {
        let items = column_decoder(item, context)?;
        Some(Self { item: item.clone(), items, offsets: vec![O::zero()], validity })
    }

    fn end(&self) -> O {
        self.offsets.last().copied().unwrap_or_default()
    }
}

impl<O: OffsetSizeTrait> ColumnDecoder for ListDecoder<O> {
    fn value(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let count = self.items.items(cursor)?;
        self.offsets.push(self.end() + O::from_usize(count)?);
        self.validity.append_value();
        Some(())
    }

    fn append_nulls(&mut self, count: usize) -> Option<()> {
        self.offsets.resize(self.offsets.len() + count, self.end());
        self.validity.append_nulls(count)
    }

    fn finish(&mut self) -> Option<ArrayRef> {
        let offsets = std::mem::replace(&mut self.offsets, vec![O::zero()]);
        let offsets = OffsetBuffer::new(offsets.into());
        let (items, nulls) = (self.items.finish()?, self.validity.finish());
        Some(Arc::new(GenericListArray::try_new(self.item.clone(), offsets, items, nulls).ok()?))
    }
}

struct FixedSizeListDecoder {
    item: FieldRef,
    items: Box<dyn ColumnDecoder>,
    len: i32,
    validity: Validity,
}

impl ColumnDecoder for FixedSizeListDecoder {
    fn value(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let count = self.items.items(cursor)?;
        self.validity.append_value();
        (i32::try_from(count) == Ok(self.len)).then_some(())
    }

    fn append_nulls(&mut self, count: usize) -> Option<()> {
        self.items.append_nulls(count.checked_mul(self.len.try_into().ok()?)?)?;
        self.validity.append_nulls(count)
    }

    fn finish(&mut self) -> Option<ArrayRef> {
        let (items, lists) = (self.items.finish()?, self.validity.len());
        let nulls = self.validity.finish();
        let array = FixedSizeListArray::try_new_with_length(self.item.clone(), self.len, items, nulls, lists);
        Some(Arc::new(array.ok()?))
    }
}

/// A decoder for all other types. It collects the values as lines, which `arrow_json` decodes.
struct OtherDecoder {
    builder: ReaderBuilder,
    data_type: DataType,
    is_nullable: bool,
    lines: String,
    rows: usize,
}

impl OtherDecoder {
    fn new(field: &FieldRef, context: ColumnContext<'_>) -> Option<Self> {
        // The losses of the values belong to the column.
        let column = Arc::new(field.as_ref().clone().with_name(context.column));
        let builder =
            context.checks.decoders(ReaderBuilder::new_with_field(column.clone()), &[column].into());
        builder.clone().build_decoder().ok()?;
        let (data_type, is_nullable) = (field.data_type().clone(), field.is_nullable());
        Some(Self { builder, data_type, is_nullable, lines: String::new(), rows: 0 })
    }
}

impl ColumnDecoder for OtherDecoder {
    fn value(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        self.lines.push_str(cursor.value_text()?);
        self.lines.push('\n');
        self.rows += 1;
        Some(())
    }

    fn append_nulls(&mut self, count: usize) -> Option<()> {
        self.lines.extend(std::iter::repeat_n("null\n", count));
        self.rows += count;
        self.is_nullable.then_some(())
    }

    fn finish(&mut self) -> Option<ArrayRef> {
        let (lines, rows) = (std::mem::take(&mut self.lines), std::mem::take(&mut self.rows));
        if rows == 0 {
            return Some(new_empty_array(&self.data_type));
        }
        let mut decoder = self.builder.clone().with_batch_size(rows + 1).build_decoder().ok()?;
        Some(decode_lines(&mut decoder, lines.as_bytes(), rows).ok()?.column(0).clone())
    }
}
