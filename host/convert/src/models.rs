//! Opens the models of an input: either one model, or all models in the sub-folders of a folder.
//! The model of a sub-folder is written to the sub-folder of the output that has the same name.

use crate::context::ConversionContext;
use crate::sides::{check_sides, options_of};
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::data_names::DataNames;
use tensorferry_core::formats::probe::{ACCOMPANIES_A_MODEL, best_match, probe};
use tensorferry_core::formats::registry::{Formats, RegisteredFormat};
use tensorferry_core::read::account::{
    ReadFiles, is_export_folder, is_folder_without_data, is_vendor_folder,
};
use tensorferry_core::read::folder::{EntryKind, FolderEntry};
use tensorferry_core::read::input;
use tensorferry_core::read::key_words::is_training_folder;
use tensorferry_core::read::model::InputModel;
use tensorferry_core::read::rank_folders::{self, refusal, sibling_among};
use tensorferry_core::read::source::FileSource;
use tensorferry_core::read::unfinished::is_unfinished;
use tensorferry_core::read::weights::{MAX_FOLDERS, WeightNames};
use tensorferry_sdk::{Context, Entry, Error, ErrorKind, Result, Source, Target};

/// Reads the input in the format that probing found. If the input and the output are folders, also
/// reads the models of the sub-folders. Returns at least one model.
pub fn read<'a>(
    context: &ConversionContext<'a>,
    probed: Result<&RegisteredFormat>,
) -> Result<Vec<InputModel<'a>>> {
    let (source, target) = (&context.source, &context.target);
    let may_hold_more = *source.entry() == Entry::Folder && target.target == Target::Folder;
    let mut models = Vec::new();
    let nothing_here = match probed {
        Ok(format) => {
            check_sides(context.request, &format.description, &target.format.description)?;
            models.push(read_one(context, String::new(), source, format, &context.request.input.options)?);
            None
        }
        // The error for the folder itself is returned later, because errors from models in
        // sub-folders are more specific.
        Err(error) if may_hold_more && error.kind() == ErrorKind::Unsupported => Some(error),
        Err(error) => return Err(error),
    };
    if may_hold_more {
        read_below(context, &context.input_folder(), &mut models)?;
    }
    match nothing_here {
        Some(error) if models.is_empty() => return Err(error),
        _ => {}
    }
    let holds_nothing = models.iter().all(|model| model.input.catalog.tensors().is_empty());
    if holds_nothing && !context.request.input.may_be_empty() {
        let error = Error::malformed("the input holds no tensors")
            .file(source.entry_path().display().to_string())
            .hint("pass --allow-empty to convert an input without tensors");
        // If the reader left out content, the error names this content as the cause.
        let left_out = models.iter().flat_map(|model| model.input.catalog.losses()).next();
        return Err(match left_out {
            Some(loss) => error.found(format!("{}: {}", loss.what, loss.why)),
            None => error,
        });
    }
    Ok(models)
}

fn read_one<'a>(
    context: &ConversionContext<'a>,
    folder: String,
    source: &FileSource,
    format: &RegisteredFormat,
    options: &[(String, String)],
) -> Result<InputModel<'a>> {
    let is_folder = *source.entry() == Entry::Folder && !source.is_listed();
    let reading = context.reading(context.purpose(format));
    let reading = reading.with_folder(is_folder.then(|| source.in_folder("")));
    let options = context.reader_options(source, &format.description, options)?;
    let input = input::read(source, format, &options, &reading)?;
    Ok(InputModel { folder, input, context: reading })
}

/// Reads the models of sub-folders. Skips a sub-folder if a model in a folder above it has read any
/// of the sub-folder's files. Such a sub-folder is part of that model.
fn read_below<'a>(
    context: &ConversionContext<'a>,
    root: &FileSource,
    models: &mut Vec<InputModel<'a>>,
) -> Result<()> {
    let (weights, files) = (WeightNames::of(context.registry)?, context.registry.data_names()?);
    let mut open = sub_folders(root, "")?;
    while let Some(folder) = open.pop() {
        context.session.check_cancelled()?;
        if is_other_step(models.iter(), &folder) || (is_export_folder(&folder) && !models.is_empty()) {
            continue;
        }
        let source = root.in_folder(&folder);
        let names: Vec<String> = source.list("")?;
        let is_read = |name: &String| models.iter().any(|m| m.has_read(&format!("{folder}/{name}")));
        if names.iter().any(is_read) {
            continue;
        }
        open.extend(sub_folders(root, &folder)?);
        let is_training = folder.split('/').any(is_training_folder);
        if is_training || !names.iter().any(|name| weights.is_match(name)) {
            continue;
        }
        if is_export(context, root, models.iter().map(|model| &*model.folder), &folder)
            || is_of_vendor(
                root,
                models,
                &folder,
                names.iter().filter(|name| weights.is_match(name)),
                &files,
            )?
        {
            continue;
        }
        match probe(context.registry, &source, None, context.session) {
            Ok(format) => {
                if !rank_folders::is_alone(&context.request.input.options) {
                    check_rank(root, &folder)?;
                }
                let options = options_of(&format.description, &context.request.input.options);
                let model = read_one(context, folder.clone(), &source, format, &options);
                models.push(model.map_err(|error| error.context(format!("in sub-folder {folder:?}")))?);
            }
            // The sub-folder's files will be reported as not copied.
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            Err(error) => return Err(error.context(format!("in sub-folder {folder:?}"))),
        }
    }
    models.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(())
}

