//! A signature describes the argument and keys of a step, and contains their help. `ferry steps`
//! prints signatures, and every spec is checked against the signature of its step.

use super::spec::{Field, Spec};
use std::collections::HashSet;
use tensorferry_core::context::suggest::or_which;
use tensorferry_sdk::{Error, Result};

/// The argument and keys that a step accepts, with their help.
#[derive(Debug)]
pub struct Signature {
    /// The name of the step, in lowercase, with `_` between words.
    pub name: &'static str,
    /// The help text, in one line.
    pub summary: &'static str,
    /// Additional help, in lines of at most 100 characters.
    pub details: &'static str,
    /// The declaration of the argument after the colon in a spec.
    pub argument: ArgumentSpec,
    /// The keys of the step, apart from the [`SELECTOR_KEYS`].
    pub keys: &'static [Key],
    /// Whether the step also accepts the [`SELECTOR_KEYS`].
    pub selects: bool,
    /// Example specs.
    pub examples: &'static [&'static str],
}

/// The declaration of the argument after the colon in a spec.
#[derive(Debug, Clone, Copy)]
pub enum ArgumentSpec {
    None,
    /// An optional argument: the placeholder in the help, and the help text.
    Optional(&'static str, &'static str),
    /// A required argument: the placeholder in the help, and the help text.
    Required(&'static str, &'static str),
}

/// The declaration of a key of a step.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The word before the equals sign.
    pub name: &'static str,
    /// The placeholder for the value in the help.
    pub value: &'static str,
    /// How often the key may be specified.
    pub count: Occurrence,
    /// The help text, in one line.
    pub help: &'static str,
}

/// How often a key may be specified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occurrence {
    /// Exactly once.
    One,
    /// At most once.
    Optional,
    /// Any number of times.
    Any,
    /// At least once.
    Some,
}

/// The keys that select tensors. Most steps on tensors accept these keys. See `selector`.
pub const SELECTOR_KEYS: &[Key] = &[
    Key::any("where", "GLOB", "names that match; * matches any text, including dots and slashes"),
    Key::any("where_re", "REGEX", "names with a match; ^ and $ match the ends of the name"),
    Key::any("not", "GLOB", "names that do not match"),
    Key::any("not_re", "REGEX", "names without a match"),
    Key::any("dtype", "DTYPE", "this dtype, as shown by `ferry inspect`"),
    Key::any("rank", "N", "this number of dimensions"),
    Key::optional("min_size", "SIZE", "at least this many bytes, such as 4KiB"),
    Key::optional("max_size", "SIZE", "at most this many bytes"),
];

impl Key {
    const fn new(name: &'static str, value: &'static str, count: Occurrence, help: &'static str) -> Self {
        Self { name, value, count, help }
    }

    /// Returns a key that must be specified exactly once.
    pub const fn one(name: &'static str, value: &'static str, help: &'static str) -> Self {
        Self::new(name, value, Occurrence::One, help)
    }

    /// Returns a key that may be specified at most once.
    pub const fn optional(name: &'static str, value: &'static str, help: &'static str) -> Self {
        Self::new(name, value, Occurrence::Optional, help)
    }

    /// Returns a key that may be specified any number of times.
    pub const fn any(name: &'static str, value: &'static str, help: &'static str) -> Self {
        Self::new(name, value, Occurrence::Any, help)
    }

    /// Returns a key that must be specified at least once.
    pub const fn some(name: &'static str, value: &'static str, help: &'static str) -> Self {
        Self::new(name, value, Occurrence::Some, help)
    }
}

impl Signature {
    /// Iterates over all keys. The keys that select tensors are last.
    fn all_keys(&self) -> impl Iterator<Item = &'static Key> + Clone {
        self.keys.iter().chain(if self.selects { SELECTOR_KEYS } else { &[] })
    }
}

/// A spec that matches the signature of its step. All keys are known, and each key is specified an
/// allowed number of times.
#[derive(Debug, Clone, Copy)]
pub struct CheckedSpec<'a>(&'a Spec);

impl<'a> CheckedSpec<'a> {
    /// Checks a spec against a signature. An unknown, missing or repeated key is a usage error, and
    /// so is a missing or unexpected argument.
    pub fn new(spec: &'a Spec, signature: &Signature) -> Result<Self> {
        match (signature.argument, &spec.argument) {
            (ArgumentSpec::None, Some(argument)) => {
                return Err(argument.error(format!("{} takes nothing after a colon", signature.name)));
            }
            (ArgumentSpec::Required(word, what), None) => {
                return Err(Error::usage(format!("expected {}:{word}: {what}", signature.name)));
            }
            _ => {}
        }
        let mut seen = HashSet::new();
        for (name, value) in &spec.options {
            let Some(key) = signature.all_keys().find(|key| key.name == name) else {
                let which = or_which(name, signature.all_keys().map(|key| key.name));
                return Err(value.error(format!("{} has no key {name:?}{which}", signature.name)));
            };
            if !seen.insert(key.name) && matches!(key.count, Occurrence::One | Occurrence::Optional) {
                return Err(value.error(format!("{name}= is given twice")));
            }
        }
        let is_missing =
            |key: &&Key| matches!(key.count, Occurrence::One | Occurrence::Some) && !seen.contains(key.name);
        match signature.keys.iter().find(is_missing) {
            Some(key) => Err(Error::usage(format!("expected {}={}: {}", key.name, key.value, key.help))),
            None => Ok(Self(spec)),
        }
    }

    /// Returns the argument after the colon.
    #[must_use]
    pub fn argument(&self) -> Option<&'a Field> {
        self.0.argument.as_ref()
    }

    /// Returns the argument of a step whose signature requires an argument.
    pub fn required_argument(&self) -> Result<&'a Field> {
        self.argument().ok_or_else(|| Error::usage("expected an argument after a colon"))
    }

    /// Iterates over the values of a key, in order.
    pub fn all(&self, key: &'static str) -> impl Iterator<Item = &'a Field> {
        self.0.options.iter().filter(move |(name, _)| name == key).map(|(_, value)| value)
    }

    /// Returns the value of a key, if the key was specified.
    #[must_use]
    pub fn one(&self, key: &'static str) -> Option<&'a Field> {
        self.all(key).next()
    }

    /// Returns the value of a required key.
    pub fn required(&self, key: &'static str) -> Result<&'a Field> {
        self.one(key).ok_or_else(|| Error::usage(format!("expected {key}=")))
    }

    /// Returns the value of a key as a number, if the key was specified.
    pub fn number<T: std::str::FromStr>(&self, key: &'static str) -> Result<Option<T>> {
        self.one(key).map(Field::number).transpose()
    }

    /// Returns the value of a boolean key, or `default` if the key was not specified.
    pub fn is_true(&self, key: &'static str, default: bool) -> Result<bool> {
        self.one(key).map_or(Ok(default), |field| {
            let wrong = |_| field.error(format!("expected true or false, found {:?}", field.text));
            field.text.parse().map_err(wrong)
        })
    }
}
