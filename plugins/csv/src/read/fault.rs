//! Errors about a row.

use std::fmt::Display;
use tensorferry_sdk::Error;

/// What to do where a guess at types was wrong.
pub(super) const HINT: &str = "-i schema=FILE says the types of columns";

/// As much of a value as a person reads.
pub(super) fn shown(value: &str) -> String {
    format!("{value:.60?}")
}

/// The error for a row of another number of fields than there are columns.
pub(super) fn ragged(expected: usize, found: impl Display) -> Error {
    let fields = match expected {
        1 => "1 field, or -i delimiter= with the character between fields".to_owned(),
        _ => format!("{expected} fields"),
    };
    Error::malformed("a row with another number of fields than there are columns")
        .expected(fields)
        .found(found)
}
