//! Converts records to protobuf's JSON mapping.
//!
//! Integers are strings, bytes are Base64, and NaN and infinities are strings. As in protobuf for
//! Python, floats have six significant digits, or more if the value requires more. A list without
//! values becomes `{}`. Keys remain in stored order. Sources:
//! <https://protobuf.dev/programming-guides/json/>, google/protobuf/json_format.py.

use crate::message::{Kind, MessageKind, Part, Pieces, bytes_values, entries, float_runs, int_values, lists};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::HashMap;
use std::io::Write;
use tensorferry_proto::wire::{Fields, Value, WireError};

/// Appends a record as JSON, without a newline. If the record is not a valid message, appends an
/// object that contains the record's bytes in Base64.
pub(crate) fn append_line(output: &mut Vec<u8>, record: &[u8], message: Option<MessageKind>) {
    let start = output.len();
    let is_message = message.is_some_and(|message| append_message(output, record, message).is_ok());
    // If the JSON is empty although the record is not, the record is not a message of this type.
    let says_nothing = !record.is_empty() && output[start..] == *b"{}";
    if !is_message || says_nothing {
        output.truncate(start);
        output.extend_from_slice(b"{\"raw\": ");
        append_base64(output, record);
        output.push(b'}');
    }
}

/// A feature or a list of features, with its name and all of its pieces.
struct Named<'a> {
    key: &'a str,
    value: Pieces<'a>,
}

fn append_message(output: &mut Vec<u8>, record: &[u8], message: MessageKind) -> Result<(), WireError> {
    let (mut has_features, mut has_lists) = (false, false);
    let mut fields = Fields(record);
    while let Some((number, value)) = fields.next()? {
        if let Value::Len(_) = value {
            has_features |= number == 1;
            has_lists |= number == 2 && message == MessageKind::Sequence;
        }
    }
    let [features, lists] = named(record, message)?;
    let mut separator = Separator::default();
    output.push(b'{');
    if has_features {
        separator.put(output);
        let name: &[u8] = if message == MessageKind::Sequence { b"\"context\": " } else { b"\"features\": " };
        output.extend_from_slice(name);
        append_map(output, "feature", &features, append_feature)?;
    }
    if has_lists {
        separator.put(output);
        output.extend_from_slice(b"\"featureLists\": ");
        append_map(output, "featureList", &lists, append_list)?;
    }
    output.push(b'}');
    Ok(())
}

/// Returns the features and the feature lists of a record. If a key occurs several times, the
/// result contains its last value at its first position.
fn named(record: &[u8], message: MessageKind) -> Result<[Vec<Named<'_>>; 2], WireError> {
    let mut named = [Vec::new(), Vec::new()];
    let mut places: [HashMap<&str, usize>; 2] = [HashMap::new(), HashMap::new()];
    entries(record, message, |part, entry| {
        let key = std::str::from_utf8(entry.key).map_err(|_| WireError::Text)?;
        let (named, places) = (&mut named[part as usize], &mut places[part as usize]);
        let place = *places.entry(key).or_insert(named.len());
        let this = Named { key, value: entry.value };
        match named.get_mut(place) {
            Some(slot) => *slot = this,
            None => named.push(this),
        }
        Ok::<(), WireError>(())
    })?;
    debug_assert!(message == MessageKind::Sequence || named[Part::Lists as usize].is_empty());
    Ok(named)
}

