//! Options are the settings of a format's reader (`-i`) and writer (`-o`). A format declares its
//! options, and the host checks the user's values against the declarations.

use crate::{Error, Result};
use std::collections::BTreeMap;

/// The side of a format that uses an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The reader, whose options are passed with `-i`.
    Reader,
    /// The writer, whose options are passed with `-o`.
    Writer,
}

/// The values that an option accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionKind {
    /// Any string.
    Text,
    /// `true` or `false`.
    Bool,
    /// A non-negative integer.
    Integer,
    /// A number of bytes, such as `500`, `64KiB` or `5GB`. Units such as GB are decimal, as in
    /// tools for the Hugging Face Hub.
    Size,
    /// One of the listed words.
    Choice(Vec<String>),
    /// A path to another input, for [`Context::open`](crate::Context::open).
    Source,
    /// A list of strings. The user may pass the option several times.
    List,
}

/// An option that a format declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionSpec {
    /// Side that uses the option: the reader or the writer.
    pub side: Side,
    /// Key of the option, which is the word before `=`.
    pub key: String,
    /// Kind of the value after `=`.
    pub kind: OptionKind,
    /// Default value, or `None` if there is none.
    pub default: Option<String>,
    /// One line of help for `ferry formats`.
    pub help: String,
}

impl OptionSpec {
    /// Creates the declaration of a reader option.
    #[must_use]
    pub fn reader(key: &str, kind: OptionKind, default: Option<&str>, help: &str) -> Self {
        Self {
            side: Side::Reader,
            key: key.to_owned(),
            kind,
            default: default.map(str::to_owned),
            help: help.to_owned(),
        }
    }

    /// Creates the declaration of a writer option.
    #[must_use]
    pub fn writer(key: &str, kind: OptionKind, default: Option<&str>, help: &str) -> Self {
        Self { side: Side::Writer, ..Self::reader(key, kind, default, help) }
    }

    /// Returns the value in the spelling that the format declares. Users may write words in upper
    /// or lower case.
    fn normalized(&self, value: &str) -> Result<String> {
        let as_given = || Ok(value.to_owned());
        let expected = match &self.kind {
            OptionKind::Text | OptionKind::Source | OptionKind::List => return as_given(),
            OptionKind::Bool => match word_of(&["true", "false"], value) {
                Some(word) => return Ok(word.to_owned()),
                None => "true or false".to_owned(),
            },
            OptionKind::Integer if value.parse::<u64>().is_ok() => return as_given(),
            OptionKind::Integer => "a whole number".to_owned(),
            OptionKind::Size if parse_size(value).is_some() => return as_given(),
            OptionKind::Size => "a size such as 500MB or 2GiB".to_owned(),
            OptionKind::Choice(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                match word_of(&words, value) {
                    Some(word) => return Ok(word.to_owned()),
                    None => format!("one of {}", words.join(", ")),
                }
            }
        };
        Err(Error::usage(format!("invalid value {value:?} for option `{}`: expected {expected}", self.key)))
    }
}

/// Returns the word that is equal to `value`. Otherwise, returns the first word that differs only
/// in case.
fn word_of<'a>(words: &[&'a str], value: &str) -> Option<&'a str> {
    let is_same = |word: &&&str| word.eq_ignore_ascii_case(value);
    words.iter().find(|word| **word == value).or_else(|| words.iter().find(is_same)).copied()
}

/// Parses a size such as `500`, `64KiB` or `5GB`. Decimal units are powers of 1000, as in
/// `max_shard_size="5GB"` of the Hugging Face libraries. Units with an `i` are powers of 1024.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit: u64 = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// The checked options of one side, with defaults filled in. An option of kind list may have
/// several values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<String, Vec<String>>);

