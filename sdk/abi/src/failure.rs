//! Failures of calls. A failure consists of a status, a message and details.

/// The status that a call returns.
pub type Code = i32;

/// The status of a successful call.
pub const DONE: Code = 0;

/// The classes of errors, in the high 16 bits of a status. The low bits are a detail. If a receiver
/// does not know the detail, it uses only the class.
pub mod class {
    /// The input is damaged, or does not have the expected format.
    pub const MALFORMED: i32 = 1;
    /// The input is valid, but this reader or writer does not support it.
    pub const UNSUPPORTED: i32 = 2;
    /// A limit was exceeded.
    pub const LIMIT: i32 = 3;
    /// Reading or writing failed.
    pub const IO: i32 = 4;
    /// Reading or writing failed, but a retry may succeed.
    pub const TRANSIENT: i32 = 5;
    /// The plugin has a bug.
    pub const PLUGIN: i32 = 6;
    /// The user passed invalid options or names.
    pub const USAGE: i32 = 7;
    /// The output differs from the input.
    pub const VERIFICATION: i32 = 8;
    /// The user canceled the run.
    pub const CANCELLED: i32 = 9;
    /// The reader guessed wrong, and the input can be opened again without guesses.
    pub const GUESS: i32 = 10;
}

/// The detail of `UNSUPPORTED` if the other side does not offer the slot.
const MISSING: i32 = 1;

/// A side of the boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The host program.
    Host,
    /// The library of a plugin.
    Plugin,
}

/// The reason why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The status of the call, which contains a class and a detail.
    pub code: Code,
    /// The message, without the details.
    pub message: String,
    /// The details as names and values, such as file, tensor, offset, expected and found. Details
    /// with unknown names are also shown.
    pub details: Vec<(String, String)>,
    /// Side that reported the failure.
    pub sender: Option<Sender>,
}

impl Failure {
    /// Creates a failure of the given class.
    #[must_use]
    pub fn new(class: i32, message: impl Into<String>) -> Self {
        Self { code: class << 16, message: message.into(), details: Vec::new(), sender: None }
    }

    /// Returns the class of the status.
    #[must_use]
    pub fn class(&self) -> i32 {
        self.code >> 16
    }

    /// Creates the failure for the other side's violation of the crate's rules.
    #[must_use]
    pub fn contract(what: &str) -> Self {
        Self::new(class::PLUGIN, format!("the boundary's rules are broken: {what}"))
    }

    /// Creates the failure for a call of a function that the other side does not offer.
    #[must_use]
    pub fn missing(what: &str) -> Self {
        let failure = Self::new(
            class::UNSUPPORTED,
            format!("{what} is not offered: its slot is null, or past the end of its table"),
        );
        Self { code: failure.code | MISSING, ..failure }
    }

    /// Returns whether this side created the failure because the other side does not offer the
    /// called function.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.sender.is_none() && self.code == (class::UNSUPPORTED << 16 | MISSING)
    }
}
