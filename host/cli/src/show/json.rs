//! Formats values as nested JSON lists. Floats that JSON numbers cannot represent are strings:
//! `"NaN"`, `"inf"` or `"-inf"`. A complex number is a list of its two parts. A string that is not
//! UTF-8 is `{"base64": ...}`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::fmt::{Display, Write};
use tensorferry::values::{Elements, Precision};

/// Formats the values of an array with the given shape.
pub(super) fn values(elements: &Elements, shape: &[u64]) -> String {
    let mut text = String::new();
    match elements {
        Elements::Bool(values) => {
            nested(&mut text, &mut values.iter(), shape, &|text, value| push(text, value));
        }
        Elements::Integer(values) => {
            nested(&mut text, &mut values.iter(), shape, &|text, value| push(text, value));
        }
        Elements::Float(values, precision) => {
            nested(&mut text, &mut values.iter(), shape, &|text, value| float(text, *value, *precision));
        }
        Elements::Complex(values, precision) => {
            nested(&mut text, &mut values.iter(), shape, &|text, (re, im)| {
                text.push('[');
                float(text, *re, *precision);
                text.push_str(", ");
                float(text, *im, *precision);
                text.push(']');
            });
        }
        Elements::Text(values) => nested(&mut text, &mut values.iter(), shape, &|text, value| {
            let value = std::str::from_utf8(value)
                .map_or_else(|_| serde_json::json!({ "base64": STANDARD.encode(value) }), Value::from);
            push(text, value);
        }),
    }
    text
}

fn push(text: &mut String, value: impl Display) {
    let _ = write!(text, "{value}");
}

fn nested<'v, T: 'v>(
    text: &mut String,
    values: &mut impl Iterator<Item = &'v T>,
    shape: &[u64],
    each: &impl Fn(&mut String, &T),
) {
    let Some((&len, inner)) = shape.split_first() else {
        if let Some(value) = values.next() {
            each(text, value);
        }
        return;
    };
    text.push('[');
    for place in 0..len {
        if place > 0 {
            text.push_str(", ");
        }
        nested(text, values, inner, each);
    }
    text.push(']');
}

/// Writes the shortest decimal that parses to the same number. For double precision, the decimal is
/// parsed as F64, otherwise as F32.
fn float(text: &mut String, value: f64, precision: Precision) {
    if value.is_nan() {
        text.push_str("\"NaN\"");
    } else if value.is_infinite() {
        text.push_str(if value < 0.0 { "\"-inf\"" } else { "\"inf\"" });
    } else if precision == Precision::Double {
        let _ = write!(text, "{value:?}");
    } else {
        #[expect(clippy::cast_possible_truncation, reason = "every other float fits in F32")]
        let value = value as f32;
        let _ = write!(text, "{value:?}");
    }
}
