//! Which files of an input are the checkpoint: one file of any name, or a model that is split as on
//! the Hugging Face Hub.

use crate::SUFFIXES;
use tensorferry_hub::{self as hub, Choice, Naming};
use tensorferry_sdk::{Context, Entry, Error, Result, Source};

/// How the Hugging Face libraries name a model's files.
pub(crate) const NAMING: Naming =
    Naming { title: "PyTorch", stem: "pytorch_model", suffix: ".bin", index_suffix: ".bin.index.json" };

/// Chooses by what the user pointed at.
///
/// # Errors
/// Malformed, if there is nothing to choose, or a shard is missing; usage, if the user has to choose;
/// i/o.
pub(crate) fn choose(shard_is_alone: bool, source: &dyn Source, context: &dyn Context) -> Result<Choice> {
    if *source.entry() != Entry::Folder {
        return hub::choose(&NAMING, shard_is_alone, source, context);
    }
    let names = source.list("")?;
    let files: Vec<&String> = names.iter().filter(|name| is_candidate(name)).collect();
    let usual = format!("{}{}", NAMING.stem, NAMING.suffix);
    let is_split = names.iter().any(|name| is_index(name));
    let is_set = files.iter().all(|name| NAMING.shard(name).is_some());
    match &*files {
        _ if is_split || names.contains(&usual) => hub::choose(&NAMING, shard_is_alone, source, context),
        [] => Err(Error::malformed("no PyTorch checkpoint in the folder").expected(usual)),
        [one] => Ok(Choice::Files(vec![(*one).clone()])),
        _ if is_set => hub::choose(&NAMING, shard_is_alone, source, context),
        several => {
            let found = hub::list(several.iter().map(|name| format!("{name:?}"))).unwrap_or_default();
            Err(Error::usage("several checkpoints in the folder: name one").found(found))
        }
    }
}

/// Whether a folder's file may be a checkpoint, by its name.
pub(crate) fn is_candidate(name: &str) -> bool {
    !name.starts_with('.') && (SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) || is_index(name))
}

fn is_index(name: &str) -> bool {
    !name.starts_with('.') && NAMING.stem_of_index(name).is_some()
}
