//! Sidecars are the files next to the weights of a model folder: configuration, tokenizers, a model
//! card, sub-folders. If the output is a folder, sidecars are copied along with the model. Each
//! sidecar that cannot be copied is reported as a loss.

use crate::context::ConversionContext;
use crate::models::{is_entered, is_export, is_other_step};
use crate::receipt;
use crate::write::config_dtype::{self, Edit};
use crate::write::config_quantization;
use globset::GlobSet;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use tensorferry_core::context::session::Session;
use tensorferry_core::context::windows::{WINDOW_BYTES, windows};
use tensorferry_core::formats::probe::accompanies_a_model;
use tensorferry_core::read::account::{
    Account, EntryClass, ReadFiles, is_export as is_export_file, is_export_folder, is_vendor_folder,
    other_data, unreadable,
};
use tensorferry_core::read::folder::{EntryKind, FolderEntry, LEADS_OUT, is_repository};
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_core::read::key_words::names_training_state;
use tensorferry_core::read::model::InputModel;
use tensorferry_core::read::source::FileSource;
use tensorferry_core::read::unfinished::is_unfinished;
use tensorferry_core::read::weights::{MAX_FOLDERS, WeightNames, globs};
use tensorferry_publish::output_bytes::FileShape;
use tensorferry_publish::staging::Staging;
use tensorferry_sdk::{Context, Entry, Error, ErrorKind, Loss, LossKind, Result, Severity, Source, Target};
use tensorferry_tensors::steps::adapt::AdaptedCatalog;
use tensorferry_tensors::steps::model_config::OF_QUANTIZATION;

/// The sidecars that are copied to the output, and the sidecars that are left out.
#[derive(Default)]
pub struct Sidecars {
    names: Vec<String>,
    losses: Vec<Loss>,
    notes: Vec<String>,
    account: Option<Account>,
    /// Files that the models' readers have created, by name.
    made: BTreeMap<String, Vec<u8>>,
    /// Files whose text is edited, each with the new text and the source of the original.
    edited: BTreeMap<String, (Vec<u8>, FileSource)>,
}

