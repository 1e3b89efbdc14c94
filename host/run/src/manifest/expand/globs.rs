//! Applies the globs of a zoo or a dataset, which include and exclude inputs.

use super::Expansion;
use crate::manifest::input_path::InputPath;
use crate::manifest::mistakes::suggest;
use crate::manifest::search::{ClosedFolders, SkipReason, SkippedEntry, notes};
use crate::manifest::types::Located;
use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use std::ops::Range;
use tensorferry::places::{InputFolder, shown};
use tensorferry::suggest as nearest;

impl Expansion<'_> {
    /// Returns the inputs that are included and not excluded. If a glob in `include` does not match
    /// any input, reports a mistake.
    pub(super) fn selected(
        &mut self,
        mut all: Vec<InputPath>,
        include: Option<&[Located<String>]>,
        exclude: Option<&[Located<String>]>,
        root: &Located<String>,
        noun: &str,
    ) -> Vec<InputPath> {
        if let Some(include) = include {
            let include = self.used_globs(include, &all, noun);
            all.retain(|input| include.as_ref().is_some_and(|globs| input.matches(globs)));
        }
        let (before, globs) = (all.len(), self.glob_set(exclude));
        if let Some(exclude) = globs {
            all.retain(|input| !input.matches(&exclude));
        }
        if before > 0 && all.is_empty() {
            let at = exclude.and_then(<[_]>::first).unwrap_or(root).span();
            self.nothing_left(at, format!("no {noun} is left: `exclude` matches all {before}"));
        }
        all
    }

    /// Builds a set of globs. Returns `None` if a glob is invalid.
    fn glob_set(&mut self, globs: Option<&[Located<String>]>) -> Option<GlobSet> {
        set(globs?.iter().map(|glob| self.glob(glob)).collect::<Option<_>>()?)
    }

    /// Returns the folders in a root that are not searched: folders of outputs, and folders that
    /// are excluded with all of their contents (`secret/**`).
    pub(super) fn closed_folders(
        &mut self,
        root: Option<&str>,
        exclude: Option<&[Located<String>]>,
    ) -> ClosedFolders {
        let outputs = root.map(|root| self.outputs.folders_below(root)).unwrap_or_default();
        let folders =
            exclude.unwrap_or_default().iter().filter_map(|glob| glob.get_ref().strip_suffix("/**"));
        let globs = folders.filter_map(|glob| GlobBuilder::new(glob).literal_separator(true).build().ok());
        ClosedFolders { outputs, excluded: set(globs.collect()).unwrap_or_default() }
    }

    /// Adds notes about entries that the globs include but the search skipped. Returns the first
    /// note. For a link that leads out of the root, reports a mistake instead.
    pub(super) fn note_skipped(
        &mut self,
        root: &InputFolder,
        at: &Range<usize>,
        mut skipped: Vec<SkippedEntry>,
        include: Option<&[Located<String>]>,
        exclude: Option<&[Located<String>]>,
    ) -> Option<String> {
        let (include, exclude) = (self.glob_set(include), self.glob_set(exclude));
        skipped.retain(|it| it.is_wanted(include.as_ref(), exclude.as_ref()));
        let out = skipped.extract_if(.., |it| it.why == SkipReason::LeadsOut).collect::<Vec<_>>();
        for note in notes(&shown(root.path()), &out) {
            let hint = "set follow_links = true, or add them to `exclude`";
            self.mistakes.add(at, note, Some(hint.to_owned()));
        }
        let notes = notes(&shown(root.path()), &skipped);
        let first = notes.first().cloned();
        self.notes.extend(notes);
        first
    }

    /// Builds a set of globs, and checks that each glob matches an input.
    pub(super) fn used_globs(
        &mut self,
        globs: &[Located<String>],
        inputs: &[InputPath],
        noun: &str,
    ) -> Option<GlobSet> {
        let mut all = Vec::new();
        for text in globs {
            let glob = self.glob(text)?;
            let one = set(vec![glob.clone()])?;
            if !inputs.is_empty() && !inputs.iter().any(|input| input.matches(&one)) {
                let paths = inputs.iter().map(|input| input.path.as_str());
                let suggestion =
                    suggest_glob(text.get_ref(), inputs).or_else(|| suggest(text.get_ref(), paths));
                self.mistakes.add(
                    &text.span(),
                    format!("{:?} matches no {noun}", text.get_ref()),
                    suggestion,
                );
            }
            all.push(glob);
        }
        set(all)
    }

    pub(super) fn glob(&mut self, text: &Located<String>) -> Option<Glob> {
        let glob = GlobBuilder::new(text.get_ref()).literal_separator(true).build();
        glob.map_err(|error| self.mistakes.add(&text.span(), format!("not a glob: {}", error.kind()), None))
            .ok()
    }
}

fn set(globs: Vec<Glob>) -> Option<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(glob);
    }
    set.build().ok()
}

/// Suggests the same glob with a different ending, if the changed glob matches inputs.
fn suggest_glob(glob: &str, inputs: &[InputPath]) -> Option<String> {
    let (start, ending) = glob.rsplit_once('.')?;
    let endings = inputs.iter().filter_map(|input| Some(input.name().rsplit_once('.')?.1));
    let tried = format!("{start}.{}", nearest(ending, endings)?);
    let one = set(vec![GlobBuilder::new(&tried).literal_separator(true).build().ok()?])?;
    inputs.iter().any(|input| input.matches(&one)).then(|| format!("did you mean {tried:?}?"))
}
