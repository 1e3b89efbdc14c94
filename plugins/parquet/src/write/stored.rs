//! Determines the columns of a schema that Parquet can store, and their stored types.

use super::as_stored::as_stored;
use crate::fault::{one_line, write_error};
use crate::nested::{parts, with_parts};
use crate::{MAX_DEPTH, MAX_FIELDS, MAX_LISTS, logical};
use parquet::arrow::ArrowSchemaConverter;
use parquet::errors::ParquetError;
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type};
use std::sync::Arc;
use tensorferry_sdk::arrow_array::{ArrayRef, RecordBatch};
use tensorferry_sdk::arrow_schema::{DataType, Field, FieldRef, IntervalUnit, Schema, SchemaRef, TimeUnit};
use tensorferry_sdk::records::{has_type, type_text};
use tensorferry_sdk::{Error, Loss, LossKind, Result, Severity};

/// The schema to write, and the source of each of its columns.
#[derive(Debug, Clone)]
pub(super) struct StoredSchema {
    pub(super) schema: SchemaRef,
    pub(super) parquet: SchemaDescPtr,
    /// For each column, the index of its source in the input.
    from: Vec<usize>,
}

/// Returns the part of `schema` that Parquet can store, and the losses.
pub(super) fn stored(schema: &Schema) -> Result<(StoredSchema, Vec<Loss>)> {
    let (mut fields, mut from, mut losses) = (Vec::<FieldRef>::new(), Vec::new(), Vec::new());
    for (index, field) in schema.fields().iter().enumerate() {
        if fields.iter().any(|other| other.name() == field.name()) {
            return Err(Error::unsupported("two columns have the same name")
                .column(field.name())
                .hint("rename one of them"));
        }
        check_depth(field)?;
        let mut lost = Vec::new();
        match storable(field, &mut lost) {
            Ok(stored) => {
                losses.extend(lost);
                if is_ordered(field) {
                    let why = "Parquet does not keep the order of categories";
                    losses.push(Loss::new(LossKind::Metadata, field.name(), why).severity(Severity::Changed));
                }
                if has_type(field.data_type(), &|found| *found == DataType::Date64) {
                    let why = "Parquet dates count days, so date64 becomes date32";
                    losses.push(Loss::new(LossKind::Metadata, field.name(), why).severity(Severity::Changed));
                }
                if has_type(field.data_type(), &|found| *found == DataType::FixedSizeBinary(0)) {
                    let why = "Parquet has no fixed-size values of length 0, so fixed_size_binary[0] becomes binary";
                    losses.push(Loss::new(LossKind::Metadata, field.name(), why).severity(Severity::Changed));
                }
                fields.push(stored);
                from.push(index);
            }
            Err(why) => {
                losses.push(Loss::new(LossKind::Record, field.name(), format!("Parquet cannot store {why}")));
            }
        }
    }
    if fields.is_empty() && !schema.fields().is_empty() {
        return Err(Error::unsupported("Parquet cannot store any of the columns").found(&losses[0].why));
    }
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let parquet = ArrowSchemaConverter::new().with_coerce_types(true).convert(&schema);
    let parquet = parquet.and_then(|parquet| logical::with_logical_types(&parquet, schema.fields()));
    Ok((StoredSchema { parquet: Arc::new(parquet.map_err(write_error)?), schema, from }, losses))
}

impl StoredSchema {
    /// Returns the Parquet schema of a file with only this column.
    pub(super) fn of_column(&self, index: usize) -> Result<SchemaDescriptor, ParquetError> {
        let root = self.parquet.root_schema();
        let column = root.get_fields()[index].clone();
        let root = Type::group_type_builder(root.name()).with_fields(vec![column]).build()?;
        Ok(SchemaDescriptor::new(Arc::new(root)))
    }

    /// Returns the column of a batch that is stored as the column `index`, converted to its stored
    /// type.
    pub(super) fn column(&self, batch: &RecordBatch, index: usize) -> Result<ArrayRef> {
        let column = self.from.get(index).and_then(|&from| batch.columns().get(from));
        let column = column.ok_or_else(|| Error::plugin("a batch does not match the schema"))?;
        let field = self.schema.field(index);
        as_stored(column, field.data_type())
            .map_err(|error| Error::unsupported(one_line(&error.to_string())).column(field.name()))
    }
}

