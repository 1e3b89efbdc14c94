//! Formats floats as decimal text. As in NumPy's Dragon4, the text has as few digits as are needed
//! to identify the number within its dtype, or fewer if a maximum precision is set.

use tensorferry::values::Precision;

/// A number of digits that is sufficient to represent every 16-bit float exactly.
const ALL_DIGITS: usize = 120;

/// A number without its sign. Its value is `digits[0].digits[1..]` times ten to the power of
/// `exponent`.
struct Decimal {
    digits: String,
    exponent: i32,
}

impl Decimal {
    /// Parses the `{:e}` format of a non-negative number.
    fn parse(text: &str) -> Self {
        let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
        Self { digits: digits.replace('.', ""), exponent: exponent.parse().unwrap_or(0) }
    }

    fn fraction(&self) -> &str {
        self.digits.get(1..).unwrap_or("")
    }
}

/// Returns the shortest decimal that distinguishes the number from its neighbors.
fn shortest(size: f64, precision: Precision) -> Decimal {
    match precision {
        Precision::Double => to_even(size, &format!("{size:e}"), |text| text.parse() == Ok(size)),
        #[expect(clippy::cast_possible_truncation, reason = "the value is an F32")]
        Precision::Single => {
            let single = size as f32;
            to_even(size, &format!("{single:e}"), |text| text.parse() == Ok(single))
        }
        Precision::Half => shortest_of(size, 10, -14),
        Precision::Brain => shortest_of(size, 7, -126),
    }
}

/// Returns the decimal closest to `size` with as many digits as `shortest`. If two decimals are
/// equally close, selects the even one. If the result does not pass the check `is`, returns
/// `shortest`.
fn to_even(size: f64, shortest: &str, is: impl Fn(&str) -> bool) -> Decimal {
    let shortest = Decimal::parse(shortest);
    let places = shortest.fraction().len();
    let even = format!("{size:.places$e}");
    if is(&even) { Decimal::parse(&even) } else { shortest }
}

/// Returns the shortest decimal for a float whose mantissa has `mantissa` bits. The smallest normal
/// number of the type is two to the power of `least`.
fn shortest_of(size: f64, mantissa: i32, least: i32) -> Decimal {
    let exact = Decimal::parse(&format!("{size:.ALL_DIGITS$e}"));
    let bits = size.to_bits();
    let exponent = i32::try_from(bits >> 52).unwrap_or(0) - 1023;
    let ulp = f64::from(exponent.max(least) - mantissa).exp2();
    let is_power = bits << 12 == 0 && exponent > least;
    let (below, above) = (if is_power { ulp / 4.0 } else { ulp / 2.0 }, ulp / 2.0);
    let is_even = size / ulp % 2.0 == 0.0;
    let is_near = |distance: f64, margin: f64| distance < margin || (is_even && distance == margin);
    for count in 1..17 {
        let Ok(floor) = exact.digits[..count].parse::<u64>() else { break };
        let last = exact.exponent - i32::try_from(count).unwrap_or(0) + 1;
        let value = |digits: u64| format!("{digits}e{last}").parse().unwrap_or(f64::NAN);
        let (down, up) = (size - value(floor), value(floor + 1) - size);
        let takes_floor = match (is_near(down, below), is_near(up, above)) {
            (false, false) => continue,
            (true, true) => down < up || (down == up && floor % 2 == 0),
            (low, _) => low,
        };
        let digits = (if takes_floor { floor } else { floor + 1 }).to_string();
        // Rounding changes 9.99 to 10.0.
        let carried = i32::try_from(digits.len() - count).unwrap_or(0);
        let digits = digits.trim_end_matches('0');
        let digits = if digits.is_empty() { "0" } else { digits };
        return Decimal { digits: digits.to_owned(), exponent: exact.exponent + carried };
    }
    exact
}

/// Formats a finite number as `1.` or `-0.25`. Returns the part before the point, and the fraction
/// after the point, which has at most `most` digits.
pub(super) fn positional(value: f64, precision: Precision, most: Option<usize>) -> (String, String) {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let size = value.abs();
    let Decimal { digits, exponent } = shortest(size, precision);
    let places = i64::try_from(digits.len()).unwrap_or(i64::MAX) - 1 - i64::from(exponent);
    if let Some(most) = most
        && places > i64::try_from(most).unwrap_or(i64::MAX)
    {
        let cut = format!("{size:.most$}");
        let (whole, fraction) = cut.split_once('.').unwrap_or((&cut, ""));
        return (format!("{sign}{whole}"), fraction.trim_end_matches('0').to_owned());
    }
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
    let (whole, fraction) = match usize::try_from(exponent) {
        Err(_) => ("0".to_owned(), zeros(-i64::from(exponent) - 1) + &digits),
        Ok(exponent) if digits.len() > exponent + 1 => {
            let (whole, fraction) = digits.split_at(exponent + 1);
            (whole.to_owned(), fraction.to_owned())
        }
        Ok(_) => (digits.clone() + &zeros(-places), String::new()),
    };
    (format!("{sign}{whole}"), fraction.trim_end_matches('0').to_owned())
}

