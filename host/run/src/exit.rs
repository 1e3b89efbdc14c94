//! The exit codes of the program, which scripts rely on.

use tensorferry_sdk::ErrorKind;

/// A mistake in the arguments or in a manifest.
pub const USAGE: u8 = 2;
/// A job failed permanently, or the input cannot be read.
pub(crate) const REFUSED: u8 = 3;
/// A problem of the system: I/O, a plugin, no space.
pub const ENVIRONMENT: u8 = 5;
/// A temporary failure: a retry may succeed.
pub const TRANSIENT: u8 = 75;
/// The user interrupted the program.
pub(crate) const INTERRUPTED: u8 = 130;

#[must_use]
pub fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Usage => USAGE,
        ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::Limit => REFUSED,
        ErrorKind::Verification => 4,
        ErrorKind::Transient => TRANSIENT,
        ErrorKind::Cancelled => INTERRUPTED,
        // I/O and plugins. New kinds also map to this code until they get one here.
        _ => ENVIRONMENT,
    }
}
