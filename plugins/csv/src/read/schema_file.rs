//! Reads a schema file: JSON with the columns to read and their types. The file has one of two
//! forms. Either its keys are column names, or it lists columns in the same way as for the other
//! record formats.
//!
//! ```json
//! {"id": "int64", "code": "utf8", "at": "timestamp[ms]", "price": "decimal128(10, 2)"}
//! {"columns": [{"name": "id", "type": "int64", "required": true}, {"name": "code", "type": "utf8"}]}
//! ```
//!
//! Types are `int8` to `int64`, `uint8` to `uint64`, `bool`, `float16`, `float32` or `float`,
//! `float64` or `double`, `utf8` or `string`, `binary` or `bytes` or `fixed_size_binary[16]`
//! (base64), `date32`, `date64`, `timestamp[s]`, `[ms]`, `[us]`, `[ns]`, `[us, UTC]`, `time32[s]`,
//! `time64[us]`, `decimal128(10, 2)`; or any other type that a string can be cast to, in the
//! notation of Arrow's Rust library. If the data has no header, the names apply to the fields in
//! order.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use tensorferry_sdk::arrow_schema::{DataType, Field, Schema, SchemaRef};
use tensorferry_sdk::records::type_named;
use tensorferry_sdk::{Context, Error, Result};

/// Reads the schema file at a path. Returns the columns in the schema file, and the index of each
/// column's field in a row.
pub(super) fn read(
    path: &str,
    names: &[String],
    has_header: bool,
    context: &dyn Context,
) -> Result<(SchemaRef, Vec<usize>)> {
    let source = context.open(path)?;
    let file = source.open(source.entry().name())?;
    let text = source.read_vec(file, 0, source.len(file), context.limits())?;
    let fields = parse(&text).map_err(|error| error.file(path))?;
    if !has_header && !names.is_empty() && fields.len() != names.len() {
        let error = Error::usage("without a header, the schema must name every field").file(path);
        return Err(error.expected(format!("{} columns", names.len())).found(fields.len()));
    }
    let mut places = Vec::with_capacity(fields.len());
    for (number, field) in fields.iter().enumerate() {
        let place =
            if has_header { names.iter().position(|name| name == field.name()) } else { Some(number) };
        // Without any lines in the data, the columns cannot be looked up in a header.
        let place = place.or(names.is_empty().then_some(number)).ok_or_else(|| {
            Error::usage("the files have no such column").column(field.name()).expected(names.join(", "))
        })?;
        places.push(place);
    }
    Ok((Arc::new(Schema::new(fields)), places))
}

/// The keys and values of an object, in their original order.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of columns and their types")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

fn parse(text: &[u8]) -> Result<Vec<Field>> {
    let wrong = |what: String| Error::usage(format!("invalid schema of columns: {what}"));
    let Pairs(pairs) = serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
    let mut fields = Vec::new();
    match pairs.iter().find(|(key, value)| key == "columns" && value.is_array()) {
        Some((_, columns)) => {
            for column in columns.as_array().into_iter().flatten() {
                let text =
                    |key: &str| column[key].as_str().ok_or_else(|| wrong(format!("a column has no {key}")));
                let shape = column.get("shape").and_then(Value::as_array);
                if shape.is_some_and(|shape| !shape.is_empty()) {
                    let error = Error::usage("CSV has no lists").hint("set the column's type to utf8");
                    return Err(error.column(text("name")?));
                }
                let required = column["required"].as_bool().unwrap_or_default();
                fields.push(field(text("name")?, text("type")?, !required)?);
            }
        }
        _ => {
            for (name, word) in &pairs {
                let word =
                    word.as_str().ok_or_else(|| wrong(format!("the type of {name:?} is not a string")))?;
                fields.push(field(name, word, true)?);
            }
        }
    }
    let mut names = HashSet::new();
    match fields.iter().find(|field| !names.insert(field.name().clone())) {
        Some(twice) => Err(Error::usage("the schema lists a column twice").column(twice.name())),
        None => Ok(fields),
    }
}

fn field(name: &str, word: &str, is_nullable: bool) -> Result<Field> {
    let known = type_named(word).filter(|data_type| {
        use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary, Null, Utf8};
        matches!(data_type, Utf8 | Binary | LargeBinary | BinaryView | FixedSizeBinary(_) | Null)
            || arrow_cast::can_cast_types(&DataType::Utf8, data_type) && !data_type.is_nested()
    });
    let data_type = known.ok_or_else(|| {
        let error = Error::usage("CSV does not support the type").column(name);
        error.expected("int64, float64, utf8, date32, ...").found(format!("{word:?}"))
    })?;
    Ok(Field::new(name, data_type, is_nullable))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn both_forms_are_read_and_what_cannot_be_is_refused() {
        let short = parse(br#"{"b": "int64", "a": "timestamp[ms]"}"#).unwrap();
        let names: Vec<_> = short.iter().map(Field::name).collect();
        assert_eq!(names, ["b", "a"]);
        let long =
            parse(br#"{"columns": [{"name": "b", "type": "decimal128(10, 2)", "required": true}]}"#).unwrap();
        assert_eq!((long[0].data_type(), long[0].is_nullable()), (&DataType::Decimal128(10, 2), false));
        let others = parse(br#"{"a": "timestamp[us, Europe/Paris]", "b": "fixed_size_binary[3]"}"#).unwrap();
        assert_eq!(others[1].data_type(), &DataType::FixedSizeBinary(3));
        for bad in [
            &br#"{"a": "int65"}"#[..],
            br#"{"a": 1}"#,
            br#"[]"#,
            br#"{"columns": [{"name": "a", "type": "int64", "shape": [2]}]}"#,
            br#"{"columns": [{"name": "a", "type": "int8"}, {"name": "a", "type": "int8"}]}"#,
            br#"{"#,
        ] {
            assert!(parse(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
