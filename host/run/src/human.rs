//! Formats numbers for people.

pub use tensorferry_core::context::human::bytes;

/// Formats a duration: `0.12 s`, `12.3 s`, `4 min 05 s`, `3 h 02 min`.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "–".to_owned();
    }
    let hundredths = (seconds.clamp(0.0, 1e15) * 100.0).round();
    if hundredths < 1000.0 {
        return format!("{:.2} s", hundredths / 100.0);
    }
    if hundredths < 5950.0 {
        return format!("{:.1} s", hundredths / 100.0);
    }
    let whole = (hundredths / 100.0).round();
    let (minutes, rest) = ((whole / 60.0).floor(), whole % 60.0);
    if minutes < 60.0 {
        return format!("{minutes} min {rest:02} s");
    }
    format!("{} h {:02} min", (minutes / 60.0).floor(), minutes % 60.0)
}

/// Returns a rate per second, or 0 if no time has passed.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "for display, and never negative"
)]
pub fn rate(count: u64, seconds: f64) -> u64 {
    if seconds > 0.0 { (count as f64 / seconds) as u64 } else { 0 }
}

/// Formats a number as `12 345`, with narrow no-break spaces between groups of three digits.
#[must_use]
pub fn count(count: u64) -> String {
    grouped(count, '\u{202f}')
}

/// Formats a number with `separator` between groups of three digits.
#[must_use]
pub fn grouped(count: u64, separator: char) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(separator);
        }
        text.push(digit);
    }
    text
}

/// Formats a number as `999`, `12.3 k`, `124.4 M` or `7.2 B` (billions), as is usual for model
/// sizes.
#[must_use]
pub fn short(count: u64) -> String {
    const UNITS: [&str; 4] = ["k", "M", "B", "T"];
    let (mut scaled, mut unit) = (count as f64, "");
    for next in UNITS {
        if scaled < 999.95 {
            break;
        }
        (scaled, unit) = (scaled / 1000.0, next);
    }
    if unit.is_empty() { count.to_string() } else { format!("{scaled:.1} {unit}") }
}

/// Formats a number and a noun: `1 file`, `2 files`.
#[must_use]
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Quotes a string for a shell.
#[must_use]
pub fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_unit_that_fits() {
        assert_eq!([0, 999, 1500, 999_499].map(bytes), ["0 B", "999 B", "1.50 kB", "999.50 kB"]);
        assert_eq!(bytes(999_600_000), "1.00 GB");
        assert_eq!([0.0, 9.994, 12.34, 59.6].map(seconds), ["0.00 s", "9.99 s", "12.3 s", "1 min 00 s"]);
        assert_eq!([245.0, 10_930.0].map(seconds), ["4 min 05 s", "3 h 02 min"]);
        assert_eq!([-1.0, f64::NAN].map(seconds), ["0.00 s", "–"]);
        assert_eq!([999, 1000, 999_960, 124_439_808].map(short), ["999", "1.0 k", "1.0 M", "124.4 M"]);
        assert_eq!([7, 1234, 1_234_567].map(count), ["7", "1\u{202f}234", "1\u{202f}234\u{202f}567"]);
    }

    #[test]
    fn a_shell_reads_what_was_meant() {
        assert_eq!(quoted("zoo/a.pt"), "zoo/a.pt");
        assert_eq!(quoted("it's *"), "'it'\\''s *'");
    }
}
