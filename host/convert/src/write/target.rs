//! A target is where the output goes and in what format, resolved from what the user typed.
//!
//! If several formats claim an extension with the same score, a built-in format wins. If two others
//! tie, the error lists both and asks for `--to`.

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

/// An ending that several formats of this field use: it says nothing, whichever plugins are there.
const AMBIGUOUS: &str = ".pb";
/// Endings that formats without names of their own are given as well.
const LOOSE: [&str; 2] = [".bin", ".ckpt"];

/// A format to write, and where.
pub struct OutputTarget<'a> {
    /// What writes it.
    pub format: &'a RegisteredFormat,
    /// What the writer is told.
    pub target: Target,
    /// Where the host puts it.
    pub destination: Destination,
    /// What the user typed.
    pub output: PathBuf,
}

impl OutputTarget<'_> {
    /// Whether the output is a folder, and there is none yet.
    #[must_use]
    pub(crate) fn is_new_folder(&self, session: &Session) -> bool {
        self.target == Target::Folder
            && match RemoteFolder::of(&self.destination, session) {
                Ok(None) => !self.destination.folder.exists(),
                Ok(Some(folder)) => folder.is_empty().unwrap_or(false),
                Err(_) => false,
            }
    }

    /// Temporary files without a name, beside the output: the nearest folder that is there already. Of an output that
    /// goes to a store, among the temporary files of this machine.
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

/// What the output's form depends on.
pub trait Input {
    /// How the user pointed at it.
    fn entry(&self) -> &Entry;
    /// Whether its own format is one that writes files of any name, and may be meant where the ending is one
    /// that such files are given.
    fn has_any_name(&self) -> bool;
    /// Whether a folder has nothing that would go along to another one.
    fn is_weights_alone(&self) -> bool;
}

/// Resolves OUTPUT: a folder if it ends in `/`, is one (of this machine: nobody asks a store), or the input is a folder and OUTPUT has no
/// ending that names a format (but for a format of prefixes, where nothing would go along), or the format has no
/// file names of its own; else a file. Its format is the one that the user named, or its ending's, where a built-in
/// format wins over others.
///
/// # Errors
/// Usage, where the ending does not decide, naming the candidates; i/o, for a path that cannot be.
pub fn resolve<'a>(
    registry: &'a Formats,
    output: &Path,
    named: Option<&str>,
    input: &impl Input,
) -> Result<OutputTarget<'a>> {
    let output = &*local_path(output);
    let text = output.to_str().ok_or_else(|| Error::usage("an output path that is not UTF-8"))?;
    let by_suffix = writers_of(registry, text);
    let is_said = text.ends_with('/') || output.is_dir();
    let is_likely = *input.entry() == Entry::Folder && by_suffix.is_empty();
    let format = match named {
        Some(id) => registry.format(id, Side::Writer)?,
        None => match only_one(&by_suffix) {
            Some(one) if !is_said && !is_likely && says_it(text, || input.has_any_name()) => one,
            _ => return Err(undecided(registry, text)),
        },
    };
    let is_prefix = || format.description.capabilities.has(Capabilities::PREFIX) && input.is_weights_alone();
    let is_folder = is_said || (is_likely && !is_prefix()) || format.description.suffixes.is_empty();
    if is_url(text) {
        let (target, destination) = beyond_network(text, is_folder)?;
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

/// What a URL means as an output: a folder, or a name in one.
fn beyond_network(url: &str, is_folder: bool) -> Result<(Target, Destination)> {
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

/// The writer that is meant where these have the ending: as in the probe, the built-in one of a tie with others, so
/// that a plugin that is installed changes nothing of what a command means.
fn only_one<'a>(writers: &[&'a RegisteredFormat]) -> Option<&'a RegisteredFormat> {
    let built_in: Vec<_> = writers.iter().filter(|format| format.is_built_in()).collect();
    match (&*built_in, writers) {
        ([one], _) => Some(one),
        ([], [one]) => Some(one),
        _ => None,
    }
}

/// Whether the ending of a name decides, where one writer has it.
fn says_it(name: &str, has_any_name: impl FnOnce() -> bool) -> bool {
    let ends = |suffix: &str| has_suffix(name, suffix);
    let is_loose = || LOOSE.into_iter().any(ends) && has_any_name();
    !(ends(AMBIGUOUS) || is_loose())
}

fn writers(registry: &Formats) -> impl Iterator<Item = &RegisteredFormat> {
    registry.formats().iter().filter(|format| format.description.writes())
}

/// The writers whose ending a name has; where one has a longer one than others, it says more: `best.pth.tar`.
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
    Error::usage(format!("the output's name does not say its format: say which with --to{meant}"))
        .file(output)
        .expected(format!("--to with one of {}", ids.join(", ")))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{Description, Format};

    /// A format that writes files with the ending `.x`, and the longer one that its id has.
    struct Writer(&'static str);

    impl Format for Writer {
        fn describe(&self) -> Description {
            let longer = format!(".{}.x", self.0);
            Description::new(self.0, "").suffixes([".x", &longer]).capabilities(Capabilities::WRITE)
        }
    }

    struct OneFile;

    impl Input for OneFile {
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
            assert!(error.to_string().contains("--to"), "{error}");
            let longer = resolve(tie, Path::new("out.C.x"), None, &OneFile);
            assert_eq!(longer.is_ok(), tie.format("c", Side::Writer).is_ok());
        }
    }
}
