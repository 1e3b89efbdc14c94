//! A pattern finds tensors by an expression, and makes other names of theirs: every match is replaced by
//! what a template says (`rename:^bert/(.*)$,to=$1`, `split:\.qkv\.,to=.q.,to=.k.,to=.v.`).
//!
//! A template is that of the `regex` crate: `$1`, `${1}` and `$name` are groups, `$$` is a dollar. A group
//! that is not there is a mistake here, and not an empty text: `$1_x` names a group called `1_x`.

use super::regexes;
use super::selector::{Selection, Selector};
use super::signature::{CheckedSpec, Key};
use super::spec::Field;
use regex::{Captures, Regex};
use std::borrow::Cow;
use std::collections::HashSet;
use tensorferry_sdk::{Catalog, Error, Result, Tensor};

/// The key that asks for another tensor.
pub(super) const BESIDE: Key =
    Key::optional("beside", "TEMPLATE", "only where there is a tensor of the name that this makes");

/// The group, or the word of a template, that is a part's number.
pub(super) const INDEX: &str = "i";

/// What takes the place of a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<TemplatePart>);

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    /// A group of the expression, by its number.
    Group(usize),
    /// The number of a part.
    Index,
}

impl Template {
    /// Reads a template for an expression. `numbers`: `$i` is the number of a part.
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
                return Err(field.error("expected a group's number or name after $; a dollar itself is $$"));
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

    /// Whether the number of a part is in it.
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
            format!("; ${{{number}}}{rest}, if group {number} is meant")
        }
        _ => String::new(),
    };
    field.error(format!("the expression has no group {name:?}{meant}"))
}

/// Which tensors a step is about, and how their names lead to others.
#[derive(Debug, Clone)]
pub(super) struct NamePattern {
    pub(super) regex: Regex,
    beside: Option<Template>,
    selector: Selector,
}

impl NamePattern {
    /// The argument is the expression; `beside=` and the keys that select tensors narrow it.
    pub(super) fn of(spec: &CheckedSpec<'_>) -> Result<Self> {
        let regex = regexes::parse(spec.required_argument()?)?;
        let beside = spec.one("beside").map(|field| Template::parse(field, &regex, false)).transpose()?;
        Ok(Self { regex, beside, selector: Selector::of(spec, None)? })
    }

    /// The pattern on a catalog.
    pub(super) fn on<'a>(&'a self, catalog: &'a Catalog) -> Result<Matches<'a>> {
        let names =
            self.beside.as_ref().map(|_| catalog.tensors().iter().map(|tensor| &*tensor.name).collect());
        Ok(Matches { pattern: self, selected: self.selector.on(catalog)?, names })
    }

    /// A name with every match replaced.
    pub(super) fn rewrite(&self, name: &str, template: &Template, number: usize) -> String {
        match self.regex.replace_all(name, |captures: &Captures<'_>| template.expand(captures, number)) {
            Cow::Borrowed(same) => same.to_owned(),
            Cow::Owned(changed) => changed,
        }
    }
}

/// The tensors of a catalog that a pattern is about.
pub(super) struct Matches<'a> {
    pattern: &'a NamePattern,
    selected: Selection<'a>,
    names: Option<HashSet<&'a str>>,
}

impl Matches<'_> {
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
