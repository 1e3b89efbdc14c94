//! What helps against the errors of a kind, where their own words do not say it.

use tensorferry_sdk::ErrorKind;

/// What to change, or to do.
#[must_use]
pub fn hint(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Malformed => {
            Some("the input itself is damaged, or not what its name says: compare it with where it came from")
        }
        ErrorKind::Limit => Some("--bound NAME=VALUE raises a limit, for a file that you trust"),
        ErrorKind::Plugin => Some("`ferry plugin list` says what was found, and why a library was refused"),
        ErrorKind::Transient => Some("try again"),
        _ => None,
    }
}
