//! The two sides of a conversion have options of their own; one that is given to the wrong side is
//! named with the right flag, also where the two formats differ.

use crate::convert::request::Request;
use tensorferry_sdk::{Description, Error, Result, Side};

/// Looks for options of the writer under `-i`, and of the reader under `-o`.
///
/// # Errors
/// Usage, naming the right flag.
pub fn check_sides(request: &Request, input: &Description, output: &Description) -> Result<()> {
    let declares = |description: &Description, side: Side, key: &str| {
        description.options.iter().any(|option| option.side == side && option.key == key)
    };
    for (key, _) in &request.input.options {
        if !declares(input, Side::Reader, key) && declares(output, Side::Writer, key) {
            return Err(Error::usage(format!(
                "{key} is an option of {}'s writer: use -o {key}=...",
                output.id
            )));
        }
    }
    for (key, _) in &request.output.options {
        if !declares(output, Side::Writer, key) && declares(input, Side::Reader, key) {
            return Err(Error::usage(format!(
                "{key} is an option of {}'s reader: use -i {key}=...",
                input.id
            )));
        }
    }
    Ok(())
}

/// Those of the options that a format's reader has: what a user says of the input is for each of its
/// models that knows it.
#[must_use]
pub fn options_of(format: &Description, given: &[(String, String)]) -> Vec<(String, String)> {
    let has = |key: &str| format.options.iter().any(|o| o.side == Side::Reader && o.key == key);
    given.iter().filter(|(key, _)| has(key)).cloned().collect()
}