impl Options {
    /// Checks the user's options against the options that the format declares for `side`.
    ///
    /// # Errors
    /// Returns a usage error for an unknown key, a key of the other side, or a value that does not
    /// match the kind of the option. Also returns a usage error if a key that is not a
    /// [list](OptionKind::List) is passed twice.
    pub fn check(specs: &[OptionSpec], side: Side, given: &[(String, String)]) -> Result<Self> {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, value) in given {
            let spec = specs.iter().find(|spec| spec.side == side && &spec.key == key);
            let spec = spec.ok_or_else(|| unknown(specs, side, key))?;
            let value = spec.normalized(value)?;
            let values = values.entry(key.clone()).or_default();
            if !values.is_empty() && spec.kind != OptionKind::List {
                let first = &values[0];
                return Err(Error::usage(format!("option `{key}` is given twice: {first:?} and {value:?}")));
            }
            values.push(value);
        }
        for spec in specs.iter().filter(|spec| spec.side == side) {
            if let Some(default) = &spec.default {
                values.entry(spec.key.clone()).or_insert_with(|| vec![default.clone()]);
            }
        }
        Ok(Self(values))
    }

    /// Creates options from values that have already been checked.
    pub(crate) fn from_checked(values: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut options = Self::default();
        values.into_iter().for_each(|(key, value)| options.0.entry(key).or_default().push(value));
        options
    }

    /// Returns the default options of one side, for unit tests.
    #[must_use]
    pub fn defaults(specs: &[OptionSpec], side: Side) -> Self {
        Self::check(specs, side, &[]).unwrap_or_default()
    }

    /// Returns the value of an option as a string. For a list, returns the first string.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.texts(key).next()
    }

    /// Iterates over the strings of an option of kind [`OptionKind::List`], in the order in which
    /// the user passed them.
    pub fn texts(&self, key: &str) -> impl Iterator<Item = &str> {
        self.0.get(key).into_iter().flatten().map(String::as_str)
    }

    /// Returns whether an option of kind [`OptionKind::Bool`] is true.
    #[must_use]
    pub fn is_true(&self, key: &str) -> bool {
        self.text(key) == Some("true")
    }

    /// Returns the value of an option of kind [`OptionKind::Integer`].
    #[must_use]
    pub fn integer(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok()
    }

    /// Returns the value of an option of kind [`OptionKind::Size`] in bytes.
    #[must_use]
    pub fn size(&self, key: &str) -> Option<u64> {
        parse_size(self.text(key)?)
    }

    /// Iterates over all options as pairs of a key and a string, sorted by key. The key of a list
    /// is repeated for each of its strings.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|(key, values)| values.iter().map(|value| (key.as_str(), value.as_str())))
    }
}

fn unknown(specs: &[OptionSpec], side: Side, key: &str) -> Error {
    let (flag, other) = match side {
        Side::Reader => ("-i", "-o"),
        Side::Writer => ("-o", "-i"),
    };
    if specs.iter().any(|spec| spec.key == key) {
        return Error::usage(format!("{flag} does not take option `{key}`"))
            .hint(format!("pass {other} {key}=..."));
    }
    let known: Vec<&str> = specs.iter().filter(|s| s.side == side).map(|s| s.key.as_str()).collect();
    let expected = if known.is_empty() { "no option".to_owned() } else { known.join(", ") };
    Error::usage(format!("unknown option {flag} {key}: expected {expected}"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn sizes_are_decimal_or_binary() {
        assert_eq!(parse_size("5GB"), Some(5_000_000_000));
        assert_eq!(parse_size("64KiB"), Some(65536));
        assert_eq!(parse_size("12"), Some(12));
        assert_eq!(parse_size("GB"), None);
        assert_eq!(parse_size("99999999999TB"), None);
    }

    #[test]
    fn an_option_of_the_other_side_is_named() {
        let specs = [OptionSpec::writer("max", OptionKind::Size, Some("5GB"), "")];
        let given = [("max".to_owned(), "1MB".to_owned())];
        let error = Options::check(&specs, Side::Reader, &given).unwrap_err();
        assert!(error.details().any(|(name, text)| name == "hint" && text.contains("-o max=")), "{error}");
        assert_eq!(Options::check(&specs, Side::Writer, &given).unwrap().size("max"), Some(1_000_000));
        assert_eq!(Options::defaults(&specs, Side::Writer).size("max"), Some(5_000_000_000));
    }

    #[test]
    fn the_case_of_words_does_not_matter() {
        let choice = OptionKind::Choice(vec!["q4_0".to_owned(), "K".to_owned(), "k".to_owned()]);
        let specs = [
            OptionSpec::writer("type", choice, None, ""),
            OptionSpec::writer("tied", OptionKind::Bool, None, ""),
        ];
        let check = |key: &str, value: &str| {
            Options::check(&specs, Side::Writer, &[(key.to_owned(), value.to_owned())])
                .map(|options| options.text(key).map(str::to_owned))
        };
        assert_eq!(check("type", "Q4_0").unwrap().as_deref(), Some("q4_0"));
        assert_eq!(check("type", "k").unwrap().as_deref(), Some("k"));
        assert_eq!(check("tied", "True").unwrap().as_deref(), Some("true"));
        assert!(check("type", "q4_1").is_err() && check("tied", "yes").is_err());
    }

    #[test]
    fn a_list_alone_may_be_given_more_than_once() {
        let specs = [
            OptionSpec::writer("set", OptionKind::List, None, ""),
            OptionSpec::writer("name", OptionKind::Text, None, ""),
        ];
        let check =
            |given: &[(&str, &str)]| Options::check(&specs, Side::Writer, &crate::memory::pairs(given));
        let options = check(&[("set", "b=1"), ("name", "x"), ("set", "a=2")]).unwrap();
        assert_eq!(options.texts("set").collect::<Vec<_>>(), ["b=1", "a=2"]);
        assert_eq!(options.iter().collect::<Vec<_>>(), [("name", "x"), ("set", "b=1"), ("set", "a=2")]);
        let crossed = options.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(Options::from_checked(crossed), options);
        let error = check(&[("name", "x"), ("name", "y")]).unwrap_err().to_string();
        assert!(error.contains("`name` is given twice") && error.contains("\"y\""), "{error}");
    }
}
