//! Child fields of nested types.

use tensorferry_sdk::arrow_array::{ArrayRef, make_array};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, Field, FieldRef};

/// Returns the child fields of a type.
pub(crate) fn parts(data_type: &DataType) -> &[FieldRef] {
    match data_type {
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::Map(field, _)
        | DataType::RunEndEncoded(_, field) => std::slice::from_ref(field),
        DataType::Struct(fields) => fields,
        _ => &[],
    }
}

/// Returns the type with its child fields replaced. `parts` must have as many fields as [`parts`]
/// returns, but may have fewer fields for a struct.
pub(crate) fn with_parts(data_type: &DataType, parts: Vec<FieldRef>) -> DataType {
    if let DataType::Struct(_) = data_type {
        return DataType::Struct(parts.into());
    }
    let Some(part) = parts.into_iter().next() else { return data_type.clone() };
    match data_type {
        DataType::List(_) => DataType::List(part),
        DataType::LargeList(_) => DataType::LargeList(part),
        DataType::FixedSizeList(_, len) => DataType::FixedSizeList(part, *len),
        DataType::ListView(_) => DataType::ListView(part),
        DataType::LargeListView(_) => DataType::LargeListView(part),
        DataType::Map(_, sorted) => DataType::Map(part, *sorted),
        DataType::RunEndEncoded(ends, _) => DataType::RunEndEncoded(ends.clone(), part),
        other => other.clone(),
    }
}

/// Converts a nested array to the type `to`, and each of its children with `convert`. If `to` lacks
/// some children of a struct, the other children are matched by name.
pub(crate) fn converted(
    array: &ArrayRef,
    to: &DataType,
    convert: &dyn Fn(&ArrayRef, &DataType) -> Result<ArrayRef, ArrowError>,
) -> Result<ArrayRef, ArrowError> {
    let wrong = || ArrowError::CastError(format!("cannot convert {} to {to}", array.data_type()));
    let (from, wanted) = (parts(array.data_type()), parts(to));
    if wanted.is_empty() {
        return Err(wrong());
    }
    let data = array.to_data();
    let place = |index: usize, field: &Field| match to {
        DataType::Struct(_) if wanted.len() < from.len() => {
            from.iter().position(|part| part.name() == field.name())
        }
        _ => Some(index),
    };
    let children = wanted.iter().enumerate().map(|(index, field)| {
        let child = place(index, field).and_then(|place| data.child_data().get(place)).ok_or_else(wrong)?;
        Ok(convert(&make_array(child.clone()), field.data_type())?.to_data())
    });
    let children = children.collect::<Result<_, ArrowError>>()?;
    data.into_builder().data_type(to.clone()).child_data(children).build().map(make_array)
}
