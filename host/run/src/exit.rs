//! The exit codes of the program, a contract with those who call it.

use tensorferry_sdk::ErrorKind;

/// A mistake in what was typed, or in a manifest.
pub const USAGE: u8 = 2;
/// A job failed for good, or the input cannot be read.
pub(crate) const REFUSED: u8 = 3;
/// The machine is at fault: i/o, a plugin, no space.
pub const ENVIRONMENT: u8 = 5;
/// A passing fault: worth a retry.
pub const TRANSIENT: u8 = 75;
/// The user ended it.
pub(crate) const INTERRUPTED: u8 = 130;

/// The exit code of an error.
#[must_use]
pub fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Usage => USAGE,
        ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::Limit => REFUSED,
        ErrorKind::Verification => 4,
        ErrorKind::Transient => TRANSIENT,
        ErrorKind::Cancelled => INTERRUPTED,
        // I/o and plugins; a kind that is new is the environment's until it is placed here.
        _ => ENVIRONMENT,
    }
}
