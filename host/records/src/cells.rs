//! Cells are the values of some rows as short strings, for tables that people read.

use super::flow::Flow;
use super::zones::in_known_zones;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use std::fmt::Write;
use tensorferry_core::context::session::Session;
use tensorferry_sdk::records::type_text;
use tensorferry_sdk::records::value_text::ValueTexts;
use tensorferry_sdk::{Context, Error, Result, arrow_array, arrow_schema};

/// Maximum number of bytes that a cell shows of a binary value.
const PREVIEW: usize = 8;

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellColumn {
    pub name: String,
    pub type_text: String,
    pub is_number: bool,
    /// Whether a shortened value would be misleading, as for numbers and times.
    pub is_whole: bool,
    /// The column's values as strings; `None` for a missing value.
    pub cells: Vec<Option<String>>,
}

/// Returns the values in all rows of a flow as cells. A cell has at most about `most` characters.
pub fn cells(flow: &mut dyn Flow, most: usize, session: &Session) -> Result<Vec<CellColumn>> {
    let column = |field: &arrow_schema::FieldRef| CellColumn {
        name: field.name().clone(),
        type_text: type_text(field.data_type()),
        is_number: field.data_type().is_numeric(),
        is_whole: field.data_type().is_primitive() || *field.data_type() == DataType::Boolean,
        cells: Vec::new(),
    };
    let mut columns: Vec<CellColumn> = flow.schema().fields().iter().map(column).collect();
    let mut bytes = 0;
    while let Some(batch) = flow.next()? {
        session.check_cancelled()?;
        for (column, array) in columns.iter_mut().zip(batch.columns()) {
            let array = in_zones(array)?;
            for row in 0..array.len() {
                let is_missing = array.is_null(row) || *array.data_type() == DataType::Null;
                let text = (!is_missing).then(|| cell(&array, row, most));
                bytes += text.as_ref().map_or(0, String::len) + size_of::<Option<String>>();
                column.cells.push(text);
            }
        }
        if bytes as u64 > session.held_bytes() {
            let problem = Error::limit("the table has too many rows for memory");
            return Err(problem.hint("show fewer rows, raise --memory, or pass --json"));
        }
    }
    Ok(columns)
}

/// Converts times with a named time zone to UTC, because the zone's local time cannot be written as
/// text.
fn in_zones(array: &ArrayRef) -> Result<ArrayRef> {
    let known = in_known_zones(array.data_type());
    if known == *array.data_type() {
        return Ok(array.clone());
    }
    arrow_cast::cast(array, &known).map_err(|error| Error::unsupported(error.to_string()))
}

fn cell(array: &dyn Array, row: usize, most: usize) -> String {
    let mut text = String::new();
    push(array, row, most, &mut text);
    text
}

/// Appends a value to `text`, and stops when `text` has about `most` characters. The value must not
/// be null.
fn push(array: &dyn Array, row: usize, most: usize, text: &mut String) {
    match array.data_type() {
        DataType::Null => text.push_str("null"),
        DataType::Utf8 => push_text(array.as_string::<i32>().value(row), most, text),
        DataType::LargeUtf8 => push_text(array.as_string::<i64>().value(row), most, text),
        DataType::Utf8View => push_text(array.as_string_view().value(row), most, text),
        DataType::Binary => push_bytes(array.as_binary::<i32>().value(row), text),
        DataType::LargeBinary => push_bytes(array.as_binary::<i64>().value(row), text),
        DataType::BinaryView => push_bytes(array.as_binary_view().value(row), text),
        DataType::FixedSizeBinary(_) => push_bytes(array.as_fixed_size_binary().value(row), text),
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let each = |place: usize, text: &mut String| {
                push_or_null(keys, place, most, text);
                text.push_str(": ");
                push_or_null(values, place, most, text);
            };
            push_some(entries.len(), most, ('{', '}'), text, each);
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct();
            let each = |place: usize, text: &mut String| {
                let _ = write!(text, "{}: ", fields[place].name());
                push_or_null(columns.column(place), row, most, text);
            };
            push_some(fields.len(), most, ('{', '}'), text, each);
        }
        _ => match list(array, row) {
            Some(values) => {
                let each = |place: usize, text: &mut String| push_or_null(&values, place, most, text);
                push_some(values.len(), most, ('[', ']'), text, each);
            }
            None => {
                if ValueTexts::new(array).and_then(|texts| texts.write(row, text)).is_err() {
                    text.push('?');
                }
            }
        },
    }
}

