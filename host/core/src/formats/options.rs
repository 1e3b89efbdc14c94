//! The user's options, checked against the options that a format declares.

use crate::context::suggest::suggest;
use tensorferry_sdk::{Capabilities, Description, Error, OptionKind, OptionSpec, Options, Result, Side};

/// The host's own option for tensor inputs: how to treat the codes of quantized weights.
pub(crate) const CODES: &str = "codes";
const CODES_VALUES: [&str; 2] = ["weights", "numbers"];

/// Options that have the same meaning for the writer and the reader of a text file.
const TEXT_OPTIONS: [&str; 4] = ["delimiter", "header", "quote", "nulls"];

/// Returns the writer's options that the reader of its output needs too.
pub fn text_options(description: &Description, reported: &[(String, String)]) -> Vec<(String, String)> {
    let is_of_both = |key: &str| {
        let has = |side| description.options.iter().any(|option| option.key == key && option.side == side);
        TEXT_OPTIONS.contains(&key) && has(Side::Reader) && has(Side::Writer)
    };
    reported.iter().filter(|(key, _)| is_of_both(key)).cloned().collect()
}

/// Returns whether a file that was written with these options has a row of column names.
pub fn has_header(reported: &[(String, String)]) -> bool {
    !reported.iter().any(|(key, value)| key == "header" && value != "true")
}

/// Returns all options of a format: the options that it declares, and the host's own options for
/// its reader.
#[must_use]
pub fn all(description: &Description) -> Vec<OptionSpec> {
    let words = CODES_VALUES.map(str::to_owned).into();
    let help = "treat quantized codes as weights or as plain numbers";
    let codes = OptionSpec::reader(CODES, OptionKind::Choice(words), Some(CODES_VALUES[0]), help);
    let own = Some(codes).filter(|_| is_of_host(description, CODES));
    description.options.iter().cloned().chain(own).collect()
}

/// Returns whether this is one of the host's own reader options.
#[must_use]
pub fn is_of_host(description: &Description, key: &str) -> bool {
    let is_declared = description.options.iter().any(|spec| spec.side == Side::Reader && spec.key == key);
    key == CODES && !is_declared && description.capabilities.has(Capabilities::READ)
}

/// Separates the host's own options from the reader's. Returns the reader's options, and whether
/// codes are treated as plain numbers.
pub(crate) fn of_host(
    description: &Description,
    given: &[(String, String)],
) -> Result<(Vec<(String, String)>, bool)> {
    let (own, others): (Vec<_>, Vec<_>) =
        given.iter().cloned().partition(|(key, _)| is_of_host(description, key));
    if let Some((_, value)) = own.iter().find(|(_, value)| !CODES_VALUES.contains(&value.as_str())) {
        let allowed = CODES_VALUES.join(" or ");
        return Err(Error::usage(format!("unknown value {value:?} for option {CODES}: pass {allowed}")));
    }
    Ok((others, own.last().is_some_and(|(_, value)| value == CODES_VALUES[1])))
}

/// Checks the options of a format's reader or writer. For an unknown key, the error suggests the
/// key that was probably meant.
pub fn check(description: &Description, side: Side, given: &[(String, String)]) -> Result<Options> {
    let specs = &description.options;
    let unknown = given.iter().find(|(key, _)| !specs.iter().any(|spec| spec.key == *key));
    if let Some((key, _)) = unknown {
        let known = specs.iter().filter(|spec| spec.side == side).map(|spec| spec.key.as_str());
        if let Some(near) = suggest(key, known) {
            let flag = if side == Side::Reader { "-i" } else { "-o" };
            let id = &description.id;
            return Err(Error::usage(format!("unknown option {flag} {key} of {id}; did you mean {near:?}?")));
        }
    }
    Options::check(specs, side, given)
}
