//! Formats the elements of an array as words. The words are padded so that they align in columns,
//! as in NumPy.

use super::float_text::{not_finite, positional, scientific};
use crate::terminal::printable;
use tensorferry::values::{Elements, Precision};

/// Returns one word for each element. Floats have at most `most` digits after the point.
pub(super) fn words(elements: &Elements, most: usize) -> Vec<String> {
    match elements {
        Elements::Bool(values) => {
            values.iter().map(|value| if *value { " True" } else { "False" }.to_owned()).collect()
        }
        Elements::Integer(values) => {
            let width = values.iter().map(|value| value.to_string().len()).max().unwrap_or(0);
            values.iter().map(|value| format!("{value:width$}")).collect()
        }
        Elements::Float(values, precision) => {
            let format = FloatFormat::of(values, *precision, most, false);
            values.iter().map(|value| format.word(*value)).collect()
        }
        Elements::Complex(values, precision) => {
            let (real, imaginary): (Vec<f64>, Vec<f64>) = values.iter().copied().unzip();
            let [re, im] = [(real, false), (imaginary, true)]
                .map(|(parts, has_sign)| FloatFormat::of(&parts, *precision, most, has_sign));
            let word = |&(x, y): &(f64, f64)| {
                let imaginary = im.word(y);
                let number = imaginary.trim_end();
                format!("{}{number}j{}", re.word(x), &imaginary[number.len()..])
            };
            values.iter().map(word).collect()
        }
        Elements::Text(values) => values.iter().map(|text| quoted(text)).collect(),
    }
}

/// Formats a string as Python does. UTF-8 becomes a quoted string, and any other value becomes a
/// bytes literal.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else {
        let escaped = bytes.iter().map(|&byte| match byte {
            b'\\' | b'\'' => format!("\\{}", char::from(byte)),
            b' '..=b'~' => char::from(byte).to_string(),
            b'\n' => "\\n".to_owned(),
            b'\r' => "\\r".to_owned(),
            b'\t' => "\\t".to_owned(),
            _ => format!("\\x{byte:02x}"),
        });
        return format!("b'{}'", escaped.collect::<String>());
    };
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut shown = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => shown.push_str("\\\\"),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if c == quote => shown.extend(['\\', c]),
            c if c < ' ' || c == '\u{7f}' => shown.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => shown.push_str(&printable(&c.to_string())),
        }
    }
    shown.push(quote);
    shown
}

/// The format that all floats in an array share, so that they have the same number of characters
/// before and after the point.
struct FloatFormat {
    precision: Precision,
    has_sign: bool,
    /// Maximum number of digits after the point.
    most: usize,
    left: usize,
    right: usize,
    /// Number of characters in the exponent, if the format has an exponent.
    exponent: Option<usize>,
}

impl FloatFormat {
    fn of(values: &[f64], precision: Precision, most: usize, has_sign: bool) -> Self {
        let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let sizes = finite.iter().map(|value| value.abs()).filter(|size| *size > 0.0);
        let (least, greatest) = sizes
            .fold((f64::INFINITY, 0.0_f64), |(least, greatest), size| (least.min(size), greatest.max(size)));
        // NumPy compares numbers in the dtype of the array, so the threshold depends on the
        // precision of that dtype.
        let beyond = match precision {
            Precision::Double => 1e8,
            Precision::Single => 1e6,
            Precision::Half | Precision::Brain => 1e3,
        };
        let is_scientific = greatest > 0.0
            && (greatest >= beyond
                || least < precision.round(1e-4)
                || precision.round(greatest / least) > 1000.0);
        let mut format = Self { precision, has_sign, most, left: 0, right: 0, exponent: None };
        if is_scientific {
            let parts = finite.iter().map(|value| scientific(*value, precision, 0, Some(most)));
            let (mut digits, mut behind) = (0, 0);
            for (whole, fraction, exponent) in parts {
                format.left = format.left.max(format.signed(whole).len());
                digits = digits.max(fraction.len());
                behind = behind.max(exponent.len() - 1);
            }
            format.most = digits;
            format.exponent = Some(behind);
            // Only `nan` and `inf` are padded to this width.
            format.right = behind + 2 + digits;
        } else {
            for value in &finite {
                let (whole, fraction) = positional(*value, precision, Some(most));
                format.left = format.left.max(format.signed(whole).len());
                format.right = format.right.max(fraction.len());
            }
        }
        if finite.len() < values.len() {
            let has_sign = usize::from(has_sign || values.contains(&f64::NEG_INFINITY));
            let offset = format.right + 1;
            format.left =
                format.left.max((3 + has_sign).saturating_sub(offset)).max(3_usize.saturating_sub(offset));
        }
        format
    }

    fn signed(&self, whole: String) -> String {
        if self.has_sign && !whole.starts_with('-') { format!("+{whole}") } else { whole }
    }

    fn word(&self, value: f64) -> String {
        let Self { precision, most, left, right, .. } = *self;
        if !value.is_finite() {
            return format!("{:>1$}", self.signed(not_finite(value).to_owned()), left + right + 1);
        }
        match self.exponent {
            Some(digits) => {
                let (whole, fraction, exponent) = scientific(value, precision, most, Some(most));
                let (sign, number) = exponent.split_at(1);
                format!("{:>left$}.{fraction}e{sign}{number:0>digits$}", self.signed(whole))
            }
            None => {
                let (whole, fraction) = positional(value, precision, Some(most));
                format!("{:>left$}.{fraction:<right$}", self.signed(whole))
            }
        }
    }
}
