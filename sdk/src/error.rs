//! An error is one cause, by whose fault it is, with everything known about where it lies.

use std::borrow::Cow;
use std::fmt;

/// Characters of a text that an error shows.
const MOST_SHOWN: usize = 2_000;

/// What every fallible call of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whose fault an error is. The host maps each kind to one exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input breaks its own format's rules.
    Malformed,
    /// The input is well formed, and this program cannot read or carry it.
    Unsupported,
    /// The input is over one of the [`Limits`](crate::Limits).
    Limit,
    /// The operating system failed, for good: no space, no permission, read-only.
    Io,
    /// A passing fault, worth a retry: the source changed underneath, an I/O error of the device.
    Transient,
    /// A plugin broke its contract, panicked, or could not be loaded.
    Plugin,
    /// The user gave options or names that cannot work.
    Usage,
    /// What was written is not what was read.
    Verification,
    /// The user ended the run.
    Cancelled,
}

impl ErrorKind {
    /// The kind's word, as it stands before a message.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unsupported => "unsupported",
            Self::Limit => "over a limit",
            Self::Io => "i/o",
            Self::Transient => "passing fault",
            Self::Plugin => "plugin",
            Self::Usage => "usage",
            Self::Verification => "verification failed",
            Self::Cancelled => "interrupted",
        }
    }
}

/// One cause, and where it lies. Built like a sentence:
///
/// ```
/// use tensorferry_sdk::Error;
/// let error = Error::malformed("the header is longer than the file")
///     .file("model.safetensors")
///     .offset(0)
///     .expected("at most 120 bytes")
///     .found(9_000_000_000_u64);
/// assert_eq!(
///     error.to_string(),
///     "malformed: the header is longer than the file: file \"model.safetensors\", offset 0, \
///      expected at most 120 bytes, found 9000000000"
/// );
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Parts>);

#[derive(Clone, PartialEq, Eq)]
struct Parts {
    kind: ErrorKind,
    is_wrong_guess: bool,
    message: String,
    file: Option<String>,
    tensor: Option<String>,
    record: Option<u64>,
    column: Option<String>,
    offset: Option<u64>,
    expected: Option<String>,
    found: Option<String>,
}

macro_rules! constructors {
    ($($name:ident => $kind:ident),* $(,)?) => { $(
        #[doc = concat!("An error of kind [`ErrorKind::", stringify!($kind), "`].")]
        #[must_use]
        pub fn $name(message: impl Into<String>) -> Self {
            Self::new(ErrorKind::$kind, message)
        }
    )* };
}

impl Error {
    /// `message`: lowercase, no full stop; what is wrong, and what to do if there is something to do.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            kind,
            is_wrong_guess: false,
            message: message.into(),
            file: None,
            tensor: None,
            record: None,
            column: None,
            offset: None,
            expected: None,
            found: None,
        }))
    }

    constructors! {
        malformed => Malformed,
        unsupported => Unsupported,
        limit => Limit,
        io => Io,
        transient => Transient,
        plugin => Plugin,
        usage => Usage,
        verification => Verification,
        cancelled => Cancelled,
    }

    /// The answer of a reader whose guess for [`Purpose::ONCE`](crate::Purpose::ONCE) was wrong, or may be: the host reads the
    /// input again, and no user sees this. A reader that was not allowed to guess breaks its contract.
    #[must_use]
    pub fn wrong_guess(message: impl Into<String>) -> Self {
        let mut error = Self::plugin(message);
        error.0.is_wrong_guess = true;
        error
    }

    /// Whether it is a [`wrong_guess`](Self::wrong_guess).
    #[must_use]
    pub fn is_wrong_guess(&self) -> bool {
        self.0.is_wrong_guess
    }

    /// Names the file. The first name given stays: it is the closest to the cause.
    #[must_use]
    pub fn file(mut self, name: impl Into<String>) -> Self {
        self.0.file.get_or_insert_with(|| name.into());
        self
    }

    /// Names the tensor; the first name given stays.
    #[must_use]
    pub fn tensor(mut self, name: impl Into<String>) -> Self {
        self.0.tensor.get_or_insert_with(|| name.into());
        self
    }

    /// The record's number in its file, from 0; the first one given stays.
    #[must_use]
    pub fn record(mut self, number: u64) -> Self {
        self.0.record.get_or_insert(number);
        self
    }

    /// Names the column of a record; the first name given stays.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>) -> Self {
        self.0.column.get_or_insert_with(|| name.into());
        self
    }

    /// The byte offset in the file; the first one given stays.
    #[must_use]
    pub fn offset(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// What should have been there.
    #[must_use]
    pub fn expected(mut self, what: impl fmt::Display) -> Self {
        self.0.expected = Some(what.to_string());
        self
    }

    /// What was there.
    #[must_use]
    pub fn found(mut self, what: impl fmt::Display) -> Self {
        self.0.found = Some(what.to_string());
        self
    }

    /// Puts `context` before the message: `context: message`.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// Whose fault it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message alone, without the place.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The place and the values, as name and text, in the order in which they are shown.
    pub fn details(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        let p = &*self.0;
        [
            ("file", p.file.clone()),
            ("tensor", p.tensor.clone()),
            ("record", p.record.map(|r| r.to_string())),
            ("column", p.column.clone()),
            ("offset", p.offset.map(|o| o.to_string())),
            ("expected", p.expected.clone()),
            ("found", p.found.clone()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }

    /// Sets one of the [`details`](Self::details) by its name; an unknown name joins the message.
    pub(crate) fn with_detail(mut self, name: &str, value: &str) -> Self {
        match name {
            "file" => self.file(value),
            "tensor" => self.tensor(value),
            "column" => self.column(value),
            "record" if value.parse::<u64>().is_ok() => self.record(value.parse().unwrap_or(0)),
            "expected" => self.expected(value),
            "found" => self.found(value),
            "offset" if value.parse::<u64>().is_ok() => self.offset(value.parse().unwrap_or(0)),
            _ => {
                self.0.message = format!("{} ({name} {value})", self.0.message);
                self
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind.word(), cut(&self.0.message))?;
        let mut separator = ": ";
        for (name, value) in self.details() {
            let value = cut(&value);
            // Names come from hostile files: quoted, so that a newline cannot forge a line.
            match name {
                "file" | "tensor" | "column" => write!(f, "{separator}{name} {value:?}")?,
                _ => write!(f, "{separator}{name} {value}")?,
            }
            separator = ", ";
        }
        Ok(())
    }
}

/// A text as far as a person reads it: what a file holds may be a megabyte.
fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}... ({} bytes)", &text[..end], text.len())),
        None => Cow::Borrowed(text),
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    /// The kind tells whether a retry may help; see [`ErrorKind::Transient`].
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind as Os;
        const EIO: i32 = 5;
        let passing = matches!(
            error.kind(),
            Os::TimedOut | Os::ConnectionReset | Os::ConnectionAborted | Os::StaleNetworkFileHandle
        ) || error.raw_os_error() == Some(EIO);
        let kind = if passing { ErrorKind::Transient } else { ErrorKind::Io };
        Self::new(kind, error.to_string())
    }
}
