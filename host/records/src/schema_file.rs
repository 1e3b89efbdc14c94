//! A schema file, which lists columns. Readers and writers of records accept a schema file as
//! `schema=FILE`.
//!
//! ```json
//! {"columns": [{"name": "image", "type": "float32", "shape": [28, 28]}, {"name": "tokens", "type": "int64", "shape": [null]}]}
//! ```
//!
//! The shape is `[]` for a single value. Otherwise it contains a number for each fixed dimension,
//! and `null` for each dimension of variable length. Formats keep other information on their files
//! in the metadata of the schema and its fields, under keys that start with `ferry.`.

use arrow_schema::{DataType, Field, Metadata, Schema};
use serde_json::{Map, Value, json};
use tensorferry_sdk::arrow_schema;
use tensorferry_sdk::records::type_word;

const OWN: &str = "ferry.";

#[must_use]
pub fn schema_file(schema: &Schema) -> Value {
    let mut file = hints(schema.metadata());
    file.insert("columns".to_owned(), schema.fields().iter().map(|field| column(field)).collect());
    Value::Object(file)
}

/// Returns the entry for a column: its name, type and shape.
#[must_use]
pub fn column(field: &Field) -> Value {
    let (data_type, shape) = type_and_shape(field.data_type());
    let mut column = hints(field.metadata());
    column.insert("name".to_owned(), field.name().as_str().into());
    column.insert("type".to_owned(), type_word(data_type).into());
    if !shape.is_empty() {
        column.insert("shape".to_owned(), json!(shape));
    }
    Value::Object(column)
}

/// Returns the type of a column's values, and the shape of the values in each row.
#[must_use]
pub fn type_and_shape(data_type: &DataType) -> (&DataType, Vec<Option<u64>>) {
    let mut shape = Vec::new();
    let mut values = data_type;
    loop {
        let field = match values {
            DataType::List(field) | DataType::LargeList(field) => {
                shape.push(None);
                field
            }
            DataType::FixedSizeList(field, len) => {
                shape.push(Some(u64::try_from(*len).unwrap_or(0)));
                field
            }
            _ => return (values, shape),
        };
        values = field.data_type();
    }
}

fn hints(metadata: &Metadata) -> Map<String, Value> {
    let hint =
        |(key, value): (&String, &String)| Some((key.strip_prefix(OWN)?.to_owned(), value.as_str().into()));
    metadata.iter().filter_map(hint).collect()
}
