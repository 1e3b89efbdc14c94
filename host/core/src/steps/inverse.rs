//! The inverse of a pattern: the expression that finds the names which it makes, and the templates that
//! lead back. There is one where the expression is made of texts and groups alone, between `^` and `$` if
//! it has them, and each group is once in the template.
//!
//! It undoes what was changed. A name that the pattern left alone may look like one that it made: nobody
//! can tell these apart by their names.

use super::pattern::{INDEX, Pattern, Piece, Template};
use regex_syntax::ast::{AssertionKind, Ast, GroupKind, parse::Parser};
use std::collections::HashMap;
use tensorferry_sdk::{Error, Result};

/// A part of an expression that can be turned.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Start,
    End,
    Text(String),
    /// A group, by its number, with its parentheses.
    Group(usize, String),
}

/// A pattern that goes the other way.
#[derive(Debug)]
pub(super) struct Turned {
    /// Finds what the pattern makes.
    pub(super) regex: String,
    /// The groups of the pattern by their numbers, and their numbers in `regex`.
    groups: HashMap<usize, usize>,
    parts: Vec<Part>,
}

impl Turned {
    /// Turns a pattern with the template of what it makes. A group called `i` that the template does not
    /// have is the number of a part.
    ///
    /// # Errors
    /// Usage, with the reason, where there is no inverse.
    pub(super) fn of(pattern: &Pattern, to: &Template) -> Result<Self> {
        let parts = parts(&pattern.source.text)?;
        let sources: HashMap<usize, &str> = parts
            .iter()
            .filter_map(|part| {
                if let Part::Group(number, source) = part { Some((*number, source.as_str())) } else { None }
            })
            .collect();
        let mut groups = HashMap::new();
        let mut regex = String::new();
        let mut numbers = 0..;
        let mut next = || numbers.next().unwrap_or(0) + 1;
        if parts.first() == Some(&Part::Start) {
            regex.push('^');
        }
        for piece in &to.0 {
            match piece {
                Piece::Text(text) => regex.push_str(&regex_syntax::escape(text)),
                Piece::Group(group) => {
                    let source =
                        sources.get(group).ok_or_else(|| none("its template has all of the match"))?;
                    if groups.insert(*group, next()).is_some() {
                        return Err(none("its template has a group twice"));
                    }
                    regex.push_str(source);
                }
                Piece::Index => {
                    next();
                    regex.push_str("(?<i>[0-9]+)");
                }
            }
        }
        if parts.last() == Some(&Part::End) {
            regex.push('$');
        }
        let index = pattern.regex.capture_names().position(|name| name == Some(INDEX));
        if sources.keys().any(|group| !groups.contains_key(group) && Some(*group) != index) {
            return Err(none("its template leaves a group of the expression out"));
        }
        Ok(Self { regex, groups, parts })
    }

    /// The template that makes the match again.
    pub(super) fn back(&self) -> String {
        let piece = |part: &Part| match part {
            Part::Start | Part::End => String::new(),
            Part::Text(text) => text.replace('$', "$$"),
            Part::Group(group, _) => match self.groups.get(group) {
                Some(number) => format!("${{{number}}}"),
                None => format!("${{{INDEX}}}"),
            },
        };
        self.parts.iter().map(piece).collect()
    }

    /// Another template of the pattern, in the groups of the turned expression.
    ///
    /// # Errors
    /// Usage, where it has a group that the turned expression has not.
    pub(super) fn template(&self, template: &Template) -> Result<String> {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => Ok(text.replace('$', "$$")),
            Piece::Index => Ok(format!("${{{INDEX}}}")),
            Piece::Group(group) => {
                let number = self.groups.get(group).map(|number| format!("${{{number}}}"));
                number.ok_or_else(|| none("a template has a group that another one leaves out"))
            }
        };
        template.0.iter().map(piece).collect()
    }
}

/// That there is no inverse, and why.
pub(super) fn none(why: &str) -> Error {
    Error::usage(format!("it has no inverse: {why}"))
}

fn parts(expression: &str) -> Result<Vec<Part>> {
    let ast = Parser::new().parse(expression).map_err(|error| Error::usage(error.kind().to_string()))?;
    let asts = match &ast {
        Ast::Concat(concat) => &concat.asts[..],
        one => std::slice::from_ref(one),
    };
    let last = asts.len() - 1;
    let mut parts: Vec<Part> = Vec::new();
    for (place, ast) in asts.iter().enumerate() {
        match (ast, parts.last_mut()) {
            (Ast::Empty(_), _) => {}
            (Ast::Assertion(assertion), _) => parts.push(match assertion.kind {
                AssertionKind::StartLine | AssertionKind::StartText if place == 0 => Part::Start,
                AssertionKind::EndLine | AssertionKind::EndText if place == last => Part::End,
                _ => return Err(none("its expression has ^, $ or \\b within")),
            }),
            (Ast::Literal(literal), Some(Part::Text(text))) => text.push(literal.c),
            (Ast::Literal(literal), _) => parts.push(Part::Text(literal.c.to_string())),
            (Ast::Group(group), _) => {
                let number = match &group.kind {
                    GroupKind::CaptureIndex(number) => *number,
                    GroupKind::CaptureName { name, .. } => name.index,
                    GroupKind::NonCapturing(_) => {
                        return Err(none("its expression has a group that is not kept"));
                    }
                };
                let source = &expression[group.span.start.offset..group.span.end.offset];
                let inner = regex::Regex::new(source).map(|inner| inner.captures_len());
                if inner.is_ok_and(|groups| groups != 2) {
                    return Err(none("its expression has groups in groups"));
                }
                parts.push(Part::Group(number as usize, source.to_owned()));
            }
            _ => return Err(none("its expression matches more than one text outside of its groups")),
        }
    }
    Ok(parts)
}
