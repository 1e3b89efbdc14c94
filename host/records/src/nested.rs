//! Finds fields of structs by name. For example, `person.age` is the field `age` of the column
//! `person`, unless a column is named `person.age`.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Fields, Schema};
use tensorferry_sdk::records::FieldPath;
use tensorferry_sdk::{Error, Result, arrow_array, arrow_schema};

/// Returns the path of the first field with this name in a schema or its structs.
pub(crate) fn find(schema: &Schema, name: &str) -> Result<FieldPath> {
    path(schema.fields(), name).ok_or_else(|| {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        Error::usage("no such column").column(name).expected(names.join(", "))
    })
}

fn path(fields: &Fields, name: &str) -> Option<FieldPath> {
    if let Some((place, _)) = fields.find(name) {
        return Some(vec![place]);
    }
    name.match_indices('.').find_map(|(dot, _)| {
        let (place, field) = fields.find(&name[..dot])?;
        let DataType::Struct(children) = field.data_type() else { return None };
        let mut rest = path(children, &name[dot + 1..])?;
        rest.insert(0, place);
        Some(rest)
    })
}

pub(crate) fn data_type<'a>(schema: &'a Schema, path: &[usize]) -> Option<&'a DataType> {
    let (&first, rest) = path.split_first()?;
    let mut data_type = schema.fields().get(first)?.data_type();
    for &place in rest {
        let DataType::Struct(children) = data_type else { return None };
        data_type = children.get(place)?.data_type();
    }
    Some(data_type)
}

/// Returns the values of a field. If a struct that contains the field is missing, the field's value
/// is also missing.
pub(crate) fn values(batch: &RecordBatch, path: &[usize]) -> Result<ArrayRef> {
    let nowhere = || Error::usage("no such column");
    let (&first, rest) = path.split_first().ok_or_else(nowhere)?;
    let mut values = batch.columns().get(first).ok_or_else(nowhere)?.clone();
    for &place in rest {
        let parent = values.as_struct_opt().ok_or_else(nowhere)?;
        let child = parent.columns().get(place).ok_or_else(nowhere)?.clone();
        values = match parent.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => {
                let is_missing =
                    BooleanArray::new(BooleanBuffer::from_iter(nulls.iter().map(|is| !is)), None);
                arrow_select::nullif::nullif(&child, &is_missing)
                    .map_err(|error| Error::unsupported(error.to_string()))?
            }
            None => child,
        };
    }
    Ok(values)
}
