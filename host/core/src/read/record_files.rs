//! Decides which files of a record input are read. If the user names a file, only that file is
//! read. A folder, or the common prefix of several files, is one dataset. If the file names show
//! several sets or splits, the user must choose one. ferry combines sets and splits only if the
//! user requests it.
//!
//! Splits are recognized by the words that the Hub's library `datasets` uses
//! (`datasets/data_files.py`), and by the names in a `dataset_info.json` of `datasets` or
//! `tensorflow_datasets`. If a folder contains no file in a known format, its splits may be in
//! sub-folders. These are `data/`, or folders with the names of splits.
//!
//! Numbered names (`train-00000-of-00002.parquet`) contain the number of files in a set. ferry
//! rejects an incomplete set, unless the user lists its files.

mod saved_dataset;
mod sets;
mod shards;
mod unknown;

use crate::context::session::Session;
use crate::formats::probe::probe;
use crate::formats::registry::{Formats, RegisteredFormat, holds_records};
use crate::read::account::InputScope;
use crate::read::context::ReadContext;
use crate::read::file_group::{FILES, files_alone};
use crate::read::folder::{LEADS_OUT, leads_out};
use crate::read::losses::LossPolicy;
use crate::read::own_files::is_own;
use crate::read::part::Part;
use crate::read::pattern::FilePattern;
use crate::read::source::FileSource;
use crate::read::{rank_folders, table_log};
use sets::{ChosenSet, Set, Splits, ambiguous_sets, check_saved, no_such_split};
use shards::check_complete;
use std::path::Path;
use std::sync::Arc;
use tensorferry_sdk::file_name::has_any_suffix;
use tensorferry_sdk::{Context, Entry, Error, ErrorKind, LossKind, Purpose, Result, Source};

/// The folder of a Hub repository that contains a dataset's files.
const DATA: &str = "data";
/// Maximum depth of sub-folders to search.
const MAX_DEPTH: usize = 16;
/// Maximum number of files to find.
const MAX_FILES: usize = 1 << 20;

/// The user's options for selecting and reading an input.
#[derive(Debug, Clone, Copy)]
pub struct InputChoice<'a> {
    pub from: Option<&'a str>,
    pub options: &'a [(String, String)],
    pub part: &'a Part,
    /// The options `--strict` and `--allow-loss`; `None` if the command has no such options.
    pub losses: Option<&'a LossPolicy>,
}

/// An input whose format and files are known.
pub struct FoundInput<'r> {
    pub source: FileSource,
    pub format: &'r RegisteredFormat,
    /// The options for the input's reader.
    pub options: Vec<(String, String)>,
    /// Whether the user chose a split as the part. In that case, the whole split is read.
    pub is_split: bool,
    /// The set that the user chose in the folder.
    chosen: Option<ChosenSet>,
    /// The entries that the user named, if they include entries other than the files that are read.
    pub scope: Option<Arc<InputScope>>,
    /// Whether unreadable entries are losses instead of errors, or `None` if the command has no
    /// option for this.
    allows_unreadable: Option<bool>,
}

/// Finds the format of a path and, for records, its files. Returns an error if nothing exists at
/// the path, if the user must choose a set, or if no format matches.
pub fn find<'r>(
    path: &Path,
    choice: InputChoice<'_>,
    registry: &'r Formats,
    session: &Session,
) -> Result<FoundInput<'r>> {
    find_from(FileSource::open(path, session)?, choice, registry, session)
}

/// Finds the format and files of an opened source, as [`find`] does for a path.
pub fn find_from<'r>(
    source: FileSource,
    choice: InputChoice<'_>,
    registry: &'r Formats,
    session: &Session,
) -> Result<FoundInput<'r>> {
    let found = find_in(source, choice, registry, session)?;
    if !holds_records(&found.format.description)
        && let Some(sibling) = rank_folders::sibling(&found.source, session)?
    {
        let path = found.source.entry_path();
        session.note(&format!(
            "{:?} holds one rank's part of a model: {sibling:?} is next to it",
            path.display().to_string()
        ));
    }
    Ok(found)
}

