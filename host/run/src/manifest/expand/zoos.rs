//! A zoo's entry becomes a job for each of its models.

use super::{Expansion, absolute, contents, file_name};
use crate::job::{Conversion, Job};
use crate::manifest::input_path::InputPath;
use crate::manifest::template::of_model;
use crate::manifest::types::{Entry, ZooKeys};
use crate::manifest::zoo_files::{NamePatterns, find};
use globset::GlobSet;
use tensorferry_sdk::Side;

impl Expansion<'_> {
    pub(super) fn zoo(&mut self, entry: &Entry<ZooKeys>) {
        let own = &entry.own;
        self.check(&entry.settings);
        own.rule.iter().for_each(|rule| self.check(&rule.settings));
        let Some(root) = self.root(&own.root) else { return };
        let found = NamePatterns::of_models(self.registry).and_then(|names| find(&root, &names, own.models));
        let models = match found {
            Ok(models) => models,
            Err(error) => return self.mistakes.add(&own.root.span(), error.to_string(), None),
        };
        if models.is_empty() {
            let message = "there is no model below the root";
            self.mistakes.add(&own.root.span(), message, Some(contents(&root)));
        }
        let models = self.selected(models, own.include.as_deref(), own.exclude.as_deref(), "model");
        let globs = own.rule.iter().map(|rule| std::slice::from_ref(&rule.own.matches));
        let rules: Vec<Option<GlobSet>> = globs.map(|glob| self.used_globs(glob, &models, "model")).collect();
        let zoo = own.name.clone().unwrap_or_else(|| file_name(root.path()));
        let sidecars: Vec<String> = own.sidecars.iter().map(|glob| glob.get_ref().clone()).collect();
        own.sidecars.iter().for_each(|glob| drop(self.glob(glob)));
        let mut checked: Vec<Option<usize>> = Vec::new();
        for model in &models {
            let place = rules.iter().position(|glob| glob.as_ref().is_some_and(|glob| model.matches(glob)));
            let rule = place.map(|place| &own.rule[place]);
            let output = rule.and_then(|rule| rule.own.output.as_ref()).unwrap_or(&own.output);
            let mut settings = entry.settings.over(self.defaults);
            if let Some(rule) = rule {
                settings = rule.settings.over(&settings);
            }
            let Some(mut filled) = self.filled(output, &of_model(model, &zoo)) else { return };
            if is_folder(output.get_ref()) {
                filled += &self.below(model, settings.to.as_ref().map(|to| to.get_ref().as_str()));
            }
            let input = if model.is_root { root.path().to_owned() } else { root.path_of(&model.path) };
            let conversion = Conversion {
                input: input.display().to_string(),
                output: absolute(self.base, &filled),
                carry: if model.is_folder { Vec::new() } else { sidecars.clone() },
                ..self.conversion(&settings)
            };
            // Once for each rule: what is wrong is wrong for every model.
            if !checked.contains(&place) {
                self.check_sides(&conversion, &settings, &output.span());
                checked.push(place);
            }
            let job = Job { name: format!("{zoo}/{}", model.path), conversion, policy: settings.policy() };
            self.push(job, &output.span());
        }
    }

    /// The place of a model's output in a folder that takes the same tree as the zoo's.
    fn below(&self, model: &InputPath, to: Option<&str>) -> String {
        let format = to.and_then(|id| self.registry.format(id, Side::Writer).ok());
        let suffix =
            format.and_then(|format| format.description.suffixes.first()).filter(|_| !model.is_folder);
        // Without a suffix it is a folder, or a mistake that names the way out.
        format!("/{}{}", model.bare, suffix.map_or("/", String::as_str))
    }
}

/// Whether an output names a folder for all models: it has no field of one, and no ending.
fn is_folder(output: &str) -> bool {
    let last = output.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    !output.contains(['{', '}']) && (output.ends_with('/') || !last.trim_start_matches('.').contains('.'))
}
