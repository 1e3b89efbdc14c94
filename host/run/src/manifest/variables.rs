//! Replaces variables in the strings of a manifest. `${NAME}` is replaced by the value of the
//! variable, and `$${` is replaced by `${`.
//!
//! `$1` and `${1}` are not replaced, because regular expressions use them.

use super::mistakes::{Mistakes, suggest};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The values of variables. Values from the command line take precedence over the environment, and
/// the environment takes precedence over the manifest.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    given: BTreeMap<String, String>,
    environment: BTreeMap<String, String>,
    own: BTreeMap<String, String>,
}

impl Variables {
    /// Collects the variables from `--var` and the process's environment.
    #[must_use]
    pub fn new(given: impl IntoIterator<Item = (String, String)>) -> Self {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self { given: given.into_iter().collect(), environment: environment.collect(), own: BTreeMap::new() }
    }

    /// Adds the default values that the manifest contains.
    pub(super) fn with_own(&self, own: BTreeMap<String, String>) -> Self {
        Self { own, ..self.clone() }
    }

    fn get(&self, name: &str) -> Option<&str> {
        [&self.given, &self.environment, &self.own]
            .into_iter()
            .find_map(|of| of.get(name))
            .map(String::as_str)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.given.keys().chain(self.own.keys()).map(String::as_str)
    }

    /// Replaces variables in all strings of a document. If the manifest does not use a variable
    /// from the command line, reports a mistake.
    pub(super) fn expand_document(&self, table: &mut DeTable<'_>, mistakes: &mut Mistakes) {
        let mut used = BTreeSet::new();
        self.expand_table(table, &mut used, mistakes);
        let known = || used.iter().chain(self.own.keys()).map(String::as_str);
        for name in self.given.keys().filter(|&name| !known().any(|known| known == name)) {
            let message = format!("--var {name}: the manifest does not use this variable");
            mistakes.add(&(0..0), message, suggest(name, known()));
        }
    }

    fn expand_table(&self, table: &mut DeTable<'_>, used: &mut BTreeSet<String>, mistakes: &mut Mistakes) {
        let keys: Vec<_> = table.keys().cloned().collect();
        for key in keys {
            if let Some(value) = table.get_mut(&key) {
                self.expand_value(value, used, mistakes);
            }
        }
    }

    fn expand_value(
        &self,
        value: &mut Spanned<DeValue<'_>>,
        used: &mut BTreeSet<String>,
        mistakes: &mut Mistakes,
    ) {
        let span = value.span();
        match value.get_mut() {
            DeValue::String(text) if text.contains("${") => {
                let (expanded, unknown) = self.expand(text, used);
                for name in unknown {
                    let suggestion = match suggest(&name, self.names()) {
                        Some(close) if close.starts_with("did") => close,
                        _ => format!("set it with --var {name}=VALUE, in the environment, or in [vars]"),
                    };
                    mistakes.add(&span, format!("unknown variable {name:?}"), Some(suggestion));
                }
                *text = Cow::Owned(expanded);
            }
            DeValue::Array(items) => {
                items.iter_mut().for_each(|item| self.expand_value(item, used, mistakes));
            }
            DeValue::Table(table) => self.expand_table(table, used, mistakes),
            _ => {}
        }
    }

    /// Returns the expanded string, and the names of variables that have no value. The names of all
    /// variables in the string are added to `used`.
    fn expand(&self, text: &str, used: &mut BTreeSet<String>) -> (String, Vec<String>) {
        let (mut expanded, mut unknown) = (String::new(), Vec::new());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, from) = rest.split_at(at);
            let name = from[2..].split_once('}').map(|(name, _)| name).filter(|name| is_name(name));
            let (kept, name) = match before.strip_suffix('$') {
                Some(kept) => (kept, None),
                None => (before, name),
            };
            expanded.push_str(kept);
            rest = &from[name.map_or(2, |name| name.len() + 3)..];
            used.extend(name.map(str::to_owned));
            match name.map(|name| self.get(name).ok_or(name)) {
                None => expanded.push_str("${"),
                Some(Ok(value)) => expanded.push_str(value),
                Some(Err(name)) => unknown.push(name.to_owned()),
            }
        }
        expanded.push_str(rest);
        (expanded, unknown)
    }
}

fn is_name(text: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    text.starts_with(is_start) && text.chars().all(|c| is_start(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_comes_first() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let variables = Variables {
            given: [pair("A", "given")].into(),
            environment: [pair("A", "env"), pair("B", "env")].into(),
            own: [pair("B", "own"), pair("C", "own")].into(),
        };
        let expand = |text| variables.expand(text, &mut BTreeSet::new());
        assert_eq!(expand("${A}/${B}/${C}"), ("given/env/own".to_owned(), vec![]));
        assert_eq!(expand("$1 ${1} $${A} ${ $"), ("$1 ${1} ${A} ${ $".to_owned(), vec![]));
        assert_eq!(expand("x${D}y"), ("xy".to_owned(), vec!["D".to_owned()]));
        assert_eq!(expand("${A"), ("${A".to_owned(), vec![]));
    }
}
