//! Expands the entry of a dataset to one job for each of its file groups.

use super::outputs::{Candidate, real_path};
use super::{Expansion, absolute, describe_contents, file_name};
use crate::job::Job;
use crate::manifest::dataset_files::{self, GroupFiles, groups, incomplete_set};
use crate::manifest::input_path::InputPath;
use crate::manifest::name_patterns::NamePatterns;
use crate::manifest::search::Search;
use crate::manifest::template::of_group;
use crate::manifest::types::{DatasetKeys, Entry, Located, Settings};
use std::collections::{HashMap, HashSet};
use tensorferry::places::{InputFolder, shown};
use tensorferry::request::FileGroup;
use tensorferry::rows::check_row_wise;
use tensorferry::steps::parse;
use tensorferry_core::read::table_log::{self, TableLog};
use tensorferry_sdk::{Capabilities, Description, Side};

/// A dataset whose files have been found.
pub(super) struct FoundDataset<'m> {
    entry: &'m Entry<DatasetKeys>,
    root: InputFolder,
    /// The path of the root, with links resolved.
    path: Option<String>,
    name: String,
    files: Vec<InputPath>,
    settings: Settings,
    /// Paths of outputs that have a receipt.
    receipts: HashSet<String>,
}

impl FoundDataset<'_> {
    /// Returns the maximum number of files in a group.
    fn size(&self) -> usize {
        let size = self.entry.own.group.as_ref().map_or(1, |group| *group.get_ref());
        usize::try_from(size).unwrap_or(usize::MAX)
    }
}

