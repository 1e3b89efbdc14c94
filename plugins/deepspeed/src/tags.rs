//! A tag is the name of a folder of a run that holds one checkpoint: `latest` has the newest one.

use tensorferry_sdk::{Entry, Error, Result, Source, check_name};

/// Files that name the newest folder, the usual one first.
pub(crate) const POINTERS: [&str; 2] = ["latest", "latest_universal"];
/// What the folder of a step is called, before its number.
const STEP: &str = "global_step";
/// A folder's name is short.
const MOST_TAG_BYTES: u64 = 4096;
/// How many tags an error lists.
const MOST_LISTED: usize = 20;

/// The folders of a run's steps, as DeepSpeed names them where nobody gives a tag; each may be a checkpoint.
pub(crate) fn steps(source: &dyn Source) -> Result<Vec<String>> {
    let folders = source.folders("")?;
    Ok(folders.into_iter().filter(|folder| folder.starts_with(STEP)).collect())
}

/// The step of a folder, where it is the only one.
pub(crate) fn only_step(source: &dyn Source) -> Result<Option<String>> {
    match &mut *steps(source)? {
        [] => Ok(None),
        [step] => Ok(Some(std::mem::take(step))),
        [first, ..] => Err(Error::usage("several steps here, and no latest that names one")
            .expected(format!("-i tag={first}, or another"))),
    }
}

/// The options that name the steps of a folder, for messages.
pub(crate) fn say_tags(source: &dyn Source) -> Option<String> {
    let steps = steps(source).ok().filter(|steps| !steps.is_empty())?;
    let tags: Vec<String> = steps.iter().take(MOST_LISTED).map(|step| format!("-i tag={step}")).collect();
    Some(tags.join(" or "))
}

/// The folder that `latest` names, if there is such a file.
pub(crate) fn newest(source: &dyn Source) -> Result<Option<String>> {
    let named = match source.entry() {
        Entry::File(name) => Some(name.as_str()),
        _ => source.first_of(POINTERS)?,
    };
    let Some(name) = named else { return Ok(None) };
    let file = source.open(name)?;
    let malformed = || Error::malformed("it does not hold the name of a folder").file(name);
    if source.len(file) > MOST_TAG_BYTES {
        return Err(malformed().found(format!("{} bytes", source.len(file))));
    }
    let mut bytes = vec![0; usize::try_from(source.len(file)).unwrap_or_default()];
    source.read_at(file, 0, &mut bytes)?;
    let tag = std::str::from_utf8(&bytes).ok().map(str::trim).filter(|tag| check_name(tag).is_ok());
    Ok(Some(tag.ok_or_else(|| malformed().found(bytes.escape_ascii()))?.to_owned()))
}
