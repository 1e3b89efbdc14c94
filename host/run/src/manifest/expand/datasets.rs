//! A data set's entry becomes a job for each of its units.

use super::super::datasets::{self, torn_set, units};
use super::super::models::Names;
use super::super::template::of_unit;
use super::super::types::{DatasetEntry, Settings};
use super::{Expansion, below, care, endings, file_name, merged, nearby};
use crate::job::{Conversion, Job};
use std::path::Path;
use tensorferry::engine::read::unit::Unit;
use tensorferry::engine::records::steps::check_row_wise;
use tensorferry::engine::steps;
use tensorferry_sdk::{Capabilities, Description, Side};

impl Expansion<'_> {
    pub(super) fn dataset(&mut self, entry: &DatasetEntry, defaults: &Settings) {
        let own = &entry.own;
        self.check(&entry.settings);
        let settings = merged(&[defaults, &entry.settings]);
        let root = below(self.base, own.root.get_ref());
        let root = Path::new(&root);
        let at = own.root.span();
        if !root.is_dir() {
            return self.mistakes.add(&at, format!("the root {} is no folder", root.display()), nearby(root));
        }
        let from = settings.from.as_ref().map(|id| id.get_ref().as_str());
        let reads = |of: &Description| {
            of.capabilities.has(Capabilities::READ_RECORDS) && from.is_none_or(|id| id == of.id)
        };
        let names = Names::of_those(self.registry, reads);
        let (names, files) = match names.and_then(|names| Ok((names, datasets::files(root)?))) {
            Ok(found) => found,
            Err(error) => return self.mistakes.add(&at, error.to_string(), None),
        };
        // What is named, as what it is and where, needs no ending that says its format.
        let files = match own.include.as_ref().and(from) {
            None => datasets::records(&files, &names),
            Some(_) => files.iter().map(|path| datasets::found(path, &names)).collect(),
        };
        if files.is_empty() {
            let message = "there is no file of records below the root";
            self.mistakes.add(&at, message, Some(endings(&own.root, self.base)));
        }
        let include = own.include.as_ref().map(|globs| self.used(globs, &files, "file"));
        let is_chosen = include.is_some();
        let files = self.left(files, include.as_ref(), own.exclude.as_ref());
        if !is_chosen && let Some((set, count, there)) = torn_set(&files) {
            let message = format!("the set {set} has {count} files, and {there} of them are there");
            let suggestion = Some("include = [...] takes those that are there for all".to_owned());
            self.mistakes.add(&at, message, suggestion);
        }
        let group = own.group.as_ref().map_or(1, |group| *group.get_ref());
        if let Some(zero) = own.group.as_ref().filter(|group| *group.get_ref() == 0) {
            self.mistakes.add(&zero.span(), "a group of no files", Some("group is at least 1".to_owned()));
        }
        self.check_records(&settings);
        let dataset = own.name.clone().unwrap_or_else(|| file_name(root));
        if self.datasets.contains(&dataset) {
            let suggestion = Some("give each a name of its own".to_owned());
            self.mistakes.add(&at, format!("two data sets are called {dataset:?}"), suggestion);
        }
        let group = usize::try_from(group).unwrap_or(usize::MAX);
        for (place, unit) in units(files, group).into_iter().enumerate() {
            let Some(filled) = self.filled(&own.output, &of_unit(&unit, &dataset)) else { break };
            let files: Vec<String> = unit.files.iter().map(|file| file.path.clone()).collect();
            let conversion = Conversion {
                input: root.join(&files[0]).display().to_string(),
                output: below(self.base, &filled),
                unit: Some(Unit { dataset: dataset.clone(), folder: root.to_owned(), files, schema: None }),
                ..self.conversion(&settings)
            };
            if place == 0 {
                self.check_sides(&conversion, &settings, &own.output.span());
            }
            let name = format!("{dataset}/{}", unit.name(group));
            self.jobs.push((Job { name, conversion, care: care(&settings) }, own.output.span()));
        }
        self.datasets.insert(dataset);
    }

    /// What only holds for data sets: formats of records, and steps that mean the same for each unit.
    fn check_records(&mut self, settings: &Settings) {
        let sides = [
            (&settings.from, Side::Reader, Capabilities::READ_RECORDS),
            (&settings.to, Side::Writer, Capabilities::WRITE_RECORDS),
        ];
        for (id, side, capability) in sides {
            let Some(id) = id else { continue };
            let format = self.registry.format(id.get_ref(), side).ok();
            if format.is_some_and(|format| !format.description.capabilities.has(capability)) {
                let able = self.registry.formats().iter().map(|format| &format.description);
                let able: Vec<&str> =
                    able.filter(|of| of.capabilities.has(capability)).map(|of| of.id.as_str()).collect();
                let message = format!("{} holds no records, of which data sets are made", id.get_ref());
                self.mistakes.add(
                    &id.span(),
                    message,
                    Some(format!("those that do are {}", able.join(", "))),
                );
            }
        }
        for step in settings.steps.iter().flatten() {
            let Ok(parsed) = steps::parse(std::slice::from_ref(&step.get_ref().0)) else { continue };
            if let Some(Err(error)) = parsed.iter().map(check_row_wise).find(Result::is_err) {
                let message = error.message();
                let message = message.strip_prefix("step ").unwrap_or(message);
                let suggestion =
                    "filter, map and prefetch can be done; for the others take a [[job]] of the whole";
                self.mistakes.add(&step.span(), format!("the step {message}"), Some(suggestion.to_owned()));
            }
        }
    }
}
