//! A schema file is a JSON file that defines columns. ferry reads records into these columns, or
//! writes records from them.
//!
//! ```json
//! {
//!   "message": "example",
//!   "columns": [
//!     {"name": "id", "type": "int64", "required": true},
//!     {"name": "image", "type": "float32", "shape": [28, 28]},
//!     {"name": "label", "type": "int32", "default": -1},
//!     {"name": "tokens", "type": "int64", "shape": [null]},
//!     {"name": "boxes", "type": "float32", "shape": [null, 4]},
//!     {"name": "caption", "type": "utf8", "key": "image/caption"}
//!   ]
//! }
//! ```
//!
//! | Field | Meaning |
//! |---|---|
//! | `message` | `example` (the default) or `sequence` |
//! | `name` | the column |
//! | `key` | the name of the feature, if it differs from `name` |
//! | `part` | see below |
//! | `type` | see below |
//! | `shape` | see below |
//! | `default` | replaces a missing feature: one value for a whole fixed shape, or a list; bytes as text |
//! | `required` | a missing feature is an error |
//!
//! `part` is `context` by default. For a feature list of a SequenceExample, it is `feature_lists`.
//! If the only column has the part `raw`, records are not decoded.
//!
//! `type` depends on the kind of the feature:
//!
//! - `int64_list`: `int8` to `int64`, `uint8` to `uint64`, `bool`, `date32`, `date64`,
//!   `timestamp[s]`, `[ms]`, `[us]`, `[ns]`
//! - `float_list`: `float32` or `float`, `float64` or `double`
//! - `bytes_list`: `binary` or `bytes`, `utf8` or `string`
//! - `null` if no record has a value for the feature
//!
//! `shape` is `[]` by default, which means a single value. Numbers define a fixed shape, and `null`
//! as the first dimension allows any number of elements. For a feature list, the first dimension is
//! `null`, and the other dimensions are the shape of each step.

use crate::columns::{Column, DefaultValues, Missing, Shape};
use crate::message::{Kind, MessageKind, Part};
use arrow_schema::DataType;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashSet;
use tensorferry_sdk::records::type_named;
use tensorferry_sdk::{Context, Error, Result};

/// Maximum number of values in a fixed shape.
const MAX_VALUES: usize = 1 << 24;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SchemaFile {
    /// The message type of the records, or `None` if they are not decoded.
    pub(crate) message: Option<MessageKind>,
    /// The columns, in file order.
    pub(crate) columns: Vec<Column>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    message: Message,
    columns: Vec<ColumnEntry>,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Message {
    #[default]
    Example,
    Sequence,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum FilePart {
    #[default]
    Context,
    FeatureLists,
    Raw,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnEntry {
    name: String,
    key: Option<String>,
    #[serde(default)]
    part: FilePart,
    #[serde(rename = "type")]
    data_type: String,
    #[serde(default)]
    shape: Vec<Option<usize>>,
    default: Option<Value>,
    #[serde(default)]
    required: bool,
}

pub(crate) fn read(path: &str, context: &dyn Context) -> Result<SchemaFile> {
    let source = context.open(path)?;
    let file = source.open(source.entry().name())?;
    let text = source.read_vec(file, 0, source.len(file), context.limits())?;
    parse(&text).map_err(|error| error.file(path))
}

fn parse(text: &[u8]) -> Result<SchemaFile> {
    let file: File = serde_json::from_slice(text)
        .map_err(|error| Error::usage(format!("invalid schema file: {error}")))?;
    let message = match file.message {
        Message::Example => MessageKind::Example,
        Message::Sequence => MessageKind::Sequence,
    };
    if let [only] = &file.columns[..]
        && only.part == FilePart::Raw
    {
        return Ok(SchemaFile { message: None, columns: Vec::new() });
    }
    let mut names = HashSet::new();
    let mut keys = HashSet::new();
    let mut columns = Vec::with_capacity(file.columns.len());
    for entry in file.columns {
        let name = entry.name.clone();
        let wrong = |what: &str| Error::usage(format!("column {name:?} of the schema {what}"));
        let part = match entry.part {
            FilePart::Context => Part::Features,
            FilePart::FeatureLists if message == MessageKind::Sequence => Part::Lists,
            FilePart::FeatureLists => {
                return Err(wrong("is a list of features, but the message is not a sequence"));
            }
            FilePart::Raw => return Err(wrong("is the whole record and must be the only column")),
        };
        let key: Box<[u8]> = entry.key.as_deref().unwrap_or(&entry.name).as_bytes().into();
        if !names.insert(entry.name.clone()) || !keys.insert((part, key.clone())) {
            return Err(wrong("is listed twice"));
        }
        let (kind, leaf) = data_type(&entry.data_type).ok_or_else(|| {
            wrong(&format!("has the type {:?}, which no feature can have", entry.data_type))
                .hint("use a type such as int64, float32, binary or utf8")
        })?;
        let dims = match (part, &entry.shape[..]) {
            (Part::Features, dims) | (Part::Lists, [None, dims @ ..]) => dims,
            // The feature never occurs, so its shape is unknown.
            (Part::Lists, []) if kind.is_none() => &[],
            (Part::Lists, _) => {
                return Err(wrong("is a list of features, so its shape must begin with null"));
            }
        };
        let shape = shape(dims).ok_or_else(|| {
            wrong("has an invalid shape")
                .hint("use dimensions of at least 1, and null only as the first dimension")
        })?;
        let missing = match entry.default {
            Some(_) if entry.required => return Err(wrong("is required and also has a default")),
            None if entry.required => Missing::Refused,
            None => Missing::Null,
            Some(_) if part == Part::Lists => {
                return Err(wrong("is a list of features, which cannot have a default"));
            }
            Some(value) => Missing::Values(
                fallback(kind, &shape, value)
                    .ok_or_else(|| wrong("has a default that does not fit its type or shape"))?,
            ),
        };
        columns.push(Column { name: entry.name, part, key, kind, shape, leaf, missing });
    }
    Ok(SchemaFile { message: Some(message), columns })
}

/// Returns the type with this name, and the kind of list that contains its values.
fn data_type(word: &str) -> Option<(Option<Kind>, DataType)> {
    let leaf = type_named(word)?;
    let kind = match &leaf {
        DataType::Boolean | DataType::Date32 | DataType::Date64 | DataType::Timestamp(_, None) => {
            Some(Kind::Int64)
        }
        _ if leaf.is_integer() => Some(Kind::Int64),
        DataType::Float32 | DataType::Float64 => Some(Kind::Float),
        DataType::Binary | DataType::Utf8 => Some(Kind::Bytes),
        DataType::Null => None,
        _ => return None,
    };
    Some((kind, leaf))
}

fn shape(dims: &[Option<usize>]) -> Option<Shape> {
    let (is_ragged, rest) = match dims {
        [None, rest @ ..] => (true, rest),
        _ => (false, dims),
    };
    let dims: Vec<usize> = rest.iter().copied().collect::<Option<_>>()?;
    let product = dims.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim))?;
    if product == 0 || product > MAX_VALUES {
        return None;
    }
    Some(if is_ragged { Shape::Ragged(dims) } else { Shape::Fixed(dims) })
}

fn fallback(kind: Option<Kind>, shape: &Shape, value: Value) -> Option<DefaultValues> {
    let values = match (value, shape) {
        (Value::Array(values), Shape::Fixed(dims)) => {
            (values.len() == shape.product() && !dims.is_empty()).then_some(values)?
        }
        (Value::Array(values), Shape::Ragged(_)) => {
            values.len().is_multiple_of(shape.product()).then_some(values)?
        }
        (value, Shape::Fixed(_)) => vec![value; shape.product()],
        (_, Shape::Ragged(_)) => return None,
    };
    Some(match kind? {
        Kind::Int64 => DefaultValues::Ints(values.iter().map(int).collect::<Option<_>>()?),
        Kind::Float => DefaultValues::Floats(values.iter().map(float).collect::<Option<_>>()?),
        Kind::Bytes => DefaultValues::Bytes(
            values.iter().map(|v| v.as_str().map(|text| text.as_bytes().to_vec())).collect::<Option<_>>()?,
        ),
    })
}

fn int(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_bool().map(i64::from))
}

