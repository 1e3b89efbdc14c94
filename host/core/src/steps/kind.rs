//! A kind is what there is to know of a step of one name: its argument, its keys, how one is made of a
//! spec. `ferry steps` prints the kinds, and every spec is checked against its own.

use super::spec::{Field, Spec};
use super::{Action, cast, concat, metadata, permute, rename, reshape, select, selector, split, tie};
use crate::bridge::steps::CROSSING_KINDS;
use crate::context::suggest::or_which;
use crate::records::steps::RECORD_KINDS;
use std::collections::HashSet;
use tensorferry_sdk::{Error, Result};

/// Every kind of step on tensors.
static TENSOR_KINDS: &[&Kind] = &[
    &select::SELECT,
    &select::DROP,
    &rename::RENAME,
    &cast::CAST,
    &permute::TRANSPOSE,
    &permute::PERMUTE,
    &reshape::RESHAPE,
    &split::SPLIT,
    &concat::CONCAT,
    &split::UNSTACK,
    &concat::STACK,
    &tie::TIE,
    &tie::UNTIE,
    &metadata::SET_METADATA,
    &metadata::DROP_METADATA,
];

/// Every kind of step; recipes are not among them.
pub fn kinds() -> impl Iterator<Item = &'static Kind> + Clone {
    TENSOR_KINDS.iter().chain(RECORD_KINDS).chain(CROSSING_KINDS).copied()
}

/// What there is to know of a step of one name.
#[derive(Debug)]
pub struct Kind {
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
    /// Whether it also takes the keys that select tensors ([`selector::KEYS`]).
    pub selects: bool,
    /// Specs.
    pub examples: &'static [&'static str],
    /// Makes one of a spec that has been checked.
    pub make: fn(&Given<'_>) -> Result<Action>,
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

impl Kind {
    /// All keys, those that select tensors last.
    pub fn all_keys(&self) -> impl Iterator<Item = &'static Key> + Clone {
        self.keys.iter().chain(if self.selects { selector::KEYS } else { &[] })
    }
}

/// What a spec gives a step, each key known and there as often as it may be.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a>(&'a Spec);

impl<'a> Given<'a> {
    /// Checks a spec.
    ///
    /// # Errors
    /// Usage: a key that is unknown, missing, or there too often; an argument that is missing, or where
    /// none belongs.
    pub fn check(spec: &'a Spec, kind: &Kind) -> Result<Self> {
        match (kind.argument, &spec.argument) {
            (Argument::None, Some(argument)) => {
                return Err(argument.error(format!("{} takes nothing after a colon", kind.name)));
            }
            (Argument::Required(word, what), None) => {
                return Err(Error::usage(format!("expected {}:{word}: {what}", kind.name)));
            }
            _ => {}
        }
        let mut seen = HashSet::new();
        for (name, value) in &spec.options {
            let Some(key) = kind.all_keys().find(|key| key.name == name) else {
                let which = or_which(name, kind.all_keys().map(|key| key.name));
                return Err(value.error(format!("{} has no key {name:?}{which}", kind.name)));
            };
            if !seen.insert(key.name) && matches!(key.count, Count::One | Count::Optional) {
                return Err(value.error(format!("{name}= is there twice")));
            }
        }
        let is_missing =
            |key: &&Key| matches!(key.count, Count::One | Count::Some) && !seen.contains(key.name);
        match kind.keys.iter().find(is_missing) {
            Some(key) => Err(Error::usage(format!("expected {}={}: {}", key.name, key.value, key.help))),
            None => Ok(Self(spec)),
        }
    }

    /// What stands after the colon.
    #[must_use]
    pub fn argument(&self) -> Option<&'a Field> {
        self.0.argument.as_ref()
    }

    /// What stands after the colon of a kind that requires it.
    ///
    /// # Errors
    /// Usage, if nothing does.
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

    /// The keys and values of this spec that another step may take as they are.
    pub(super) fn selectors(&self) -> Vec<(String, Field)> {
        let selects = |name: &str| selector::KEYS.iter().any(|key| key.name == name);
        self.0.options.iter().filter(|(name, _)| selects(name)).cloned().collect()
    }
}

impl Field {
    /// The value as a number.
    ///
    /// # Errors
    /// Usage.
    pub fn number<T: std::str::FromStr>(&self) -> Result<T> {
        self.text.parse().map_err(|_| self.error(format!("expected a number, found {:?}", self.text)))
    }

    /// The value's numbers, between `x`, spaces, or semicolons.
    ///
    /// # Errors
    /// Usage.
    pub fn numbers(&self) -> Result<Vec<u64>> {
        let words = self.text.split(['x', ' ', ';']).filter(|word| !word.is_empty());
        let number = |word: &str| word.parse().ok();
        let numbers: Option<Vec<u64>> = words.map(number).collect();
        numbers.ok_or_else(|| self.error(format!("expected numbers such as 8x4, found {:?}", self.text)))
    }
}
