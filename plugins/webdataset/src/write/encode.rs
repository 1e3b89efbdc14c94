//! Encodes rows as members of a tar.

use crate::{KEY, tar};
use std::fmt::Write as _;
use tensorferry_row_text::json::{self, NonFinite};
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use tensorferry_sdk::arrow_array::{Array, ArrayRef, RecordBatch};
use tensorferry_sdk::arrow_schema::{DataType, Field, FieldRef, Schema};
use tensorferry_sdk::records::{PlacedPiece, type_text};
use tensorferry_sdk::{Error, Loss, LossKind, LossSink, Result, Severity};

/// Encodes rows that share one schema.
pub(super) struct Encoder {
    /// The index of the key column.
    key: usize,
    /// The index of each written column except the key column, and the name of its member.
    members: Vec<(usize, String)>,
}

impl Encoder {
    /// Creates an encoder for a schema, and returns the losses that the schema causes.
    pub(super) fn new(schema: &Schema, key: Option<&str>) -> Result<(Self, Vec<Loss>)> {
        let named = key.unwrap_or(KEY);
        let (key, field) = schema.column_with_name(named).ok_or_else(|| {
            Error::usage(format!("the dataset has no column {named:?} for the sample keys"))
                .hint("pass -o key=COLUMN with a column of unique values")
        })?;
        let of_key = plain(field.data_type());
        if !matches!(of_key, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
            && !of_key.is_integer()
        {
            let found = type_text(field.data_type());
            return Err(
                Error::usage(format!("sample keys must be text or integers, not {found}")).column(named)
            );
        }
        let (mut members, mut losses): (Vec<(usize, String)>, Vec<Loss>) = (Vec::new(), Vec::new());
        for (place, field) in schema.fields().iter().enumerate().filter(|(place, _)| *place != key) {
            let (name, kind) = (field.name(), plain(field.data_type()));
            if !is_written(kind) {
                if !json::is_json_representable(&plain_field(field)) {
                    let why =
                        format!("a member can be bytes, text, a number or JSON, but not {}", type_text(kind));
                    losses.push(Loss::new(LossKind::Record, name, why));
                    continue;
                }
                let form = if kind.is_nested() { "JSON" } else { "text" };
                let why = format!("{} is written as {form}, which is read as bytes", type_text(kind));
                losses.push(Loss::new(LossKind::Attribute, name, why).severity(Severity::Changed));
                if json::has_fractions(kind) {
                    let loss = Loss::new(LossKind::Attribute, name, json::FRACTIONS);
                    losses.push(loss.severity(Severity::Changed));
                }
            }
            let member = name.to_lowercase();
            if name.contains(['/', '\0']) || name == KEY {
                return Err(Error::unsupported("the column name is not a valid member name")
                    .column(name)
                    .hint("rename the column"));
            }
            if members.iter().any(|(_, other)| *other == member) {
                return Err(Error::unsupported("two columns have the same name in lower case")
                    .hint("rename one of the columns")
                    .column(name));
            }
            if member != *name {
                losses.push(Loss::new(LossKind::Name, name, "names of members are read in lower case"));
            }
            let why = match kind {
                DataType::Binary | DataType::LargeBinary | DataType::BinaryView => None,
                DataType::Null => Some("the column has no values, so no sample has this member".to_owned()),
                DataType::FixedSizeBinary(_) => Some(format!("{} is read as bytes", type_text(kind))),
                _ if is_written(kind) => {
                    Some(format!("written as text: {} is read as bytes", type_text(kind)))
                }
                // The loss for this type was already reported.
                _ => None,
            };
            let loss = |why| Loss::new(LossKind::Attribute, name, why).severity(Severity::Changed);
            losses.extend(why.map(loss));
            members.push((place, member));
        }
        if members.is_empty() {
            return Err(Error::unsupported("the dataset has only a key column, but a sample needs a member"));
        }
        if key_is_renamed(schema, key) {
            losses.push(Loss::new(LossKind::Name, schema.field(key).name(), format!("read as {KEY}")));
        }
        Ok((Self { key, members }, losses))
    }

    /// Returns the encoded members of all rows, and a note with their length, the first key and the
    /// last key.
    pub(super) fn encode(
        &self,
        batches: &[RecordBatch],
        losses: &mut dyn LossSink,
    ) -> Result<(Vec<u8>, Vec<u8>)> {
        let (mut bytes, mut value) = (Vec::new(), Vec::new());
        let (mut first, mut last): (Option<String>, Option<String>) = (None, None);
        for batch in batches {
            let missing = || Error::plugin("the rows do not match the schema");
            let keys = plain_column(batch.columns().get(self.key).ok_or_else(missing)?)?;
            let schema = batch.schema();
            let mut columns = Vec::with_capacity(self.members.len());
            for (place, member) in &self.members {
                let (field, column) =
                    schema.fields().get(*place).zip(batch.columns().get(*place)).ok_or_else(missing)?;
                let column = plain_column(column).map_err(|error| error.column(member))?;
                let as_json = || {
                    json::texts(&plain_field(field), column.as_ref(), NonFinite::Python)
                        .map_err(|error| error.column(member))
                };
                let texts = if is_written(column.data_type()) { None } else { Some(as_json()?) };
                if texts.is_some() && json::repeats_keys(&column) {
                    losses.loss(json::repeated_keys(field.name()))?;
                }
                columns.push((member, column, texts));
            }
            for row in 0..batch.num_rows() {
                value.clear();
                text(keys.as_ref(), row, &mut value)?;
                let key = String::from_utf8(std::mem::take(&mut value)).map_err(|_| missing())?;
                check_key(&key, last.as_deref(), keys.is_null(row))?;
                let mut any = false;
                for (member, column, texts) in &columns {
                    // A column of type `Null` does not mark its rows as null.
                    if column.is_null(row) || *column.data_type() == DataType::Null {
                        continue;
                    }
                    value.clear();
                    match texts {
                        // A value that is not nested is written as plain text without quotes.
                        Some(texts) if !column.data_type().is_nested() => {
                            let text = &texts[row];
                            let inner = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
                            value.extend_from_slice(inner.unwrap_or(text));
                        }
                        Some(texts) => value.extend_from_slice(&texts[row]),
                        None => {
                            text(column.as_ref(), row, &mut value).map_err(|error| error.column(*member))?;
                        }
                    }
                    bytes.extend(tar::header(&format!("{key}.{member}"), value.len() as u64)?);
                    bytes.extend_from_slice(&value);
                    bytes.resize(bytes.len().next_multiple_of(512), 0);
                    any = true;
                }
                if !any {
                    losses.loss(Loss::new(
                        LossKind::Record,
                        format!("sample {key:?}"),
                        "all its members are null, so it is not written",
                    ))?;
                    continue;
                }
                first.get_or_insert_with(|| key.clone());
                last = Some(key);
            }
        }
        let note = [bytes.len().to_string(), first.unwrap_or_default(), last.unwrap_or_default()].join("\0");
        Ok((bytes, note.into_bytes()))
    }
}

fn key_is_renamed(schema: &Schema, key: usize) -> bool {
    schema.field(key).name() != KEY
}

/// Checks that no sample continues in the next piece. Returns the total length of all pieces before
/// compression.
pub(super) fn check(pieces: &[PlacedPiece]) -> Result<u64> {
    let (mut all, mut before) = (0, String::new());
    for piece in pieces {
        let note = std::str::from_utf8(&piece.note).map_err(|_| Error::plugin("invalid note of a piece"))?;
        let mut parts = note.split('\0');
        let mut part = || parts.next().ok_or_else(|| Error::plugin("invalid note of a piece"));
        let (len, first, last) = (part()?, part()?, part()?);
        if !first.is_empty() {
            check_key(first, Some(&before), false)?;
            before = last.to_owned();
        }
        all += len.parse::<u64>().map_err(|_| Error::plugin("invalid note of a piece"))?;
    }
    Ok(all)
}

fn check_key(key: &str, before: Option<&str>, is_null: bool) -> Result<()> {
    let refused = |what: &str| Err(Error::unsupported(what).found(format!("{key:?}")));
    let base = key.rsplit('/').next().unwrap_or(key);
    if is_null {
        return refused("a sample has no key");
    }
    // A key may end with a slash, because readers return such a key for `dir/.txt`.
    if key.is_empty() || base.contains('.') || key.contains('\0') {
        return refused("a key is empty, contains NUL or has a dot after its last slash");
    }
    if key.starts_with("__")
        && key.split('/').next().is_some_and(|part| part.len() > 3 && part.ends_with("__"))
    {
        return refused("readers skip members with this key");
    }
    if before == Some(key) {
        return refused("two adjacent samples have the same key and would be read as one");
    }
    Ok(())
}

/// Returns the type of a column's values. The values of a dictionary column are the entries of its
/// dictionary.
fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        DataType::RunEndEncoded(_, values) => values.data_type(),
        other => other,
    }
}

