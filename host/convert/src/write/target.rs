//! The target: the location and format of the output, resolved from the user's arguments.

use std::path::{Path, PathBuf};
use tensorferry_core::context::session::Session;
use tensorferry_core::context::suggest::suggest;
use tensorferry_core::formats::registry::{Formats, RegisteredFormat};
use tensorferry_core::read::folder::{is_url, local_path, shown};
use tensorferry_publish::remote::folder::RemoteFolder;
use tensorferry_publish::stage::{Destination, DestinationKind};
use tensorferry_sdk::file_name::has_suffix;
use tensorferry_sdk::{Capabilities, Entry, Error, Result, Side, Target};
use tensorferry_tensors::stored::Spill;

/// A file name ending that several machine-learning formats use. This ending never determines the
/// format, regardless of the installed plugins.
const AMBIGUOUS: &str = ".pb";
/// File name endings that are also common for formats without their own file names.
const SHARED_ENDINGS: [&str; 2] = [".bin", ".ckpt"];

/// The format and location of the output.
pub struct OutputTarget<'a> {
    /// The format in which the output is written.
    pub format: &'a RegisteredFormat,
    /// The target that the writer receives.
    pub target: Target,
    /// The location of the output.
    pub destination: Destination,
    /// The output's path or URL as the user typed it.
    pub output: PathBuf,
}

impl OutputTarget<'_> {
    /// Returns whether the output is a folder that does not exist yet.
    #[must_use]
    pub(crate) fn is_new_folder(&self, session: &Session) -> bool {
        self.target == Target::Folder
            && match RemoteFolder::of(&self.destination, session) {
                Ok(None) => !self.destination.folder.exists(),
                Ok(Some(folder)) => folder.is_empty().unwrap_or(false),
                Err(_) => false,
            }
    }

    /// Returns storage for unnamed temporary files next to the output, in the nearest folder that
    /// exists. If the output is in a store, uses the system's temporary folder.
    #[must_use]
    pub fn spill(&self) -> Spill {
        let mut folders = self.destination.folder.ancestors().filter(|folder| folder.is_absolute());
        let folder = folders.find(|folder| folder.is_dir());
        let folder = folder.map_or_else(std::env::temp_dir, Path::to_owned);
        Box::new(move || {
            tempfile::tempfile_in(&folder).map_err(|e| Error::from(e).file(folder.display().to_string()))
        })
    }
}

/// The information about the input that helps to determine the output's format and kind.
pub trait TargetInput {
    fn entry(&self) -> &Entry;
    /// Returns whether the input's format accepts any file name. In that case, an output name that
    /// ends in `.bin`, for example, may mean this format.
    fn has_any_name(&self) -> bool;
    /// Returns whether the input consists only of weights, without files that would be copied to
    /// the output.
    fn is_weights_alone(&self) -> bool;
}

/// Resolves the output's path and format. The output is a folder in these cases:
///
/// - its path ends in `/` or is an existing local folder (for a URL, ferry does not query the
///   store)
/// - the input is a folder and the output's ending does not name a format
/// - the format has no file endings of its own
///
/// The second case (an input folder) does not apply if the format writes files with a common prefix
/// and no files would be copied to the output. In all other cases, the output is a file. The format
/// is the one that the user named. If the user named no format, the ending determines the format.
/// Built-in formats take precedence for an ending.
pub fn resolve<'a>(
    registry: &'a Formats,
    output: &Path,
    named: Option<&str>,
    input: &impl TargetInput,
) -> Result<OutputTarget<'a>> {
    let output = &*local_path(output);
    let text = output.to_str().ok_or_else(|| Error::usage("the output path is not UTF-8"))?;
    let by_suffix = writers_of(registry, text);
    let is_said = text.ends_with('/') || output.is_dir();
    let is_likely = *input.entry() == Entry::Folder && by_suffix.is_empty();
    let format = match named {
        Some(id) => registry.format(id, Side::Writer)?,
        None => match only_writer(&by_suffix) {
            Some(one) if !is_said && !is_likely && determines_format(text, || input.has_any_name()) => one,
            _ => return Err(undecided(registry, text)),
        },
    };
    let is_prefix = || format.description.capabilities.has(Capabilities::PREFIX) && input.is_weights_alone();
    let is_folder = is_said || (is_likely && !is_prefix()) || format.description.suffixes.is_empty();
    if is_url(text) {
        let (target, destination) = resolve_url(text, is_folder)?;
        return Ok(OutputTarget { format, target, destination, output: output.to_owned() });
    }
    let absolute = std::path::absolute(output).map_err(|e| Error::from(e).file(text))?;
    let (target, destination) = if is_folder {
        (Target::Folder, Destination { folder: absolute, kind: DestinationKind::Folder })
    } else {
        let name = output.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Error::usage("the output has no file name").file(text))?.to_owned();
        let folder = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        (Target::File(name.clone()), Destination { folder, kind: DestinationKind::Beside { name } })
    };
    Ok(OutputTarget { format, target, destination, output: output.to_owned() })
}

/// Resolves a URL as an output: either a folder, or a name in a folder.
fn resolve_url(url: &str, is_folder: bool) -> Result<(Target, Destination)> {
    let host = url.find("://").map_or(0, |at| at + "://".len());
    let url = &url[..host + url[host..].trim_end_matches('/').len()];
    if is_folder {
        return Ok((Target::Folder, Destination { folder: url.into(), kind: DestinationKind::Folder }));
    }
    let (folder, name) = url[host..]
        .rsplit_once('/')
        .ok_or_else(|| Error::usage("the output has no file name").file(shown(Path::new(url))))?;
    let (folder, name) = (PathBuf::from(&url[..host + folder.len()]), name.to_owned());
    Ok((Target::File(name.clone()), Destination { folder, kind: DestinationKind::Beside { name } }))
}

