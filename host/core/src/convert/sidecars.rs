//! Sidecars are what lies beside the weights of a model folder: configuration, tokenizers, a model
//! card, sub-folders. A folder's sidecars go along to a folder; where they cannot, each is a loss.

use crate::context::session::Session;
use crate::context::windows::{WINDOW_BYTES, windows};
use crate::convert::context::ConversionContext;
use crate::convert::models::is_export;
use crate::convert::weights::{MOST_FOLDERS, Weights, globs};
use crate::publish::stage::Stage;
use crate::read::identity::FileIdentity;
use crate::read::model::InputModel;
use crate::read::source::FileSource;
use crate::receipt;
use crate::write::config_dtype::{self, Edit};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tensorferry_sdk::{Catalog, Context, Entry, Error, Loss, LossKind, Result, Source, Target};

/// The files that go along, and those that do not.
#[derive(Default)]
pub(crate) struct Sidecars {
    names: Vec<String>,
    losses: Vec<Loss>,
    notes: Vec<String>,
    /// Those whose text changes, and the files that they were read from.
    edited: BTreeMap<String, (Vec<u8>, FileSource)>,
}

/// What becomes of the files of an input folder that no reader of its models has read, and whose names are none
/// of the output's (`is_output`). Of an input that is a file or a glob, those beside it go along whose names match
/// `--carry`.
///
/// # Errors
/// I/o; usage, for a pattern that is none.
pub(crate) fn find(
    context: &ConversionContext<'_>,
    models: &[&InputModel<'_>],
    is_output: &dyn Fn(&str) -> bool,
) -> Result<Sidecars> {
    let (input, target) = (context.input_folder(), &context.target);
    let mut sidecars = Sidecars::default();
    let is_folder = |source: &FileSource| *source.entry() == Entry::Folder && !source.is_listed();
    if !models.iter().all(|model| is_folder(&model.input.source)) {
        sidecars.names = beside(input, models, &context.request.input.carry)?;
        return Ok(sidecars);
    }
    let weights = Weights::of(context.registry)?;
    let home = home(input);
    let mut open = vec![String::new()];
    while let Some(folder) = open.pop() {
        let of_folder = models.iter().find(|model| model.folder == folder);
        for (name, path) in entries(input, &folder)? {
            let file = name.rsplit('/').next().unwrap_or_default();
            let lost = if models.iter().any(|model| model.has_read(&name)) {
                continue;
            } else if receipt::is_name(file) && path.is_file() {
                sidecars.notes.push(format!("{name:?} is left out: it is the receipt of the input"));
                continue;
            } else if path.is_dir() {
                if !path.is_symlink() && !file.starts_with('.') && name.split('/').count() <= MOST_FOLDERS {
                    open.push(name);
                    continue;
                }
                "a folder that is hidden, a link, or too deep is not carried"
            } else if !path.is_file() {
                "not a regular file"
            } else if path.is_symlink() && !std::fs::canonicalize(&path).is_ok_and(|at| at.starts_with(&home))
            {
                "a link that leads out of the folder is not followed"
            } else if of_folder
                .is_some_and(|model| weights.are_of_another(file, &model.input.format.description))
            {
                sidecars.notes.push(format!(
                    "{name:?} is left out: the folder's weights are read from the files in {}'s format",
                    of_folder.map_or("", |model| &model.input.format.description.id),
                ));
                continue;
            } else if weights.is_match(file)
                && !is_export(context, input, models.iter().map(|model| &*model.folder), &folder)
            {
                "these are weights too, and were not read: convert them on their own"
            } else if target.target != Target::Folder {
                "the output is not a folder"
            } else if is_output(&name) {
                "the output has a file of this name"
            } else {
                sidecars.names.push(name);
                continue;
            };
            sidecars.losses.push(Loss::new(LossKind::Sidecar, name, lost));
        }
    }
    sidecars.names.sort();
    sidecars.losses.sort();
    Ok(sidecars)
}

/// The folder in which links of a model's folder may end: it, or the repository that it is a snapshot of in
/// huggingface_hub's cache, whose files are links (`models--ORG--NAME/snapshots/REVISION/NAME` to `blobs/`).
fn home(input: &Path) -> PathBuf {
    let Ok(folder) = std::fs::canonicalize(input) else { return input.to_owned() };
    let is_repository = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        ["models--", "datasets--", "spaces--"].iter().any(|start| name.starts_with(start))
    };
    let snapshots = folder.ancestors().find(|path| path.file_name().is_some_and(|name| name == "snapshots"));
    let repository = snapshots.and_then(Path::parent).filter(|path| is_repository(path));
    repository.map_or(folder.clone(), Path::to_owned)
}