/// Decides which files of an input folder are copied to the output. A file is copied only if no
/// reader has read it and the output does not use its name (`is_output`). If the input is a file or
/// a glob, the files next to that input that match `--companions` are copied.
pub fn find(
    context: &ConversionContext<'_>,
    models: &[&InputModel<'_>],
    is_output: &dyn Fn(&str) -> bool,
) -> Result<Sidecars> {
    let (input, carried, target) = (&context.input_folder(), context.carried_folder(), &context.target);
    let mut sidecars = Sidecars::default();
    let wanted = context.request.input.companions.as_deref().map(CompanionPatterns::of).transpose()?;
    sidecars.add_made(models, &target.target, is_output);
    if let Some(wanted) = &wanted {
        sidecars.made.retain(|name, _| wanted.is_match(name));
        sidecars.losses.retain(|loss| wanted.is_match(&loss.what));
    }
    let is_folder = |source: &FileSource| *source.entry() == Entry::Folder && !source.is_listed();
    if !models.iter().all(|model| is_folder(&model.input.source)) {
        if let [model] = models {
            sidecars.take_account(context, model)?;
        }
        if let Some(wanted) = &wanted {
            sidecars.add_beside(&carried, models, wanted)?;
            sidecars.notes.extend(wanted.note());
        }
        sidecars.names.retain(|name| !sidecars.made.contains_key(name));
        return Ok(sidecars);
    }
    let (weights, names) = (WeightNames::of(context.registry)?, context.registry.data_names()?);
    let mut account = Account::of_models(models.len() as u64);
    let mut open = vec![String::new()];
    let mut read_around: HashMap<String, ReadFiles> = HashMap::new();
    let is_repository = std::fs::canonicalize(input.folder()).is_ok_and(|folder| is_repository(&folder));
    while let Some(folder) = open.pop() {
        let of_folder = models.iter().find(|model| model.folder == folder);
        let mut companions = ModelExports::of(context, &weights, input, &folder);
        let entries = match input.entries(&folder) {
            Ok(entries) => entries,
            Err(error) if folder.is_empty() || !is_lasting(&error) => return Err(error),
            Err(error) => {
                account.leave_out(&folder, format!("the folder cannot be listed: {error}"));
                continue;
            }
        };
        let read = entries.iter().filter(|entry| models.iter().any(|model| model.has_read(&entry.name)));
        let read: Vec<&str> = read.map(|entry| file_of(&entry.name)).collect();
        let read_files = ReadFiles::of(of_folder.iter().flat_map(|_| read.iter().copied()), &names);
        let around = folder.rsplit_once('/').map_or("", |(around, _)| around);
        let of_vendor = read_around.get(around).filter(|_| is_vendor_folder(&folder));
        for entry in &entries {
            let FolderEntry { name, kind, .. } = entry;
            let (name, kind, file) = (name.clone(), *kind, file_of(name));
            let is_weights = weights.is_match_beside(&name);
            let is_around = |model: &&InputModel<'_>| {
                model.folder.is_empty()
                    || name.strip_prefix(&*model.folder).is_some_and(|rest| rest.starts_with('/'))
            };
            if kind == EntryKind::File && models.iter().any(|model| model.has_read(&name)) {
                account.add(EntryClass::Read, &name);
                continue;
            } else if receipt::is_name(file) && kind == EntryKind::File {
                sidecars.notes.push(format!("{name:?} is left out: it is the receipt of the input"));
                account.add(EntryClass::NoData, &name);
                continue;
            } else if is_repository && CACHE_ENTRIES.contains(&&*name) {
                let why = "it belongs to the cache of huggingface_hub";
                sidecars.notes.push(format!("{name:?} is left out: {why}"));
                account.add(EntryClass::NoData, &name);
                continue;
            } else if account.add_special(input, entry, &names) {
                continue;
            }
            let is_superseded = match kind {
                _ if entry.is_link && is_link_to_a_model(input, &name, models) => true,
                EntryKind::Folder => {
                    is_export_folder(file) && models.iter().copied().any(|model| is_around(&model))
                }
                _ if read_files.supersede(file, &names) => true,
                _ if of_vendor.is_some_and(|read| read.supersede_vendor(file, &names)) => true,
                _ => is_export_file(file) && models.iter().copied().any(|model| is_around(&model)),
            };
            if is_superseded {
                account.add(EntryClass::Superseded, &name);
                continue;
            }
            if kind == EntryKind::Folder {
                if is_other_step(models.iter().copied(), &name) {
                    account.leave_out(&name, "a different step of the run: convert it separately");
                } else if is_unfinished(file) {
                    account.leave_out(&name, "an unfinished checkpoint");
                } else if is_entered(entry) && name.split('/').count() <= MAX_FOLDERS {
                    open.push(name);
                } else {
                    account.leave_out(&name, "folders that are hidden, links or too deep are not copied");
                }
                continue;
            }
            let is_wanted = wanted.as_ref().is_none_or(|wanted| wanted.is_match(&name));
            let is_beside = of_folder
                .is_some_and(|model| !weights.is_of(file, &model.input.format.description))
                && target.target == Target::Folder
                && !is_output(&name)
                && companions.is_export(file, is_wanted);
            let is_left_out = is_weights
                && !is_beside
                && !is_export(context, input, models.iter().map(|model| &*model.folder), &folder);
            if is_left_out {
                account.leave_out(&name, "other weights, which were not read: convert them separately");
                continue;
            }
            if !is_wanted {
                account.add(EntryClass::Excluded, &name);
                continue;
            }
            if let Some(why) = not_carried(input, &carried, entry) {
                account.leave_out(&name, why);
                continue;
            }
            account.add(EntryClass::Companion, &name);
            let lost = if is_beside {
                sidecars.names.push(name);
                continue;
            } else if target.target != Target::Folder {
                let loss = Loss::new(LossKind::Sidecar, &name, "the output is not a folder");
                // Configuration and training state are not part of a weights file. If such files
                // are left out, ferry adds a note and does not report a loss.
                let is_data = names.format_of(file).is_some() || other_data(file).is_some();
                let holds_data = is_data && !names_training_state(file);
                if holds_data { loss } else { loss.severity(Severity::Note) }
            } else if is_output(&name) || sidecars.made.contains_key(&name) {
                Loss::new(LossKind::Sidecar, &name, "the output has a file of this name")
            } else {
                sidecars.names.push(name);
                continue;
            };
            sidecars.losses.push(lost);
        }
        sidecars.notes.extend(companions.note());
        if of_folder.is_some() {
            read_around.insert(folder, read_files);
        }
    }
    account.check(Some(context.allows_unreadable()))?;
    sidecars.notes.extend(wanted.as_ref().and_then(CompanionPatterns::note));
    sidecars.losses.extend_from_slice(account.losses());
    sidecars.notes.extend(account.note());
    sidecars.account = Some(account);
    sidecars.names.sort();
    sidecars.losses.sort();
    Ok(sidecars)
}

