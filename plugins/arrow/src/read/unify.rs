//! Unifies the column types of several files. A program may write strings as `Utf8` in one file and
//! as `LargeUtf8` in the next, and a column without values as `Null`.

use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use std::sync::Arc;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::{
    Array, ArrayRef, LargeBinaryArray, LargeListArray, LargeStringArray, make_array, new_null_array,
};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, Field, FieldRef};

/// Returns a type that can represent the values of both types, or `None` if no such type exists.
pub(super) fn types(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType as T;
    Some(match (one, other) {
        _ if one == other => one.clone(),
        (T::Null, held) | (held, T::Null) => held.clone(),
        (T::Utf8 | T::LargeUtf8 | T::Utf8View, T::Utf8 | T::LargeUtf8 | T::Utf8View) => T::LargeUtf8,
        (T::Binary | T::LargeBinary | T::BinaryView, T::Binary | T::LargeBinary | T::BinaryView) => {
            T::LargeBinary
        }
        (T::List(one), T::List(other)) => T::List(fields(one, other)?),
        (T::List(one) | T::LargeList(one), T::List(other) | T::LargeList(other)) => {
            T::LargeList(fields(one, other)?)
        }
        (T::FixedSizeList(one, len), T::FixedSizeList(other, same)) if len == same => {
            T::FixedSizeList(fields(one, other)?, *len)
        }
        (T::Map(one, sorted), T::Map(other, also)) => T::Map(fields(one, other)?, *sorted && *also),
        (T::Struct(one), T::Struct(other)) if one.len() == other.len() => {
            let parts = one
                .iter()
                .zip(other)
                .map(|(one, other)| fields(one, other).filter(|_| one.name() == other.name()));
            T::Struct(parts.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// Returns the first field with its type replaced by the unified type. The result is nullable if
/// either field is nullable.
pub(super) fn fields(one: &FieldRef, other: &FieldRef) -> Option<FieldRef> {
    let data_type = types(one.data_type(), other.data_type())?;
    let is_null = |field: &FieldRef| field.is_nullable() || field.data_type().is_null();
    let field = Field::clone(one).with_data_type(data_type);
    Some(Arc::new(field.with_nullable(is_null(one) || is_null(other))))
}

/// Converts a column to a type that [`types`] returned for the column's type.
pub(super) fn converted(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    use DataType as T;
    let large = |offsets: &OffsetBuffer<i32>| {
        OffsetBuffer::new(offsets.iter().map(|&offset| i64::from(offset)).collect::<ScalarBuffer<i64>>())
    };
    let nulls = || array.nulls().cloned();
    Ok(match (array.data_type(), to) {
        (from, to) if from == to => array.clone(),
        (T::Null, to) => new_null_array(to, array.len()),
        (T::Utf8, T::LargeUtf8) => {
            let texts = array.as_string::<i32>();
            Arc::new(LargeStringArray::try_new(large(texts.offsets()), texts.values().clone(), nulls())?)
        }
        (T::Utf8View, T::LargeUtf8) => Arc::new(array.as_string_view().iter().collect::<LargeStringArray>()),
        (T::Binary, T::LargeBinary) => {
            let bytes = array.as_binary::<i32>();
            Arc::new(LargeBinaryArray::try_new(large(bytes.offsets()), bytes.values().clone(), nulls())?)
        }
        (T::BinaryView, T::LargeBinary) => {
            Arc::new(array.as_binary_view().iter().collect::<LargeBinaryArray>())
        }
        (T::List(_), T::LargeList(item)) => {
            let lists = array.as_list::<i32>();
            let values = converted(lists.values(), item.data_type())?;
            Arc::new(LargeListArray::try_new(item.clone(), large(lists.offsets()), values, nulls())?)
        }
        _ => {
            let parts: Vec<&DataType> = match to {
                T::List(part) | T::LargeList(part) | T::FixedSizeList(part, _) | T::Map(part, _) => {
                    vec![part.data_type()]
                }
                T::Struct(parts) => parts.iter().map(|part| part.data_type()).collect(),
                _ => {
                    return Err(ArrowError::CastError(format!(
                        "cannot convert {} to {to}",
                        array.data_type()
                    )));
                }
            };
            let data = array.to_data();
            let parts = data.child_data().iter().zip(parts);
            let parts = parts.map(|(part, to)| Ok(converted(&make_array(part.clone()), to)?.to_data()));
            let parts = parts.collect::<Result<_, ArrowError>>()?;
            make_array(data.into_builder().data_type(to.clone()).child_data(parts).build()?)
        }
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::arrow_array::types::Int64Type;
    use tensorferry_sdk::arrow_array::{ListArray, NullArray, StringArray, StringViewArray, StructArray};

    #[test]
    fn values_are_the_same_in_the_larger_type() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("ä")]).slice(1, 2));
        let views: ArrayRef = Arc::new(StringViewArray::from(vec![None, Some("ä")]));
        let larger: ArrayRef = Arc::new(LargeStringArray::from(vec![None, Some("ä")]));
        let lists: ArrayRef =
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1)]), None]));
        let large_lists: ArrayRef =
            Arc::new(LargeListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1)]), None]));
        let within = |array: &ArrayRef| -> ArrayRef {
            let field = Field::new("s", array.data_type().clone(), true);
            Arc::new(StructArray::try_new(vec![field].into(), vec![array.clone()], None).unwrap())
        };
        let nulls: ArrayRef = Arc::new(NullArray::new(2));
        for (one, other, expected) in [
            (&texts, &larger, larger.clone()),
            (&views, &texts, larger.clone()),
            (&lists, &large_lists, large_lists.clone()),
            (&nulls, &lists, new_null_array(lists.data_type(), 2)),
            (&within(&texts), &within(&larger), within(&larger)),
        ] {
            let to = types(one.data_type(), other.data_type()).unwrap();
            assert_eq!(types(other.data_type(), one.data_type()), Some(to.clone()));
            assert_eq!(&converted(one, &to).unwrap(), &expected);
        }
        assert_eq!(types(&DataType::Int64, &DataType::Utf8), None);
    }
}
