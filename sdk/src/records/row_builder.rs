//! Builds the columns of a batch row by row.

use crate::{Error, Result};
use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, BooleanBuilder, Float32Builder, Float64Builder, Int8Builder, Int16Builder,
    Int32Builder, Int64Builder, LargeBinaryBuilder, LargeStringBuilder, ListBuilder, StringBuilder,
    UInt8Builder, UInt16Builder, UInt32Builder, UInt64Builder, make_builder,
};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Schema, SchemaRef};
use std::sync::Arc;

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell<'a> {
    /// A missing value.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer, for any integer column whose range includes the value.
    Int(i64),
    /// A non-negative integer, for any integer column whose range includes the value.
    Unsigned(u64),
    /// A number for a floating-point column. A 32-bit column stores the nearest value.
    Float(f64),
    /// A string value.
    Text(&'a str),
    /// A value of arbitrary bytes.
    Bytes(&'a [u8]),
    /// A list, given by its elements.
    List(Vec<Cell<'a>>),
}

/// Builds the columns of a batch from the values of its rows.
pub struct RowBuilder {
    /// All columns of the rows. Requested columns have a builder.
    columns: Vec<(String, DataType, Option<Box<dyn ArrayBuilder>>)>,
    wanted: SchemaRef,
    /// Index of the column for the next cell.
    next: usize,
    rows: usize,
}

impl RowBuilder {
    /// Creates a builder for rows of a schema. `wanted` contains the requested columns, and `None`
    /// means all columns.
    ///
    /// # Errors
    /// Returns a plugin error if a column does not exist. Returns an unsupported error for types
    /// other than booleans, numbers, strings, bytes, and lists of these types.
    pub fn new(schema: &Schema, wanted: Option<&[usize]>) -> Result<Self> {
        let all: Vec<usize> = (0..schema.fields().len()).collect();
        let wanted = wanted.unwrap_or(&all);
        let column = |(place, field): (usize, &Arc<arrow_schema::Field>)| {
            let data_type = field.data_type();
            if !has_cells(data_type) {
                let error = Error::unsupported(format!("cannot build a column of {data_type} from cells"));
                return Err(error.column(field.name()));
            }
            let builder = wanted.contains(&place).then(|| make_builder(data_type, 0));
            Ok((field.name().clone(), data_type.clone(), builder))
        };
        let columns = schema.fields().iter().enumerate().map(column).collect::<Result<_>>()?;
        let wanted = schema.project(wanted).map_err(|error| Error::plugin(error.to_string()))?;
        Ok(Self { columns, wanted: Arc::new(wanted), next: 0, rows: 0 })
    }

    /// Returns the schema of the requested columns.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.wanted.clone()
    }

    /// Adds the value of the next column of the current row.
    ///
    /// # Errors
    /// Returns a plugin error if the row already has a value for every column, or if the value does
    /// not match the column's type. Returns a malformed-data error if a number is out of range.
    #[expect(clippy::needless_pass_by_value, reason = "callers have no other use for the cell")]
    pub fn push(&mut self, cell: Cell<'_>) -> Result<()> {
        let column = self.columns.get_mut(self.next);
        let (name, data_type, builder) = column.ok_or_else(|| Error::plugin("too many values in a row"))?;
        self.next += 1;
        let Some(builder) = builder else { return Ok(()) };
        append(&mut **builder, data_type, &cell).map_err(|error| error.column(&*name))
    }

    /// Ends the current row.
    ///
    /// # Errors
    /// Returns a plugin error if a column has no value.
    pub fn end_row(&mut self) -> Result<()> {
        if self.next != self.columns.len() {
            return Err(Error::plugin("too few values in a row")
                .expected(self.columns.len())
                .found(self.next));
        }
        self.rows += 1;
        self.next = 0;
        Ok(())
    }

    /// Returns the rows added so far as a batch, and starts a new batch.
    ///
    /// # Errors
    /// Returns a plugin error if the last row is not complete.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let builders = self.columns.iter_mut().filter_map(|(_, _, builder)| builder.as_mut());
        let arrays = builders.map(|builder| builder.finish()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        let batch = RecordBatch::try_new_with_options(self.wanted.clone(), arrays, &options);
        batch.map_err(|error| Error::plugin(error.to_string()))
    }
}

fn has_cells(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) => has_cells(item.data_type()),
        DataType::Boolean
        | DataType::Float32
        | DataType::Float64
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Binary
        | DataType::LargeBinary => true,
        other => other.is_integer(),
    }
}

fn append(builder: &mut dyn ArrayBuilder, data_type: &DataType, cell: &Cell<'_>) -> Result<()> {
    let wrong = || Error::plugin(format!("a value is not of type {data_type}")).found(format!("{cell:?}"));
    macro_rules! value {
        ($builder:ty, $value:expr) => {
            builder.as_any_mut().downcast_mut::<$builder>().ok_or_else(wrong)?.append_option($value)
        };
    }
    macro_rules! whole {
        ($builder:ty) => {{
            let narrow =
                || Error::malformed(format!("a number does not fit {data_type}")).found(format!("{cell:?}"));
            let value = match *cell {
                Cell::Null => None,
                Cell::Int(value) => Some(value.try_into().map_err(|_| narrow())?),
                Cell::Unsigned(value) => Some(value.try_into().map_err(|_| narrow())?),
                _ => return Err(wrong()),
            };
            value!($builder, value)
        }};
    }
    macro_rules! plain {
        ($builder:ty, $pattern:pat => $value:expr) => {{
            let value = match *cell {
                Cell::Null => None,
                $pattern => Some($value),
                _ => return Err(wrong()),
            };
            value!($builder, value)
        }};
    }
    match data_type {
        DataType::Boolean => plain!(BooleanBuilder, Cell::Bool(value) => value),
        DataType::Int8 => whole!(Int8Builder),
        DataType::Int16 => whole!(Int16Builder),
        DataType::Int32 => whole!(Int32Builder),
        DataType::Int64 => whole!(Int64Builder),
        DataType::UInt8 => whole!(UInt8Builder),
        DataType::UInt16 => whole!(UInt16Builder),
        DataType::UInt32 => whole!(UInt32Builder),
        DataType::UInt64 => whole!(UInt64Builder),
        #[expect(clippy::cast_possible_truncation, reason = "documented to store the nearest value")]
        DataType::Float32 => plain!(Float32Builder, Cell::Float(value) => value as f32),
        DataType::Float64 => plain!(Float64Builder, Cell::Float(value) => value),
        DataType::Utf8 => plain!(StringBuilder, Cell::Text(value) => value),
        DataType::LargeUtf8 => plain!(LargeStringBuilder, Cell::Text(value) => value),
        DataType::Binary => plain!(BinaryBuilder, Cell::Bytes(value) => value),
        DataType::LargeBinary => plain!(LargeBinaryBuilder, Cell::Bytes(value) => value),
        DataType::List(item) => {
            let list = builder.as_any_mut().downcast_mut::<ListBuilder<Box<dyn ArrayBuilder>>>();
            let list = list.ok_or_else(wrong)?;
            match cell {
                Cell::Null => list.append(false),
                Cell::List(cells) => {
                    for cell in cells {
                        append(&mut **list.values(), item.data_type(), cell)?;
                    }
                    list.append(true);
                }
                _ => return Err(wrong()),
            }
        }
        _ => return Err(wrong()),
    }
    Ok(())
}
