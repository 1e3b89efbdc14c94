//! The path of a column leads from a field of a schema through lists and structs to values of one
//! type. Each field of a struct becomes a column. For a list of structs, each field becomes a
//! column of lists.

use super::value_types;
use arrow_schema::{DataType, Schema};
use tensorferry_sdk::records::type_text;
use tensorferry_sdk::{Dtype, Loss, LossKind, arrow_schema};

/// Maximum depth of nested types.
const MAX_HOPS: usize = 64;

/// The path to the values of a column.
#[derive(Debug, Clone)]
pub(super) struct ColumnPath {
    /// The name of the column. For a field of a struct, the struct's name is a prefix.
    pub(super) name: String,
    /// The index of the schema's field that contains the column.
    pub(super) field: usize,
    pub(super) hops: Vec<Hop>,
    /// The lengths of the lists on the path, outermost first; `None` if the schema does not fix the
    /// length.
    pub(super) levels: Vec<Option<u64>>,
    /// The type of the column's values in the schema.
    pub(super) leaf: DataType,
    /// The dtype of the column's tensor.
    pub(super) dtype: Dtype,
}

/// A step on the path from a field of a schema to a column's values.
#[derive(Debug, Clone)]
pub(super) enum Hop {
    /// The step from lists to their items, or from maps to their entries.
    List,
    /// The step from lists of this fixed length to their items.
    Fixed(u64),
    /// The step from a struct to the field with this index.
    Field(usize),
    /// A conversion of the values to this type, for example to the value type of a dictionary.
    Cast(DataType),
    /// The step from strings to their bytes, which are treated as lists.
    Bytes,
    /// The step from strings that all have this length to their bytes.
    FixedBytes(u64),
}

/// Returns a schema's columns, and losses for the fields that no tensor can represent.
pub(super) fn column_paths(schema: &Schema, splits_strings: bool) -> (Vec<ColumnPath>, Vec<Loss>) {
    let mut found = SchemaColumns { paths: Vec::new(), losses: Vec::new(), splits_strings };
    for (place, field) in schema.fields().iter().enumerate() {
        found.add(place, field.name().clone(), field.data_type(), Vec::new());
    }
    (found.paths, found.losses)
}

struct SchemaColumns {
    paths: Vec<ColumnPath>,
    losses: Vec<Loss>,
    splits_strings: bool,
}

impl SchemaColumns {
    fn add(&mut self, field: usize, name: String, data_type: &DataType, mut hops: Vec<Hop>) {
        if hops.len() >= MAX_HOPS {
            return self.lose(LossKind::Tensor, name, "lists and structs are nested too deeply");
        }
        match data_type {
            DataType::Struct(fields) => {
                self.lose(
                    LossKind::Name,
                    name.clone(),
                    format!("a struct becomes a tensor for each of its fields: {name}.*"),
                );
                for (place, inner) in fields.iter().enumerate() {
                    let mut hops = hops.clone();
                    hops.push(Hop::Field(place));
                    self.add(field, format!("{name}.{}", inner.name()), inner.data_type(), hops);
                }
            }
            DataType::List(inner) | DataType::LargeList(inner) | DataType::Map(inner, _) => {
                hops.push(Hop::List);
                self.add(field, name, inner.data_type(), hops);
            }
            DataType::FixedSizeList(inner, len) => {
                hops.push(Hop::Fixed(u64::try_from(*len).unwrap_or(0)));
                self.add(field, name, inner.data_type(), hops);
            }
            DataType::ListView(inner) => {
                self.add_as(field, name, &DataType::List(inner.clone()), hops);
            }
            DataType::LargeListView(inner) => {
                self.add_as(field, name, &DataType::LargeList(inner.clone()), hops);
            }
            DataType::Dictionary(_, values) => self.add_as(field, name, values, hops),
            DataType::RunEndEncoded(_, values) => self.add_as(field, name, values.data_type(), hops),
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => {
                self.lose(LossKind::Precision, name.clone(), format!("{} becomes F64", type_text(data_type)));
                self.add_as(field, name, &DataType::Float64, hops);
            }
            DataType::FixedSizeBinary(len) => {
                hops.push(Hop::FixedBytes(u64::try_from(*len).unwrap_or(0)));
                self.end(field, name, data_type, Dtype::U8, hops);
            }
            _ => match value_types::dtype(data_type) {
                Some(Dtype::STR) if self.splits_strings => {
                    hops.push(Hop::Bytes);
                    self.end(field, name, data_type, Dtype::U8, hops);
                }
                Some(dtype) => self.end(field, name, data_type, dtype, hops),
                None => self.lose(
                    LossKind::Tensor,
                    name,
                    format!("no tensor can represent values of type {}", type_text(data_type)),
                ),
            },
        }
    }

    fn add_as(&mut self, field: usize, name: String, data_type: &DataType, mut hops: Vec<Hop>) {
        hops.push(Hop::Cast(data_type.clone()));
        self.add(field, name, data_type, hops);
    }

    fn end(&mut self, field: usize, name: String, leaf: &DataType, dtype: Dtype, hops: Vec<Hop>) {
        let level = |hop: &Hop| match hop {
            Hop::List | Hop::Bytes => Some(None),
            Hop::Fixed(len) | Hop::FixedBytes(len) => Some(Some(*len)),
            Hop::Field(_) | Hop::Cast(_) => None,
        };
        let levels = hops.iter().filter_map(level).collect();
        self.paths.push(ColumnPath { name, field, hops, levels, leaf: leaf.clone(), dtype });
    }

    fn lose(&mut self, kind: LossKind, name: String, why: impl Into<String>) {
        self.losses.push(Loss::new(kind, name, why));
    }
}

impl ColumnPath {
    /// Returns the lengths of the lists in the schema. Lists of bytes that strings become are not
    /// included.
    pub(super) fn shape(&self) -> Vec<Option<u64>> {
        let is_text = matches!(self.hops.last(), Some(Hop::Bytes | Hop::FixedBytes(_)));
        self.levels[..self.levels.len() - usize::from(is_text)].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::Field;
    use std::sync::Arc;

    #[test]
    fn structs_are_taken_apart() {
        let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
        let fields = vec![
            Field::new("a", DataType::FixedSizeList(item(DataType::Float32), 3), true),
            Field::new("b", DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)), true),
            Field::new("c", DataType::Decimal128(10, 2), true),
            Field::new("d", DataType::Interval(arrow_schema::IntervalUnit::MonthDayNano), true),
        ];
        let list = DataType::List(item(DataType::Struct(fields.into())));
        let schema = Schema::new(vec![Field::new("x", list, true)]);
        let (found, lost) = column_paths(&schema, false);
        let seen: Vec<_> = found.iter().map(|c| (c.name.as_str(), c.levels.clone(), c.dtype)).collect();
        let expected = [
            ("x.a", vec![None, Some(3)], Dtype::F32),
            ("x.b", vec![None], Dtype::STR),
            ("x.c", vec![None], Dtype::F64),
        ];
        assert_eq!(seen, expected);
        let kinds: Vec<LossKind> = lost.iter().map(|loss| loss.kind).collect();
        assert_eq!(kinds, [LossKind::Name, LossKind::Precision, LossKind::Tensor]);
        let (found, _) = column_paths(&schema, true);
        assert_eq!((found[1].levels.clone(), found[1].dtype), (vec![None, None], Dtype::U8));
        assert_eq!(found[1].shape(), [None]);
    }
}
