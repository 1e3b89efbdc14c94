//! What the rows of a flow hold, as one number: so that an output that was read back can be compared with
//! what was sent, whatever batches and files the rows lie in.
//!
//! A format may say a column otherwise than the flow did: TFRecord reads 32-bit integers back as 64-bit
//! ones, and a list of one value as that value. So a row counts as its columns' values, those of lists
//! within lists taken flat, cast to the type that was read back; a null is as good as no column.

use super::flow::Flow;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, DataType, Schema};
use std::collections::BTreeMap;
use tensorferry_sdk::{Error, Result, arrow_array, arrow_schema};

/// What rows hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Content {
    /// How many.
    pub rows: u64,
    /// The sum of the rows' hashes.
    sum: u128,
}

/// The types that values are compared as, by column; columns that are not here are not compared.
pub type Compared = BTreeMap<String, DataType>;

/// The columns of `sent` in a form in which they can be compared with those of `found`, and the names of
/// those that cannot. One that only `sent` has was null throughout, or is missing: it is compared.
#[must_use]
pub fn compared(sent: &Schema, found: &Schema) -> (Compared, Vec<String>) {
    let (mut compared, mut left_out) = (Compared::new(), Vec::new());
    for field in sent.fields() {
        let from = leaf_type(field.data_type());
        let to = found.field_with_name(field.name()).map_or(from, |other| leaf_type(other.data_type()));
        let to = if *to == DataType::Null { from } else { to };
        if from == to || arrow_cast::can_cast_types(from, to) {
            compared.insert(field.name().clone(), to.clone());
        } else {
            left_out.push(field.name().clone());
        }
    }
    (compared, left_out)
}

/// What all rows of a flow hold. `ordered`: their order counts.
///
/// # Errors
/// Whatever the flow gives; unsupported, for values that cannot be hashed.
pub fn content(flow: &mut dyn Flow, compared: &Compared, ordered: bool) -> Result<Content> {
    let mut content = Content::default();
    while let Some(batch) = flow.next()? {
        let mut hashers = vec![blake3::Hasher::new(); batch.num_rows()];
        if ordered {
            for (hasher, number) in hashers.iter_mut().zip(content.rows..) {
                hasher.update(&number.to_le_bytes());
            }
        }
        for (name, data_type) in compared {
            if let Some(column) = batch.column_by_name(name) {
                update(&mut hashers, name, column, data_type).map_err(|e| {
                    Error::unsupported(format!("values that cannot be compared: {e}")).column(name)
                })?;
            }
        }
        for hasher in &hashers {
            if let Some(half) = hasher.finalize().as_bytes().first_chunk::<16>() {
                content.sum = content.sum.wrapping_add(u128::from_le_bytes(*half));
            }
        }
        content.rows += batch.num_rows() as u64;
    }
    Ok(content)
}

/// The type of a column's values, below all lists.
pub(super) fn leaf_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            leaf_type(field.data_type())
        }
        other => other,
    }
}

/// Adds a column to the hashes of its rows: its name, how many values a row has, and the values.
fn update(
    hashers: &mut [blake3::Hasher],
    name: &str,
    column: &ArrayRef,
    data_type: &DataType,
) -> Result<(), ArrowError> {
    let (values, begins) = flat(column);
    let values = if values.data_type() == data_type { values } else { arrow_cast::cast(&values, data_type)? };
    let converter = RowConverter::new(vec![SortField::new(data_type.clone())])?;
    let rows = converter.convert_columns(&[values])?;
    for (row, hasher) in hashers.iter_mut().enumerate() {
        if column.is_null(row) {
            continue;
        }
        let range = begins[row]..begins[row + 1];
        hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
        hasher.update(&(range.len() as u64).to_le_bytes());
        for place in range {
            let value = rows.row(place);
            hasher.update(&(value.as_ref().len() as u64).to_le_bytes()).update(value.as_ref());
        }
    }
    Ok(())
}

/// The values below all lists of a column, and where each of its rows begins among them.
pub(super) fn flat(column: &ArrayRef) -> (ArrayRef, Vec<usize>) {
    let mut values = column.clone();
    let mut begins: Vec<usize> = (0..=column.len()).collect();
    loop {
        let (offsets, inner): (Vec<usize>, ArrayRef) = match values.data_type() {
            DataType::List(_) => {
                let list = values.as_list::<i32>();
                (
                    list.value_offsets().iter().map(|&at| usize::try_from(at).unwrap_or(0)).collect(),
                    list.values().clone(),
                )
            }
            DataType::LargeList(_) => {
                let list = values.as_list::<i64>();
                (
                    list.value_offsets().iter().map(|&at| usize::try_from(at).unwrap_or(0)).collect(),
                    list.values().clone(),
                )
            }
            DataType::FixedSizeList(_, len) => {
                let len = usize::try_from(*len).unwrap_or(0);
                (
                    (0..=values.len()).map(|row| row * len).collect(),
                    values.as_fixed_size_list().values().clone(),
                )
            }
            _ => return (values, begins),
        };
        begins = begins.into_iter().map(|begin| offsets[begin]).collect();
        values = inner;
    }
}
