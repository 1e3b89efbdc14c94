//! Builds the columns of a batch.

use super::arrays::Form;
use crate::encoding::{ArrayValue, Encoding};
use crate::index::Column;
use crate::numbers::{Number, Numbers};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use std::sync::Arc;
use tensorferry_sdk::arrow_array::builder::{BinaryBuilder, ListBuilder, StringBuilder, UInt64Builder};
use tensorferry_sdk::arrow_array::{ArrayRef, FixedSizeListArray, ListArray, StructArray};
use tensorferry_sdk::arrow_schema::{DataType, Field};
use tensorferry_sdk::{Error, Result};

/// A builder for a column.
pub(super) struct Values {
    name: String,
    data_type: DataType,
    kind: ColumnBuilder,
    rows: usize,
    /// Total size of the values in bytes. The total is limited, because offsets are limited to 31
    /// bits.
    bytes: u64,
}

enum ColumnBuilder {
    Bytes(BinaryBuilder),
    Text(StringBuilder),
    Numbers(Numbers),
    Array(Box<(ArraySource, ArrayValues)>),
}

/// Information for parsing the values of an array column.
struct ArraySource {
    number: Option<Number>,
    shape: Option<Vec<u64>>,
    is_guessed: bool,
}

enum ArrayValues {
    Fixed(Numbers, Vec<u64>),
    /// The number type, the numbers, and for each level of lists, the end of each list. The
    /// outermost level is first.
    Lists(Number, Numbers, Vec<Vec<i32>>),
    Parts(Number, ListBuilder<UInt64Builder>, Numbers, Vec<i32>),
    Mixed(StringBuilder, ListBuilder<UInt64Builder>, BinaryBuilder),
}

