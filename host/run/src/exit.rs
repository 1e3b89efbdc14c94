//! The program's exit codes, which scripts rely on.

use tensorferry_sdk::ErrorKind;

/// A mistake in the arguments or in a manifest.
pub const USAGE: u8 = 2;
/// A job failed permanently, or the input cannot be read.
pub(crate) const REFUSED: u8 = 3;
/// A problem with the system: I/O, a plugin, or lack of space.
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
        // Errors of I/O and plugins. A new error kind also maps to this code until it is listed
        // here.
        _ => ENVIRONMENT,
    }
}
