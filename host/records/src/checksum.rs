//! A checksum of the rows of a flow. The checksum is used to compare an output that was read back
//! with the rows that were sent to the writer. It does not depend on how the rows are divided into
//! batches and files.
//!
//! The checksum of a row covers the values of its columns, [flattened](super::encoding) and cast to
//! the type that was read back. A null has the same encoding as a value in a missing column.

use super::encoding::{RowEncoder, is_bytes, is_text};
use super::flow::Flow;
use super::lists::{depth, leaf_type};
use super::plain::compared;
use arrow_array::{ArrayRef, LargeBinaryArray, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;
use tensorferry_sdk::records::json::{NonFinite, json_texts};
use tensorferry_sdk::{Error, Loss, LossKind, Result, arrow_array, arrow_schema};

/// The checksum of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowsChecksum {
    /// Number of rows.
    pub rows: u64,
    /// Sum of the rows' hashes.
    sum: u128,
}

/// For each column, the type to which values are cast for the comparison. Columns that are not in
/// the map are not compared.
pub(crate) type ComparedTypes = BTreeMap<String, DataType>;

/// Returns the types in which the columns of `sent` are compared with the columns of `found`, and
/// the names of the columns that cannot be compared. A column cannot be compared if it is read back
/// as a type with a different meaning, or if `losses` reports that its values have changed. A
/// column that is only in `sent` is compared with nulls: either the column consists of nulls, or
/// its values are missing from the output.
#[must_use]
pub(crate) fn compared_types(sent: &Schema, found: &Schema, losses: &[Loss]) -> (ComparedTypes, Vec<String>) {
    let (mut compared, mut left_out) = (ComparedTypes::new(), Vec::new());
    for field in sent.fields() {
        let found = found.field_with_name(field.name()).ok().map(|found| found.data_type());
        let found = found.unwrap_or(&DataType::Null);
        let is_changed =
            losses.iter().any(|loss| loss.what == *field.name() && changes(loss, field.data_type(), found));
        match verified_type(field.data_type(), found).filter(|_| !is_changed) {
            Some(to) => drop(compared.insert(field.name().clone(), to)),
            None => left_out.push(field.name().clone()),
        }
    }
    (compared, left_out)
}

/// Returns whether a loss means that a column's values change when they are written. Values change
/// if rows are joined or left out, or if the column becomes several columns. Values also change if
/// lists become text, or if decimals lose precision, because decimals may be rounded more than
/// once. A loss that affects only the type does not count.
fn changes(loss: &Loss, sent: &DataType, found: &DataType) -> bool {
    let (sent, found) = (&compared(sent), &compared(found));
    let is_float = leaf_type(sent).is_floating();
    matches!(loss.kind, LossKind::Record | LossKind::Name)
        || (loss.kind == LossKind::Precision && !is_float)
        || (depth(sent) > depth(found) && is_text(leaf_type(found)))
}

/// Returns the type in which sent values are compared with the values that are read back. This is
/// the type that is read back, with these exceptions:
/// - Floats that are read back in a wider type are compared in the original type. Such floats were
///   written as text, which contains only enough digits to distinguish values of the original type.
/// - Numbers that are read back as text are compared as numbers.
/// - Bytes that are read back as text are not compared, because the reader cannot detect the
///   encoding in which they were written.
fn verified_type(sent: &DataType, found: &DataType) -> Option<DataType> {
    let (sent, found) = (compared(sent), compared(found));
    let (from, to) = (leaf_type(&sent), leaf_type(&found));
    let is_number = from.is_numeric() || *from == DataType::Boolean;
    if from.is_floating() && to.is_floating() && from.primitive_width() < to.primitive_width()
        || is_number && is_text(to) && can_be_cast(&DataType::LargeUtf8, from)
    {
        return Some(from.clone());
    }
    if is_bytes(from) && is_text(to) && !is_bytes(to) {
        return None;
    }
    // If lists that contain only nulls are read back at a different nesting depth, the nulls may
    // stand for missing lists.
    if *to == DataType::Null && depth(&found) > 0 && depth(&found) != depth(&sent) {
        return None;
    }
    let to = if *to == DataType::Null { from } else { to };
    if let (DataType::Struct(sent), DataType::Struct(found)) = (from, to) {
        if sent.len() != found.len() {
            return None;
        }
        let field = |(sent, found): (&FieldRef, &FieldRef)| {
            let compared = verified_field(sent.data_type(), found.data_type())?;
            (sent.name() == found.name()).then(|| Field::new(sent.name(), compared, true))
        };
        return sent.iter().zip(found).map(field).collect::<Option<Fields>>().map(DataType::Struct);
    }
    can_be_cast(from, to).then(|| to.clone())
}

