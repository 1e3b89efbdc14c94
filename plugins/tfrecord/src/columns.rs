//! A column is an Arrow array that contains one feature of every record.
//!
//! | Feature | Column |
//! |---|---|
//! | always one value | the value |
//! | a fixed shape set by the user | `FixedSizeList`, nested for each dimension |
//! | any number of values | `List` |
//! | a list of features | `List` of one of the types above |
//! | missing, or without a kind | null in the column |
//! | an empty list | an empty list |
//! | no feature has a kind | `Null` |

mod builder;
mod leaf;
mod rows;
mod values;

pub(crate) use rows::{RowError, Rows};

use crate::message::{Kind, Part};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::collections::HashMap;
use std::sync::Arc;

/// Schema metadata key: the message type of the records. When the host prints a schema file, it
/// converts metadata keys that start with `ferry.` to fields without this prefix.
pub(crate) const MESSAGE: &str = "ferry.message";
/// Field metadata key: the part of the message (see [`Part`]) that contains the feature.
pub(crate) const PART: &str = "ferry.part";
pub(crate) const PART_LISTS: &str = "feature_lists";
pub(crate) const PART_CONTEXT: &str = "context";
/// The value of [`PART`] for a column that contains whole records as bytes.
pub(crate) const PART_RAW: &str = "raw";
/// Field metadata key: the name of the feature, if the column has a different name.
pub(crate) const KEY: &str = "ferry.key";
/// The name of the only column if records are not decoded.
pub(crate) const RAW_COLUMN: &str = "record";

/// A column, and the rules for converting a feature to it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// The name of the column.
    pub(crate) name: String,
    /// The map that contains the feature.
    pub(crate) part: Part,
    /// The name of the feature.
    pub(crate) key: Box<[u8]>,
    /// The kind of the feature's list, or `None` if no record has a list.
    pub(crate) kind: Option<Kind>,
    /// The shape of the values. If the feature is a list of features, this is the shape of each
    /// step.
    pub(crate) shape: Shape,
    /// The type of a value.
    pub(crate) leaf: DataType,
    /// The treatment of records without the feature.
    pub(crate) missing: Missing,
}

/// The shape of a feature's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A fixed shape with these dimensions, in row-major order. An empty list represents a single
    /// value.
    Fixed(Vec<usize>),
    /// Any number of elements, each of which has these dimensions.
    Ragged(Vec<usize>),
}

impl Shape {
    /// Returns the number of values in one element, or in the whole feature if the shape is fixed.
    pub(crate) fn product(&self) -> usize {
        let (Self::Fixed(dims) | Self::Ragged(dims)) = self;
        dims.iter().product()
    }
}

/// The treatment of records without the feature.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Missing {
    Null,
    /// A missing feature is an error.
    Refused,
    Values(DefaultValues),
}

/// The values that replace a missing feature.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DefaultValues {
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Bytes(Vec<Vec<u8>>),
}

impl Column {
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

    /// Returns the Arrow field of the column. `is_sequence` is set for SequenceExamples.
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

/// Returns the field of list elements, with the name that Arrow uses by default.
pub(crate) fn item(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new_list_field(data_type, true))
}

fn list(item_type: DataType) -> DataType {
    DataType::List(item(item_type))
}

/// Returns nested lists of fixed lengths, with the last dimension innermost.
fn fixed(leaf: DataType, dims: &[usize]) -> DataType {
    dims.iter().rev().fold(leaf, |inner, &dim| {
        // The dimension fits in an `i32`, because this was checked when the schema was read.
        DataType::FixedSizeList(item(inner), i32::try_from(dim).unwrap_or(i32::MAX))
    })
}

pub(crate) fn schema(columns: &[Column], is_sequence: bool) -> SchemaRef {
    let fields: Vec<Field> = columns.iter().map(|column| column.field(is_sequence)).collect();
    let message = if is_sequence { "sequence" } else { "example" };
    let metadata = HashMap::from([(MESSAGE.to_owned(), message.to_owned())]);
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

/// Returns the schema of records that are not decoded.
pub(crate) fn raw_schema() -> SchemaRef {
    let metadata = HashMap::from([(PART.to_owned(), PART_RAW.to_owned())]);
    Arc::new(Schema::new(vec![Field::new(RAW_COLUMN, DataType::Binary, false).with_metadata(metadata)]))
}