/// Finds the format and files of an opened source, as [`find_from`] does, but without a note about
/// parts of other ranks.
pub fn find_in<'r>(
    source: FileSource,
    choice: InputChoice<'_>,
    registry: &'r Formats,
    session: &Session,
) -> Result<FoundInput<'r>> {
    let allows_unreadable = choice.losses.map(|losses| losses.allows(LossKind::Input));
    let source = match allows_unreadable {
        Some(true) => source.without_unreadable(),
        Some(false) => source.advising(),
        None => source,
    };
    let named = source.reopen();
    let found = match probe(registry, &source, choice.from, session) {
        Ok(format) => {
            table_log::check(&source, format, choice.options, session)?;
            choose(source, format, choice, session)?
        }
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            match below(&source, choice.part, registry, session)? {
                Some((below, format)) => {
                    table_log::check(&below, format, choice.options, session)?;
                    choose_among(below, format, choice, session)?
                }
                None => {
                    let error = unknown::explain(error, &source, registry, session);
                    let scope = InputScope::of(&named, None, registry)?;
                    let account = scope.and_then(|scope| scope.account(&named, "", true, &|_| false).ok());
                    // The folder may contain only a link whose target is missing.
                    let unreadable = account.as_ref().and_then(|account| account.unreadable());
                    return Err(match unreadable {
                        Some((name, why)) if why == LEADS_OUT => leads_out(name),
                        Some((name, why)) => error.found(format!("{name:?}, which {why}")),
                        None => error,
                    });
                }
            }
        }
        Err(error) => return Err(error),
    };
    if let Some(set) = found.chosen.clone() {
        let scope = Some(Arc::new(InputScope::of_set(Arc::new(set), registry)?));
        return Ok(FoundInput { scope, allows_unreadable, ..found });
    }
    let files =
        choice.options.iter().find(|(key, _)| key == FILES && holds_records(&found.format.description));
    let scope = InputScope::of(&named, files.map(|(_, glob)| &**glob), registry)?;
    let scope = scope.map(|mut scope| {
        if holds_records(&found.format.description) {
            scope.sniff(&named, registry, session);
        }
        Arc::new(scope)
    });
    Ok(FoundInput { scope, allows_unreadable, ..found })
}

/// Chooses the record files to read. Tensor inputs and listed files are returned unchanged.
fn choose<'r>(
    source: FileSource,
    format: &'r RegisteredFormat,
    choice: InputChoice<'_>,
    session: &Session,
) -> Result<FoundInput<'r>> {
    if source.is_listed() || !holds_records(&format.description) {
        return Ok(FoundInput::all(source, format, choice.options));
    }
    choose_among(source, format, choice, session)
}

/// Returns the record files of the splits in sub-folders. Returns `None` if one of the sub-folders
/// is a model, because a pipeline of models may have a folder `test/` that is not a split.
fn below<'r>(
    source: &FileSource,
    part: &Part,
    registry: &'r Formats,
    session: &Session,
) -> Result<Option<(FileSource, &'r RegisteredFormat)>> {
    if *source.entry() != Entry::Folder || source.is_listed() {
        return Ok(None);
    }
    let splits = Splits::of(source);
    let mut names = Vec::new();
    for folder in source.folders("").unwrap_or_default() {
        let inside = source.in_folder(&folder);
        let is_model = |format: &RegisteredFormat| !holds_records(&format.description);
        if probe(registry, &inside, None, session).is_ok_and(is_model) {
            return Ok(None);
        }
        if folder != DATA && splits.of_path(&folder).is_none() {
            continue;
        }
        match saved_dataset::files(source, &folder)? {
            Some(saved) => names.extend(saved),
            None if walk(source, &folder, &mut names, MAX_DEPTH).is_err() => return Ok(None),
            None => {}
        }
    }
    let below = source.with_files(names);
    let format = probe(registry, &below, None, session).ok();
    let Some(format) = format.filter(|format| holds_records(&format.description)) else { return Ok(None) };
    if !matches!(part, Part::Path(_)) {
        check_saved(source)?;
    }
    Ok(Some((below, format)))
}