/// Returns whether a link leads to a file or to a folder of a model that was read.
fn is_link_to_a_model(input: &FileSource, name: &str, models: &[&InputModel<'_>]) -> bool {
    let canonical = |path| std::fs::canonicalize(path).ok();
    let (Some(root), Some(target)) = (canonical(input.path("")), canonical(input.path(name))) else {
        return false;
    };
    let target = target.strip_prefix(&root).ok().and_then(|target| target.to_str());
    target.is_some_and(|target| models.iter().any(|model| model.has_read(target) || model.folder == target))
}

/// Returns whether an error will recur in a retry, because the folder itself is the cause.
fn is_lasting(error: &Error) -> bool {
    error.kind() == ErrorKind::Io
}

/// Returns the reason why a local file cannot be copied to the output, or `None` if the file can be
/// copied. Links that lead out of the folder are followed only for weights.
fn not_carried(input: &FileSource, carried: &FileSource, entry: &FolderEntry) -> Option<String> {
    if entry.is_link && carried.is_local() && !carried.contains(&entry.name).unwrap_or(false) {
        return Some(format!("the entry {LEADS_OUT}"));
    }
    input.why_unreadable(&entry.name).map(|why| format!("the entry cannot be read: {why}"))
}

/// The files that `--companions` selects.
struct CompanionPatterns<'a> {
    patterns: &'a [String],
    globs: GlobSet,
    has_matched: Cell<bool>,
}

impl<'a> CompanionPatterns<'a> {
    fn of(patterns: &'a [String]) -> Result<Self> {
        Ok(Self { patterns, globs: globs(patterns)?, has_matched: Cell::default() })
    }

    /// Returns whether a pattern selects a file, by the file's path in the input's folder or by its
    /// name.
    fn is_match(&self, name: &str) -> bool {
        let is_match = self.globs.is_match(name) || self.globs.is_match(file_of(name));
        self.has_matched.set(self.has_matched.get() || is_match);
        is_match
    }

    /// Returns a note if there are patterns but no file matches any pattern, which often means that
    /// the user mistyped one.
    fn note(&self) -> Option<String> {
        (!self.patterns.is_empty() && !self.has_matched.get())
            .then(|| format!("no file next to the weights matches {:?}", self.patterns.join(",")))
    }
}

/// Files next to a folder's model that are in a different format, such as exports of the model
/// (GGUF, ONNX) or its arrays. These files are copied to the output like other files, unless they
/// could be mistaken for the output's own files.
struct ModelExports<'a> {
    context: &'a ConversionContext<'a>,
    weights: &'a WeightNames,
    source: FileSource,
    /// For each format ID that was checked, whether files of this format accompany a model.
    asked: BTreeMap<String, bool>,
    /// Number of files to copy, and their formats.
    copied: usize,
    formats: BTreeSet<String>,
}

impl<'a> ModelExports<'a> {
    fn of(
        context: &'a ConversionContext<'a>,
        weights: &'a WeightNames,
        root: &FileSource,
        folder: &str,
    ) -> Self {
        let source = root.in_folder(folder);
        Self { context, weights, source, asked: BTreeMap::new(), copied: 0, formats: BTreeSet::new() }
    }

