//! Reads a schema file, which is JSON with the keys to read and their types. The file has the same
//! form as a schema for TFRecords, limited to the fields that apply to JSON lines.
//!
//! ```json
//! {
//!   "columns": [
//!     {"name": "id", "type": "int64", "required": true},
//!     {"name": "image", "type": "binary"},
//!     {"name": "tokens", "type": "int32", "shape": [null]},
//!     {"name": "box", "type": "float32", "shape": [2, 2]},
//!     {"name": "price", "type": "decimal128(10, 2)"}
//!   ]
//! }
//! ```
//!
//! | Field | Meaning |
//! |---|---|
//! | `name` | the key, and the name of the column |
//! | `type` | `int8` to `int64`, `uint8` to `uint64`, `bool`, `float16`, `float32` or `float`, `float64` or `double`, `binary` or `bytes` (base64), `utf8` or `string`, `date32`, `date64`, `timestamp[s]`, `[ms]`, `[us]`, `[ns]`, `[us, UTC]`; or any other type in the notation of Arrow's Rust library |
//! | `shape` | `[]` (the default) is a single value; otherwise one entry per level of lists, outermost first: a number is a list of this length, `null` is a list of any length |
//! | `required` | if `true`, a missing key or a null is an error |

use crate::MAX_LEVELS;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::Arc;
use tensorferry_sdk::arrow_schema::{DataType, Field, Schema, SchemaRef};
use tensorferry_sdk::records::type_named;
use tensorferry_sdk::{Context, Error, Result};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Message type in schemas for TFRecords, which is ignored here.
    #[serde(default, rename = "message")]
    _message: Option<Value>,
    columns: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    #[serde(rename = "type")]
    data_type: String,
    #[serde(default)]
    shape: Vec<Option<u64>>,
    #[serde(default)]
    required: bool,
}

/// Reads the schema file at a path.
pub(super) fn read(path: &str, context: &dyn Context) -> Result<SchemaRef> {
    let source = context.open(path)?;
    let file = source.open(source.entry().name())?;
    let text = source.read_vec(file, 0, source.len(file), context.limits())?;
    parse(&text, context.limits().nesting.min(MAX_LEVELS)).map_err(|error| error.file(path))
}

fn parse(text: &[u8], most_levels: u64) -> Result<SchemaRef> {
    let file: File = serde_json::from_slice(text)
        .map_err(|error| Error::usage(format!("invalid schema for JSON lines: {error}")))?;
    let mut names = HashSet::new();
    let mut fields = Vec::with_capacity(file.columns.len());
    for entry in file.columns {
        let wrong = |what: &str| Error::usage(format!("the schema's column {:?} {what}", entry.name));
        if !names.insert(entry.name.clone()) {
            return Err(wrong("is there twice"));
        }
        let leaf = type_named(&entry.data_type).ok_or_else(|| {
            wrong("has an unknown type").expected("int64, float32, utf8, ...").found(&entry.data_type)
        })?;
        let shaped = shaped(leaf, &entry.shape).ok_or_else(|| {
            wrong("has an impossible shape").expected("lengths of lists; null for lists of any length")
        })?;
        if levels(&shaped) >= most_levels {
            return Err(Error::limit("the type of a column is nested too deeply")
                .column(&entry.name)
                .expected(format!("at most {most_levels} levels, including the line's object")));
        }
        fields.push(Field::new(&entry.name, shaped, !entry.required));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// Wraps a type in one list type per dimension of a shape, starting with the innermost list.
fn shaped(leaf: DataType, shape: &[Option<u64>]) -> Option<DataType> {
    shape.iter().rev().try_fold(leaf, |item, len| {
        let item = Arc::new(Field::new_list_field(item, true));
        match len {
            None => Some(DataType::List(item)),
            Some(len) => Some(DataType::FixedSizeList(item, i32::try_from(*len).ok()?)),
        }
    })
}

/// Returns the maximum nesting of objects and lists in values of a type.
fn levels(data_type: &DataType) -> u64 {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => 1 + levels(item.data_type()),
        DataType::Struct(fields) => {
            1 + fields.iter().map(|field| levels(field.data_type())).max().unwrap_or_default()
        }
        // The entries of a map are a struct in Arrow, but do not add a level in JSON.
        DataType::Map(entries, _) => levels(entries.data_type()),
        DataType::Dictionary(_, values) => levels(values),
        DataType::RunEndEncoded(_, values) => levels(values.data_type()),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;
    use tensorferry_sdk::arrow_schema::TimeUnit;

    #[test]
    fn a_schema_has_what_the_file_says() {
        let text = br#"{"message": "example", "columns": [
            {"name": "id", "type": "int32", "required": true},
            {"name": "box", "type": "float", "shape": [null, 4]},
            {"name": "at", "type": "timestamp[us]"},
            {"name": "ragged", "type": "utf8", "shape": [2, null]},
            {"name": "price", "type": "decimal128(10, 2)"}]}"#;
        let schema = parse(text, MAX_LEVELS).unwrap();
        let inner = Arc::new(Field::new_list_field(DataType::Float32, true));
        let boxes = DataType::new_list(DataType::FixedSizeList(inner, 4), true);
        let words = Arc::new(Field::new_list_field(DataType::new_list(DataType::Utf8, true), true));
        let expected = [
            Field::new("id", DataType::Int32, false),
            Field::new("box", boxes, true),
            Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, None), true),
            Field::new("ragged", DataType::FixedSizeList(words, 2), true),
            Field::new("price", DataType::Decimal128(10, 2), true),
        ];
        assert_eq!(schema.as_ref(), &Schema::new(expected.to_vec()));
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_column() {
        for column in [
            r#"{"name": "a", "type": "int65"}"#,
            r#"{"name": "a", "type": "int64", "shape": [9999999999]}"#,
            r#"{"name": "a", "type": "int64"}, {"name": "a", "type": "int64"}"#,
        ] {
            let error = parse(format!("{{\"columns\": [{column}]}}").as_bytes(), MAX_LEVELS).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains("\"a\""), "{error}");
        }
        assert!(parse(br#"{"columns": [{"name": "a", "type": "int8", "default": 1}]}"#, MAX_LEVELS).is_err());
        let deep = |levels: u64| {
            let shape = vec!["null"; usize::try_from(levels).unwrap()].join(",");
            let text = format!(r#"{{"columns": [{{"name": "a", "type": "int8", "shape": [{shape}]}}]}}"#);
            parse(text.as_bytes(), MAX_LEVELS)
        };
        deep(MAX_LEVELS - 1).unwrap();
        assert_eq!(deep(MAX_LEVELS).unwrap_err().kind(), ErrorKind::Limit);
    }
}
