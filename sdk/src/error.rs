//! Defines the error type. An error contains one cause, a kind that determines the exit code, the
//! location, and a hint about what to do next.

use std::borrow::Cow;
use std::fmt;

/// Maximum number of characters in a string that a displayed error contains.
const MAX_SHOWN: usize = 2_000;

/// The result of a fallible call in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error, which identifies who must fix it. The host maps each kind to one exit
/// code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input breaks the rules of its format.
    Malformed,
    /// The input is valid, but this program cannot read or convert it.
    Unsupported,
    /// The input exceeds one of the [`Limits`](crate::Limits).
    Limit,
    /// The operating system refused an operation, and retrying would not help. Examples are a full
    /// disk, missing permissions and a read-only file system.
    Io,
    /// A temporary failure. The source changed while it was being read, or a device or server failed. A
    /// retry may succeed.
    Transient,
    /// A plugin violated its contract, panicked, or could not be loaded.
    Plugin,
    /// The user passed options or names that are not valid.
    Usage,
    /// The output differs from the input, or from its receipt.
    Verification,
    /// The user interrupted the operation.
    Cancelled,
}

impl ErrorKind {
    /// All kinds of errors.
    pub const ALL: [Self; 9] = [
        Self::Malformed,
        Self::Unsupported,
        Self::Limit,
        Self::Io,
        Self::Transient,
        Self::Plugin,
        Self::Usage,
        Self::Verification,
        Self::Cancelled,
    ];

    /// Returns the identifier of this kind in JSON documents, such as `malformed`, `io` or
    /// `transient`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unsupported => "unsupported",
            Self::Limit => "limit",
            Self::Io => "io",
            Self::Transient => "transient",
            Self::Plugin => "plugin",
            Self::Usage => "usage",
            Self::Verification => "verification",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the words before a displayed message, such as `malformed: `. For some kinds, the
    /// result is empty.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Malformed => "malformed: ",
            Self::Unsupported => "unsupported: ",
            Self::Limit => "limit exceeded: ",
            Self::Transient => "temporary failure: ",
            Self::Plugin => "plugin error: ",
            Self::Verification => "verification failed: ",
            Self::Io | Self::Usage | Self::Cancelled => "",
        }
    }
}

/// An error with one cause, its location, and a hint. Build an error with chained calls:
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
///     "model.safetensors: malformed: the header is longer than the file \
///      (offset 0, expected at most 120 bytes, found 9000000000)"
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
    hint: Option<String>,
}

macro_rules! constructors {
    ($($name:ident => $kind:ident),* $(,)?) => { $(
        #[doc = concat!("Creates an error of kind [`ErrorKind::", stringify!($kind), "`].")]
        #[must_use]
        pub fn $name(message: impl Into<String>) -> Self {
            Self::new(ErrorKind::$kind, message)
        }
    )* };
}

impl Error {
    /// Creates an error. `message` describes what is wrong, in lowercase and without a period at
    /// the end. Put instructions about what to do next in the [`hint`](Self::hint).
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
            hint: None,
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

    /// Creates the error that a reader returns if its guess for
    /// [`Purpose::ONCE`](crate::Purpose::ONCE) was or may be wrong. The host then reads the input
    /// again, and users do not see this error. A reader may return this error only for that
    /// purpose.
    #[must_use]
    pub fn wrong_guess(message: impl Into<String>) -> Self {
        let mut error = Self::plugin(message);
        error.0.is_wrong_guess = true;
        error
    }

    /// Returns whether this error was created by [`wrong_guess`](Self::wrong_guess).
    #[must_use]
    pub fn is_wrong_guess(&self) -> bool {
        self.0.is_wrong_guess
    }

    /// Sets the file, unless it is already set. The first file that is set is the closest to the
    /// cause.
    #[must_use]
    pub fn file(mut self, name: impl Into<String>) -> Self {
        self.0.file.get_or_insert_with(|| name.into());
        self
    }

    /// Sets the tensor, unless it is already set.
    #[must_use]
    pub fn tensor(mut self, name: impl Into<String>) -> Self {
        self.0.tensor.get_or_insert_with(|| name.into());
        self
    }

