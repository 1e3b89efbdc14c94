//! The error type: one cause, the kind that maps to an exit code, where it occurred, and what to do next.

use std::borrow::Cow;
use std::fmt;

/// Maximum characters of one string in a displayed error.
const MAX_SHOWN: usize = 2_000;

/// The result of a fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whose fault an error is. The host maps each kind to one exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input breaks the rules of its format.
    Malformed,
    /// The input is valid, but this program cannot read or convert it.
    Unsupported,
    /// The input exceeds one of the [`Limits`](crate::Limits).
    Limit,
    /// The operating system refused, and a retry does not help: no space, no permission, read-only.
    Io,
    /// A temporary failure: the source changed while it was read, or a device or server failed. A retry may succeed.
    Transient,
    /// A plugin broke its contract, panicked, or could not be loaded.
    Plugin,
    /// The user passed options or names that cannot work.
    Usage,
    /// The output differs from the input, or from its receipt.
    Verification,
    /// The user interrupted the operation.
    Cancelled,
}

impl ErrorKind {
    /// Every kind.
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

    /// Returns the identifier of this kind in JSON documents: `malformed`, `io`, `transient`, ….
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

    /// Returns the words before a displayed message, such as `malformed: `. Some kinds have none.
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

/// One cause, where it occurred, and a hint. It is built by chained calls:
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
        #[doc = concat!("An error of kind [`ErrorKind::", stringify!($kind), "`].")]
        #[must_use]
        pub fn $name(message: impl Into<String>) -> Self {
            Self::new(ErrorKind::$kind, message)
        }
    )* };
}

impl Error {
    /// Creates an error. `message` says what is wrong: lowercase, no full stop. What to do next belongs in the
    /// [`hint`](Self::hint).
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
    /// again, and users do not see this error. A reader that returns it without being allowed to
    /// guess breaks its contract.
    #[must_use]
    pub fn wrong_guess(message: impl Into<String>) -> Self {
        let mut error = Self::plugin(message);
        error.0.is_wrong_guess = true;
        error
    }

    /// Returns whether this is a [`wrong_guess`](Self::wrong_guess).
    #[must_use]
    pub fn is_wrong_guess(&self) -> bool {
        self.0.is_wrong_guess
    }

    /// Sets the file, unless it is already set: the first name is the closest to the cause.
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

    /// Sets the number of the record in its file, from 0, unless it is already set.
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

    /// Sets what to do next: an imperative that names the command or option, such as "pass -i
    /// shard=alone to convert only this file". Programs show it on a line of its own. If a hint is
    /// already set, it is kept.
    #[must_use]
    pub fn hint(mut self, text: impl Into<String>) -> Self {
        self.0.hint.get_or_insert_with(|| text.into());
        self
    }

    /// Prefixes the message: `context: message`.
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

    /// Returns the message without file, values and hint.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the details that are set, as pairs of a name and a string, in the order in which
    /// they are shown. The last is the `hint`, which `Display` leaves out.
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

    /// Sets one of the [`details`](Self::details) by its name. An unknown name is appended to the message.
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
            write!(f, "{}: ", plain(&cut(file)))?;
        }
        write!(f, "{}{}", parts.kind.label(), cut(&parts.message))?;
        let mut separator = " (";
        for (name, value) in self.details() {
            let value = cut(&value);
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

/// Returns a file name, in quotes only if it contains characters that need them: a newline in a
/// hostile name must not forge a line.
fn plain(name: &str) -> Cow<'_, str> {
    let quoted = format!("{name:?}");
    if quoted.get(1..quoted.len() - 1) == Some(name) { Cow::Borrowed(name) } else { Cow::Owned(quoted) }
}

/// Shortens a string for display: values from files may be megabytes long.
fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}... ({} bytes)", &text[..end], text.len())),
        None => Cow::Borrowed(text),
    }
}

impl fmt::Debug for Error {
    /// Formats the error as `Display` does, followed by the hint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        self.0.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; hint: {}", cut(hint)))
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    /// Maps errors for which a retry may help to [`ErrorKind::Transient`], and all others to [`ErrorKind::Io`].
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