impl Expansion<'_> {
    pub(super) fn find_dataset<'m>(&mut self, entry: &'m Entry<DatasetKeys>) -> Option<FoundDataset<'m>> {
        let own = &entry.own;
        self.check(&entry.settings);
        if let Some(glob) = entry.settings.companions.iter().flatten().next() {
            let message = "`companions` applies to models, and this is a dataset";
            self.mistakes.add(&glob.span(), message, Some("remove the key".to_owned()));
        }
        let settings = entry.settings.merged_over(self.defaults);
        let root = self.root(&own.root, &entry.settings)?;
        let path = real_path(&root);
        let (include, exclude) = (own.include.as_deref(), own.exclude.as_deref());
        let from = settings.from.as_ref().map(|id| id.get_ref().as_str());
        let reads = |of: &Description| {
            of.capabilities.has(Capabilities::READ_RECORDS) && from.is_none_or(|id| id == of.id)
        };
        // If `from` and `include` are set, the user has specified the files and their format. In
        // this case, the files may have any ending.
        let takes_any = include.and(from).is_some();
        let mut search = Search::new(&root, self.closed_folders(path.as_deref(), exclude));
        let found = NamePatterns::of_formats(self.registry, reads).and_then(|names| {
            let files = dataset_files::files(&mut search, &|name| takes_any || names.is_weight(name))?;
            Ok(match takes_any {
                false => dataset_files::records(&files, &names),
                true => files.iter().map(|path| dataset_files::input_path(path, &names)).collect(),
            })
        });
        let Search { skipped, receipts, tables, .. } = search;
        let files: Vec<InputPath> = match found {
            Ok(files) => files,
            Err(error) => {
                self.mistakes.add(&own.root.span(), error.to_string(), None);
                return None;
            }
        };
        let told = self.note_skipped(&root, &own.root.span(), skipped, include, exclude);
        if files.is_empty() {
            let message = "there are no record files below `root`";
            self.mistakes.add(
                &own.root.span(),
                message,
                Some(told.unwrap_or_else(|| describe_contents(&root))),
            );
        }
        let files = self.selected(files, include, exclude, &own.root, "file");
        self.check_tables(&root, &tables, &files, &settings, &own.root);
        let name = own.name.clone().unwrap_or_else(|| file_name(root.path()));
        Some(FoundDataset { entry, root, path, name, files, settings, receipts })
    }

    pub(super) fn note_outputs_of_dataset(&mut self, dataset: &FoundDataset<'_>) {
        let Some(root) = &dataset.path else { return };
        let has_receipt = dataset.settings.receipt().is_some();
        let at = dataset.entry.own.output.span().start;
        for (group, output) in self.paths_of_outputs(dataset) {
            self.outputs.add(at, &format!("{root}/{}", group.files[0].path), &output, has_receipt);
        }
    }

    /// Removes outputs of earlier runs from the files of the dataset.
    pub(super) fn leave_outputs_of_dataset(&mut self, dataset: &mut FoundDataset<'_>) {
        let Some(root) = dataset.path.clone().filter(|root| self.outputs.may_be_in(root)) else { return };
        let before = dataset.files.len();
        let outputs: HashMap<String, String> = self
            .paths_of_outputs(dataset)
            .into_iter()
            .map(|(group, output)| (group.files[0].path.clone(), output))
            .collect();
        let receipts = &dataset.receipts;
        let is_output = |input: &InputPath| {
            let output = outputs.get(&input.path).map(String::as_str);
            self.outputs.has(&Candidate { root: &root, input, output, receipts })
        };
        dataset.files.retain(|file| !is_output(file));
        if before > 0 && dataset.files.is_empty() {
            let why = "no file is left: all files below `root` are outputs of earlier runs".to_owned();
            self.nothing_left(dataset.entry.own.root.span(), why);
        }
    }

    /// Returns the groups whose outputs a search may also find as inputs, each with the path of its
    /// output.
    fn paths_of_outputs(&mut self, dataset: &FoundDataset<'_>) -> Vec<(GroupFiles, String)> {
        let output = &dataset.entry.own.output;
        if !self.outputs.is_near(output.span().start) {
            return Vec::new();
        }
        let groups = groups(dataset.files.clone(), dataset.size()).into_iter();
        let path = |group: GroupFiles| {
            let filled = self.filled(output, &of_group(&group, &dataset.name))?;
            Some((group, self.outputs.path_of(output.span().start, &filled)?))
        };
        groups.map_while(path).collect()
    }

    pub(super) fn dataset(&mut self, dataset: FoundDataset<'_>) {
        let (own, size) = (&dataset.entry.own, dataset.size());
        let FoundDataset { root, name: dataset, files, settings, .. } = dataset;
        let at = own.root.span();
        if own.include.is_none()
            && let Some((set, count, there)) = incomplete_set(&files)
        {
            let message = format!("the set {set} has {count} files, but only {there} exist");
            let suggestion = "set include = [...] to use the existing files";
            self.mistakes.add(&at, message, Some(suggestion.to_owned()));
        }
        if let Some(zero) = own.group.as_ref().filter(|group| *group.get_ref() == 0) {
            self.mistakes.add(&zero.span(), "`group` must be at least 1", None);
        }
        self.check_records(&settings);
        if self.datasets.contains(&dataset) {
            let suggestion = Some("set a different `name` for each".to_owned());
            self.mistakes.add(&at, format!("two datasets have the name {dataset:?}"), suggestion);
        }
        for (place, group) in groups(files, size).into_iter().enumerate() {
            let Some(filled) = self.filled(&own.output, &of_group(&group, &dataset)) else { break };
            let files: Vec<String> = group.files.iter().map(|file| file.path.clone()).collect();
            let input = root.path_of(&files[0]).display().to_string();
            let folder = root.path().to_owned();
            let mut request = self.request(&settings, &input, &absolute(self.base, &filled));
            request.input.file_group =
                Some(FileGroup { dataset: dataset.clone(), folder, files, schema: None });
            if place == 0 {
                self.check_sides(&request, &settings, &own.output.span());
            }
            let name = format!("{dataset}/{}", group.name(size));
            let policy = settings.policy_below(&root);
            self.push(Job { name, request, policy }, &own.output.span());
        }
        self.datasets.insert(dataset);
    }

    /// Refuses the files of a table that has a log, because the log determines which of the files
    /// are valid.
    fn check_tables(
        &mut self,
        root: &InputFolder,
        tables: &[(String, &'static TableLog)],
        files: &[InputPath],
        settings: &Settings,
        at: &Located<String>,
    ) {
        if table_log::is_ignored(&self.request(settings, "", "").input.options) {
            return;
        }
        for (folder, table) in tables {
            let start = if folder.is_empty() { String::new() } else { format!("{folder}/") };
            let mut formats = self.registry.formats().iter().filter(|format| table_log::is_of(format));
            let is_read = formats.any(|format| {
                let is_called =
                    |path: &str| format.description.suffixes.iter().any(|end| path.ends_with(end));
                files.iter().any(|file| file.path.starts_with(&start) && is_called(&file.path))
            });
            if is_read {
                let refusal = table.refusal(root.in_folder(folder).path());
                let suggestion = "set input_options = { table_log = \"ignore\" } to read every file, including deleted rows";
                let message = format!("{}: {}", shown(root.in_folder(folder).path()), refusal.message());
                self.mistakes.add(&at.span(), message, Some(suggestion.to_owned()));
            }
        }
    }

    /// Checks the rules for datasets. The formats must be record formats. Each step must have the
    /// same result whether it is applied to single groups or to the whole dataset.
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
                let message =
                    format!("the format {} does not support records, which a dataset needs", id.get_ref());
                let suggestion = Some(format!("the record formats are {}", able.join(", ")));
                self.mistakes.add(&id.span(), message, suggestion);
            }
        }
        for step in settings.steps.iter().flatten() {
            let text = &step.get_ref().0;
            if parse(std::slice::from_ref(text)).is_err() {
                continue;
            }
            if let Err(error) = check_row_wise(text) {
                let message = error.message();
                let message = message.strip_prefix("step ").unwrap_or(message);
                let suggestion = "a dataset supports filter, map and prefetch; use a [[job]] for other steps";
                self.mistakes.add(&step.span(), format!("the step {message}"), Some(suggestion.to_owned()));
            }
        }
    }
}