/// Returns the type in which a field of a struct is compared, as [`verified_type`] does for a
/// column. Lists in the field are not flattened.
fn verified_field(sent: &DataType, found: &DataType) -> Option<DataType> {
    match (sent, found) {
        (_, DataType::Null) => Some(sent.clone()),
        _ if depth(sent) != depth(found) => None,
        _ => {
            let leaf = verified_type(sent, found)?;
            Some((0..depth(sent)).fold(leaf, |item, _| DataType::new_list(item, true)))
        }
    }
}

/// Returns whether a column has a binary type, so that its values are not necessarily text.
pub(crate) fn is_of_bytes(data_type: &DataType) -> bool {
    is_bytes(leaf_type(data_type))
}

/// Returns whether values of one type can be compared as values of another type.
pub(super) fn can_be_cast(from: &DataType, to: &DataType) -> bool {
    from == to || *from == DataType::Null || arrow_cast::can_cast_types(from, to)
}

/// Returns one column of a batch with its values as JSON text. If `nulls` is set, nulls also become
/// text.
pub fn as_json(batch: &RecordBatch, name: &str, nulls: bool) -> Result<RecordBatch> {
    let Ok(place) = batch.schema_ref().index_of(name) else {
        return Err(Error::plugin("a column is missing from the rows").column(name));
    };
    let (field, column) = (batch.schema_ref().fields()[place].clone(), batch.column(place));
    let texts = json_texts(&field, column, NonFinite::Python)?;
    let missing = column.logical_nulls().filter(|_| !nulls);
    let is_missing = |row: usize| missing.as_ref().is_some_and(|missing| missing.is_null(row));
    let texts = texts.into_iter().enumerate().map(|(row, text)| (!is_missing(row)).then_some(text));
    let texts: ArrayRef = Arc::new(texts.collect::<LargeBinaryArray>());
    let fields = vec![Field::new(name, DataType::LargeBinary, true)];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![texts]).map_err(|e| Error::plugin(e.to_string()))
}