/// Formats a finite number as `-1.25e-05`. Returns the part before the point, the fraction after
/// the point, and the exponent after the `e`. The fraction has at least `least` and at most `most`
/// digits. The exponent consists of a sign and at least two digits.
pub(super) fn scientific(
    value: f64,
    precision: Precision,
    least: usize,
    most: Option<usize>,
) -> (String, String, String) {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let size = value.abs();
    let mut decimal = shortest(size, precision);
    let found = decimal.fraction().len();
    let wanted = most.map_or(found, |most| found.min(most)).max(least);
    if found != wanted {
        // Additional digits come from the exact value of the number and are not zeros.
        decimal = Decimal::parse(&format!("{size:.wanted$e}"));
    }
    let fraction = decimal.fraction();
    let trimmed = fraction.trim_end_matches('0').len().max(least.min(fraction.len()));
    let exponent_sign = if decimal.exponent < 0 { '-' } else { '+' };
    (
        format!("{sign}{}", &decimal.digits[..1]),
        fraction[..trimmed].to_owned(),
        format!("{exponent_sign}{:02}", decimal.exponent.unsigned_abs()),
    )
}

/// Formats a single number, as NumPy prints a scalar.
pub(super) fn scalar(value: f64, precision: Precision) -> String {
    if !value.is_finite() {
        return not_finite(value).to_owned();
    }
    let size = value.abs();
    if size == 0.0 || (1e-4..1e16).contains(&size) {
        let (whole, fraction) = positional(value, precision, None);
        return format!("{whole}.{}", if fraction.is_empty() { "0" } else { &fraction });
    }
    let (whole, fraction, exponent) = scientific(value, precision, 0, None);
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{whole}{point}{fraction}e{exponent}")
}

/// Returns `nan`, `inf` or `-inf`.
pub(super) fn not_finite(value: f64) -> &'static str {
    if value.is_nan() {
        "nan"
    } else if value < 0.0 {
        "-inf"
    } else {
        "inf"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_the_fewest_that_tell_a_number() {
        let half = |value: f64| scalar(Precision::Half.round(value), Precision::Half);
        // The expected strings are NumPy's output for float16.
        assert_eq!(
            [0.1, 65504.0, 1.0 / 3.0, 6e-8, 2048.0].map(half),
            ["0.1", "65500.0", "0.3333", "6e-08", "2048.0"]
        );
        let brain = |value: f64| scalar(Precision::Brain.round(value), Precision::Brain);
        assert_eq!(
            [0.1, 1.0 / 3.0, -3.0, 3.39e38, 9.2e-41].map(brain),
            ["0.1", "0.334", "-3.0", "3.39e+38", "9e-41"]
        );
        assert_eq!(scalar(0.1_f32.into(), Precision::Single), "0.1");
        // 372483.62 and 372483.63 are equally close to this number.
        assert_eq!(scalar(372_483.625, Precision::Single), "372483.62");
        assert_eq!(scalar(1e16, Precision::Double), "1e+16");
        assert_eq!(scalar(-0.0, Precision::Double), "-0.0");
    }

    #[test]
    fn every_number_of_16_bits_is_told_from_its_neighbours() {
        for (precision, ends) in [(Precision::Half, 0x7c00_u32), (Precision::Brain, 0x7f80)] {
            let value = |code: u32| match precision {
                Precision::Half => half_of(code, 10, 15),
                _ => half_of(code, 7, 127),
            };
            for code in 1..ends {
                let text = scalar(value(code), precision);
                let back: f64 = text.parse().unwrap_or(f64::NAN);
                assert_eq!(precision.round(back), value(code), "{text}");
            }
        }
    }

    fn half_of(code: u32, mantissa: u32, bias: i32) -> f64 {
        let exponent = i32::try_from(code >> mantissa).unwrap_or(0);
        let fraction = f64::from(code & ((1 << mantissa) - 1)) / f64::from(1_u32 << mantissa);
        let implied = if exponent == 0 { 0.0 } else { 1.0 };
        (implied + fraction) * f64::from(exponent.max(1) - bias).exp2()
    }
}