/// Returns the field in its stored form, or an error that names the unsupported type. Struct fields
/// that Parquet cannot store are added to `lost`.
fn storable(field: &Field, lost: &mut Vec<Loss>) -> Result<FieldRef, String> {
    let stored = storable_field(field, field.name(), lost)?;
    // The `parquet` crate performs all other checks, such as checking the precision of decimals.
    let schema = Schema::new(vec![stored.clone()]);
    match ArrowSchemaConverter::new().with_coerce_types(true).convert(&schema) {
        Ok(_) => Ok(Arc::new(stored)),
        Err(error) => {
            Err(format!("a column of {}: {}", type_text(field.data_type()), one_line(&error.to_string())))
        }
    }
}

/// Returns whether the column contains ordered categories, at any nesting level.
fn is_ordered(field: &Field) -> bool {
    field.dict_is_ordered() == Some(true) || parts(field.data_type()).iter().any(|part| is_ordered(part))
}

/// Nesting depth of a column.
#[derive(Debug, Clone, Copy, Default)]
struct Depth {
    /// Number of nested groups in the Parquet schema.
    groups: u64,
    /// Number of nested repeated groups in the Parquet schema.
    lists: u64,
    /// Number of nested Arrow fields.
    fields: u64,
}

impl Depth {
    fn of(data_type: &DataType) -> Self {
        let (groups, lists) = match data_type {
            DataType::Struct(_) => (1, 0),
            // In the Parquet schema, a list is a group that contains a repeated group. The repeated
            // group of a map contains the pairs.
            DataType::Map(..) => (1, 1),
            DataType::RunEndEncoded(_, values) => return Self::of(values.data_type()),
            nested if nested.is_nested() => (2, 1),
            _ => (0, 0),
        };
        let below = parts(data_type).iter().map(|part| Self::of(part.data_type()));
        let below = below.fold(Self::default(), |max, one| Self {
            groups: max.groups.max(one.groups),
            lists: max.lists.max(one.lists),
            fields: max.fields.max(one.fields),
        });
        Self { groups: groups + below.groups, lists: lists + below.lists, fields: 1 + below.fields }
    }
}

/// Rejects columns with deeper nesting than the reader accepts.
fn check_depth(field: &Field) -> Result<()> {
    let Depth { groups, lists, fields } = Depth::of(field.data_type());
    // The schema itself counts as one group.
    let counted =
        [("lists", lists, MAX_LISTS), ("groups", groups, MAX_DEPTH - 1), ("fields", fields, MAX_FIELDS)];
    match counted.into_iter().find(|(_, found, max)| found > max) {
        Some((what, found, max)) => {
            Err(Error::limit(format!("the column nests {what} too deep for Parquet"))
                .column(field.name())
                .expected(format!("at most {max}"))
                .found(found))
        }
        None => Ok(()),
    }
}