/// Returns the checksum of all rows of a flow. If `ordered` is set, the checksum depends on the
/// order of the rows.
pub fn checksum(flow: &mut dyn Flow, compared: &ComparedTypes, ordered: bool) -> Result<RowsChecksum> {
    let mut checksum = RowsChecksum::default();
    let mut bytes = Vec::new();
    while let Some(batch) = flow.next()? {
        let mut columns = Vec::with_capacity(compared.len());
        for (name, data_type) in compared {
            let Some(column) = batch.column_by_name(name) else { continue };
            let encoder = RowEncoder::flat(column, data_type, false).map_err(|e| {
                Error::unsupported(format!("the values cannot be compared: {e}")).column(name)
            })?;
            columns.push((name, encoder));
        }
        for row in 0..batch.num_rows() {
            bytes.clear();
            if ordered {
                bytes.extend(checksum.rows.to_le_bytes());
            }
            for (name, encoder) in columns.iter().filter(|(_, encoder)| !encoder.is_missing(row)) {
                bytes.extend((name.len() as u64).to_le_bytes());
                bytes.extend(name.as_bytes());
                encoder.append(row, &mut bytes);
            }
            if let Some(half) = blake3::hash(&bytes).as_bytes().first_chunk::<16>() {
                checksum.sum = checksum.sum.wrapping_add(u128::from_le_bytes(*half));
            }
            checksum.rows += 1;
        }
    }
    Ok(checksum)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::flow::from_fn;
    use arrow_array::{
        Array, Date32Array, Float32Array, Float64Array, Int64Array, LargeStringArray, ListArray, NullArray,
        StringArray, StructArray, TimestampSecondArray, UnionArray, new_null_array,
    };
    use arrow_buffer::OffsetBuffer;

    /// Returns whether the values that were sent equal the values that were read back, or `None` if
    /// the values are not compared.
    fn is_same(sent: ArrayRef, found: ArrayRef) -> Option<bool> {
        let batch =
            |column: ArrayRef| RecordBatch::try_from_iter_with_nullable([("a", column, true)]).unwrap();
        let (sent, found) = (batch(sent), batch(found));
        let (compared, left_out) = compared_types(&sent.schema(), &found.schema(), &[]);
        let sum = |batch: &RecordBatch| {
            let mut batches = vec![batch.clone()];
            let mut flow = from_fn(batch.schema(), move || Ok(batches.pop()));
            checksum(&mut *flow, &compared, true).unwrap()
        };
        left_out.is_empty().then(|| sum(&sent) == sum(&found))
    }

    fn texts(values: &[&str]) -> ArrayRef {
        Arc::new(StringArray::from(values.to_vec()))
    }

    fn structs(columns: Vec<ArrayRef>) -> ArrayRef {
        let field = |(number, column): (usize, &ArrayRef)| {
            Field::new(number.to_string(), column.data_type().clone(), true)
        };
        let fields: Fields = columns.iter().enumerate().map(field).collect();
        Arc::new(StructArray::new(fields, columns, None))
    }

    fn list(items: ArrayRef) -> ArrayRef {
        let item = Arc::new(Field::new_list_field(items.data_type().clone(), true));
        Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([items.len()]), items, None))
    }

    #[test]
    fn what_formats_of_text_read_back_is_the_same() {
        let times: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0]).with_timezone("-08:00"));
        let dates: ArrayRef = Arc::new(Date32Array::from(vec![i32::MAX]));
        let floats: ArrayRef = list(Arc::new(Float32Array::from(vec![0.1])));
        let wide: ArrayRef = list(Arc::new(Float64Array::from(vec![0.1])));
        assert_eq!(is_same(times.clone(), texts(&["1970-01-01T00:00:00Z"])), Some(true));
        assert_eq!(is_same(times.clone(), texts(&["1970-01-01T00:00:01Z"])), Some(false));
        assert_eq!(is_same(dates.clone(), texts(&["+5881580-07-11"])), Some(true));
        let sent = structs(vec![times, dates, floats]);
        let found =
            |date: &str| structs(vec![texts(&["1970-01-01T00:00:00Z"]), texts(&[date]), wide.clone()]);
        assert_eq!(is_same(sent.clone(), found("+5881580-07-11")), Some(true));
        assert_eq!(is_same(sent, found("+5881580-07-12")), Some(false));
    }

    #[test]
    fn unions_are_compared_by_type_and_value() {
        let union = |types: [i8; 2], text: &str| -> ArrayRef {
            let fields = [(0, DataType::Int64), (1, DataType::Utf8), (2, DataType::LargeUtf8)];
            let fields = fields.map(|(id, of)| (id, Arc::new(Field::new(id.to_string(), of, true))));
            let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
            let large: ArrayRef = Arc::new(LargeStringArray::from(vec!["x", text]));
            let children = vec![numbers, texts(&["x", text]), large];
            Arc::new(
                UnionArray::try_new(fields.into_iter().collect(), types.to_vec().into(), None, children)
                    .unwrap(),
            )
        };
        let sent = union([0, 1], "a");
        assert_eq!(is_same(sent.clone(), union([0, 1], "a")), Some(true));
        for other in [union([0, 1], "b"), union([0, 2], "a"), union([0, 0], "a")] {
            assert_eq!(is_same(sent.clone(), other), Some(false));
        }
        assert_eq!(is_same(sent.slice(1, 1), union([1, 1], "a").slice(1, 1)), Some(true));
    }

    #[test]
    fn nulls_in_the_place_of_lists_are_not_compared() {
        let sent = list(new_null_array(&DataType::new_list(DataType::Utf8, true), 1));
        assert_eq!(is_same(sent.clone(), list(Arc::new(NullArray::new(1)))), None);
        assert_eq!(is_same(sent.clone(), sent.clone()), Some(true));
        assert_eq!(is_same(sent, Arc::new(NullArray::new(1))), Some(false));
    }
}
