//! Expands the entry of a zoo to one job for each of its models.

use super::outputs::{Candidate, is_folder, real_path};
use super::{Expansion, absolute, describe_contents, file_name};
use crate::job::Job;
use crate::manifest::input_path::InputPath;
use crate::manifest::name_patterns::{NamePatterns, SHARD};
use crate::manifest::search::Search;
use crate::manifest::template::of_model;
use crate::manifest::types::{Entry, Located, Settings, ZooKeys};
use crate::manifest::zoo_files::find;
use globset::GlobSet;
use std::collections::HashSet;
use tensorferry::places::InputFolder;
use tensorferry_sdk::Side;

/// A zoo whose models have been found.
pub(super) struct FoundZoo<'m> {
    entry: &'m Entry<ZooKeys>,
    root: InputFolder,
    /// The path of the root, with links resolved.
    path: Option<String>,
    /// Prefix of the names of the zoo's jobs.
    name: String,
    models: Vec<FoundModel>,
    /// The settings of the zoo, followed by those of each rule.
    settings: Vec<Settings>,
    /// Paths of outputs that have a receipt.
    receipts: HashSet<String>,
}

struct FoundModel {
    input: InputPath,
    /// Index of the model's settings in the zoo's `settings`.
    rule: usize,
}

impl<'m> FoundZoo<'m> {
    fn output(&self, rule: usize) -> &'m Located<String> {
        let rule = rule.checked_sub(1).map(|rule| &self.entry.own.rule[rule]);
        rule.and_then(|rule| rule.own.output.as_ref()).unwrap_or(&self.entry.own.output)
    }
}

