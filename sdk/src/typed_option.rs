//! A typed option is a constant that contains the declaration of an option and parses its value.

use crate::{Error, OptionKind, OptionSpec, Options, Result, Side, parse_size};
use std::fmt;
use std::ops::RangeInclusive;

/// An option as a constant. The constant contains the declaration of the option and the parser for
/// its value.
///
/// ```
/// use tensorferry_sdk::{Options, Result, Side::Writer, TypedOption};
///
/// #[derive(Debug, Clone, Copy, PartialEq)]
/// enum Codec {
///     Plain,
///     Gzip,
/// }
///
/// const CODEC: TypedOption<Codec> = TypedOption::choice(
///     Writer,
///     "codec",
///     &[("none", Codec::Plain), ("gzip", Codec::Gzip)],
///     "compression of the files",
/// );
/// const LEVEL: TypedOption<Option<u32>> = TypedOption::integer(Writer, "level", 0..=9, "compression level");
///
/// # fn main() -> Result<()> {
/// // `Format::describe` declares the options, and `Format::writer` reads their values.
/// let declared = [CODEC.spec(), LEVEL.spec()];
/// let options = Options::check(&declared, Writer, &[("codec".into(), "gzip".into())])?;
/// assert_eq!((CODEC.get(&options)?, LEVEL.get(&options)?), (Codec::Gzip, None));
/// # Ok(())
/// # }
/// ```
pub struct TypedOption<T: 'static> {
    side: Side,
    key: &'static str,
    help: &'static str,
    default: Option<&'static str>,
    kind: TypedOptionKind,
    /// Words of a choice, with the values that they stand for.
    words: &'static [(&'static str, T)],
    read: fn(&Self, &Options) -> Result<T>,
}

#[derive(Clone, Copy)]
enum TypedOptionKind {
    Bool,
    Text,
    List,
    Source,
    Choice,
    Integer { min: u64, max: u64 },
    Size { min: u64 },
}

impl<T> TypedOption<T> {
    const fn new(
        side: Side,
        key: &'static str,
        kind: TypedOptionKind,
        help: &'static str,
        read: fn(&Self, &Options) -> Result<T>,
    ) -> Self {
        Self { side, key, help, default: None, kind, words: &[], read }
    }

    /// Declares an option whose value is one of these words. The first word is the default.
    #[must_use]
    pub const fn choice(
        side: Side,
        key: &'static str,
        words: &'static [(&'static str, T)],
        help: &'static str,
    ) -> Self
    where
        T: Copy,
    {
        let (first, _) = words[0];
        Self {
            default: Some(first),
            words,
            ..Self::new(side, key, TypedOptionKind::Choice, help, Self::read_word)
        }
    }

    fn read_word(&self, options: &Options) -> Result<T>
    where
        T: Copy,
    {
        self.word(self.text_in(options))
    }

    fn word(&self, text: Option<&str>) -> Result<T>
    where
        T: Copy,
    {
        let found = self.words.iter().find(|(word, _)| Some(*word) == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<&str> = self.words.iter().map(|(word, _)| *word).collect();
            self.refuse(format!("one of {}", words.join(", ")), text.unwrap_or_default())
        })
    }

    /// Returns the declaration of the option.
    #[must_use]
    pub fn spec(&self) -> OptionSpec {
        let kind = match self.kind {
            TypedOptionKind::Bool => OptionKind::Bool,
            TypedOptionKind::Text => OptionKind::Text,
            TypedOptionKind::List => OptionKind::List,
            TypedOptionKind::Source => OptionKind::Source,
            TypedOptionKind::Choice => {
                OptionKind::Choice(self.words.iter().map(|(word, _)| (*word).to_owned()).collect())
            }
            TypedOptionKind::Integer { .. } => OptionKind::Integer,
            TypedOptionKind::Size { .. } => OptionKind::Size,
        };
        OptionSpec { side: self.side, ..OptionSpec::reader(self.key, kind, self.default, self.help) }
    }

    /// Returns the value of this option.
    ///
    /// # Errors
    /// Returns a usage error if a number is out of range.
    pub fn get(&self, options: &Options) -> Result<T> {
        (self.read)(self, options)
    }

    /// Returns the value that the user passed. Otherwise, returns the default.
    fn text_in<'a>(&self, options: &'a Options) -> Option<&'a str> {
        options.text(self.key).or(self.default)
    }

    /// Returns the error for an invalid value. `expected` describes the allowed values, and `found`
    /// is the value that the user passed.
    #[must_use]
    pub fn refuse(&self, expected: impl fmt::Display, found: impl fmt::Display) -> Error {
        Error::usage(format!("invalid value for option `{}`: expected {expected}, found {found}", self.key))
    }
}

impl TypedOption<bool> {
    /// Declares an option that is `true` or `false`.
    #[must_use]
    pub const fn flag(side: Side, key: &'static str, default: bool, help: &'static str) -> Self {
        let default = Some(if default { "true" } else { "false" });
        Self {
            default,
            ..Self::new(side, key, TypedOptionKind::Bool, help, |this, options| {
                Ok(this.text_in(options) == Some("true"))
            })
        }
    }
}

impl TypedOption<Option<String>> {
    /// Declares an option that accepts any string.
    #[must_use]
    pub const fn text(side: Side, key: &'static str, help: &'static str) -> Self {
        Self::new(side, key, TypedOptionKind::Text, help, |this, options| {
            Ok(this.text_in(options).map(str::to_owned))
        })
    }