    /// Sets the number of the record in its file, counted from 0, unless it is already set.
    #[must_use]
    pub fn record(mut self, number: u64) -> Self {
        self.0.record.get_or_insert(number);
        self
    }

    /// Sets the column of a record, unless it is already set.
    #[must_use]
    pub fn column(mut self, name: impl Into<String>) -> Self {
        self.0.column.get_or_insert_with(|| name.into());
        self
    }

    /// Sets the byte offset in the file, unless it is already set.
    #[must_use]
    pub fn offset(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// Sets the value that was expected.
    #[must_use]
    pub fn expected(mut self, what: impl fmt::Display) -> Self {
        self.0.expected = Some(what.to_string());
        self
    }

    /// Sets the value that was found.
    #[must_use]
    pub fn found(mut self, what: impl fmt::Display) -> Self {
        self.0.found = Some(what.to_string());
        self
    }

    /// Sets the hint about what to do next. A hint is an imperative that names the command or
    /// option, such as "pass -i shard=alone to convert only this file". Programs show the hint on a
    /// separate line. If a hint is already set, the new one is ignored.
    #[must_use]
    pub fn hint(mut self, text: impl Into<String>) -> Self {
        self.0.hint.get_or_insert_with(|| text.into());
        self
    }

    /// Adds a prefix to the message, as in `context: message`.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.0.message = format!("{context}: {}", self.0.message);
        self
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message without the file, the values and the hint.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the details that are set, as pairs of a name and a string, in display order. The
    /// last detail is the `hint`, which `Display` omits.
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
            ("hint", p.hint.clone()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }

    /// Sets one of the [`details`](Self::details) by name. An unknown name is appended to the
    /// message.
    pub(crate) fn with_detail(mut self, name: &str, value: &str) -> Self {
        match name {
            "file" => self.file(value),
            "tensor" => self.tensor(value),
            "column" => self.column(value),
            "record" if value.parse::<u64>().is_ok() => self.record(value.parse().unwrap_or(0)),
            "expected" => self.expected(value),
            "found" => self.found(value),
            "hint" => self.hint(value),
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
        let parts = &*self.0;
        if let Some(file) = &parts.file {
            write!(f, "{}: ", display_name(&shortened(file)))?;
        }
        write!(f, "{}{}", parts.kind.label(), shortened(&parts.message))?;
        let mut separator = " (";
        for (name, value) in self.details() {
            let value = shortened(&value);
            match name {
                "file" | "hint" => continue,
                "tensor" | "column" => write!(f, "{separator}{name} {value:?}")?,
                _ => write!(f, "{separator}{name} {value}")?,
            }
            separator = ", ";
        }
        if separator == ", " { f.write_str(")") } else { Ok(()) }
    }
}

/// Returns a file name for display. The name is quoted only if necessary, so that a hostile name
/// with a newline cannot imitate a separate line.
fn display_name(name: &str) -> Cow<'_, str> {
    let quoted = format!("{name:?}");
    if quoted.get(1..quoted.len() - 1) == Some(name) { Cow::Borrowed(name) } else { Cow::Owned(quoted) }
}

/// Shortens a string for display, because a value from a file may be megabytes long.
fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}... ({} bytes)", &text[..end], text.len())),
        None => Cow::Borrowed(text),
    }
}

impl fmt::Debug for Error {
    /// Formats the error as `Display` does, followed by the hint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        self.0.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; hint: {}", shortened(hint)))
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    /// Converts errors for which retrying may help to [`ErrorKind::Transient`], and all other
    /// errors to [`ErrorKind::Io`].
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind as Os;
        const EIO: i32 = 5;
        let is_temporary = matches!(
            error.kind(),
            Os::TimedOut | Os::ConnectionReset | Os::ConnectionAborted | Os::StaleNetworkFileHandle
        ) || error.raw_os_error() == Some(EIO);
        let kind = if is_temporary { ErrorKind::Transient } else { ErrorKind::Io };
        Self::new(kind, error.to_string())
    }
}