/// Chooses among the sets and splits of a record source.
fn choose_among<'r>(
    source: FileSource,
    format: &'r RegisteredFormat,
    choice: InputChoice<'_>,
    session: &Session,
) -> Result<FoundInput<'r>> {
    let InputChoice { options, part, .. } = choice;
    let all = FoundInput::all(source, format, options);
    if let Some((_, glob)) = options.iter().find(|(key, _)| key == FILES) {
        let names = matching(&all.source, glob)?;
        return Ok(all.only(names));
    }
    let listed = match all.source.entry() {
        // The user did not name this file: the search found it in a sub-folder.
        Entry::File(name) if all.source.is_listed() => vec![name.clone()],
        Entry::File(_) => return Ok(all),
        Entry::Folder => all.source.list("")?,
        Entry::Prefix(prefix) => all.source.list(prefix)?,
    };
    if *all.source.entry() == Entry::Folder
        && !all.source.is_listed()
        && let Some(saved) = saved_dataset::files(&all.source, "")?
        && saved.iter().all(|name| has_format_suffix(format, name))
    {
        note_unlisted(&saved, &listed, format, session);
        return Ok(all.only(saved));
    }
    let splits = Splits::of(&all.source);
    let sets = splits.sets(&listed, format);
    let wanted = match (part, all.source.entry()) {
        (Part::Path(name), _) => Some(name),
        // `data` means the set `data-?????-of-00004`, even if the set `data-old-?????-of-00002`
        // also exists.
        (_, Entry::Prefix(prefix)) => Some(prefix),
        _ => None,
    };
    let mut chosen = sets.iter().filter(|set| wanted.is_some() && set.name.as_ref() == wanted);
    match chosen.next().filter(|_| chosen.next().is_none()) {
        Some(set) => {
            let names = names_of(set)?;
            let is_split = matches!(part, Part::Path(_));
            let name = set.name.clone().filter(|_| sets.len() > 1);
            let chosen = name.map(|name| ChosenSet { name, splits });
            Ok(FoundInput { is_split, chosen, ..all.only(names) })
        }
        None if sets.len() > 1 => {
            let path = all.source.entry_path();
            let is_there = |name: &String| sets.iter().any(|set| set.name.as_ref() == Some(name));
            let error = match part {
                Part::Path(name) if !is_there(name) => no_such_split(&sets, name),
                _ => ambiguous_sets(&sets, &format.description),
            };
            Err(error.file(path.display().to_string()))
        }
        None => {
            let names = sets.first().map(names_of).transpose()?;
            if !would_read_own_files(&all.source, &listed, format) {
                return Ok(all);
            }
            let is_visible =
                |name: &&String| !name.starts_with(['.', '_']) && !is_own(all.source.folder(), name);
            let names = names.unwrap_or_else(|| listed.iter().filter(is_visible).cloned().collect());
            Ok(if names.is_empty() { all } else { all.only(names) })
        }
    }
}

/// Adds a note about files that have the format's suffix but are not listed in a dataset's
/// `state.json`.
fn note_unlisted(saved: &[String], listed: &[String], format: &RegisteredFormat, session: &Session) {
    let is_other = |name: &&String| has_format_suffix(format, name) && !saved.contains(name);
    let others: Vec<String> = listed.iter().filter(is_other).cloned().collect();
    if !others.is_empty() {
        let shown = unknown::listed(&others);
        session.note(&format!("files that state.json does not list, such as caches, are not read: {shown}"));
    }
}

