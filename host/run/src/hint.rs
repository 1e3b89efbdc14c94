//! The hint that is shown with an error.

use std::borrow::Cow;
use tensorferry_sdk::{Error, ErrorKind};

/// Returns the hint of an error. If the error has no hint, returns the general hint for its error
/// kind.
#[must_use]
pub fn hint(error: &Error) -> Option<Cow<'static, str>> {
    let own = error.details().find(|(name, _)| *name == "hint").map(|(_, text)| Cow::Owned(text));
    own.or_else(|| match error.kind() {
        ErrorKind::Limit => Some("if you trust the file, raise the limit with --limit NAME=VALUE".into()),
        ErrorKind::Plugin => {
            Some("run `ferry plugin list` to see which plugins were found and refused".into())
        }
        ErrorKind::Transient => Some("run the command again".into()),
        _ => None,
    })
}
