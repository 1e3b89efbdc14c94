//! Options as the user gave them, checked against what a format declares.

use crate::context::suggest::suggest;
use tensorferry_sdk::{Description, Error, Options, Result, Side};

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