fn append_map(
    output: &mut Vec<u8>,
    field: &str,
    named: &[Named<'_>],
    append: impl Fn(&mut Vec<u8>, Pieces<'_>) -> Result<(), WireError>,
) -> Result<(), WireError> {
    output.push(b'{');
    if !named.is_empty() {
        append_string(output, field);
        output.extend_from_slice(b": {");
        let mut separator = Separator::default();
        for Named { key, value } in named {
            separator.put(output);
            append_string(output, key);
            output.extend_from_slice(b": ");
            append(output, *value)?;
        }
        output.push(b'}');
    }
    output.push(b'}');
    Ok(())
}

fn append_list(output: &mut Vec<u8>, list: Pieces<'_>) -> Result<(), WireError> {
    let mut separator = Separator::default();
    let start = output.len();
    output.extend_from_slice(b"{\"feature\": [");
    let empty = output.len();
    list.each(|piece| {
        Pieces::fields(1, piece).each(|feature| {
            separator.put(output);
            append_feature(output, Pieces::one(feature))
        })
    })?;
    if output.len() == empty {
        output.truncate(start);
        output.extend_from_slice(b"{}");
    } else {
        output.extend_from_slice(b"]}");
    }
    Ok(())
}

fn append_feature(output: &mut Vec<u8>, feature: Pieces<'_>) -> Result<(), WireError> {
    let mut kind = None;
    let mut values: Vec<&[u8]> = Vec::new();
    feature.each(|piece| {
        lists(piece, |found, list| {
            if kind != Some(found) {
                values.clear();
            }
            kind = Some(found);
            values.push(list);
            Ok::<(), WireError>(())
        })
    })?;
    let Some(kind) = kind else {
        output.extend_from_slice(b"{}");
        return Ok(());
    };
    let name: &[u8] = match kind {
        Kind::Bytes => b"{\"bytesList\": {\"value\": [",
        Kind::Float => b"{\"floatList\": {\"value\": [",
        Kind::Int64 => b"{\"int64List\": {\"value\": [",
    };
    output.extend_from_slice(name);
    let empty = output.len();
    let mut separator = Separator::default();
    let mut ints = Vec::new();
    for list in values {
        match kind {
            Kind::Bytes => bytes_values(list, |value| {
                separator.put(output);
                append_base64(output, value);
            })?,
            Kind::Float => float_runs(list, |run| {
                for value in run {
                    separator.put(output);
                    append_float(output, f32::from_le_bytes(*value));
                }
            })?,
            Kind::Int64 => int_values(list, &mut ints)?,
        }
    }
    for value in ints {
        separator.put(output);
        output.push(b'"');
        output.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        output.push(b'"');
    }
    if output.len() == empty {
        // Removes everything between the braces of the list.
        output.truncate(empty - b"\"value\": [".len());
        output.extend_from_slice(b"}}");
    } else {
        output.extend_from_slice(b"]}}");
    }
    Ok(())
}

/// Writes a comma before every item except the first.
#[derive(Default)]
struct Separator(bool);

impl Separator {
    fn put(&mut self, output: &mut Vec<u8>) {
        if self.0 {
            output.extend_from_slice(b", ");
        }
        self.0 = true;
    }
}

fn append_string(output: &mut Vec<u8>, text: &str) {
    // Writing a string to memory cannot fail.
    let _ = serde_json::to_writer(output, text);
}

fn append_base64(output: &mut Vec<u8>, bytes: &[u8]) {
    output.push(b'"');
    let start = output.len();
    output.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut output[start..]).unwrap_or(0);
    output.truncate(start + written);
    output.push(b'"');
}

/// Appends a float in the format of Python's `json_format`.
fn append_float(output: &mut Vec<u8>, value: f32) {
    if value.is_nan() {
        return output.extend_from_slice(b"\"NaN\"");
    }
    if value.is_infinite() {
        let text: &[u8] = if value > 0.0 { b"\"Infinity\"" } else { b"\"-Infinity\"" };
        return output.extend_from_slice(text);
    }
    // The text has the fewest digits that identify the float, but at least six digits of its exact
    // value. Fewer than six digits can identify only a subnormal float.
    let mut text = [0_u8; 48];
    let mut rest = &mut text[..];
    let six = value.is_subnormal() && format!("{value:.5e}").parse() == Ok(value);
    let written = if six { write!(rest, "{value:.5e}") } else { write!(rest, "{value:e}") };
    let left = rest.len();
    let len = if written.is_ok() { text.len() - left } else { 0 };
    let text = std::str::from_utf8(&text[..len]).unwrap_or("0e0");
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits = match digits.strip_prefix('-') {
        Some(digits) => {
            output.push(b'-');
            digits
        }
        None => digits,
    };
    let (first, after) = digits.split_once('.').unwrap_or((digits, ""));
    append_decimal(output, first, after.trim_end_matches('0'), exponent);
}

/// Appends a decimal number in the format of Python's `repr`. The number is `first.after`
/// multiplied by ten to the power of `exponent`.
fn append_decimal(output: &mut Vec<u8>, first: &str, after: &str, exponent: i32) {
    if !(-4..16).contains(&exponent) {
        output.extend_from_slice(first.as_bytes());
        if !after.is_empty() {
            output.push(b'.');
            output.extend_from_slice(after.as_bytes());
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(output, "e{sign}{:02}", exponent.abs());
        return;
    }
    let zeros = |output: &mut Vec<u8>, count: i32| output.extend((0..count).map(|_| b'0'));
    if exponent < 0 {
        output.extend_from_slice(b"0.");
        zeros(output, -exponent - 1);
        output.extend_from_slice(first.as_bytes());
        output.extend_from_slice(after.as_bytes());
        return;
    }
    output.extend_from_slice(first.as_bytes());
    // The exponent is between 0 and 15, so it fits.
    let whole = usize::try_from(exponent).unwrap_or(0);
    let (before, behind) = after.split_at(whole.min(after.len()));
    output.extend_from_slice(before.as_bytes());
    output.extend((before.len()..whole).map(|_| b'0'));
    output.push(b'.');
    output.extend_from_slice(if behind.is_empty() { b"0" } else { behind.as_bytes() });
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn float(value: f32) -> String {
        let mut output = Vec::new();
        append_float(&mut output, value);
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn floats_are_as_python_prints_them() {
        // The expected strings are outputs of google.protobuf.json_format.MessageToJson.
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (1.0 / 3.0, "0.33333334"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (123_456.79, "123456.79"),
            (16_777_216.0, "16777216.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (f32::MAX, "3.4028235e+38"),
            (f32::from_bits(1), "1.4013e-45"),
            (f32::MIN_POSITIVE, "1.1754944e-38"),
            (f32::NAN, "\"NaN\""),
            (f32::INFINITY, "\"Infinity\""),
            (f32::NEG_INFINITY, "\"-Infinity\""),
        ] {
            assert_eq!(float(value), text);
        }
    }

    fn line(record: &[u8], message: Option<MessageKind>) -> String {
        let mut output = Vec::new();
        append_line(&mut output, record, message);
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn messages_are_told_from_bytes() {
        let example = Some(MessageKind::Example);
        let record = b"\x0a\x0d\x0a\x0b\x0a\x02id\x12\x05\x1a\x03\x0a\x01\x01";
        assert_eq!(
            line(record, example),
            "{\"features\": {\"feature\": {\"id\": {\"int64List\": {\"value\": [\"1\"]}}}}}"
        );
        assert_eq!(line(b"", example), "{}");
        assert_eq!(line(b"\x0a\x00", example), "{\"features\": {}}");
        assert_eq!(line(b"\x0a\x00", Some(MessageKind::Sequence)), "{\"context\": {}}");
        assert_eq!(line(b"\xff\xfe", example), "{\"raw\": \"//4=\"}");
        assert_eq!(line(b"", None), "{\"raw\": \"\"}");
        let empty = b"\x0a\x0b\x0a\x09\x0a\x01a\x12\x04\x1a\x00\x22\x00";
        assert_eq!(line(empty, example), "{\"features\": {\"feature\": {\"a\": {\"int64List\": {}}}}}");
        let unset = b"\x0a\x07\x0a\x05\x0a\x01d\x12\x00";
        assert_eq!(line(unset, example), "{\"features\": {\"feature\": {\"d\": {}}}}");
        let lists = b"\x12\x0e\x0a\x0c\x0a\x03tok\x12\x05\x0a\x00\x0a\x01\x0a";
        assert_eq!(line(lists, Some(MessageKind::Sequence)), "{\"raw\": \"Eg4KDAoDdG9rEgUKAAoBCg==\"}");
    }
}