fn plain_field(field: &FieldRef) -> FieldRef {
    match (field.data_type(), plain(field.data_type())) {
        (own, plain) if own == plain => field.clone(),
        (_, plain) => Field::new(field.name(), plain.clone(), true).into(),
    }
}

fn plain_column(column: &ArrayRef) -> Result<ArrayRef> {
    match plain(column.data_type()) {
        plain if plain == column.data_type() => Ok(column.clone()),
        plain => arrow_cast::cast(column, plain).map_err(|error| Error::plugin(error.to_string())),
    }
}

fn is_written(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Boolean
            | DataType::Float32
            | DataType::Float64
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
            | DataType::Null
    ) || data_type.is_integer()
}

/// Appends the bytes of a member that represent a value.
fn text(array: &dyn Array, row: usize, out: &mut Vec<u8>) -> Result<()> {
    let mut number = String::new();
    macro_rules! plain {
        ($type:ty) => {
            write!(number, "{}", array.as_primitive::<$type>().value(row))
        };
    }
    let written = match array.data_type() {
        DataType::Utf8 => return put(out, array.as_string::<i32>().value(row).as_bytes()),
        DataType::LargeUtf8 => return put(out, array.as_string::<i64>().value(row).as_bytes()),
        DataType::Utf8View => return put(out, array.as_string_view().value(row).as_bytes()),
        DataType::Binary => return put(out, array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => return put(out, array.as_binary::<i64>().value(row)),
        DataType::BinaryView => return put(out, array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => return put(out, array.as_fixed_size_binary().value(row)),
        DataType::Boolean => write!(number, "{}", array.as_boolean().value(row)),
        DataType::Int8 => plain!(Int8Type),
        DataType::Int16 => plain!(Int16Type),
        DataType::Int32 => plain!(Int32Type),
        DataType::Int64 => plain!(Int64Type),
        DataType::UInt8 => plain!(UInt8Type),
        DataType::UInt16 => plain!(UInt16Type),
        DataType::UInt32 => plain!(UInt32Type),
        DataType::UInt64 => plain!(UInt64Type),
        DataType::Float32 => plain!(Float32Type),
        DataType::Float64 => plain!(Float64Type),
        other => return Err(Error::plugin(format!("unexpected column type {other}"))),
    };
    written.map_err(|_| Error::plugin("a number cannot be formatted"))?;
    put(out, number.as_bytes())
}

#[expect(clippy::unnecessary_wraps, reason = "callers return the result")]
fn put(out: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    out.extend_from_slice(bytes);
    Ok(())
}