    /// Returns whether a file is a companion of the folder's model. The file's name must match at
    /// least one format, and all matching formats must accompany a model of a different format. The
    /// name must not be one that the output's format uses. `is_wanted` determines whether a
    /// companion is copied.
    fn is_export(&mut self, file: &str, is_wanted: bool) -> bool {
        let target = &self.context.target.format.description;
        let ids: Vec<&str> = self.weights.built_in(file).collect();
        let is_one = !ids.is_empty()
            && !self.weights.is_of(file, target)
            && ids.into_iter().all(|id| {
                *self.asked.entry(id.to_owned()).or_insert_with(|| {
                    accompanies_a_model(self.context.registry, id, &self.source, self.context.session)
                })
            });
        if is_one && is_wanted {
            self.copied += 1;
            self.formats.extend(self.weights.built_in(file).map(str::to_owned));
        }
        is_one
    }

    /// Returns a note about the files that are copied.
    fn note(&self) -> Option<String> {
        let ids: Vec<&str> = self.formats.iter().map(String::as_str).collect();
        let files = if self.copied == 1 { "1 file".to_owned() } else { format!("{} files", self.copied) };
        (self.copied > 0).then(|| {
            format!(
                "{files} next to the model ({}) are copied unread: pass one as the input to convert it",
                ids.join(", ")
            )
        })
    }
}

