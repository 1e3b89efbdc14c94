//! Finds which columns of a schema Parquet can store, and in which units.

use super::as_stored::as_stored;
use crate::fault::one_line;
use parquet::arrow::ArrowSchemaConverter;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::{ArrayRef, RecordBatch};
use tensorferry_sdk::arrow_schema::{DataType, Field, FieldRef, IntervalUnit, Schema, SchemaRef, TimeUnit};
use tensorferry_sdk::records::type_text;
use tensorferry_sdk::{Error, Loss, LossKind, Result, Severity};

/// A schema as it is written, and where its columns come from.
#[derive(Debug, Clone)]
pub(super) struct StoredSchema {
    /// As it is written.
    pub(super) schema: SchemaRef,
    /// The column of the rows that each of its columns is.
    from: Vec<usize>,
}

/// What of `schema` can be stored, and what is lost.
///
/// # Errors
/// Unsupported, if none of its columns can be; usage, if two have one name.
pub(super) fn stored(schema: &Schema) -> Result<(StoredSchema, Vec<Loss>)> {
    let (mut fields, mut from, mut losses) = (Vec::<FieldRef>::new(), Vec::new(), Vec::new());
    for (index, field) in schema.fields().iter().enumerate() {
        if fields.iter().any(|other| other.name() == field.name()) {
            return Err(Error::unsupported("two columns of one name: rename one").found(field.name()));
        }
        match storable(field) {
            Ok(stored) => {
                if has_date64(field.data_type()) {
                    let why = "Parquet counts dates in days: date64 is read as date32";
                    losses.push(Loss::new(LossKind::Metadata, field.name(), why).severity(Severity::Changed));
                }
                fields.push(stored);
                from.push(index);
            }
            Err(why) => {
                losses.push(Loss::new(LossKind::Record, field.name(), format!("Parquet has no {why}")));
            }
        }
    }
    if fields.is_empty() && !schema.fields().is_empty() {
        return Err(Error::unsupported("no column that Parquet can hold").found(&losses[0].why));
    }
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    Ok((StoredSchema { schema, from }, losses))
}

impl StoredSchema {
    /// A column of some rows as it is written.
    pub(super) fn column(&self, batch: &RecordBatch, index: usize) -> Result<ArrayRef> {
        let column = self.from.get(index).and_then(|&from| batch.columns().get(from));
        let column = column.ok_or_else(|| Error::plugin("rows of another schema"))?;
        let field = self.schema.field(index);
        as_stored(column, field.data_type())
            .map_err(|error| Error::unsupported(one_line(&error.to_string())).column(field.name()))
    }
}

/// The field as it is stored, or what it is that Parquet has not.
fn storable(field: &Field) -> Result<FieldRef, String> {
    let data_type = storable_type(field.data_type())?;
    let stored = field.clone().with_data_type(data_type);
    // The library's own word on what is left: the precision of decimals, for example.
    let schema = Schema::new(vec![stored.clone()]);
    match ArrowSchemaConverter::new().with_coerce_types(true).convert(&schema) {
        Ok(_) => Ok(Arc::new(stored)),
        Err(error) => {
            Err(format!("column of {}: {}", type_text(field.data_type()), one_line(&error.to_string())))
        }
    }
}

/// Whether dates in milliseconds are anywhere in a type.
fn has_date64(data_type: &DataType) -> bool {
    match data_type {
        DataType::Date64 => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::Map(field, _)
        | DataType::RunEndEncoded(_, field) => has_date64(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_date64(field.data_type())),
        DataType::Dictionary(_, values) => has_date64(values),
        _ => false,
    }
}

/// Seconds become milliseconds: Parquet counts in those, and in micro- and nanoseconds.
fn storable_type(data_type: &DataType) -> Result<DataType, String> {
    let child = |field: &FieldRef| -> Result<FieldRef, String> {
        Ok(Arc::new(field.as_ref().clone().with_data_type(storable_type(field.data_type())?)))
    };
    Ok(match data_type {
        DataType::Union(..) => return Err("unions".to_owned()),
        DataType::Interval(IntervalUnit::MonthDayNano) => return Err("intervals with nanoseconds".to_owned()),
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Date64 => DataType::Date32,
        DataType::List(field) => DataType::List(child(field)?),
        DataType::LargeList(field) => DataType::LargeList(child(field)?),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(child(field)?, *size),
        DataType::ListView(field) => DataType::List(child(field)?),
        DataType::LargeListView(field) => DataType::LargeList(child(field)?),
        DataType::Map(field, sorted) => DataType::Map(child(field)?, *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(child).collect::<Result<_, _>>()?),
        DataType::RunEndEncoded(_, values) => storable_type(values.data_type())?,
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
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
        assert!(self::stored(&nothing).unwrap_err().to_string().contains("no column that Parquet can hold"));
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
        // More seconds than milliseconds can count: no silent null.
        let column: ArrayRef = Arc::new(TimestampSecondArray::from(vec![i64::MAX]).with_timezone("UTC"));
        let batch = RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap();
        assert!(stored.column(&batch, 0).is_err());
    }
}