/// The files of a folder that match a pattern and were not read.
fn beside(folder: &Path, models: &[&InputModel<'_>], carry: &[String]) -> Result<Vec<String>> {
    if carry.is_empty() {
        return Ok(Vec::new());
    }
    let wanted = globs(carry)?;
    let mut names: Vec<String> = entries(folder, "")?
        .into_iter()
        .filter(|(name, path)| wanted.is_match(name) && path.is_file())
        .map(|(name, _)| name)
        .filter(|name| !models.iter().any(|model| model.has_read(name)))
        .collect();
    names.sort();
    Ok(names)
}

fn entries(root: &Path, folder: &str) -> Result<Vec<(String, std::path::PathBuf)>> {
    let path = root.join(folder);
    let failed = |e: std::io::Error| Error::from(e).file(path.display().to_string());
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(&path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().into_string().map_err(|name| {
            Error::unsupported("a file name that is not UTF-8").file(path.join(name).display().to_string())
        })?;
        let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        entries.push((name, entry.path()));
    }
    Ok(entries)
}

impl Sidecars {
    /// The names of the files that go along, relative to the folder.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Where they come from, and what they are now.
    ///
    /// # Errors
    /// Transient, if one has gone.
    pub(crate) fn files(&self, input: &Path) -> Result<Vec<(PathBuf, FileIdentity)>> {
        let of = |name: &String| {
            let path = input.join(name);
            let meta = std::fs::metadata(&path)
                .map_err(|e| Error::transient("the source changed while it was read").file(name).found(e))?;
            Ok((path, FileIdentity::of(&meta)))
        };
        self.names.iter().map(of).collect()
    }

    /// What is left out because the same model is there in a format that is preferred.
    #[must_use]
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What does not go along.
    #[must_use]
    pub(crate) fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// Has the configuration of a model whose weights are cast say their dtype. `catalog` is what is
    /// written of it.
    ///
    /// # Errors
    /// Transient, where the file changed; else i/o.
    pub(crate) fn follow_casts(
        &mut self,
        input: &Path,
        model: &InputModel<'_>,
        catalog: &Catalog,
    ) -> Result<()> {
        let name = model.path_of(config_dtype::NAME);
        if !self.names.contains(&name) {
            return Ok(());
        }
        let source = FileSource::at(input.to_owned(), Entry::Folder, model.context.limits());
        let file = source.open(&name)?;
        let mut text = vec![0; usize::try_from(source.len(file).min(config_dtype::MOST_BYTES)).unwrap_or(0)];
        source.read_at(file, 0, &mut text)?;
        // Cut off, or no text: no JSON either.
        match config_dtype::edit(std::str::from_utf8(&text).unwrap_or_default(), catalog) {
            Edit::None => {}
            Edit::Text(edited, change) => {
                self.notes.push(format!("{name}: {change}"));
                self.edited.insert(name, (edited.into_bytes(), source));
            }
            Edit::Untrue(says) => {
                self.notes.push(format!("{name}: {says}, though the weights are of other dtypes now"));
            }
        }
        Ok(())
    }

    /// Copies them into the stage; gives their lengths.
    ///
    /// # Errors
    /// Transient, where a file changed; else i/o.
    pub(crate) fn copy(&self, input: &Path, stage: &Stage, session: &Session) -> Result<Vec<u64>> {
        let source = FileSource::at(input.to_owned(), Entry::Folder, &session.limits);
        let mut buffer = Vec::new();
        let mut lens = Vec::with_capacity(self.names.len());
        for name in &self.names {
            if let Some((text, source)) = self.edited.get(name) {
                let len = text.len() as u64;
                let output = stage.create(name, Some(len))?;
                output.write_all_at(text, 0).map_err(|e| Error::from(e).file(name))?;
                source.check_unchanged()?;
                lens.push(len);
                continue;
            }
            let file = source.open(name)?;
            let len = source.len(file);
            let output = stage.create(name, Some(len))?;
            buffer.resize(WINDOW_BYTES, 0);
            for (offset, part) in windows(0..len) {
                session.check_cancelled()?;
                source.read_at(file, offset, &mut buffer[..part])?;
                output.write_all_at(&buffer[..part], offset).map_err(|e| Error::from(e).file(name))?;
            }
            lens.push(len);
        }
        source.check_unchanged()?;
        Ok(lens)
    }
}
