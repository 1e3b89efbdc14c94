//! Parses regular expressions from users. Syntax errors contain the position in the expression.

use super::spec::Field;
use regex::{Regex, RegexBuilder};
use tensorferry_sdk::Result;

pub(super) fn parse(field: &Field) -> Result<Regex> {
    if let Err(error) = regex_syntax::ast::parse::Parser::new().parse(&field.text) {
        let letter = error.span().start.offset + 1;
        return Err(field.error(format!("not a regular expression: {}, at character {letter}", error.kind())));
    }
    let built = RegexBuilder::new(&field.text).size_limit(1 << 20).build();
    built.map_err(|error| {
        let error = error.to_string();
        let last = error.lines().last().unwrap_or_default();
        field.error(format!("not a usable regular expression: {}", last.trim_start_matches("error: ")))
    })
}