/// Returns whether a sub-folder's weights are the parent folder's model in its vendor's own layout.
fn is_of_vendor<'n>(
    root: &FileSource,
    models: &[InputModel<'_>],
    folder: &str,
    mut weights: impl Iterator<Item = &'n String>,
    names: &DataNames,
) -> Result<bool> {
    let around = folder.rsplit_once('/').map_or("", |(around, _)| around);
    let Some(model) = models.iter().find(|model| model.folder == around && is_vendor_folder(folder)) else {
        return Ok(false);
    };
    let entries = root.entries(around)?;
    let read = entries.iter().filter(|entry| model.has_read(&entry.name));
    let read = ReadFiles::of(read.filter_map(|entry| entry.name.rsplit('/').next()), names);
    Ok(weights.all(|file| read.supersede_vendor(file, names)))
}

/// Returns an error if a sub-folder contains one of several ranks, because each rank would be
/// converted as a separate model.
fn check_rank(root: &FileSource, folder: &str) -> Result<()> {
    let (above, name) = folder.rsplit_once('/').unwrap_or(("", folder));
    let folders = sub_folders(root, above)?;
    let names = folders.iter().map(|path| path.rsplit('/').next().unwrap_or(path));
    sibling_among(name, names).map_or(Ok(()), |sibling| Err(refusal(folder, &sibling)))
}

/// Returns whether a sub-folder is a different step of a training run from which a model was read.
/// The reader must have read a folder whose name differs only in its number (`iter_0000010` next to
/// `iter_0000020`, `100` next to `200`).
pub(crate) fn is_other_step<'m, 's: 'm>(
    models: impl Iterator<Item = &'m InputModel<'s>>,
    folder: &str,
) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    let stem = folder.trim_end_matches(is_digit);
    let is_step =
        |rest: &str| rest.trim_start_matches(is_digit).starts_with('/') && rest.starts_with(is_digit);
    let is_own = |name: &str| name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    // A model inside a step folder does not belong to the run root.
    let is_around = |model: &&InputModel<'_>| model.folder.is_empty() || stem.starts_with(&model.path_of(""));
    stem != folder
        && models.filter(is_around).any(|model| {
            let read: Vec<String> =
                model.input.source.opened().into_iter().map(|name| model.path_of(name)).collect();
            read.iter().any(|name| name.strip_prefix(stem).is_some_and(is_step))
                && !read.iter().any(|name| is_own(name))
        })
}

/// Returns whether a sub-folder of `root` contains an export of a model in a folder above it. The
/// formats of exports never match a folder with certainty, because files of the same kinds also
/// occur next to other models. Exports are copied unchanged.
pub fn is_export<'m>(
    context: &ConversionContext<'_>,
    root: &FileSource,
    mut models: impl Iterator<Item = &'m str>,
    folder: &str,
) -> bool {
    let is_around = |outer: &str| {
        outer != folder
            && (outer.is_empty() || folder.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/')))
    };
    models.any(is_around)
        && best_match(context.registry, &root.in_folder(folder), context.session)
            .is_ok_and(|(score, _)| score <= ACCOMPANIES_A_MODEL)
}

/// Returns the folders below `root` that contain a model, sorted. If `root` does not contain a
/// model itself, a conversion converts the models of these folders.
pub fn folders(root: &FileSource, registry: &Formats, session: &Session) -> Result<Vec<String>> {
    let weights = WeightNames::of(registry)?;
    let (mut open, mut found) = (sub_folders(root, "")?, Vec::new());
    while let Some(folder) = open.pop() {
        session.check_cancelled()?;
        open.extend(sub_folders(root, &folder)?);
        let source = root.in_folder(&folder);
        let has_weights = !folder.split('/').any(is_training_folder)
            && source.list("")?.iter().any(|name| weights.is_match(name));
        if has_weights && probe(registry, &source, None, session).is_ok() {
            found.push(folder);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the sub-folders of a folder of the input, relative to `root`. Skips hidden folders,
/// links, unfinished checkpoints and folders that are nested too deeply.
fn sub_folders(root: &FileSource, folder: &str) -> Result<Vec<String>> {
    if folder.split('/').count() > MAX_FOLDERS {
        return Ok(Vec::new());
    }
    // The list is a stack: the last folder is visited first.
    let entries = root.entries(folder)?.into_iter().rev();
    Ok(entries.filter(is_entered).map(|entry| entry.name).collect())
}

/// Returns whether this folder is searched for models and for files to copy along.
pub fn is_entered(entry: &FolderEntry) -> bool {
    let name = entry.name.rsplit('/').next().unwrap_or_default();
    let is_passed_over = name.starts_with('.') || is_folder_without_data(name) || is_unfinished(name);
    entry.kind == EntryKind::Folder && !entry.is_link && !is_passed_over
}
