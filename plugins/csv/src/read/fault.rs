//! Errors about a row.

use std::fmt::Display;
use tensorferry_sdk::Error;

/// Hint for a value that does not fit the inferred type of its column.
pub(super) const HINT: &str = "pass -i schema=FILE to set the column types";

/// Shortens a value for an error message.
pub(super) fn shown(value: &str) -> String {
    format!("{value:.60?}")
}

/// Returns the error for a row with the wrong number of fields.
pub(super) fn wrong_field_count(expected: usize, found: impl Display) -> Error {
    let fields = if expected == 1 { "1 field".to_owned() } else { format!("{expected} fields") };
    let error = Error::malformed("a row has the wrong number of fields").expected(fields).found(found);
    if expected == 1 { error.hint("pass -i delimiter= with the field delimiter") } else { error }
}
