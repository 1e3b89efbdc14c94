//! Checks that do not need an open input: formats, options, steps and kinds of losses.

use super::{Expansion, absolute, suggest_folder};
use crate::manifest::mistakes::suggest;
use crate::manifest::types::{Located, OptionTexts, Settings};
use std::ops::Range;
use std::path::Path;
use tensorferry::places::{InputFolder, shown};
use tensorferry::request::Request;
use tensorferry::{RegisteredFormat, steps};
use tensorferry_convert::write::target;
use tensorferry_core::read::folder::EntryKind;
use tensorferry_sdk::{Entry, LossKind, OptionSpec, Options, Side};

impl Expansion<'_> {
    /// Opens the root of a zoo or a dataset. If the root is not a folder, reports a mistake.
    pub(super) fn root(&mut self, root: &Located<String>, settings: &Settings) -> Option<InputFolder> {
        let path = self.input(root)?;
        let follow = settings.merged_over(self.defaults).follow_links.unwrap_or_default();
        let folder = InputFolder::at(Path::new(&path), self.registry.session())
            .map(|folder| folder.following_links(follow));
        let found = folder.and_then(|folder| Ok((folder.kind("")?, folder)));
        let (message, suggestion) = match found {
            Ok((Some(EntryKind::Folder), folder)) => return Some(folder),
            Ok(_) => (format!("`root` is not a folder: {path}"), suggest_folder(Path::new(&path))),
            Err(error) => (error.to_string(), None),
        };
        self.mistakes.add(&root.span(), message, suggestion);
        None
    }

    /// Returns an input's path or URL. A URL that contains a secret is a mistake.
    pub(super) fn input(&mut self, input: &Located<String>) -> Option<String> {
        let path = absolute(self.base, input.get_ref());
        if shown(Path::new(&path)) == path {
            return Some(path);
        }
        let message =
            "the URL has a password or a signed query, which would be written to the journal and the report";
        let suggestion = "put keys into the environment or into a credentials file";
        self.mistakes.add(&input.span(), message, Some(suggestion.to_owned()));
        None
    }

    pub(super) fn check(&mut self, settings: &Settings) {
        for (id, side, key) in [(&settings.from, Side::Reader, "from"), (&settings.to, Side::Writer, "to")] {
            let Some(id) = id else { continue };
            if self.registry.format(id.get_ref(), side).is_err() {
                let able = self.registry.formats().iter().filter(|f| f.description.has(side));
                let suggestion = suggest(id.get_ref(), able.map(|format| format.description.id.as_str()));
                self.mistakes.add(
                    &id.span(),
                    format!("unknown format {:?} for `{key}`", id.get_ref()),
                    suggestion,
                );
            }
        }
        for step in settings.steps.iter().flatten() {
            if let Err(error) = steps::parse(std::slice::from_ref(&step.get_ref().0)) {
                let message = error.message();
                let message = message.strip_prefix("step 1 ").unwrap_or(message);
                self.mistakes.add(&step.span(), format!("the step {message}"), None);
            }
        }
        for glob in settings.companions.iter().flatten() {
            self.glob(glob);
        }
        for word in settings.allow_loss.iter().flatten() {
            if LossKind::named(word.get_ref()).is_none() {
                let suggestion = suggest(word.get_ref(), LossKind::ALL.iter().map(|kind| kind.word()));
                self.mistakes.add(
                    &word.span(),
                    format!("unknown kind of loss {:?} in `allow_loss`", word.get_ref()),
                    suggestion,
                );
            }
        }
    }

    /// Checks the output's format, and the options of the input and of the output.
    pub(super) fn check_sides(&mut self, request: &Request, settings: &Settings, at: &Range<usize>) {
        let input = if request.input.path.is_dir() { Entry::Folder } else { Entry::File(String::new()) };
        let (registry, to) = (self.registry, request.output.format.as_deref());
        let is_known = |id: &Option<Located<String>>, side| {
            id.as_ref().is_none_or(|id| registry.format(id.get_ref(), side).is_ok())
        };
        if is_known(&settings.to, Side::Writer) {
            match target::resolve(registry.as_ref(), &request.output.path, to, &UnreadInput(input)) {
                Ok(resolved) => {
                    self.options(settings.output_options.as_ref(), &[resolved.format], Side::Writer);
                }
                Err(error) => {
                    let hint = error.details().find(|(name, _)| *name == "hint");
                    let suggestion = hint.map(|(_, hint)| hint.replace("pass --to with", "set `to` to"));
                    self.mistakes.add(at, error.message(), suggestion);
                }
            }
        }
        if is_known(&settings.from, Side::Reader) {
            let readers: Vec<&RegisteredFormat> = match &settings.from {
                Some(id) => registry.format(id.get_ref(), Side::Reader).into_iter().collect(),
                None => registry.formats().iter().collect(),
            };
            self.options(settings.input_options.as_ref(), &readers, Side::Reader);
        }
    }

    /// For each option, checks that at least one of the formats has the option and accepts its
    /// value.
    fn options(&mut self, given: Option<&OptionTexts>, formats: &[&RegisteredFormat], side: Side) {
        for (key, values) in given.into_iter().flatten() {
            let specs = || formats.iter().flat_map(|f| &f.description.options).filter(|o| o.side == side);
            let named: Vec<&OptionSpec> = specs().filter(|option| option.key == *key.get_ref()).collect();
            if named.is_empty() {
                let id = formats.first().map_or("", |format| format.description.id.as_str());
                let (word, id) = match side {
                    Side::Reader if formats.len() == 1 => ("input", id),
                    Side::Reader => ("input", "any format"),
                    Side::Writer => ("output", id),
                };
                let suggestion = suggest(key.get_ref(), specs().map(|option| option.key.as_str()));
                let message = format!("{id} has no {word} option {:?}", key.get_ref());
                self.mistakes.add(&key.span(), message, suggestion);
                continue;
            }
            let given: Vec<_> = values.0.iter().map(|value| (key.get_ref().clone(), value.clone())).collect();
            let check = |spec: &&OptionSpec| Options::check(&[(*spec).clone()], side, &given);
            let errors: Vec<_> = named.iter().map(check).collect();
            if let Some(Err(error)) = errors.iter().find(|_| errors.iter().all(Result::is_err)) {
                self.mistakes.add(&key.span(), error.to_string(), None);
            }
        }
    }
}

/// An input that has not been examined. Its format is detected when the job runs.
struct UnreadInput(Entry);

impl target::TargetInput for UnreadInput {
    fn entry(&self) -> &Entry {
        &self.0
    }

    fn has_any_name(&self) -> bool {
        false
    }

    fn is_weights_alone(&self) -> bool {
        false
    }
}