impl Values {
    pub(super) fn new(column: &Column, form: Option<&Form>, data_type: &DataType, is_guessed: bool) -> Self {
        let kind = match (&column.encoding, form) {
            (Encoding::Number(number), _) => ColumnBuilder::Numbers(Numbers::new(*number)),
            (Encoding::Text(_), _) => ColumnBuilder::Text(StringBuilder::new()),
            (Encoding::Array { number, shape }, Some(form)) => {
                let source = ArraySource { number: *number, shape: shape.clone(), is_guessed };
                ColumnBuilder::Array(Box::new((source, ArrayValues::new(form))))
            }
            _ => ColumnBuilder::Bytes(BinaryBuilder::new()),
        };
        Self { name: column.name.clone(), data_type: data_type.clone(), kind, rows: 0, bytes: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        if i32::try_from(self.bytes).is_err() {
            return Err(Error::limit("the values of a column are 2 GiB or larger").found(self.bytes));
        }
        match &mut self.kind {
            ColumnBuilder::Bytes(builder) => builder.append_value(bytes),
            ColumnBuilder::Numbers(numbers) => numbers.extend(bytes),
            ColumnBuilder::Text(builder) => {
                let text = std::str::from_utf8(bytes).map_err(|error| {
                    Error::malformed("a string is not UTF-8")
                        .found(format!("an invalid byte at {}", error.valid_up_to()))
                })?;
                builder.append_value(text);
            }
            ColumnBuilder::Array(of) => {
                let (source, values) = &mut **of;
                let value = ArrayValue::parse(bytes, source.number, source.shape.as_deref())?;
                values.push(&value).map_err(|error| match error.is_wrong_guess() && !source.is_guessed {
                    true => Error::plugin(error.message()),
                    false => error,
                })?;
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Returns all values as an array, and clears the builder.
    pub(super) fn finish(&mut self) -> Result<ArrayRef> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let made: Result<ArrayRef> = match &mut self.kind {
            ColumnBuilder::Bytes(builder) => Ok(Arc::new(builder.finish())),
            ColumnBuilder::Text(builder) => Ok(Arc::new(builder.finish())),
            ColumnBuilder::Numbers(numbers) => Ok(numbers.finish()),
            ColumnBuilder::Array(of) => of.1.finish(&self.data_type, rows),
        };
        made.map_err(|error| error.column(&self.name))
    }
}

impl ArrayValues {
    fn new(form: &Form) -> Self {
        match form {
            Form::Fixed(number, shape) => Self::Fixed(Numbers::new(*number), shape.clone()),
            Form::Lists(number, rank) => Self::Lists(*number, Numbers::new(*number), vec![Vec::new(); *rank]),
            Form::Parts(Some(number)) => Self::Parts(*number, shapes(), Numbers::new(*number), Vec::new()),
            Form::Parts(None) => Self::Mixed(StringBuilder::new(), shapes(), BinaryBuilder::new()),
        }
    }

    fn push(&mut self, value: &ArrayValue<'_>) -> Result<()> {
        let other = || Error::wrong_guess("an array differs in type or depth from earlier arrays");
        match self {
            Self::Fixed(numbers, _) => numbers.extend(value.values),
            Self::Lists(number, numbers, levels) => {
                if *number != value.number || levels.len() != value.rank() {
                    return Err(other());
                }
                numbers.extend(value.values);
                let mut lists: u64 = 1;
                for (ends, dimension) in levels.iter_mut().zip(value.shape()) {
                    // This loop is short, because there are never more lists than numbers.
                    for _ in 0..lists {
                        let begin = ends.last().copied().unwrap_or(0);
                        let end = i32::try_from(dimension).ok().and_then(|len| begin.checked_add(len));
                        ends.push(end.ok_or_else(|| Error::limit("an array has 2^31 numbers or more"))?);
                    }
                    lists *= dimension;
                }
            }
            Self::Parts(number, shapes, numbers, ends) => {
                if *number != value.number {
                    return Err(other());
                }
                numbers.extend(value.values);
                shapes.append_value(value.shape().map(Some));
                let end = i32::try_from(numbers.len());
                ends.push(end.map_err(|_| Error::limit("an array has 2^31 numbers or more"))?);
            }
            Self::Mixed(dtypes, shapes, bytes) => {
                dtypes.append_value(value.number.word());
                shapes.append_value(value.shape().map(Some));
                bytes.append_value(value.values);
            }
        }
        Ok(())
    }

    fn finish(&mut self, data_type: &DataType, rows: usize) -> Result<ArrayRef> {
        let wrong = |error: tensorferry_sdk::arrow_schema::ArrowError| Error::plugin(error.to_string());
        let item = |of: &DataType| Arc::new(Field::new_list_field(of.clone(), true));
        match self {
            Self::Fixed(numbers, shape) => {
                let mut array = numbers.finish();
                let mut lists = vec![rows];
                for dimension in &shape[..shape.len() - 1] {
                    let before = lists.last().copied().unwrap_or(0);
                    lists.push(before.saturating_mul(usize::try_from(*dimension).unwrap_or(usize::MAX)));
                }
                for (dimension, len) in shape.iter().zip(lists).rev() {
                    let size = i32::try_from(*dimension).map_err(|_| Error::plugin("a list is too long"))?;
                    let field = item(array.data_type());
                    let made = FixedSizeListArray::try_new_with_length(field, size, array, None, len);
                    array = Arc::new(made.map_err(wrong)?);
                }
                Ok(array)
            }
            Self::Lists(_, numbers, levels) => {
                let mut array = numbers.finish();
                for ends in levels.iter_mut().rev() {
                    array = list(array, std::mem::take(ends))?;
                }
                Ok(array)
            }
            Self::Parts(_, shapes, numbers, ends) => {
                let values = list(numbers.finish(), std::mem::take(ends))?;
                structs(data_type, vec![Arc::new(shapes.finish()), values])
            }
            Self::Mixed(dtypes, shapes, bytes) => structs(
                data_type,
                vec![Arc::new(dtypes.finish()), Arc::new(shapes.finish()), Arc::new(bytes.finish())],
            ),
        }
    }
}

fn shapes() -> ListBuilder<UInt64Builder> {
    ListBuilder::new(UInt64Builder::new())
}

/// Builds a list array from the items of all lists and the end of each list.
fn list(items: ArrayRef, ends: Vec<i32>) -> Result<ArrayRef> {
    let offsets: Vec<i32> = std::iter::once(0).chain(ends).collect();
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    let made = ListArray::try_new(field, OffsetBuffer::new(ScalarBuffer::from(offsets)), items, None);
    made.map(|array| Arc::new(array) as ArrayRef).map_err(|error| Error::plugin(error.to_string()))
}

fn structs(data_type: &DataType, columns: Vec<ArrayRef>) -> Result<ArrayRef> {
    let DataType::Struct(fields) = data_type else { return Err(Error::plugin("the type is not a struct")) };
    let made = StructArray::try_new(fields.clone(), columns, None);
    made.map(|array| Arc::new(array) as ArrayRef).map_err(|error| Error::plugin(error.to_string()))
}