/// Returns whether a reader that lists the files itself would read ferry's own files as data. For
/// example, a folder of JSON Lines files may contain a journal. A folder may also contain a
/// receipt, but no file with the format's suffix.
fn would_read_own_files(source: &FileSource, listed: &[String], format: &RegisteredFormat) -> bool {
    let (own, others): (Vec<&String>, Vec<&String>) =
        listed.iter().partition(|name| is_own(source.folder(), name));
    let are_called = |names: &[&String]| names.iter().any(|name| has_format_suffix(format, name));
    // If the format has no suffixes, an index determines which files are data.
    let has_endings = !format.description.suffixes.is_empty();
    has_endings && !own.is_empty() && (are_called(&own) || !are_called(&others))
}

/// Returns whether a name has one of a format's suffixes.
fn has_format_suffix(format: &RegisteredFormat, name: &str) -> bool {
    has_any_suffix(name, &format.description.suffixes)
}

/// Returns the files of a set, after checking that it is complete.
fn names_of(set: &Set<'_>) -> Result<Vec<String>> {
    check_complete(&set.files)?;
    Ok(set.files.iter().map(|&name| name.to_owned()).collect())
}

impl<'r> FoundInput<'r> {
    fn all(source: FileSource, format: &'r RegisteredFormat, options: &[(String, String)]) -> Self {
        let options = options.to_vec();
        Self { source, format, options, is_split: false, chosen: None, scope: None, allows_unreadable: None }
    }
}

impl FoundInput<'_> {
    /// Returns the context of the input's reader, with the scope for its account. If the purpose is
    /// only to show the input, unreadable entries are not errors.
    #[must_use]
    pub fn reading<'s>(&self, session: &'s Session, purpose: Purpose) -> ReadContext<'s> {
        let allows_unreadable = if purpose.has(Purpose::SHOW) { Some(true) } else { self.allows_unreadable };
        ReadContext::new(session, purpose)
            .with_scope(self.scope.clone())
            .allowing_unreadable(allows_unreadable)
    }

    /// Returns the same input with different reader options.
    #[must_use]
    pub fn with_options(&self, options: Vec<(String, String)>) -> Self {
        let (scope, chosen) = (self.scope.clone(), self.chosen.clone());
        Self { source: self.source.reopen(), options, scope, chosen, ..*self }
    }

    /// Restricts the input to these files.
    fn only(self, names: Vec<String>) -> Self {
        let options: Vec<_> = self.options.iter().filter(|(key, _)| key != FILES).cloned().collect();
        let options = files_alone(self.format, &options);
        let source = self.source.with_files(names);
        Self { source, options, ..self }
    }
}

/// Returns the visible files of a folder whose paths match a pattern.
fn matching(source: &FileSource, pattern: &str) -> Result<Vec<String>> {
    let option = |error: Error| error.context(format!("option {FILES}"));
    let mut names = Vec::new();
    walk(source, "", &mut names, if FilePattern::has_folders(pattern) { MAX_DEPTH } else { 0 })?;
    let names = source.matching(pattern, names).map_err(option)?;
    if names.is_empty() {
        return Err(Error::usage(format!("no file matches option {FILES}")).found(format!("{pattern:?}")));
    }
    Ok(names)
}

/// Adds the visible files of a folder and its sub-folders, except for ferry's own files.
fn walk(source: &FileSource, folder: &str, names: &mut Vec<String>, depth: usize) -> Result<()> {
    let is_visible = |name: &String| !name.rsplit('/').next().unwrap_or(name).starts_with(['.', '_']);
    let is_data = |name: &String| is_visible(name) && !is_own(source.folder(), name);
    let mut open = vec![(folder.to_owned(), depth)];
    let mut folders = 0;
    while let Some((folder, depth)) = open.pop() {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        names.extend(source.list(&prefix)?.into_iter().filter(is_data));
        folders += 1;
        // The limit also stops the search if links to folders form a cycle.
        if names.len() + folders > MAX_FILES {
            return Err(Error::limit("too many files").file(folder).expected(format!("at most {MAX_FILES}")));
        }
        if let Some(depth) = depth.checked_sub(1) {
            open.extend(source.folders(&folder)?.into_iter().filter(is_visible).map(|below| (below, depth)));
        }
    }
    names.sort();
    Ok(())
}