    /// Declares an option whose value is the path of another input, for
    /// [`Context::open`](crate::Context::open).
    #[must_use]
    pub const fn source(side: Side, key: &'static str, help: &'static str) -> Self {
        Self { kind: TypedOptionKind::Source, ..Self::text(side, key, help) }
    }
}

impl TypedOption<Vec<String>> {
    /// Declares an option that the user may pass several times. The value is the list of all
    /// strings, in that order.
    #[must_use]
    pub const fn list(side: Side, key: &'static str, help: &'static str) -> Self {
        let read = |this: &Self, options: &Options| Ok(options.texts(this.key).map(str::to_owned).collect());
        Self::new(side, key, TypedOptionKind::List, help, read)
    }
}

impl<T: Copy> TypedOption<Option<T>> {
    /// Removes the default of a choice option. The value is then `None` if the user does not pass
    /// the option.
    #[must_use]
    pub const fn without_default(self) -> Self {
        let read = |this: &Self, options: &Options| {
            this.text_in(options).map_or(Ok(None), |text| this.word(Some(text)))
        };
        Self { default: None, read, ..self }
    }
}

impl<N: TryFrom<u64>> TypedOption<Option<N>> {
    /// Declares an option whose value is an integer in a range.
    #[must_use]
    pub const fn integer(
        side: Side,
        key: &'static str,
        range: RangeInclusive<u64>,
        help: &'static str,
    ) -> Self {
        let kind = TypedOptionKind::Integer { min: *range.start(), max: *range.end() };
        Self::new(side, key, kind, help, |this, options| {
            this.text_in(options).map(|text| this.number(text)).transpose()
        })
    }

    /// Declares an option whose value is a number of bytes, at least `min`.
    #[must_use]
    pub const fn size(side: Side, key: &'static str, min: u64, help: &'static str) -> Self {
        Self { kind: TypedOptionKind::Size { min }, ..Self::integer(side, key, 0..=0, help) }
    }

    /// Adds a default to a numeric option, written as a user would write it.
    #[must_use]
    pub const fn or(self, default: &'static str) -> TypedOption<N> {
        let read =
            |this: &TypedOption<N>, options: &Options| this.number(this.text_in(options).unwrap_or_default());
        TypedOption {
            default: Some(default),
            ..TypedOption::new(self.side, self.key, self.kind, self.help, read)
        }
    }
}

impl<T> TypedOption<T> {
    fn number<N: TryFrom<u64>>(&self, text: &str) -> Result<N> {
        let (min, max, number) = match self.kind {
            TypedOptionKind::Integer { min, max } => (min, max, text.parse().ok()),
            TypedOptionKind::Size { min } => (min, u64::MAX, parse_size(text)),
            _ => (0, 0, None),
        };
        let number = number.filter(|number| (min..=max).contains(number));
        number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| match max {
            u64::MAX => self.refuse(format!("at least {min}"), text),
            max => self.refuse(format!("{min} to {max}"), text),
        })
    }
}

/// Formats the option as users write it, such as `-o codec`.
impl<T> fmt::Display for TypedOption<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = match self.side {
            Side::Reader => "-i",
            Side::Writer => "-o",
        };
        write!(f, "{flag} {}", self.key)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use Side::Writer;

    const WORD: TypedOption<Option<u8>> =
        TypedOption::choice(Writer, "word", &[("one", Some(1)), ("two", Some(2))], "").without_default();
    const ROWS: TypedOption<u16> = TypedOption::integer(Writer, "rows", 1..=u64::MAX, "").or("7");
    const SIZE: TypedOption<Option<u64>> = TypedOption::size(Writer, "size", 1, "");
    const ON: TypedOption<bool> = TypedOption::flag(Writer, "on", true, "");
    const SET: TypedOption<Vec<String>> = TypedOption::list(Writer, "set", "");

    fn options(given: &[(&str, &str)]) -> Options {
        let specs = [WORD.spec(), ROWS.spec(), SIZE.spec(), ON.spec(), SET.spec()];
        Options::check(&specs, Writer, &crate::memory::pairs(given)).unwrap()
    }

    #[test]
    fn each_reads_what_was_given_or_its_default() {
        let defaults = options(&[]);
        assert_eq!((WORD.get(&defaults), ROWS.get(&defaults)), (Ok(None), Ok(7)));
        assert_eq!((SIZE.get(&defaults), ON.get(&defaults)), (Ok(None), Ok(true)));
        let given = options(&[("word", "two"), ("rows", "8"), ("size", "1KiB"), ("on", "false")]);
        assert_eq!((WORD.get(&given), ROWS.get(&given)), (Ok(Some(2)), Ok(8)));
        assert_eq!((SIZE.get(&given), ON.get(&given)), (Ok(Some(1024)), Ok(false)));
        assert_eq!(SET.get(&defaults), Ok(vec![]));
        assert_eq!(SET.get(&options(&[("set", "b"), ("set", "a")])).unwrap(), ["b", "a"]);
        // A host fills in defaults, but a test may pass no options.
        assert_eq!(ROWS.get(&Options::default()), Ok(7));
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let error = ROWS.get(&options(&[("rows", "0")])).unwrap_err().to_string();
        assert!(error.contains("option `rows`") && error.contains("at least 1"), "{error}");
        assert!(ROWS.get(&options(&[("rows", "65536")])).is_err());
        assert!(SIZE.get(&options(&[("size", "0B")])).is_err());
        assert_eq!(SIZE.to_string(), "-o size");
    }
}