/// Returns the only built-in writer with the ending. If there is no built-in writer, returns the
/// only writer. An installed plugin therefore does not change the meaning of a command. Input
/// probing follows the same rule.
fn only_writer<'a>(writers: &[&'a RegisteredFormat]) -> Option<&'a RegisteredFormat> {
    let built_in: Vec<_> = writers.iter().filter(|format| format.is_built_in()).collect();
    match (&*built_in, writers) {
        ([one], _) => Some(one),
        ([], [one]) => Some(one),
        _ => None,
    }
}

/// Returns whether the ending of `name`, which only one writer declares, determines the format.
fn determines_format(name: &str, has_any_name: impl FnOnce() -> bool) -> bool {
    let ends = |suffix: &str| has_suffix(name, suffix);
    let is_loose = || SHARED_ENDINGS.into_iter().any(ends) && has_any_name();
    !(ends(AMBIGUOUS) || is_loose())
}

fn writers(registry: &Formats) -> impl Iterator<Item = &RegisteredFormat> {
    registry.formats().iter().filter(|format| format.description.writes())
}

/// Returns the writers for the name's ending. The longest ending takes precedence, as in
/// `best.pth.tar`.
fn writers_of<'a>(registry: &'a Formats, name: &str) -> Vec<&'a RegisteredFormat> {
    let ending = |format: &RegisteredFormat| {
        let endings = format.description.suffixes.iter().filter(|suffix| has_suffix(name, suffix));
        endings.map(String::len).max()
    };
    let longest = writers(registry).filter_map(ending).max();
    writers(registry).filter(|format| longest.is_some() && ending(format) == longest).collect()
}

fn undecided(registry: &Formats, output: &str) -> Error {
    if let Err(none) = registry.check_any() {
        return none;
    }
    let ids: Vec<&str> = writers(registry).map(|format| format.description.id.as_str()).collect();
    let name = output.to_ascii_lowercase();
    let endings = writers(registry).flat_map(|format| format.description.suffixes.iter().map(String::as_str));
    let meant = name.rfind('.').and_then(|dot| suggest(&name[dot..], endings));
    let meant = meant.map_or(String::new(), |ending| format!("; did you mean {ending:?}?"));
    Error::usage(format!("the output's name does not determine its format{meant}"))
        .file(output)
        .hint(format!("pass --to with one of {}", ids.join(", ")))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{Description, Format};

    /// A format that writes files with the ending `.x`, and also files with the longer ending in
    /// its ID.
    struct Writer(&'static str);

    impl Format for Writer {
        fn describe(&self) -> Description {
            let longer = format!(".{}.x", self.0);
            Description::new(self.0, "").suffixes([".x", &longer]).capabilities(Capabilities::WRITE)
        }
    }

    struct OneFile;

    impl TargetInput for OneFile {
        fn entry(&self) -> &Entry {
            static FILE: std::sync::OnceLock<Entry> = std::sync::OnceLock::new();
            FILE.get_or_init(|| Entry::File("in".to_owned()))
        }

        fn has_any_name(&self) -> bool {
            false
        }

        fn is_weights_alone(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_url_is_a_folder_or_a_name_in_one() {
        let registry = Formats::new().with(Box::new(Writer("a")));
        let found = |output: &str| {
            let target = resolve(&registry, Path::new(output), Some("a"), &OneFile).unwrap();
            (target.target, target.destination.folder.display().to_string())
        };
        let file = |name: &str| Target::File(name.to_owned());
        assert_eq!(found("s3://b/a/m.x"), (file("m.x"), "s3://b/a".to_owned()));
        assert_eq!(found("s3://b/m.x"), (file("m.x"), "s3://b".to_owned()));
        assert_eq!(found("s3://b/a/"), (Target::Folder, "s3://b/a".to_owned()));
        assert_eq!(found("s3://b/"), (Target::Folder, "s3://b".to_owned()));
        let error = resolve(&registry, Path::new("s3://m.x"), None, &OneFile).err().unwrap();
        assert!(error.to_string().contains("no file name"), "{error}");
    }

    #[test]
    fn a_built_in_writer_wins_an_ending_that_others_have_too() {
        let id = |registry: &Formats, named| {
            let target = resolve(registry, Path::new("out.x"), named, &OneFile);
            target.map(|target| target.format.description.id.clone())
        };
        let own = |id| Formats::new().with(Box::new(Writer(id)));
        let both = own("b").with_foreign(Box::new(Writer("a")));
        assert_eq!(id(&both, None).unwrap(), "b");
        assert_eq!(id(&both, Some("a")).unwrap(), "a");
        let alone = Formats::new().with_foreign(Box::new(Writer("a")));
        assert_eq!(id(&alone, None).unwrap(), "a");
        for tie in &[alone.with_foreign(Box::new(Writer("c"))), own("b").with(Box::new(Writer("d")))] {
            let error = id(tie, None).unwrap_err();
            assert_eq!(error.kind(), tensorferry_sdk::ErrorKind::Usage);
            assert!(format!("{error:?}").contains("--to"), "{error:?}");
            let longer = resolve(tie, Path::new("out.C.x"), None, &OneFile);
            assert_eq!(longer.is_ok(), tie.format("c", Side::Writer).is_ok());
        }
    }
}
