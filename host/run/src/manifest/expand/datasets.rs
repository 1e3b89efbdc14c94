//! A data set's entry becomes a job for each of its file groups.

use super::{Expansion, absolute, contents, file_name};
use crate::job::{Conversion, Job};
use crate::manifest::dataset_files::{self, groups, incomplete_set};
use crate::manifest::template::of_group;
use crate::manifest::types::{DatasetKeys, Entry, Settings};
use crate::manifest::zoo_files::NamePatterns;
use tensorferry::engine::convert::steps::{check_row_wise, parse};
use tensorferry::engine::read::file_group::FileGroup;
use tensorferry_sdk::{Capabilities, Description, Side};

impl Expansion<'_> {
    pub(super) fn dataset(&mut self, entry: &Entry<DatasetKeys>) {
        let own = &entry.own;
        self.check(&entry.settings);
        let settings = entry.settings.over(self.defaults);
        let Some(root) = self.root(&own.root) else { return };
        let at = own.root.span();
        let from = settings.from.as_ref().map(|id| id.get_ref().as_str());
        let reads = |of: &Description| {
            of.capabilities.has(Capabilities::READ_RECORDS) && from.is_none_or(|id| id == of.id)
        };
        let names = NamePatterns::of_those(self.registry, reads);
        let (names, files) = match names.and_then(|names| Ok((names, dataset_files::files(&root)?))) {
            Ok(found) => found,
            Err(error) => return self.mistakes.add(&at, error.to_string(), None),
        };
        // With `from` and `include`, the user says which files and what they are: no ending has to.
        let files = match own.include.as_ref().and(from) {
            None => dataset_files::records(&files, &names),
            Some(_) => files.iter().map(|path| dataset_files::input_path(path, &names)).collect(),
        };
        if files.is_empty() {
            let message = "there is no file of records below the root";
            self.mistakes.add(&at, message, Some(contents(&root)));
        }
        let files = self.selected(files, own.include.as_deref(), own.exclude.as_deref(), "file");
        if own.include.is_none()
            && let Some((set, count, there)) = incomplete_set(&files)
        {
            let message = format!("the set {set} has {count} files, and {there} of them are there");
            let suggestion = "include = [...] takes those that are there for all";
            self.mistakes.add(&at, message, Some(suggestion.to_owned()));
        }
        let size = own.group.as_ref().map_or(1, |group| *group.get_ref());
        if let Some(zero) = own.group.as_ref().filter(|group| *group.get_ref() == 0) {
            self.mistakes.add(&zero.span(), "a group of no files", Some("group is at least 1".to_owned()));
        }
        self.check_records(&settings);
        let dataset = own.name.clone().unwrap_or_else(|| file_name(root.path()));
        if self.datasets.contains(&dataset) {
            let suggestion = Some("give each a name of its own".to_owned());
            self.mistakes.add(&at, format!("two data sets are called {dataset:?}"), suggestion);
        }
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        for (place, group) in groups(files, size).into_iter().enumerate() {
            let Some(filled) = self.filled(&own.output, &of_group(&group, &dataset)) else { break };
            let files: Vec<String> = group.files.iter().map(|file| file.path.clone()).collect();
            let input = root.path_of(&files[0]).display().to_string();
            let folder = root.path().to_owned();
            let conversion = Conversion {
                input,
                output: absolute(self.base, &filled),
                file_group: Some(FileGroup { dataset: dataset.clone(), folder, files, schema: None }),
                ..self.conversion(&settings)
            };
            if place == 0 {
                self.check_sides(&conversion, &settings, &own.output.span());
            }
            let name = format!("{dataset}/{}", group.name(size));
            self.push(Job { name, conversion, policy: settings.policy() }, &own.output.span());
        }
        self.datasets.insert(dataset);
    }

    /// Checks what only holds for data sets: formats of records, and steps that mean the same for each group.
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
                let suggestion = Some(format!("those that do are {}", able.join(", ")));
                self.mistakes.add(&id.span(), message, suggestion);
            }
        }
        for step in settings.steps.iter().flatten() {
            let Ok(parsed) = parse(std::slice::from_ref(&step.get_ref().0)) else { continue };
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
