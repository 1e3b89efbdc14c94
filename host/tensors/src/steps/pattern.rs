//! A pattern selects tensors whose names match a regular expression, and derives new names from
//! these names. A template replaces every match, as in `rename:^bert/(.*)$,to=$1` or
//! `split:\.qkv\.,to=.q.,to=.k.,to=.v.`.
//!
//! Templates have the syntax of the `regex` crate: `$1`, `${1}` and `$name` refer to groups, and
//! `$$` is a dollar sign. Unlike in `regex`, a reference to a missing group is an error, not an
//! empty string. As in `regex`, the template `$1_x` refers to a group named `1_x`.

use super::regexes;
use super::selector::{Selection, Selector};
use super::signature::{CheckedSpec, Key};
use super::spec::Field;
use regex::{Captures, Regex};
use std::borrow::Cow;
use std::collections::HashSet;
use tensorferry_sdk::{Catalog, Error, Result, Tensor};

/// The key that restricts a step to tensors for which a tensor with a derived name also exists.
pub(super) const BESIDE: Key =
    Key::optional("beside", "TEMPLATE", "only if a tensor with this other name exists");

/// The name of both the regular expression's group that matches a part's number and the template
/// variable for that number.
pub(super) const INDEX: &str = "i";

/// The replacement for a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<TemplatePart>);

/// A component of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    /// A reference to a group of the regular expression, by the group's number.
    Group(usize),
    /// The number of a part.
    Index,
}

impl Template {
    /// Parses a template for a regular expression. If `numbers` is set, `$i` is the number of a
    /// part.
    pub(super) fn parse(field: &Field, regex: &Regex, numbers: bool) -> Result<Self> {
        let mut pieces: Vec<TemplatePart> = Vec::new();
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
                return Err(
                    field.error("expected a group number or name after $; write $$ for a dollar sign")
                );
            }
            let number = name.parse().ok().filter(|&number: &usize| number < regex.captures_len());
            let named = || regex.capture_names().position(|group| group == Some(name));
            pieces.push(match number.or_else(named) {
                Some(group) => TemplatePart::Group(group),
                None if numbers && name == INDEX => TemplatePart::Index,
                None => return Err(no_group(field, name)),
            });
            rest = after;
        }
        push_text(&mut pieces, rest);
        Ok(Self(pieces))
    }

    /// Returns whether the template contains the number of a part.
    pub(super) fn has_index(&self) -> bool {
        self.0.contains(&TemplatePart::Index)
    }

    fn expand(&self, captures: &Captures<'_>, number: usize) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                TemplatePart::Text(literal) => text.push_str(literal),
                TemplatePart::Group(group) => {
                    text.push_str(captures.get(*group).map_or("", |found| found.as_str()));
                }
                TemplatePart::Index => text.push_str(&number.to_string()),
            }
        }
        text
    }
}

fn push_text(pieces: &mut Vec<TemplatePart>, text: &str) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(TemplatePart::Text(last)) => last.push_str(text),
        _ => pieces.push(TemplatePart::Text(text.to_owned())),
    }
}

fn no_group(field: &Field, name: &str) -> Error {
    let digits = name.find(|c: char| !c.is_ascii_digit()).unwrap_or(name.len());
    let meant = match name.split_at(digits) {
        (number, rest) if !number.is_empty() && !rest.is_empty() => {
            format!("; use ${{{number}}}{rest} for group {number}")
        }
        _ => String::new(),
    };
    field.error(format!("the expression has no group {name:?}{meant}"))
}

/// A pattern that selects the tensors to which a step applies, and derives new names from their
/// names.
#[derive(Debug, Clone)]
pub(super) struct NamePattern {
    pub(super) regex: Regex,
    beside: Option<Template>,
    selector: Selector,
}

impl NamePattern {
    /// Reads a pattern from a spec, whose argument is the regular expression. The key `beside=` and
    /// the keys that select tensors restrict the pattern further.
    pub(super) fn of(spec: &CheckedSpec<'_>) -> Result<Self> {
        let regex = regexes::parse(spec.required_argument()?)?;
        let beside = spec.one("beside").map(|field| Template::parse(field, &regex, false)).transpose()?;
        Ok(Self { regex, beside, selector: Selector::of(spec, None)? })
    }

    /// Applies the pattern to a catalog.
    pub(super) fn on<'a>(&'a self, catalog: &'a Catalog) -> Result<Matches<'a>> {
        let names =
            self.beside.as_ref().map(|_| catalog.tensors().iter().map(|tensor| &*tensor.name).collect());
        Ok(Matches { pattern: self, selected: self.selector.on(catalog)?, names })
    }

    /// Returns a name in which every match is replaced.
    pub(super) fn rewrite(&self, name: &str, template: &Template, number: usize) -> String {
        match self.regex.replace_all(name, |captures: &Captures<'_>| template.expand(captures, number)) {
            Cow::Borrowed(same) => same.to_owned(),
            Cow::Owned(changed) => changed,
        }
    }
}

/// The tensors to which a pattern applies in a catalog.
pub(super) struct Matches<'a> {
    pattern: &'a NamePattern,
    selected: Selection<'a>,
    names: Option<HashSet<&'a str>>,
}

impl Matches<'_> {
    /// Returns whether the step applies to this tensor.
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
