//! Reading makes the types of a manifest out of its text, and goes on after a mistake, to find them all.

use super::mistakes::{Mistakes, suggest};
use super::types::{
    DatasetEntry, DatasetOwn, JobEntry, JobOwn, Manifest, RuleEntry, RuleOwn, RunTable, Settings, ZooEntry,
    ZooOwn,
};
use super::variables::Variables;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// What could be read of it.
pub(super) fn read(text: &str, variables: &Variables, mistakes: &mut Mistakes) -> Manifest {
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        mistakes.add(&error.span().unwrap_or_default(), error.message().replace('\n', ", "), None);
    }
    if !mistakes.is_empty() {
        // What could be read of the rest would only be half of it.
        return Manifest::default();
    }
    let mut table = document.into_inner();
    let mut manifest = Manifest::default();
    if let Some(vars) = take(&mut table, "vars") {
        manifest.vars = value::<BTreeMap<String, String>>(vars, mistakes).unwrap_or_default();
    }
    variables.with_own(manifest.vars.clone()).expand_table(&mut table, mistakes);
    if let Some(run) = tables(take(&mut table, "run"), mistakes).pop() {
        manifest.run = one::<RunTable>(run, mistakes).unwrap_or_default();
    }
    if let Some(defaults) = tables(take(&mut table, "defaults"), mistakes).pop() {
        manifest.defaults = one::<Settings>(defaults, mistakes).unwrap_or_default();
    }
    for entry in tables(take(&mut table, "job"), mistakes) {
        if let Some((own, settings)) = split::<JobOwn>(entry, mistakes) {
            manifest.job.push(JobEntry { own, settings });
        }
    }
    for mut entry in tables(take(&mut table, "zoo"), mistakes) {
        let rules = tables(take(entry.get_mut(), "rule"), mistakes).into_iter();
        let rule: Vec<RuleEntry> = rules
            .filter_map(|rule| split::<RuleOwn>(rule, mistakes))
            .map(|(own, settings)| RuleEntry { own, settings })
            .collect();
        if let Some((own, settings)) = split::<ZooOwn>(entry, mistakes) {
            manifest.zoo.push(ZooEntry { own, settings, rule });
        }
    }
    for entry in tables(take(&mut table, "dataset"), mistakes) {
        if let Some((own, settings)) = split::<DatasetOwn>(entry, mistakes) {
            manifest.dataset.push(DatasetEntry { own, settings });
        }
    }
    refuse_rest(&table, &keys_of::<Manifest>(), mistakes);
    let is_empty = manifest.job.is_empty() && manifest.zoo.is_empty() && manifest.dataset.is_empty();
    if is_empty && mistakes.is_empty() {
        mistakes.add(&(0..0), "the manifest has no [[job]], no [[zoo]] and no [[dataset]]", None);
    }
    manifest
}

fn take<'t>(table: &mut DeTable<'t>, key: &str) -> Option<Spanned<DeValue<'t>>> {
    table.remove(key)
}

/// The tables of `[[key]]`, or that of `[key]`.
fn tables<'t>(value: Option<Spanned<DeValue<'t>>>, mistakes: &mut Mistakes) -> Vec<Spanned<DeTable<'t>>> {
    let Some(value) = value else { return Vec::new() };
    let span = value.span();
    match value.into_inner() {
        DeValue::Table(table) => vec![Spanned::new(span, table)],
        DeValue::Array(items) => items.into_iter().flat_map(|item| tables(Some(item), mistakes)).collect(),
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

/// A table of one type.
fn one<T: DeserializeOwned + JsonSchema>(table: Spanned<DeTable<'_>>, mistakes: &mut Mistakes) -> Option<T> {
    refuse_rest(table.get_ref(), &keys_of::<T>(), mistakes);
    let (own, _) = parted(table, &keys_of::<T>());
    read_all(own, mistakes)
}

/// A table with the keys of two types.
fn split<T: DeserializeOwned + JsonSchema>(
    table: Spanned<DeTable<'_>>,
    mistakes: &mut Mistakes,
) -> Option<(T, Settings)> {
    let (of_own, of_settings) = (keys_of::<T>(), keys_of::<Settings>());
    let known: Vec<String> = of_own.iter().chain(&of_settings).cloned().collect();
    refuse_rest(table.get_ref(), &known, mistakes);
    let (own, rest) = parted(table, &of_own);
    let (settings, _) = parted(rest, &of_settings);
    let settings = read_all::<Settings>(settings, mistakes);
    Some((read_all(own, mistakes)?, settings.unwrap_or_default()))
}

fn parted<'t>(table: Spanned<DeTable<'t>>, keys: &[String]) -> (Spanned<DeTable<'t>>, Spanned<DeTable<'t>>) {
    let span = table.span();
    let (mut own, mut rest) = (DeTable::new(), DeTable::new());
    for (key, value) in table.into_inner() {
        let to = if keys.iter().any(|known| *known == **key.get_ref()) { &mut own } else { &mut rest };
        to.insert(key, value);
    }
    (Spanned::new(span.clone(), own), Spanned::new(span, rest))
}

/// Reads a table; what is wrong in the value of a key is noted, and the key left out.
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
            // A key that is missing.
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

/// The keys of a type's tables.
fn keys_of<T: JsonSchema>() -> Vec<String> {
    let schema = schemars::schema_for!(T);
    let properties = schema.get("properties").and_then(|value| value.as_object());
    properties.into_iter().flat_map(|map| map.keys().cloned()).collect()
}