impl Expansion<'_> {
    pub(super) fn find_zoo<'m>(&mut self, entry: &'m Entry<ZooKeys>) -> Option<FoundZoo<'m>> {
        let own = &entry.own;
        self.check(&entry.settings);
        own.rule.iter().for_each(|rule| self.check(&rule.settings));
        let root = self.root(&own.root, &entry.settings)?;
        let path = real_path(&root);
        let closed = self.closed_folders(path.as_deref(), own.exclude.as_deref());
        let mut search = Search::new(&root, closed);
        let names = NamePatterns::of_models(self.registry);
        let found = names.and_then(|names| Ok((find(&mut search, &names, own.models)?, names)));
        let Search { skipped, receipts, .. } = search;
        let (models, names) = match found {
            Ok(found) => found,
            Err(error) => {
                self.mistakes.add(&own.root.span(), error.to_string(), None);
                return None;
            }
        };
        let (include, exclude) = (own.include.as_deref(), own.exclude.as_deref());
        let told = self.note_skipped(&root, &own.root.span(), skipped, include, exclude);
        if models.is_empty() {
            let suggestion = told.unwrap_or_else(|| describe_contents(&root));
            self.mistakes.add(&own.root.span(), "there are no models below `root`", Some(suggestion));
        }
        let models = self.selected(models, include, exclude, &own.root, "model");
        let globs = own.rule.iter().map(|rule| std::slice::from_ref(&rule.own.matches));
        let rules: Vec<Option<GlobSet>> = globs.map(|glob| self.used_globs(glob, &models, "model")).collect();
        let of_zoo = entry.settings.merged_over(self.defaults);
        let of_rules = own.rule.iter().map(|rule| rule.settings.merged_over(&of_zoo)).collect::<Vec<_>>();
        let settings: Vec<Settings> = std::iter::once(of_zoo).chain(of_rules).collect();
        let rule_of = |model: &InputPath| {
            let rule = rules.iter().position(|glob| glob.as_ref().is_some_and(|glob| model.matches(glob)));
            rule.map_or(0, |rule| rule + 1)
        };
        let mut found = Vec::with_capacity(models.len());
        for input in models {
            let rule = rule_of(&input);
            // With this option, the shards of the set are separate models.
            if input.set.is_some() && takes_shards_alone(&settings[rule]) {
                found.extend(names.alone(&input).into_iter().map(|input| FoundModel { input, rule }));
            } else {
                found.push(FoundModel { input, rule });
            }
        }
        let name = own.name.clone().unwrap_or_else(|| file_name(root.path()));
        Some(FoundZoo { entry, root, path, name, models: found, settings, receipts })
    }

    pub(super) fn note_outputs_of_zoo(&mut self, zoo: &FoundZoo<'_>) {
        let Some(root) = &zoo.path else { return };
        for model in &zoo.models {
            let at = zoo.output(model.rule).span().start;
            if let Some(path) = self.path_of_output(zoo, model) {
                let input = format!("{root}/{}", model.input.path);
                let has_receipt = zoo.settings[model.rule].receipt().is_some();
                self.outputs.add(at, &input, &path, has_receipt);
            }
        }
    }

    /// Removes outputs of earlier runs from the models of the zoo.
    pub(super) fn leave_outputs_of_zoo(&mut self, zoo: &mut FoundZoo<'_>) {
        let Some(root) = zoo.path.clone().filter(|root| self.outputs.may_be_in(root)) else { return };
        let before = zoo.models.len();
        let mut models = std::mem::take(&mut zoo.models);
        models.retain(|model| {
            let output = self.path_of_output(zoo, model);
            let (input, receipts) = (&model.input, &zoo.receipts);
            !self.outputs.has(&Candidate { root: &root, input, output: output.as_deref(), receipts })
        });
        zoo.models = models;
        if before > 0 && zoo.models.is_empty() {
            let why = "no model is left: all models below `root` are outputs of earlier runs".to_owned();
            self.nothing_left(zoo.entry.own.root.span(), why);
        }
    }

    /// Returns the path of a model's output, if a search may find the output as an input.
    fn path_of_output(&mut self, zoo: &FoundZoo<'_>, model: &FoundModel) -> Option<String> {
        let at = zoo.output(model.rule).span().start;
        self.outputs.is_near(at).then_some(())?;
        let filled = self.filled_output(zoo, model)?;
        self.outputs.path_of(at, &filled)
    }

    fn filled_output(
        &mut self,
        zoo: &FoundZoo<'_>,
        FoundModel { input, rule }: &FoundModel,
    ) -> Option<String> {
        let output = zoo.output(*rule);
        let mut filled = self.filled(output, &of_model(input, &zoo.name))?;
        if is_folder(output.get_ref()) {
            let to = zoo.settings[*rule].to.as_ref();
            filled += &self.below(input, to.map(|to| to.get_ref().as_str()));
        }
        Some(filled)
    }

    pub(super) fn zoo(&mut self, zoo: &FoundZoo<'_>) {
        let FoundZoo { root, name, .. } = zoo;
        let mut checked = vec![false; zoo.settings.len()];
        for model in &zoo.models {
            let (FoundModel { input: found, rule }, settings) = (model, &zoo.settings[model.rule]);
            let output = zoo.output(*rule);
            let Some(filled) = self.filled_output(zoo, model) else { return };
            let input = if found.is_root { root.path().to_owned() } else { root.path_of(found.input()) };
            let output_path = absolute(self.base, &filled);
            let request = self.request(settings, &input.display().to_string(), &output_path);
            // The options are checked once per rule, because the mistakes are the same for every
            // model.
            if !std::mem::replace(&mut checked[*rule], true) {
                self.check_sides(&request, settings, &output.span());
            }
            let policy = settings.policy_below(root);
            let job = Job { name: format!("{name}/{}", found.path), request, policy };
            if !found.is_folder {
                self.check_companions(&job, &output.span());
            }
            self.push(job, &output.span());
        }
    }

    /// Returns the path of a model's output in a folder that has the same structure as the zoo.
    fn below(&self, model: &InputPath, to: Option<&str>) -> String {
        let format = to.and_then(|id| self.registry.format(id, Side::Writer).ok());
        let suffix =
            format.and_then(|format| format.description.suffixes.first()).filter(|_| !model.is_folder);
        // If the format has no suffix, the output is treated as a folder. If the format does not
        // write folders, a later check reports a mistake with a suggestion.
        format!("/{}{}", model.bare, suffix.map_or("/", String::as_str))
    }
}

fn takes_shards_alone(settings: &Settings) -> bool {
    let mut given = settings.input_options.iter().flatten();
    given.any(|(key, values)| key.get_ref() == SHARD && values.0.iter().any(|value| value == "alone"))
}
