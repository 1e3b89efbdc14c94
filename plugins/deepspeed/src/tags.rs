//! Tags. A tag is the name of a folder that contains one checkpoint of a run. The file `latest`
//! contains the newest tag.

use tensorferry_sdk::{Entry, Error, Result, Source, check_name};

/// Names of files that contain the newest tag. The usual one is first.
pub(crate) const POINTERS: [&str; 2] = ["latest", "latest_universal"];
/// Prefix of a step folder's name, which is followed by the step's number.
const STEP: &str = "global_step";
/// Maximum length of a file that contains a tag.
const MAX_TAG_BYTES: u64 = 4096;
/// Maximum number of tags that an error lists.
const MAX_LISTED: usize = 20;

/// Returns the folders in a run that have DeepSpeed's default names for steps. Each of them may be
/// a checkpoint.
pub(crate) fn steps(source: &dyn Source) -> Result<Vec<String>> {
    let folders = source.folders("")?;
    Ok(folders.into_iter().filter(|folder| folder.starts_with(STEP)).collect())
}

/// Returns the only step in the input folder, or `None` if the folder has no steps. Returns an
/// error if there are several.
pub(crate) fn only_step(source: &dyn Source) -> Result<Option<String>> {
    match &mut *steps(source)? {
        [] => Ok(None),
        [step] => Ok(Some(std::mem::take(step))),
        [first, ..] => {
            Err(Error::usage("the folder has several steps, and no file `latest` that selects one")
                .hint(format!("pass -i tag={first}, or the name of a different step")))
        }
    }
}

/// Returns the options that select the steps in the input folder, for error messages.
pub(crate) fn tag_options(source: &dyn Source) -> Option<String> {
    let steps = steps(source).ok().filter(|steps| !steps.is_empty())?;
    let tags: Vec<String> = steps.iter().take(MAX_LISTED).map(|step| format!("-i tag={step}")).collect();
    Some(tags.join(" or "))
}

/// Returns the folder to which the pointer file refers, or `None` if the pointer file does not
/// exist.
pub(crate) fn newest(source: &dyn Source) -> Result<Option<String>> {
    let named = match source.entry() {
        Entry::File(name) => Some(name.as_str()),
        _ => source.first_of(POINTERS)?,
    };
    let Some(name) = named else { return Ok(None) };
    let file = source.open(name)?;
    let malformed = || Error::malformed("the file does not contain the name of a folder").file(name);
    if source.len(file) > MAX_TAG_BYTES {
        return Err(malformed().found(format!("{} bytes", source.len(file))));
    }
    let mut bytes = vec![0; usize::try_from(source.len(file)).unwrap_or_default()];
    source.read_at(file, 0, &mut bytes)?;
    let tag = std::str::from_utf8(&bytes).ok().map(str::trim).filter(|tag| check_name(tag).is_ok());
    Ok(Some(tag.ok_or_else(|| malformed().found(bytes.escape_ascii()))?.to_owned()))
}