fn file_of(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

/// Entries of a repository in the `huggingface_hub` cache other than its snapshots: the blobs to
/// which the snapshots link, refs, and markers for missing files.
const CACHE_ENTRIES: [&str; 3] = ["blobs", "refs", ".no_exist"];

impl Sidecars {
    /// Adds the files of a folder that match a pattern and that no reader has read.
    fn add_beside(
        &mut self,
        folder: &FileSource,
        models: &[&InputModel<'_>],
        wanted: &CompanionPatterns<'_>,
    ) -> Result<()> {
        if wanted.patterns.is_empty() {
            return Ok(());
        }
        let is_wanted = |entry: &FolderEntry| {
            !models.iter().any(|model| model.has_read(&entry.name)) && wanted.is_match(&entry.name)
        };
        for entry in folder.entries("")?.into_iter().filter(is_wanted) {
            match entry.kind {
                EntryKind::File => self.names.push(entry.name),
                EntryKind::Folder => {}
                _ => {
                    let why = unreadable(folder, &entry).unwrap_or_default();
                    self.losses.push(Loss::new(LossKind::Input, entry.name, format!("the entry {why}")));
                }
            }
        }
        self.names.sort();
        Ok(())
    }

    /// Adds the account of a model that consists of files that match a glob or share a prefix.
    fn take_account(&mut self, context: &ConversionContext<'_>, model: &InputModel<'_>) -> Result<()> {
        let is_read = |name: &str| model.has_read(name);
        if !model.input.is_of_records() {
            let format = &model.input.format.description;
            self.losses.extend_from_slice(model.context.take_account(&context.source, format, &is_read)?);
        }
        self.account = model.context.account().cloned();
        Ok(())
    }

    /// Returns the outcome for each entry of the input, if the input is not a single file.
    #[must_use]
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// Returns the names of the input's files that are copied to the output, relative to the
    /// input's folder.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns the names of the additional files that readers have created.
    pub(crate) fn made(&self) -> impl Iterator<Item = &str> {
        self.made.keys().map(String::as_str)
    }

    fn add_made(&mut self, models: &[&InputModel<'_>], target: &Target, is_output: &dyn Fn(&str) -> bool) {
        for model in models {
            for (name, bytes) in model.input.catalog.sidecars() {
                let name = model.path_of(name);
                let lost = if *target != Target::Folder {
                    "the output is not a folder"
                } else if is_output(&name) {
                    "the output has a file of this name"
                } else {
                    self.made.insert(name, bytes.clone());
                    continue;
                };
                self.losses.push(Loss::new(LossKind::Sidecar, name, lost));
            }
        }
    }

    /// Returns the paths of the input's files, and their current identities.
    pub(crate) fn files(&self, input: &FileSource) -> Result<Vec<(PathBuf, FileIdentity)>> {
        for name in &self.names {
            input.open(name).map_err(|error| {
                Error::transient("the source changed while it was being read").file(name).found(error)
            })?;
        }
        Ok(input.stamped().map(|(path, identity)| (path.to_owned(), identity)).collect())
    }

    /// Returns notes about files that are left out because the same model exists in a preferred
    /// format.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    #[must_use]
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Updates the configuration of a model whose weights are cast or are no longer quantized.
    /// `selected` is the part of the model that is written.
    pub(crate) fn follow_casts(
        &mut self,
        input: &FileSource,
        model: &InputModel<'_>,
        selected: &AdaptedCatalog,
    ) -> Result<()> {
        if selected.dequantized.is_some() {
            self.leave_out_quantization(model);
        }
        let name = model.path_of(config_dtype::NAME);
        if let Some(made) = self.made.get_mut(&name) {
            if let Edit::Text(edited, _) =
                config_dtype::edit(std::str::from_utf8(made).unwrap_or_default(), &selected.catalog)
            {
                *made = edited.into_bytes();
            }
            return Ok(());
        }
        if !self.names.contains(&name) {
            return Ok(());
        }
        let source = input.reopen();
        let file = source.open(&name)?;
        let mut text = vec![0; usize::try_from(source.len(file).min(config_dtype::MAX_BYTES)).unwrap_or(0)];
        source.read_at(file, 0, &mut text)?;
        // Text that is truncated or not UTF-8 is not valid JSON, and remains unchanged.
        let text = std::str::from_utf8(&text).unwrap_or_default();
        let mut change = None;
        let mut edited = None;
        if let Some((text, says)) = selected.dequantized.and_then(|to| config_quantization::edit(text, to)) {
            (edited, change) = (Some(text), Some(says));
        }
        let text = edited.as_deref().unwrap_or(text);
        match config_dtype::edit(text, &selected.catalog) {
            Edit::None | Edit::Untrue(_) if change.is_some() => {
                self.notes.extend(change.map(|change| format!("{name}: {change}")));
                self.edited.insert(name, (text.as_bytes().to_vec(), source));
            }
            Edit::None => {}
            Edit::Text(edited, change) => {
                self.notes.push(format!("{name}: {change}"));
                self.edited.insert(name, (edited.into_bytes(), source));
            }
            Edit::Untrue(says) => {
                self.notes.push(format!("{name}: {says}, but the weights now have other dtypes"));
            }
        }
        Ok(())
    }

    /// Leaves out the files that only describe how a model's weights were quantized.
    fn leave_out_quantization(&mut self, model: &InputModel<'_>) {
        for name in OF_QUANTIZATION.map(|name| model.path_of(name)) {
            let count = self.names.len();
            self.names.retain(|known| *known != name);
            if self.names.len() < count {
                self.notes.push(format!("{name:?} is left out: the weights are no longer quantized"));
            }
        }
    }

    /// Copies the files into the stage and returns their lengths.
    pub(crate) fn copy(
        &self,
        source: &FileSource,
        stage: &dyn Staging,
        session: &Session,
    ) -> Result<Vec<u64>> {
        let mut buffer = Vec::new();
        let mut lens = Vec::with_capacity(self.names.len());
        for name in &self.names {
            if let Some((text, source)) = self.edited.get(name) {
                let len = text.len() as u64;
                let output = stage.create(name, FileShape::of_len(len))?;
                output.write_all_at(text, 0).map_err(|e| e.file(name))?;
                source.check_unchanged()?;
                lens.push(len);
                continue;
            }
            let file = source.open(name)?;
            let len = source.len(file);
            let output = stage.create(name, FileShape::of_len(len))?;
            buffer.resize(WINDOW_BYTES, 0);
            for (offset, part) in windows(0..len) {
                session.check_cancelled()?;
                source.read_at(file, offset, &mut buffer[..part])?;
                output.write_all_at(&buffer[..part], offset).map_err(|e| e.file(name))?;
            }
            lens.push(len);
        }
        for (name, bytes) in &self.made {
            let output = stage.create(name, FileShape::of_len(bytes.len() as u64))?;
            output.write_all_at(bytes, 0).map_err(|e| e.file(name))?;
            lens.push(bytes.len() as u64);
        }
        source.check_unchanged()?;
        Ok(lens)
    }
}