/// Returns the field in its stored form. `path` is the path of the field in the schema. Seconds
/// become milliseconds, because Parquet supports only milliseconds, microseconds and nanoseconds.
fn storable_field(field: &Field, path: &str, lost: &mut Vec<Loss>) -> Result<Field, String> {
    let stored = field.clone().with_dict_is_ordered(false);
    let data_type = match field.data_type() {
        DataType::Union(..) => return Err("unions".to_owned()),
        DataType::Interval(IntervalUnit::MonthDayNano) => return Ok(logical::as_interval(stored)),
        DataType::FixedSizeBinary(0) => DataType::Binary,
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Date64 => DataType::Date32,
        // The `parquet` crate supports only dictionaries of plain values.
        DataType::Dictionary(_, values) if is_unpacked(values) => {
            return storable_field(&stored.with_data_type(values.as_ref().clone()), path, lost);
        }
        DataType::RunEndEncoded(_, values) => {
            return storable_field(&stored.with_data_type(values.data_type().clone()), path, lost);
        }
        DataType::Struct(fields) => {
            let mut kept = Vec::new();
            for field in fields {
                let path = format!("{path}.{}", field.name());
                match storable_field(field, &path, lost) {
                    Ok(field) => kept.push(Arc::new(field)),
                    Err(why) => {
                        lost.push(Loss::new(LossKind::Record, path, format!("Parquet cannot store {why}")));
                    }
                }
            }
            if kept.is_empty() {
                return Err("structs without fields".to_owned());
            }
            DataType::Struct(kept.into())
        }
        DataType::Map(entries, sorted) => {
            let pair = parts(entries.data_type())
                .iter()
                .map(|part| storable_field(part, &format!("{path}.{}", part.name()), lost).map(Arc::new));
            let pair = DataType::Struct(pair.collect::<Result<_, _>>()?);
            DataType::Map(Arc::new(entries.as_ref().clone().with_data_type(pair)), *sorted)
        }
        DataType::ListView(item) => DataType::List(Arc::new(storable_field(item, path, lost)?)),
        DataType::LargeListView(item) => DataType::LargeList(Arc::new(storable_field(item, path, lost)?)),
        list if !parts(list).is_empty() => {
            let items = parts(list).iter().map(|item| storable_field(item, path, lost).map(Arc::new));
            with_parts(list, items.collect::<Result<_, _>>()?)
        }
        other => other.clone(),
    };
    Ok(stored.with_data_type(data_type))
}

