//! A column is a feature of every record, as Arrow holds it.
//!
//! | Feature | Column |
//! |---|---|
//! | always one value | the value |
//! | a fixed shape, if the user says so | `FixedSizeList`, one in the other for each dimension |
//! | any number of values | `List` |
//! | a list of features | `List` of one of these |
//! | missing, or without a kind | null |
//! | an empty list | an empty list |
//! | nothing but features without a kind | `Null` |

mod builder;
mod leaf;
mod rows;
mod values;

pub(crate) use rows::{RowError, Rows};

use crate::message::{Kind, Part};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::collections::HashMap;
use std::sync::Arc;

/// In a schema's metadata: which message the records are. The names that begin with `ferry.` are those
/// that a schema file has of them, as the host prints one.
pub(crate) const MESSAGE: &str = "ferry.message";
/// In a field's metadata: which map of a SequenceExample it is of.
pub(crate) const PART: &str = "ferry.part";
/// The lists of a SequenceExample.
pub(crate) const PART_LISTS: &str = "feature_lists";
/// Its context.
pub(crate) const PART_CONTEXT: &str = "context";
/// Whole records, as bytes.
pub(crate) const PART_RAW: &str = "raw";
/// In a field's metadata: the feature's name, where the column has another.
pub(crate) const KEY: &str = "ferry.key";
/// The one column of records that are not decoded.
pub(crate) const RAW_COLUMN: &str = "record";

/// How a feature becomes a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// What the column is called.
    pub(crate) name: String,
    /// The map that the feature is in.
    pub(crate) part: Part,
    /// What the feature is called.
    pub(crate) key: Box<[u8]>,
    /// The kind of its list; none, if it never had one.
    pub(crate) kind: Option<Kind>,
    /// How its values lie, in each step where it is a list of features.
    pub(crate) shape: Shape,
    /// What a value is.
    pub(crate) leaf: DataType,
    /// What stands for a feature that is missing.
    pub(crate) missing: Missing,
}

/// How the values of a feature lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// As many as these dimensions make, row by row; one, if there are none.
    Fixed(Vec<usize>),
    /// Any number of elements of these dimensions.
    Ragged(Vec<usize>),
}

impl Shape {
    /// How many values an element has, or the whole.
    pub(crate) fn product(&self) -> usize {
        let (Self::Fixed(dims) | Self::Ragged(dims)) = self;
        dims.iter().product()
    }
}

/// What stands for a feature that is missing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Missing {
    /// Null.
    Null,
    /// Nothing may: it must be there.
    Refused,
    /// These values.
    Values(DefaultValues),
}

/// Values that stand for a missing feature.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DefaultValues {
    /// Whole numbers.
    Ints(Vec<i64>),
    /// Floats.
    Floats(Vec<f32>),
    /// Strings of bytes.
    Bytes(Vec<Vec<u8>>),
}

impl Column {
    /// The type of the column.
    pub(crate) fn data_type(&self) -> DataType {
        if self.kind.is_none() {
            return DataType::Null;
        }
        let value = match &self.shape {
            Shape::Fixed(dims) => fixed(self.leaf.clone(), dims),
            Shape::Ragged(dims) => list(fixed(self.leaf.clone(), dims)),
        };
        if self.part == Part::Lists { list(value) } else { value }
    }

    /// The field of the column, in a message with or without lists of features.
    fn field(&self, is_sequence: bool) -> Field {
        let mut metadata = HashMap::new();
        if is_sequence {
            let part = if self.part == Part::Lists { PART_LISTS } else { PART_CONTEXT };
            metadata.insert(PART.to_owned(), part.to_owned());
        }
        if self.name.as_bytes() != &*self.key {
            metadata.insert(KEY.to_owned(), String::from_utf8_lossy(&self.key).into_owned());
        }
        let is_nullable = matches!(self.missing, Missing::Null);
        Field::new(&self.name, self.data_type(), is_nullable).with_metadata(metadata)
    }
}

/// What elements of lists are called, as everywhere in Arrow.
pub(crate) fn item(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new_list_field(data_type, true))
}

fn list(item_type: DataType) -> DataType {
    DataType::List(item(item_type))
}

/// Lists of fixed lengths, the last dimension innermost.
fn fixed(leaf: DataType, dims: &[usize]) -> DataType {
    dims.iter().rev().fold(leaf, |inner, &dim| {
        // Dimensions were checked to fit when the schema was read.
        DataType::FixedSizeList(item(inner), i32::try_from(dim).unwrap_or(i32::MAX))
    })
}

/// The schema of columns.
pub(crate) fn schema(columns: &[Column], is_sequence: bool) -> SchemaRef {
    let fields: Vec<Field> = columns.iter().map(|column| column.field(is_sequence)).collect();
    let message = if is_sequence { "sequence" } else { "example" };
    let metadata = HashMap::from([(MESSAGE.to_owned(), message.to_owned())]);
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

/// The schema of records that are not decoded.
pub(crate) fn raw_schema() -> SchemaRef {
    let metadata = HashMap::from([(PART.to_owned(), PART_RAW.to_owned())]);
    Arc::new(Schema::new(vec![Field::new(RAW_COLUMN, DataType::Binary, false).with_metadata(metadata)]))
}