/// Returns the values of a list.
fn list(array: &dyn Array, row: usize) -> Option<ArrayRef> {
    match array.data_type() {
        DataType::List(_) => Some(array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => Some(array.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => Some(array.as_fixed_size_list().value(row)),
        _ => None,
    }
}

fn push_or_null(array: &dyn Array, row: usize, most: usize, text: &mut String) {
    if array.is_null(row) {
        text.push_str("null");
    } else {
        push(array, row, most, text);
    }
}

/// Appends as many of the `count` items as fit in the maximum length, in brackets.
fn push_some(
    count: usize,
    most: usize,
    brackets: (char, char),
    text: &mut String,
    each: impl Fn(usize, &mut String),
) {
    text.push(brackets.0);
    for place in 0..count {
        if place > 0 {
            text.push_str(", ");
        }
        if text.len() >= most {
            let _ = write!(text, "... {} more", count - place);
            break;
        }
        each(place, text);
    }
    text.push(brackets.1);
}

fn push_text(value: &str, most: usize, text: &mut String) {
    match value.char_indices().nth(most) {
        Some((end, _)) => text.extend([&value[..end], "..."]),
        None => text.push_str(value),
    }
}

/// Appends the number of bytes in a binary value, and the first few bytes.
fn push_bytes(value: &[u8], text: &mut String) {
    let _ = write!(text, "{} bytes", value.len());
    for byte in value.iter().take(PREVIEW) {
        let _ = write!(text, " {byte:02x}");
    }
    if value.len() > PREVIEW {
        text.push_str(" ...");
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::flow::from_fn;
    use arrow_array::builder::{Int32Builder, ListBuilder};
    use arrow_array::{BinaryArray, Int64Array, RecordBatch, StringArray, StructArray, TimestampSecondArray};
    use arrow_schema::{Field, Schema};
    use std::sync::Arc;

    #[test]
    fn values_of_each_kind_are_short_texts() {
        let mut lists = ListBuilder::new(Int32Builder::new());
        lists.append_value([Some(1), None]);
        lists.append_value((0..1000).map(Some));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(-7), None]));
        let pair =
            StructArray::from(vec![(Arc::new(Field::new("x", DataType::Int64, true)), numbers.clone())]);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("number", numbers),
            ("text", Arc::new(StringArray::from(vec!["a", "abcdefghijklmnopqrstuvwxyz"]))),
            ("bytes", Arc::new(BinaryArray::from(vec![&b"\x01\xff"[..], b"0123456789"]))),
            ("list", Arc::new(lists.finish())),
            ("pair", Arc::new(pair)),
            ("time", Arc::new(TimestampSecondArray::from(vec![0, 60]).with_timezone("Europe/Zurich"))),
        ];
        let fields: Vec<Field> =
            columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
        let mut batches = vec![batch.clone()];
        let mut flow = from_fn(batch.schema(), move || Ok(batches.pop()));
        let table = cells(&mut *flow, 12, &Session::new(1, 64 << 20)).unwrap();
        let of = |column: usize, row: usize| table[column].cells[row].as_deref().unwrap_or("none");
        assert_eq!((of(0, 0), of(0, 1)), ("-7", "none"));
        assert_eq!((of(1, 0), of(1, 1)), ("a", "abcdefghijkl..."));
        assert_eq!((of(2, 0), of(2, 1)), ("2 bytes 01 ff", "10 bytes 30 31 32 33 34 35 36 37 ..."));
        assert_eq!((of(3, 0), of(3, 1)), ("[1, null]", "[0, 1, 2, 3, ... 996 more]"));
        assert_eq!((of(4, 0), of(4, 1)), ("{x: -7}", "{x: null}"));
        assert_eq!((of(5, 0), of(5, 1)), ("1970-01-01T00:00:00Z", "1970-01-01T00:01:00Z"));
        assert!(table[0].is_number && !table[1].is_number);
    }
}
