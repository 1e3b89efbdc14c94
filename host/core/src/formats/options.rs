//! Options as the user gave them, checked against what a format declares.

use crate::context::suggest::suggest;
use tensorferry_sdk::{Capabilities, Description, Error, OptionKind, OptionSpec, Options, Result, Side};

/// The option of the host for inputs of tensors: what codes of quantized weights are taken for.
pub(crate) const CODES: &str = "codes";
const CODES_ARE: [&str; 2] = ["weights", "numbers"];

/// Options that say how a file of text is written, and mean the same to its reader.
const OF_TEXT: [&str; 4] = ["delimiter", "header", "quote", "nulls"];

/// What a writer was told that the reader of its output has to be told too.
pub fn of_text(description: &Description, told: &[(String, String)]) -> Vec<(String, String)> {
    let is_of_both = |key: &str| {
        let has = |side| description.options.iter().any(|option| option.key == key && option.side == side);
        OF_TEXT.contains(&key) && has(Side::Reader) && has(Side::Writer)
    };
    told.iter().filter(|(key, _)| is_of_both(key)).cloned().collect()
}

/// Whether a file that was written so has the names of its columns.
pub fn has_header(told: &[(String, String)]) -> bool {
    !told.iter().any(|(key, value)| key == "header" && value != "true")
}

/// All options of a format: those that it declares, and for its reader those of the host.
#[must_use]
pub fn all(description: &Description) -> Vec<OptionSpec> {
    let words = CODES_ARE.map(str::to_owned).into();
    let help = "what codes of quantized weights are taken for by steps that need numbers";
    let codes = OptionSpec::reader(CODES, OptionKind::Choice(words), Some(CODES_ARE[0]), help);
    let own = Some(codes).filter(|_| is_of_host(description, CODES));
    description.options.iter().cloned().chain(own).collect()
}

/// Whether an option of a reader is the host's own.
#[must_use]
pub fn is_of_host(description: &Description, key: &str) -> bool {
    let is_declared = description.options.iter().any(|spec| spec.side == Side::Reader && spec.key == key);
    key == CODES && !is_declared && description.capabilities.has(Capabilities::READ)
}

/// Takes the host's own options out of those of a reader: the others, and whether codes are numbers.
pub(crate) fn of_host(
    description: &Description,
    given: &[(String, String)],
) -> Result<(Vec<(String, String)>, bool)> {
    let (own, others): (Vec<_>, Vec<_>) =
        given.iter().cloned().partition(|(key, _)| is_of_host(description, key));
    if let Some((_, value)) = own.iter().find(|(_, value)| !CODES_ARE.contains(&value.as_str())) {
        return Err(Error::usage(format!("option {CODES}"))
            .expected(format!("one of {}", CODES_ARE.join(", ")))
            .found(format!("{value:?}")));
    }
    Ok((others, own.last().is_some_and(|(_, value)| value == CODES_ARE[1])))
}

/// The options of one side of a format.
///
/// # Errors
/// As of [`Options::check`]; a key that nobody has, with the one that was probably meant.
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
