//! A checksum of what the rows of a flow hold: so that an output that was read back can be compared with what
//! was sent, whatever batches and files the rows lie in.
//!
//! A row counts as its columns' values, taken [flat](super::encoding) and cast to the type that was read back;
//! a null is as good as no column.

use super::encoding::{RowEncoder, is_bytes, is_text};
use super::flow::Flow;
use super::lists::{depth, leaf_type};
use super::plain::compared;
use arrow_array::{ArrayRef, LargeBinaryArray, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;
use tensorferry_sdk::records::json::{NonNumbers, json_texts};
use tensorferry_sdk::{Error, Loss, LossKind, Result, arrow_array, arrow_schema};

/// What rows hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowsChecksum {
    /// How many.
    pub rows: u64,
    /// The sum of the rows' hashes.
    sum: u128,
}

/// The types that values are compared as, by column; columns that are not here are not compared.
pub type ComparedTypes = BTreeMap<String, DataType>;

/// The columns of `sent` in a form in which they can be compared with those of `found`, and the names of
/// those that cannot: they are read back as something else, or the `losses` say that they are written as
/// something else. One that only `sent` has was null throughout, or is missing: it is compared.
#[must_use]
pub fn compared_types(sent: &Schema, found: &Schema, losses: &[Loss]) -> (ComparedTypes, Vec<String>) {
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

/// Whether a loss says that a column's values are not written as they are: its rows are joined or left out, it
/// has become several, it was a decimal, which is rounded more than once, or its lists are text now. What only
/// forgets the type is none.
fn changes(loss: &Loss, sent: &DataType, found: &DataType) -> bool {
    let (sent, found) = (&compared(sent), &compared(found));
    let is_float = leaf_type(sent).is_floating();
    matches!(loss.kind, LossKind::Record | LossKind::Name)
        || (loss.kind == LossKind::Precision && !is_float)
        || (depth(sent) > depth(found) && is_text(leaf_type(found)))
}

/// The type as which what was sent is compared with what was read back: the latter's, but that
/// - floats that are read back wider were written as text, whose digits tell those of their own width apart and no
///   others;
/// - numbers that are read back as text are what that says;
/// - bytes that are read back as text were written in some encoding that the reader does not know of.
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
    // Lists in which only nulls were read may have had lists in the place of the nulls.
    if *to == DataType::Null && !matches!(depth(found), 0) && depth(found) != depth(sent) {
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

/// As [`verified_type`], with the lists of a field, which are not taken flat.
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

/// Whether the values of a column are bytes that need not be text.
pub(crate) fn is_of_bytes(data_type: &DataType) -> bool {
    is_bytes(leaf_type(data_type))
}

/// Whether values of one type can be compared as those of another.
pub(super) fn can_be_cast(from: &DataType, to: &DataType) -> bool {
    from == to || *from == DataType::Null || arrow_cast::can_cast_types(from, to)
}

/// The rows of a batch with one column alone, as the texts of its values in JSON; `nulls`: those of nulls too.
///
/// # Errors
/// Unsupported, for values without a text.
pub fn as_json(batch: &RecordBatch, name: &str, nulls: bool) -> Result<RecordBatch> {
    let Ok(place) = batch.schema_ref().index_of(name) else {
        return Err(Error::plugin("a column is missing from the rows").column(name));
    };
    let (field, column) = (batch.schema_ref().fields()[place].clone(), batch.column(place));
    let texts = json_texts(&field, column, NonNumbers::Python)?;
    let missing = column.logical_nulls().filter(|_| !nulls);
    let is_missing = |row: usize| missing.as_ref().is_some_and(|missing| missing.is_null(row));
    let texts = texts.into_iter().enumerate().map(|(row, text)| (!is_missing(row)).then_some(text));
    let texts: ArrayRef = Arc::new(texts.collect::<LargeBinaryArray>());
    let fields = vec![Field::new(name, DataType::LargeBinary, true)];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![texts]).map_err(|e| Error::plugin(e.to_string()))
}

/// The checksum of all rows of a flow. `ordered`: their order counts.
///
/// # Errors
/// Whatever the flow gives; unsupported, for values that cannot be hashed.
pub fn checksum(flow: &mut dyn Flow, compared: &ComparedTypes, ordered: bool) -> Result<RowsChecksum> {
    let mut checksum = RowsChecksum::default();
    let mut bytes = Vec::new();
    while let Some(batch) = flow.next()? {
        let mut columns = Vec::with_capacity(compared.len());
        for (name, data_type) in compared {
            let Some(column) = batch.column_by_name(name) else { continue };
            let encoder = RowEncoder::flat(column, data_type, false).map_err(|e| {
                Error::unsupported(format!("values that cannot be compared: {e}")).column(name)
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