/// Returns whether a dictionary of these values is stored as plain values.
fn is_unpacked(values: &DataType) -> bool {
    values.is_nested()
        || matches!(
            values,
            DataType::FixedSizeBinary(0)
                | DataType::Interval(_)
                | DataType::Dictionary(..)
                | DataType::Date64
                | DataType::Timestamp(TimeUnit::Second, _)
                | DataType::Time32(TimeUnit::Second)
        )
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;
    use tensorferry_sdk::arrow_array::{
        Array, ArrayRef, Int64Array, TimestampMillisecondArray, TimestampSecondArray,
    };
    use tensorferry_sdk::arrow_schema::UnionMode;

    #[test]
    fn what_parquet_lacks_is_a_loss() {
        let part = (0, Arc::new(Field::new("n", DataType::Int64, true)));
        let union = DataType::Union([part].into_iter().collect(), UnionMode::Sparse);
        let nested = DataType::List(Arc::new(Field::new("item", union.clone(), true)));
        let schema = Schema::new(vec![
            Field::new("union", union.clone(), true),
            Field::new("kept", DataType::Int64, true),
            Field::new("nested", nested, true),
            Field::new("empty", DataType::Struct([].into()), true),
        ]);
        let (stored, losses) = stored(&schema).unwrap();
        assert_eq!(stored.schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["kept"]);
        assert_eq!(
            losses.iter().map(|loss| loss.what.as_str()).collect::<Vec<_>>(),
            ["union", "nested", "empty"]
        );
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let others =
            [0, 2, 3].map(|i| tensorferry_sdk::arrow_array::new_null_array(schema.field(i).data_type(), 2));
        let [union, nested, empty] = others;
        let batch =
            RecordBatch::try_new(Arc::new(schema.clone()), vec![union, column.clone(), nested, empty])
                .unwrap();
        assert_eq!(&stored.column(&batch, 0).unwrap(), &column);
        let nothing = Schema::new(vec![schema.field(0).clone()]);
        assert!(self::stored(&nothing).unwrap_err().to_string().contains("cannot store any of the columns"));
    }

    #[test]
    fn only_the_part_that_parquet_lacks_is_lost() {
        let empty = || DataType::Struct([].into());
        let name = Field::new("name", DataType::Int64, true);
        let call = DataType::Struct(vec![Field::new("args", empty(), true), name.clone()].into());
        let message = DataType::Struct(vec![name.clone(), Field::new("call", call, true)].into());
        let list = DataType::List(Arc::new(Field::new("item", message, true)));
        let schema = Schema::new(vec![
            Field::new("messages", list, true),
            Field::new("none", DataType::FixedSizeBinary(0), true),
        ]);
        let (stored, losses) = stored(&schema).unwrap();
        let named = losses.iter().map(|loss| loss.what.as_str()).collect::<Vec<_>>();
        assert_eq!(named, ["messages.call.args", "none"]);
        assert_eq!(stored.schema.field(1).data_type(), &DataType::Binary);
        let arrays = schema
            .fields()
            .iter()
            .map(|field| tensorferry_sdk::arrow_array::new_null_array(field.data_type(), 2));
        let batch = RecordBatch::try_new(Arc::new(schema.clone()), arrays.collect()).unwrap();
        for (index, field) in stored.schema.fields().iter().enumerate() {
            let column = stored.column(&batch, index).unwrap();
            assert_eq!((column.data_type(), column.null_count()), (field.data_type(), 2));
        }
    }

    /// Wraps a type in `levels` structs or lists.
    fn nested(levels: u64, inner: DataType, around: fn(Field) -> DataType) -> DataType {
        (0..levels).fold(inner, |inner, _| around(Field::new("item", inner, true)))
    }

    #[test]
    fn what_is_stored_nests_no_deeper_than_what_is_read() {
        let structs: fn(Field) -> DataType = |field| DataType::Struct(vec![field].into());
        let lists: fn(Field) -> DataType = |field| DataType::List(Arc::new(field));
        let pairs: fn(Field) -> DataType = |field| {
            let key = Field::new("key", DataType::Utf8, false);
            let entries = DataType::Struct(vec![key, field].into());
            DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
        };
        for (data_type, fits) in [
            (nested(MAX_FIELDS - 1, DataType::Int64, structs), true),
            (nested(MAX_FIELDS, DataType::Int64, structs), false),
            (nested(MAX_LISTS, DataType::Int64, lists), true),
            (nested(MAX_LISTS + 1, DataType::Int64, lists), false),
            (nested(MAX_LISTS, DataType::Int64, pairs), true),
            (nested(MAX_LISTS + 1, DataType::Int64, pairs), false),
            (nested(31, nested(16, DataType::Int64, lists), structs), true),
            (nested(32, nested(16, DataType::Int64, lists), structs), false),
        ] {
            let refused =
                check_depth(&Field::new("a", data_type.clone(), true)).map_err(|error| error.kind());
            assert_eq!(refused, if fits { Ok(()) } else { Err(ErrorKind::Limit) }, "{data_type}");
        }
    }

    #[test]
    fn categories_of_an_order_lose_it() {
        let sizes = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        let ordered = Field::new("size", sizes.clone(), true).with_dict_is_ordered(true);
        let list = DataType::List(Arc::new(ordered.clone().with_name("item")));
        let others = [Field::new("plain", sizes, true), Field::new("list", list, true)];
        let schema = Schema::new([vec![ordered], others.to_vec()].concat());
        let (stored, losses) = stored(&schema).unwrap();
        assert_eq!(losses.iter().map(|loss| loss.what.as_str()).collect::<Vec<_>>(), ["size", "list"]);
        assert!(stored.schema.fields().iter().all(|field| !is_ordered(field)));
    }

    #[test]
    fn seconds_become_milliseconds() {
        let schema = Schema::new(vec![Field::new(
            "t",
            DataType::Timestamp(TimeUnit::Second, Some("UTC".into())),
            true,
        )]);
        let column: ArrayRef =
            Arc::new(TimestampSecondArray::from(vec![Some(-1), None]).with_timezone("UTC"));
        let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![column]).unwrap();
        let (stored, losses) = stored(&schema).unwrap();
        assert_eq!(losses, []);
        let expected = TimestampMillisecondArray::from(vec![Some(-1000), None]).with_timezone("UTC");
        assert_eq!(stored.column(&batch, 0).unwrap().to_data(), expected.to_data());
        // A time that does not fit into milliseconds is an error, not a silent null.
        let column: ArrayRef = Arc::new(TimestampSecondArray::from(vec![i64::MAX]).with_timezone("UTC"));
        let batch = RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap();
        assert!(stored.column(&batch, 0).is_err());
    }
}
