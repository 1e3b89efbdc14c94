//! What a call can fail with.

/// What a call returns.
pub type Code = i32;

/// The status of a call that did what it was asked for.
pub const DONE: Code = 0;

/// The classes of errors, which stand in the high 16 bits of a status; a detail that is not known leaves its
/// class as it is.
pub mod class {
    /// The input is damaged, or not what it claims to be.
    pub const MALFORMED: i32 = 1;
    /// It is sound, but more than this reader or writer can do.
    pub const UNSUPPORTED: i32 = 2;
    /// A limit was hit.
    pub const LIMIT: i32 = 3;
    /// Reading or writing failed.
    pub const IO: i32 = 4;
    /// As `IO`, and trying again may help.
    pub const TRANSIENT: i32 = 5;
    /// The plugin is to blame.
    pub const PLUGIN: i32 = 6;
    /// The user asked for something that does not go together.
    pub const USAGE: i32 = 7;
    /// What was written is not what was read.
    pub const VERIFICATION: i32 = 8;
    /// The user ended it.
    pub const CANCELLED: i32 = 9;
    /// The reader guessed wrong, and can be asked again for certain.
    pub const GUESS: i32 = 10;
}

/// The detail of `UNSUPPORTED` of a slot that is not offered.
const MISSING: i32 = 1;

/// A side of the boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The program.
    Host,
    /// A library.
    Plugin,
}

/// What a call failed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The status: class and detail.
    pub code: Code,
    /// The message without the place.
    pub message: String,
    /// File, tensor, offset, expected, found; names that are not known are shown.
    pub details: Vec<(String, String)>,
    /// Who said so.
    pub sender: Option<Sender>,
}

impl Failure {
    /// A failure of a class.
    #[must_use]
    pub fn new(class: i32, message: impl Into<String>) -> Self {
        Self { code: class << 16, message: message.into(), details: Vec::new(), sender: None }
    }

    /// The class of its status.
    #[must_use]
    pub fn class(&self) -> i32 {
        self.code >> 16
    }

    /// The other side breaks the crate's rules.
    #[must_use]
    pub fn contract(what: &str) -> Self {
        Self::new(class::PLUGIN, format!("the boundary's rules are broken: {what}"))
    }

    /// The other side does not offer what is called.
    #[must_use]
    pub fn missing(what: &str) -> Self {
        let failure = Self::new(
            class::UNSUPPORTED,
            format!("{what} is not offered: its slot is null, or past the end of its table"),
        );
        Self { code: failure.code | MISSING, ..failure }
    }

    /// Whether this side found that the other one does not offer what is called.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.sender.is_none() && self.code == (class::UNSUPPORTED << 16 | MISSING)
    }
}
