//! A signature says what a step of one name may be given: its argument, its keys, and the help for them.
//! `ferry steps` prints signatures, and every spec is checked against its own.

use super::spec::{Field, Spec};
use std::collections::HashSet;
use tensorferry_core::context::suggest::or_which;
use tensorferry_sdk::{Error, Result};

/// What a step of one name may be given.
#[derive(Debug)]
pub struct Signature {
    /// Its name: lower case, `_` between words.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// What else a user should know, in lines of at most 100 letters.
    pub details: &'static str,
    /// What may stand after the colon.
    pub argument: Argument,
    /// Its own keys.
    pub keys: &'static [Key],
    /// Whether it also takes the [`SELECTOR_KEYS`].
    pub selects: bool,
    /// Specs.
    pub examples: &'static [&'static str],
}

/// What may stand after the colon.
#[derive(Debug, Clone, Copy)]
pub enum Argument {
    /// Nothing.
    None,
    /// Something, or nothing: a word for it, and what it means.
    Optional(&'static str, &'static str),
    /// Something.
    Required(&'static str, &'static str),
}

/// A key that a step takes.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The word before the equals sign.
    pub name: &'static str,
    /// A word for what stands after it.
    pub value: &'static str,
    /// How often.
    pub count: Count,
    /// What it means, in one line.
    pub help: &'static str,
}

/// How often a key may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// Once.
    One,
    /// Once, or not at all.
    Optional,
    /// As often as one likes.
    Any,
    /// At least once.
    Some,
}

/// The keys that select tensors; most steps on tensors take them. See `selector`.
pub const SELECTOR_KEYS: &[Key] = &[
    Key::any("where", "GLOB", "names that match; * is any run of letters, dots and slashes too"),
    Key::any("where_re", "REGEX", "names in which it is found; ^ and $ are the name's ends"),
    Key::any("not", "GLOB", "no names that match"),
    Key::any("not_re", "REGEX", "no names in which it is found"),
    Key::any("dtype", "DTYPE", "of this dtype, as `ferry inspect` shows it"),
    Key::any("rank", "N", "with so many dimensions"),
    Key::optional("min_size", "SIZE", "at least so many bytes, such as 4KiB"),
    Key::optional("max_size", "SIZE", "at most so many bytes"),
];

impl Key {
    const fn new(name: &'static str, value: &'static str, count: Count, help: &'static str) -> Self {
        Self { name, value, count, help }
    }

    /// A key that has to be given, once.
    pub const fn one(name: &'static str, value: &'static str, help: &'static str) -> Self {
        Self::new(name, value, Count::One, help)
    }

    /// A key that may be given once.
    pub const fn optional(name: &'static str, value: &'static str, help: &'static str) -> Self {
        Self::new(name, value, Count::Optional, help)
    }

    /// A key that may be given as often as one likes.
    pub const fn any(name: &'static str, value: &'static str, help: &'static str) -> Self {
        Self::new(name, value, Count::Any, help)
    }

    /// A key that has to be given, once or more.
    pub const fn some(name: &'static str, value: &'static str, help: &'static str) -> Self {
        Self::new(name, value, Count::Some, help)
    }
}

impl Signature {
    /// All keys, those that select tensors last.
    fn all_keys(&self) -> impl Iterator<Item = &'static Key> + Clone {
        self.keys.iter().chain(if self.selects { SELECTOR_KEYS } else { &[] })
    }
}

/// A spec that fits its step's signature: each key is known, and is there as often as it may be.
#[derive(Debug, Clone, Copy)]
pub struct CheckedSpec<'a>(&'a Spec);

impl<'a> CheckedSpec<'a> {
    /// Checks a spec.
    ///
    /// # Errors
    /// Usage: a key that is unknown, missing, or there too often; an argument that is missing, or where
    /// none belongs.
    pub fn new(spec: &'a Spec, signature: &Signature) -> Result<Self> {
        match (signature.argument, &spec.argument) {
            (Argument::None, Some(argument)) => {
                return Err(argument.error(format!("{} takes nothing after a colon", signature.name)));
            }
            (Argument::Required(word, what), None) => {
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
            if !seen.insert(key.name) && matches!(key.count, Count::One | Count::Optional) {
                return Err(value.error(format!("{name}= is there twice")));
            }
        }
        let is_missing =
            |key: &&Key| matches!(key.count, Count::One | Count::Some) && !seen.contains(key.name);
        match signature.keys.iter().find(is_missing) {
            Some(key) => Err(Error::usage(format!("expected {}={}: {}", key.name, key.value, key.help))),
            None => Ok(Self(spec)),
        }
    }

    /// What stands after the colon.
    #[must_use]
    pub fn argument(&self) -> Option<&'a Field> {
        self.0.argument.as_ref()
    }

    /// What stands after the colon of a step that requires it.
    pub fn required_argument(&self) -> Result<&'a Field> {
        self.argument().ok_or_else(|| Error::usage("expected an argument after a colon"))
    }

    /// The values of a key, in order.
    pub fn all(&self, key: &'static str) -> impl Iterator<Item = &'a Field> {
        self.0.options.iter().filter(move |(name, _)| name == key).map(|(_, value)| value)
    }

    /// The value of a key, if it is there.
    #[must_use]
    pub fn one(&self, key: &'static str) -> Option<&'a Field> {
        self.all(key).next()
    }

    /// The value of a key that is required.
    ///
    /// # Errors
    /// Usage, if it is not there.
    pub fn required(&self, key: &'static str) -> Result<&'a Field> {
        self.one(key).ok_or_else(|| Error::usage(format!("expected {key}=")))
    }

    /// The number that a key has, if it is there.
    ///
    /// # Errors
    /// Usage.
    pub fn number<T: std::str::FromStr>(&self, key: &'static str) -> Result<Option<T>> {
        self.one(key).map(Field::number).transpose()
    }

    /// Whether a key says true; `default` where it is not there.
    ///
    /// # Errors
    /// Usage.
    pub fn is_true(&self, key: &'static str, default: bool) -> Result<bool> {
        self.one(key).map_or(Ok(default), |field| {
            let wrong = |_| field.error(format!("expected true or false, found {:?}", field.text));
            field.text.parse().map_err(wrong)
        })
    }
}
