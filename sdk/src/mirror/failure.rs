//! Converts an [`Error`] to a failure that can cross the boundary, and back.

use crate::{Error, ErrorKind};
use tensorferry_abi::{Failure, Sender, class};

/// The error classes at the boundary for each [`ErrorKind`]. Append new classes, and never change a
/// number.
const KINDS: [(i32, ErrorKind); 9] = [
    (class::MALFORMED, ErrorKind::Malformed),
    (class::UNSUPPORTED, ErrorKind::Unsupported),
    (class::LIMIT, ErrorKind::Limit),
    (class::IO, ErrorKind::Io),
    (class::TRANSIENT, ErrorKind::Transient),
    (class::PLUGIN, ErrorKind::Plugin),
    (class::USAGE, ErrorKind::Usage),
    (class::VERIFICATION, ErrorKind::Verification),
    (class::CANCELLED, ErrorKind::Cancelled),
];

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let of_kind = KINDS.iter().find(|(_, kind)| *kind == error.kind());
        let class = match of_kind {
            _ if error.is_wrong_guess() => class::GUESS,
            Some((class, _)) => *class,
            None => class::PLUGIN,
        };
        let details = error.details().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { details, ..Self::new(class, error.message()) }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let known = KINDS.iter().find(|(class, _)| *class == failure.class()).map(|(_, kind)| *kind);
        // If a plugin sends an unknown class, the plugin is at fault. If the host sends an unknown
        // class, the input is assumed to be at fault.
        let kind = known.unwrap_or(match failure.sender {
            Some(Sender::Host) => ErrorKind::Malformed,
            Some(Sender::Plugin) | None => ErrorKind::Plugin,
        });
        let error = match failure.class() {
            class::GUESS => Self::wrong_guess(failure.message),
            _ => Self::new(kind, failure.message),
        };
        failure.details.iter().fold(error, |error, (name, value)| error.with_detail(name, value))
    }
}

/// Returns the result of a call whose counterpart in the SDK cannot fail. This host never fails
/// such a call. If a different host fails such a call, the plugin's call panics, and that host
/// receives the failure in the panic.
pub(super) fn expect_infallible<T>(answer: Result<T, Failure>) -> T {
    match answer {
        Ok(value) => value,
        Err(failure) => std::panic::panic_any(failure),
    }
}
