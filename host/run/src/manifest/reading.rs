//! Converts the text of a manifest to its types. Reading continues after a mistake, so that all
//! mistakes are found.

use super::mistakes::{Mistakes, suggest};
use super::types::{Entry, Manifest, Settings, ZooKeys};
use super::variables::Variables;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// Returns the parts of the manifest that could be read.
pub(super) fn read(text: &str, variables: &Variables, mistakes: &mut Mistakes) -> Manifest {
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        mistakes.add(&error.span().unwrap_or_default(), error.message().replace('\n', ", "), None);
    }
    if !mistakes.is_empty() {
        // After a syntax error, the rest of the document is incomplete.
        return Manifest::default();
    }
    let mut table = document.into_inner();
    let mut manifest = Manifest::default();
    if let Some(vars) = table.remove("vars") {
        manifest.vars = value(vars, mistakes).unwrap_or_default();
    }
    variables.with_own(manifest.vars.clone()).expand_document(&mut table, mistakes);
    if let Some(run) = tables(&mut table, "run", mistakes).last() {
        manifest.run = one(run, mistakes).unwrap_or_default();
    }
    if let Some(defaults) = tables(&mut table, "defaults", mistakes).last() {
        manifest.defaults = one(defaults, mistakes).unwrap_or_default();
    }
    manifest.job = entries(&mut table, "job", mistakes);
    for mut table in tables(&mut table, "zoo", mistakes) {
        let rule = entries(table.get_mut(), "rule", mistakes);
        manifest.zoo.extend(entry(table, mistakes).map(|mut zoo: Entry<ZooKeys>| {
            zoo.own.rule = rule;
            zoo
        }));
    }
    manifest.dataset = entries(&mut table, "dataset", mistakes);
    refuse_rest(&table, &keys_of::<Manifest>(), mistakes);
    let is_empty = manifest.job.is_empty() && manifest.zoo.is_empty() && manifest.dataset.is_empty();
    if is_empty && mistakes.is_empty() {
        mistakes.add(&(0..0), "the manifest has no [[job]], [[zoo]] or [[dataset]]", None);
    }
    manifest
}

/// Removes and returns all tables `[[key]]`, or the single table `[key]`.
fn tables<'t>(
    table: &mut DeTable<'t>,
    key: &str,
    mistakes: &mut Mistakes,
) -> impl Iterator<Item = Spanned<DeTable<'t>>> + use<'t> {
    table.remove(key).map(|value| tables_in(value, mistakes)).unwrap_or_default().into_iter()
}

fn tables_in<'t>(value: Spanned<DeValue<'t>>, mistakes: &mut Mistakes) -> Vec<Spanned<DeTable<'t>>> {
    let span = value.span();
    match value.into_inner() {
        DeValue::Table(table) => vec![Spanned::new(span, table)],
        DeValue::Array(items) => items.into_iter().flat_map(|item| tables_in(item, mistakes)).collect(),
        other => {
            mistakes.add(&span, format!("expected a table, found {}", other.type_str()), None);
            Vec::new()
        }
    }
}

fn value<T: DeserializeOwned>(value: Spanned<DeValue<'_>>, mistakes: &mut Mistakes) -> Option<T> {
    let span = value.span();
    match T::deserialize(ValueDeserializer::from(value)) {
        Ok(read) => Some(read),
        Err(error) => {
            mistakes.add(&error.span().unwrap_or(span), error.message().replace('\n', ", "), None);
            None
        }
    }
}

/// Converts a table to a type.
fn one<T: DeserializeOwned + JsonSchema>(table: Spanned<DeTable<'_>>, mistakes: &mut Mistakes) -> Option<T> {
    refuse_rest(table.get_ref(), &keys_of::<T>(), mistakes);
    let (own, _) = split_table(table, &keys_of::<T>());
    read_all(own, mistakes)
}

/// Reads all tables of one kind of entry.
fn entries<T: DeserializeOwned + JsonSchema>(
    table: &mut DeTable<'_>,
    key: &str,
    mistakes: &mut Mistakes,
) -> Vec<Entry<T>> {
    tables(table, key, mistakes).filter_map(|table| entry(table, mistakes)).collect()
}

/// Reads a table that contains both its own keys and setting keys.
fn entry<T: DeserializeOwned + JsonSchema>(
    table: Spanned<DeTable<'_>>,
    mistakes: &mut Mistakes,
) -> Option<Entry<T>> {
    let (of_own, of_settings) = (keys_of::<T>(), keys_of::<Settings>());
    let known: Vec<String> = of_own.iter().chain(&of_settings).cloned().collect();
    refuse_rest(table.get_ref(), &known, mistakes);
    let (own, rest) = split_table(table, &of_own);
    let (settings, _) = split_table(rest, &of_settings);
    let settings = read_all::<Settings>(settings, mistakes);
    Some(Entry { own: read_all(own, mistakes)?, settings: settings.unwrap_or_default() })
}

/// Splits a table into two: one with the entries whose keys are in `keys`, and one with all other
/// entries.
fn split_table<'t>(
    table: Spanned<DeTable<'t>>,
    keys: &[String],
) -> (Spanned<DeTable<'t>>, Spanned<DeTable<'t>>) {
    let span = table.span();
    let (mut own, mut rest) = (DeTable::new(), DeTable::new());
    for (key, value) in table.into_inner() {
        let to = if keys.iter().any(|known| *known == **key.get_ref()) { &mut own } else { &mut rest };
        to.insert(key, value);
    }
    (Spanned::new(span.clone(), own), Spanned::new(span, rest))
}

/// Reads a table. If a value is invalid, reports a mistake and leaves out its key.
fn read_all<T: DeserializeOwned>(table: Spanned<DeTable<'_>>, mistakes: &mut Mistakes) -> Option<T> {
    let span = table.span();
    let mut table = table.into_inner();
    loop {
        let whole = Spanned::new(span.clone(), DeValue::Table(table.clone()));
        let error = match T::deserialize(ValueDeserializer::from(whole)) {
            Ok(read) => return Some(read),
            Err(error) => error,
        };
        let at = error.span().unwrap_or_else(|| span.clone());
        mistakes.add(&at, error.message().replace('\n', ", "), None);
        let holds = |of: Range<usize>| of.start <= at.start && at.end <= of.end;
        let wrong = table.iter().find(|(key, value)| holds(value.span()) || holds(key.span()));
        let wrong = wrong.map(|(key, _)| key.get_ref().clone().into_owned());
        match wrong {
            Some(key) if at != span => table.remove(key.as_str()),
            // The error is not about a single value, because it reports a missing key.
            _ => return None,
        };
    }
}

fn refuse_rest(table: &DeTable<'_>, known: &[String], mistakes: &mut Mistakes) {
    for key in table.keys().filter(|key| !known.iter().any(|known| *known == **key.get_ref())) {
        let suggestion = suggest(key.get_ref(), known.iter().map(String::as_str));
        mistakes.add(&key.span(), format!("unknown key {:?}", key.get_ref()), suggestion);
    }
}

/// Returns the keys that a type accepts.
fn keys_of<T: JsonSchema>() -> Vec<String> {
    let schema = schemars::schema_for!(T);
    let properties = schema.get("properties").and_then(|value| value.as_object());
    properties.into_iter().flat_map(|map| map.keys().cloned()).collect()
}
