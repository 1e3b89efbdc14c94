//! Determines the Arrow types of array columns. If the encoding does not specify the number type or
//! the shape, each value contains it. The reader then examines all values. If the options allow a
//! guess, it examines only the first value of each shard.

use super::sample;
use super::shard::{OpenShard, Samples};
use crate::encoding::{ArrayValue, DTYPE, Encoding, SHAPE, VALUES};
use crate::index::Column;
use crate::numbers::Number;
use std::sync::Arc;
use tensorferry_sdk::arrow_schema::{DataType, Field};
use tensorferry_sdk::{Context, Error, Result};

/// The Arrow representation of a column's arrays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// Nested lists of these fixed lengths.
    Fixed(Number, Vec<u64>),
    /// Nested lists of this depth.
    Lists(Number, usize),
    /// A struct of the shape and the numbers of this type. `None` means that the number type
    /// varies, and that the struct consists of the type, the shape and the raw bytes.
    Parts(Option<Number>),
}

impl Form {
    /// Returns the Arrow type of the column.
    pub(super) fn data_type(&self) -> Result<DataType> {
        let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
        match self {
            Self::Fixed(number, shape) => {
                shape.iter().rev().try_fold(number.data_type(), |item, dimension| {
                    let long = || Error::unsupported("an array has more than 2^31 numbers").found(dimension);
                    let len = i32::try_from(*dimension).map_err(|_| long())?;
                    Ok(DataType::FixedSizeList(Arc::new(Field::new_list_field(item, true)), len))
                })
            }
            Self::Lists(number, rank) => Ok((0..*rank).fold(number.data_type(), |item, _| list(item))),
            Self::Parts(number) => {
                let shape = Field::new(SHAPE, list(DataType::UInt64), false);
                Ok(DataType::Struct(match number {
                    Some(number) => vec![shape, Field::new(VALUES, list(number.data_type()), false)].into(),
                    None => {
                        let dtype = Field::new(DTYPE, DataType::Utf8, false);
                        vec![dtype, shape, Field::new(VALUES, DataType::Binary, false)].into()
                    }
                }))
            }
        }
    }
}

/// Properties of the arrays that have been examined so far in a column.
#[derive(Clone, Copy)]
struct ArrayShapes {
    number: Option<Number>,
    rank: usize,
    is_mixed: bool,
    any: bool,
}

impl ArrayShapes {
    fn add(&mut self, value: &ArrayValue<'_>) {
        if self.any {
            self.is_mixed |= self.rank != value.rank();
            self.number = self.number.filter(|number| *number == value.number);
        } else {
            *self = Self { number: Some(value.number), rank: value.rank(), is_mixed: false, any: true };
        }
    }

    fn form(self) -> Form {
        match self.number {
            Some(number) if !self.is_mixed => Form::Lists(number, self.rank),
            number => Form::Parts(number),
        }
    }
}

/// Determines the form of each column of arrays. For any other column, the entry is `None`.
pub(super) fn forms(
    columns: &Arc<[Column]>,
    shards: &[Arc<OpenShard>],
    is_guessed: bool,
    context: &dyn Context,
) -> Result<Vec<Option<Form>>> {
    let mut forms = vec![None; columns.len()];
    let mut seen = Vec::new();
    for (place, column) in columns.iter().enumerate() {
        match &column.encoding {
            Encoding::Array { number: Some(number), shape: Some(shape) } => {
                forms[place] = Some(Form::Fixed(*number, shape.clone()));
            }
            Encoding::Array { number, shape } => {
                let rank = shape.as_ref().map_or(1, Vec::len);
                seen.push((
                    place,
                    shape.as_deref(),
                    *number,
                    ArrayShapes { number: *number, rank, is_mixed: false, any: false },
                ));
            }
            _ => {}
        }
    }
    if seen.is_empty() {
        return Ok(forms);
    }
    let mut ranges = Vec::new();
    for shard in shards {
        for part in shard.parts(context.limits())? {
            let mut samples = Samples::new(shard, &part, 0, false, context.limits())?;
            while let Some(found) = samples.next()? {
                context.check_cancelled()?;
                let at =
                    |error: Error| error.file(shard.file_name()).record(found.number).offset(found.offset);
                sample::split(found.bytes, columns, &mut ranges).map_err(at)?;
                for (place, shape, number, seen) in &mut seen {
                    let value = ArrayValue::parse(&found.bytes[ranges[*place].clone()], *number, *shape);
                    seen.add(&value.map_err(|error| at(error.column(&columns[*place].name)))?);
                }
                if is_guessed {
                    break;
                }
            }
            if is_guessed {
                break;
            }
        }
    }
    for (place, _, _, seen) in seen {
        forms[place] = Some(seen.form());
    }
    Ok(forms)
}
