//! A pattern finds tensors by an expression, and makes other names of theirs: every match is replaced by
//! what a template says (`rename:^bert/(.*)$,to=$1`, `split:\.qkv\.,to=.q.,to=.k.,to=.v.`).
//!
//! A template is that of the `regex` crate: `$1`, `${1}` and `$name` are groups, `$$` is a dollar. A group
//! that is not there is a mistake here, and not an empty text: `$1_x` names a group called `1_x`.

use super::inverse::{Turned, none};
use super::kind::{Count, Given, Key};
use super::selector::{On, Selector};
use super::spec::{Field, Spec};
use regex::{Captures, Regex, RegexBuilder};
use std::borrow::Cow;
use std::collections::HashSet;
use tensorferry_sdk::{Catalog, Error, Result, Tensor};

/// The key that asks for another tensor.
pub(super) const BESIDE: Key = Key {
    name: "beside",
    value: "TEMPLATE",
    count: Count::Optional,
    help: "only where there is a tensor of the name that this makes",
};

/// The group, or the word of a template, that is a part's number.
pub(super) const INDEX: &str = "i";

/// An expression, checked.
///
/// # Errors
/// Usage, with the letter at which it goes wrong.
pub(super) fn regex(field: &Field) -> Result<Regex> {
    if let Err(error) = regex_syntax::ast::parse::Parser::new().parse(&field.text) {
        let letter = error.span().start.offset + 1;
        return Err(
            field.error(format!("not a regular expression: {}, at letter {letter} of it", error.kind()))
        );
    }
    let built = RegexBuilder::new(&field.text).size_limit(1 << 20).build();
    built.map_err(|error| {
        let error = error.to_string();
        let last = error.lines().last().unwrap_or_default();
        field.error(format!(
            "not a regular expression that can be used: {}",
            last.trim_start_matches("error: ")
        ))
    })
}

/// What takes the place of a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(pub(super) Vec<Piece>);

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// A group of the expression, by its number.
    Group(usize),
    /// The number of a part.
    Index,
}

impl Template {
    /// Reads a template for an expression. `numbers`: `$i` is the number of a part.
    ///
    /// # Errors
    /// Usage: a group that the expression does not have, a dollar that means nothing.
    pub(super) fn parse(field: &Field, regex: &Regex, numbers: bool) -> Result<Self> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut rest = field.text.as_str();
        while let Some(at) = rest.find('$') {
            push_text(&mut pieces, &rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                push_text(&mut pieces, "$");
                rest = after;
                continue;
            }
            let (name, after) = match rest.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
                Some(found) => found,
                None => {
                    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                    rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()))
                }
            };
            if name.is_empty() {
                return Err(field.error("expected a group's number or name after $; a dollar itself is $$"));
            }
            let number = name.parse().ok().filter(|&number: &usize| number < regex.captures_len());
            let named = || regex.capture_names().position(|group| group == Some(name));
            pieces.push(match number.or_else(named) {
                Some(group) => Piece::Group(group),
                None if numbers && name == INDEX => Piece::Index,
                None => return Err(no_group(field, name)),
            });
            rest = after;
        }
        push_text(&mut pieces, rest);
        Ok(Self(pieces))
    }

    fn expand(&self, captures: &Captures<'_>, number: usize) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(literal) => text.push_str(literal),
                Piece::Group(group) => text.push_str(captures.get(*group).map_or("", |found| found.as_str())),
                Piece::Index => text.push_str(&number.to_string()),
            }
        }
        text
    }
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Text(last)) => last.push_str(text),
        _ => pieces.push(Piece::Text(text.to_owned())),
    }
}

fn no_group(field: &Field, name: &str) -> Error {
    let digits = name.find(|c: char| !c.is_ascii_digit()).unwrap_or(name.len());
    let meant = match name.split_at(digits) {
        (number, rest) if !number.is_empty() && !rest.is_empty() => {
            format!("; ${{{number}}}{rest}, if group {number} is meant")
        }
        _ => String::new(),
    };
    field.error(format!("the expression has no group {name:?}{meant}"))
}

/// Which tensors a step is about, and how their names lead to others.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    /// The expression, as it was given.
    pub(super) source: Field,
    pub(super) regex: Regex,
    pub(super) beside: Option<Template>,
    selector: Selector,
    selectors: Vec<(String, Field)>,
}

impl Pattern {
    /// The argument is the expression; `beside=` and the keys that select tensors narrow it.
    ///
    /// # Errors
    /// Usage.
    pub(super) fn of(given: &Given<'_>) -> Result<Self> {
        let source = given.required_argument()?.clone();
        let regex = regex(&source)?;
        let beside = given.one("beside").map(|field| Template::parse(field, &regex, false)).transpose()?;
        Ok(Self { source, regex, beside, selector: Selector::of(given, None)?, selectors: given.selectors() })
    }

    /// The pattern on a catalog.
    ///
    /// # Errors
    /// As [`Selector::on`].
    pub(super) fn on<'a>(&'a self, catalog: &'a Catalog) -> Result<Found<'a>> {
        let names =
            self.beside.as_ref().map(|_| catalog.tensors().iter().map(|tensor| &*tensor.name).collect());
        Ok(Found { pattern: self, selected: self.selector.on(catalog)?, names })
    }

    /// A step that finds what this pattern and its template make: with what it takes for its argument, and
    /// those keys that select the same tensors before and after (`same`).
    ///
    /// # Errors
    /// Usage, where a key selects tensors by what the step changes.
    pub(super) fn turned(&self, name: &str, turned: &Turned, same: &[&str]) -> Result<Spec> {
        let mut spec = Spec::new(name).argument(&turned.regex);
        for (key, value) in &self.selectors {
            if !same.contains(&key.as_str()) {
                return Err(none(&format!("{key}= is about tensors as they are before it")));
            }
            spec.options.push((key.clone(), value.clone()));
        }
        match &self.beside {
            Some(beside) => Ok(spec.option("beside", turned.template(beside)?)),
            None => Ok(spec),
        }
    }

    /// A name with every match replaced.
    pub(super) fn rewrite(&self, name: &str, template: &Template, number: usize) -> String {
        match self.regex.replace_all(name, |captures: &Captures<'_>| template.expand(captures, number)) {
            Cow::Borrowed(same) => same.to_owned(),
            Cow::Owned(changed) => changed,
        }
    }
}

/// A pattern on a catalog.
pub(super) struct Found<'a> {
    pattern: &'a Pattern,
    selected: On<'a>,
    names: Option<HashSet<&'a str>>,
}

impl Found<'_> {
    /// Whether the step is about this tensor.
    pub(super) fn has(&self, tensor: &Tensor) -> bool {
        let Self { pattern, selected, names } = self;
        pattern.regex.is_match(&tensor.name)
            && selected.has(tensor)
            && match (&pattern.beside, names) {
                (Some(beside), Some(names)) => names.contains(&*pattern.rewrite(&tensor.name, beside, 0)),
                _ => true,
            }
    }
}