fn float(value: &Value) -> Option<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "a default is as precise as the feature's floats")]
    let near = |value: f64| value as f32;
    match value {
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f32::NAN),
            "Infinity" => Some(f32::INFINITY),
            "-Infinity" => Some(f32::NEG_INFINITY),
            _ => None,
        },
        _ => value.as_f64().map(near),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;

    #[test]
    fn a_schema_has_what_the_file_says() {
        let text = br#"{"message": "sequence", "columns": [
            {"name": "id", "type": "int32", "required": true},
            {"name": "w", "type": "float", "shape": [2, 3], "default": 0.5},
            {"name": "b", "type": "float64", "shape": [null, 4], "key": "boxes", "default": []},
            {"name": "tok", "type": "string", "shape": [null, null], "part": "feature_lists"}]}"#;
        let SchemaFile { message, columns } = parse(text).unwrap();
        assert_eq!(message, Some(MessageKind::Sequence));
        let types: Vec<String> = columns.iter().map(|column| column.data_type().to_string()).collect();
        assert_eq!(types[0], "Int32");
        assert_eq!(columns[0].missing, Missing::Refused);
        assert_eq!(columns[1].missing, Missing::Values(DefaultValues::Floats(vec![0.5; 6])));
        assert_eq!(columns[2].shape, Shape::Ragged(vec![4]));
        assert_eq!((&*columns[2].key, &columns[2].leaf), (&b"boxes"[..], &DataType::Float64));
        assert_eq!((columns[3].part, &columns[3].leaf), (Part::Lists, &DataType::Utf8));
    }

    #[test]
    fn the_example_is_a_schema() {
        let file = parse(include_bytes!("../schema.example.json")).unwrap();
        assert_eq!((file.message, file.columns.len()), (Some(MessageKind::Example), 6));
        let raw = parse(br#"{"columns": [{"name": "record", "type": "binary", "part": "raw"}]}"#).unwrap();
        assert_eq!(raw.message, None);
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_column() {
        for column in [
            r#"{"name": "a", "type": "int65"}"#,
            r#"{"name": "a", "type": "int64", "shape": [0]}"#,
            r#"{"name": "a", "type": "int64", "shape": [2, null]}"#,
            r#"{"name": "a", "type": "int64", "shape": [18446744073709551615, 2]}"#,
            r#"{"name": "a", "type": "int64", "default": "x"}"#,
            r#"{"name": "a", "type": "int64", "shape": [2], "default": [1]}"#,
            r#"{"name": "a", "type": "int64", "default": 1, "required": true}"#,
            r#"{"name": "a", "type": "int64", "part": "feature_lists"}"#,
            r#"{"name": "a", "type": "int64", "shape": [null, null]}"#,
            r#"{"name": "a", "type": "binary", "part": "raw"}, {"name": "b", "type": "int64"}"#,
            r#"{"name": "a", "type": "int64"}, {"name": "a", "type": "int64"}"#,
        ] {
            let error = parse(format!("{{\"columns\": [{column}]}}").as_bytes()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains("\"a\""), "{error}");
        }
        let error = parse(br#"{"columns": [{"name": "a", "typ": "int64"}]}"#).unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
    }
}
