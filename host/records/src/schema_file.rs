//! A schema as the file that readers and writers of records take as `schema=FILE`: one list of columns.
//!
//! ```json
//! {"columns": [{"name": "image", "type": "float32", "shape": [28, 28]}, {"name": "tokens", "type": "int64", "shape": [null]}]}
//! ```
//!
//! A shape is `[]` for one value, a number for each fixed dimension, `null` for one of any length. What
//! else a format wants to find in its file, it says in its schema's and its fields' metadata under
//! keys that begin with `ferry.`.

use arrow_schema::{DataType, Field, Metadata, Schema};
use serde_json::{Map, Value, json};
use tensorferry_sdk::arrow_schema;
use tensorferry_sdk::records::type_word;

const OWN: &str = "ferry.";

/// The schema file of a schema.
#[must_use]
pub fn schema_file(schema: &Schema) -> Value {
    let mut file = hints(schema.metadata());
    file.insert("columns".to_owned(), schema.fields().iter().map(|field| column(field)).collect());
    Value::Object(file)
}

/// A column: its name, type and shape.
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

/// The type of a column's values, and the shape that they have in each row.
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
