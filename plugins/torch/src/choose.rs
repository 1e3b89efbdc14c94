//! Which file of an input is the checkpoint.

use crate::SUFFIXES;
use tensorferry_sdk::{Entry, Error, Result, Source};

/// What the Hugging Face libraries call a model's file.
pub(crate) const FILE_OF_A_FOLDER: &str = "pytorch_model.bin";

/// The checkpoint that the user means: the file, or the one of a folder.
///
/// # Errors
/// Malformed, if a folder has none; usage, if it has several; i/o.
pub(crate) fn file_of(source: &dyn Source) -> Result<String> {
    match source.entry() {
        Entry::File(name) => return Ok(name.clone()),
        Entry::Prefix(name) => return Err(Error::usage("a PyTorch checkpoint is one file").file(name)),
        Entry::Folder => {}
    }
    if source.contains(FILE_OF_A_FOLDER) {
        return Ok(FILE_OF_A_FOLDER.to_owned());
    }
    let mut names = source.list("")?;
    names.retain(|name| !name.starts_with('.') && SUFFIXES.iter().any(|suffix| name.ends_with(suffix)));
    match &*names {
        [one] => Ok(one.clone()),
        [] => Err(Error::malformed("no PyTorch checkpoint in the folder").expected(FILE_OF_A_FOLDER)),
        _ => Err(Error::usage("several checkpoints in the folder: name one").found(names.join(", "))),
    }
}
