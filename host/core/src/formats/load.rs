//! Loads plugins: finds libraries, decides which may be opened, inspects each, and selects the
//! formats to use.
//!
//! - A library is opened when one of its formats is used (`lazy.rs`). Until then, its descriptions
//!   come from the cache (`cache.rs`). A library is refused if its formats differ from those in its
//!   cache entry.
//! - An unknown library is first opened in a child process (`scan.rs`).
//! - The IDs of built-in formats are reserved. A format is built in if its library is next to the
//!   program or in `../lib/ferry/plugins`. A different library can use a reserved ID only with
//!   `--allow-shadow`.
//!
//! `Registry::load` in an embedding program uses neither the cache nor child processes. Programs
//! that use `PluginSearch` directly can enable both.

use crate::context::stamp::Stamp;
use crate::formats::cache::{Cache, Entry};
use crate::formats::lazy::{LazyFormat, LazyLibrary};
use crate::formats::plugin::{Inspection, OpenPlugin, PluginIdentity, PluginLibrary, inspect, open};
use crate::formats::refusal::Refusal;
use crate::formats::registry::{Formats, RegisteredFormat};
use crate::formats::scan::{self, Scanner};
use crate::formats::search::{PluginFolder, libraries};
use crate::formats::trust::Trust;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tensorferry_sdk::{Format, hex};

/// Two changes to a file within this time may leave the same timestamps. Most file systems have a
/// time resolution of a few milliseconds; on some file systems, the resolution is up to several
/// seconds.
const TICK: Duration = Duration::from_millis(50);
const COARSE_TICK: Duration = Duration::from_secs(2);
/// Number of bytes of a library that are hashed at a time.
const PIECE: usize = 1 << 16;

/// A search for plugin libraries. The search determines which libraries a program uses, and how the
/// program opens them.
///
/// By default, each library is opened in the program itself when it is found, as `Registry::load`
/// does. With a [`cache`](Self::cache), only libraries whose formats are used are opened. With
/// [`scan_with`](Self::scan_with), unknown libraries are first opened in a child process. A library
/// that crashes or hangs in that process is [quarantined](Refusal::Quarantined).
#[derive(Debug, Clone, Default)]
pub struct PluginSearch {
    folders: Vec<PluginFolder>,
    files: Vec<PathBuf>,
    cache: Option<PathBuf>,
    scanner: Option<Scanner>,
    allowed: Option<BTreeSet<String>>,
    shadows: BTreeSet<String>,
    looks_again: bool,
    /// Returns the formats that are linked into the program.
    linked: Option<fn() -> Vec<Box<dyn Format>>>,
}

impl PluginSearch {
    /// Returns a search of these folders, in this order. If two formats have the same ID, the first
    /// one is used.
    #[must_use]
    pub fn new<F: Into<PluginFolder>>(folders: impl IntoIterator<Item = F>) -> Self {
        Self { folders: folders.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Adds a library file, which takes precedence over the libraries in the folders. The file may
    /// be in any folder.
    #[must_use]
    pub fn file(mut self, library: impl Into<PathBuf>) -> Self {
        self.files.push(library.into());
        self
    }

    /// Caches the descriptions of libraries in this folder, which is created if missing. If the
    /// folder is not writable, the search does not use a cache.
    #[must_use]
    pub fn cache(self, folder: impl Into<PathBuf>) -> Self {
        Self { cache: Some(folder.into()), ..self }
    }

    /// Opens unknown libraries in a child process. `program` is started with these arguments and
    /// the libraries' paths, and must pass the paths to
    /// [`scan_plugins`](crate::formats::scan::scan_plugins).
    #[must_use]
    pub fn scan_with(
        self,
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        let scanner = Scanner { program: program.into(), arguments, time: scan::time(), is_loud: false };
        Self { scanner: Some(scanner), ..self }
    }

    /// Opens only libraries with these SHA-256 sums, in hexadecimal, and libraries in folders of
    /// the program's own formats.
    #[must_use]
    pub fn allow_only(self, sums: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self {
            allowed: Some(sums.into_iter().map(|sum| sum.as_ref().to_ascii_lowercase()).collect()),
            ..self
        }
    }

    /// Lets formats from other folders replace the program's own formats with these IDs.
    #[must_use]
    pub fn allow_shadow(mut self, ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.shadows.extend(ids.into_iter().map(Into::into));
        self
    }

    /// Adds the formats that are linked into the program. A library in a folder of the program's own
    /// formats replaces a linked format with the same ID.
    #[must_use]
    pub fn linked(self, formats: fn() -> Vec<Box<dyn Format>>) -> Self {
        Self { linked: Some(formats), ..self }
    }

    /// Inspects every library again, regardless of the cache, and shows what the libraries print.
    #[must_use]
    pub fn ignore_cache(mut self) -> Self {
        self.looks_again = true;
        if let Some(scanner) = &mut self.scanner {
            scanner.is_loud = true;
        }
        self
    }

    /// Returns the formats of these libraries. An unusable library does not end the search.
    /// [`Formats::libraries`] contains the reason for each unusable library, and [`Formats::notes`]
    /// lists the folders that were skipped.
    #[must_use]
    pub fn load(&self) -> Formats {
        let mut registry = Formats::default();
        let mut found = self.find(&mut registry);
        let cache = self.cache.as_deref().and_then(Cache::at);
        for library in found.iter_mut().filter(|library| library.refused.is_none()) {
            self.recall(library, cache.as_ref());
        }
        self.inspect(&mut found, cache.as_ref());
        self.register(&mut registry, found);
        registry
    }

    /// Finds the libraries, and includes each library only once. The same file may be in two
    /// folders, as a link or under two names.
    fn find(&self, registry: &mut Formats) -> Vec<FoundLibrary> {
        let trust = Trust::new(self.folders.iter().filter(|f| f.trusted).map(|f| f.path.as_path()));
        let mut found: Vec<FoundLibrary> = Vec::new();
        let mut add = |path: &Path, built_in: bool, refused: Option<Refusal>| {
            let stamp = path.metadata().ok().map(|metadata| Stamp::of(&metadata));
            let place = |stamp: &Option<Stamp>| stamp.map(|stamp| (stamp.device, stamp.inode));
            let same = |other: &&mut FoundLibrary| stamp.is_some() && place(&other.stamp) == place(&stamp);
            if let Some(known) = found.iter_mut().find(same) {
                known.built_in |= built_in;
                known.refused = known.refused.take().and(refused);
                return;
            }
            let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            found.push(FoundLibrary { path, built_in, refused, stamp, sha256: None, known: None });
        };
        for file in &self.files {
            add(file, false, None);
        }
        for folder in &self.folders {
            match libraries(folder, &trust) {
                Ok(paths) => {
                    for path in paths {
                        let refused = trust.check(&path).err().map(Refusal::Untrusted);
                        add(&path, folder.built_in, refused);
                    }
                }
                Err(error) => registry.note(error.to_string()),
            }
        }
        found
    }

    /// Looks up a library in the cache, and refuses the library if it may not be opened.
    fn recall(&self, library: &mut FoundLibrary, cache: Option<&Cache>) {
        let Some(stamp) = library.stamp else { return };
        let entry = cache.and_then(|cache| cache.get(&library.path, &stamp));
        library.sha256 = entry.as_ref().map(|entry| entry.sha256.clone());
        let installed = installed_sum(&library.path);
        if self.allowed.is_some() && !library.built_in || installed.is_some() {
            library.sha256 = library.sha256.take().or_else(|| sha256(&library.path).ok());
        }
        let sum = library.sha256.as_deref().unwrap_or_default();
        if installed.is_some_and(|installed| installed != sum) {
            library.refused = Some(Refusal::Changed);
        } else if self.allowed.as_ref().is_some_and(|sums| !library.built_in && !sums.contains(sum)) {
            library.refused = Some(Refusal::NotListed(sum.to_owned()));
        } else if !self.looks_again {
            library.known = entry.map(|entry| LibraryState::Cached(entry.outcome));
        }
    }

    /// Inspects unknown libraries, and caches the results.
    fn inspect(&self, found: &mut [FoundLibrary], cache: Option<&Cache>) {
        let is_new = |library: &&mut FoundLibrary| library.refused.is_none() && library.known.is_none();
        let mut libraries: Vec<&mut FoundLibrary> = found.iter_mut().filter(is_new).collect();
        if libraries.is_empty() {
            return;
        }
        for library in &mut libraries {
            library.sha256 = library.sha256.take().or_else(|| sha256(&library.path).ok());
        }
        let paths: Vec<&Path> = libraries.iter().map(|library| library.path.as_path()).collect();
        let looks: Vec<LibraryState> = match self.scanner.as_ref().and_then(|scanner| scanner.scan(&paths)) {
            Some(looks) => looks.into_iter().map(LibraryState::New).collect(),
            None => paths.iter().map(|path| LibraryState::Open(open(path))).collect(),
        };
        for (library, look) in libraries.into_iter().zip(looks) {
            if let Some(cache) = cache {
                keep(cache, library, look.outcome());
            }
            library.known = Some(look);
        }
    }

    /// Adds the formats. Only the program's own libraries may use the program's own IDs.
    fn register(&self, registry: &mut Formats, found: Vec<FoundLibrary>) {
        let mut all = Vec::new();
        for library in found {
            let is_new =
                library.known.as_ref().is_some_and(|known| !matches!(known, LibraryState::Cached(_)));
            let (outcome, formats) = match library.refused {
                Some(refused) => (Err(refused), Vec::new()),
                None => library
                    .known
                    .map_or((Err(missing_file()), Vec::new()), |known| known.formats(&library.path)),
            };
            let FoundLibrary { path, sha256, built_in, .. } = library;
            all.push((PluginLibrary { path, outcome, sha256, built_in, is_new }, formats));
        }
        let ids = |built_in: bool| -> BTreeSet<String> {
            let libraries = all.iter().filter(|(library, _)| library.built_in == built_in);
            libraries.flat_map(|(_, formats)| formats).map(|format| format.description.id.clone()).collect()
        };
        let (mut own, foreign) = (ids(true), ids(false));
        let linked = self.linked.map(|formats| formats()).unwrap_or_default();
        let linked: Vec<_> = linked.into_iter().map(RegisteredFormat::linked).collect();
        own.extend(linked.iter().map(|format| format.description.id.clone()));
        for (library, mut formats) in all {
            formats.retain(|format| {
                let id = &format.description.id;
                let is_shadow = self.shadows.contains(id);
                let loses = if library.built_in {
                    is_shadow && foreign.contains(id)
                } else {
                    !is_shadow && own.contains(id)
                };
                if loses {
                    let path = library.path.display();
                    registry.note(if library.built_in {
                        format!("{path}: format {id} is taken from another library because of --allow-shadow")
                    } else {
                        format!(
                            "{path}: format {id} is built in; pass --allow-shadow {id} to use this library's"
                        )
                    });
                }
                !loses
            });
            registry.add_library(library, formats);
        }
        linked.into_iter().for_each(|format| registry.add_linked(format));
    }
}

/// A library that was found but is not registered yet.
struct FoundLibrary {
    /// The path of the library, with links resolved.
    path: PathBuf,
    built_in: bool,
    /// The reason for refusing the library, if it is refused.
    refused: Option<Refusal>,
    /// The stamp of the library's file; `None` if the file does not exist.
    stamp: Option<Stamp>,
    sha256: Option<String>,
    known: Option<LibraryState>,
}

/// The source of the information about a library.
enum LibraryState {
    /// The inspection result is from the cache.
    Cached(Result<Inspection, Refusal>),
    /// A child process has just opened the library.
    New(Result<Inspection, Refusal>),
    /// This program has opened the library.
    Open(Result<OpenPlugin, Refusal>),
}

impl LibraryState {
    fn outcome(&self) -> Result<Inspection, Refusal> {
        match self {
            Self::Cached(look) | Self::New(look) => look.clone(),
            Self::Open(plugin) => plugin.as_ref().map(inspect).map_err(Clone::clone),
        }
    }

    /// Returns the plugin's identity from its manifest, and its formats.
    fn formats(self, path: &Path) -> (Result<PluginIdentity, Refusal>, Vec<LazyFormat>) {
        let plugin = match self {
            Self::Open(plugin) => plugin,
            Self::Cached(Err(why)) | Self::New(Err(why)) => Err(why),
            Self::Cached(Ok(look)) | Self::New(Ok(look)) => match look.descriptions() {
                Some(declared) => {
                    let declared = declared.into_iter().map(Arc::new).collect();
                    let library = LazyLibrary::closed(path.to_owned(), look.identity.name.clone(), declared);
                    return (Ok(look.identity), library.formats());
                }
                // The library is safe to open, because an earlier inspection succeeded.
                None => open(path),
            },
        };
        match plugin {
            Ok(plugin) => {
                (Ok(plugin.identity.clone()), LazyLibrary::opened(path.to_owned(), plugin).formats())
            }
            Err(why) => (Err(why), Vec::new()),
        }
    }
}

fn missing_file() -> Refusal {
    Refusal::CannotOpen("no such file".to_owned())
}

/// Caches the inspection result of a library, unless a second inspection of the same file may have
/// a different result.
fn keep(cache: &Cache, library: &FoundLibrary, outcome: Result<Inspection, Refusal>) {
    let (Some(stamp), Some(sha256)) = (library.stamp, &library.sha256) else { return };
    let is_quarantined = matches!(outcome, Err(Refusal::Quarantined(_)));
    let may_differ = outcome.as_ref().is_err_and(|why| !why.is_lasting());
    if may_differ || !(is_quarantined || is_certain(&library.path, &stamp)) {
        return;
    }
    cache.put(&library.path, &Entry::new(&library.path, stamp, sha256.clone(), outcome));
}

/// Returns true if the file is unchanged since its inspection and every later change will change
/// the file's stamp.
fn is_certain(path: &Path, stamp: &Stamp) -> bool {
    let (seconds, nanoseconds) = stamp.changed;
    let tick = if nanoseconds == 0 { COARSE_TICK } else { TICK };
    let changed = u64::try_from(seconds).ok().zip(u32::try_from(nanoseconds).ok());
    let changed =
        changed.map(|(seconds, nanoseconds)| SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds));
    let is_old = changed.and_then(|time| time.elapsed().ok()).is_some_and(|age| age > tick);
    is_old && path.metadata().is_ok_and(|metadata| Stamp::of(&metadata) == *stamp)
}

/// Returns the hash from the file next to a library that `ferry plugin install` writes. The file
/// has the format of `sha256sum`.
fn installed_sum(library: &Path) -> Option<String> {
    let text = std::fs::read_to_string(sum_file(library)).ok()?;
    Some(text.split_whitespace().next().unwrap_or_default().to_ascii_lowercase())
}

/// Returns the path of the file next to a library that contains its SHA-256.
#[must_use]
pub fn sum_file(library: &Path) -> PathBuf {
    let mut name = library.as_os_str().to_owned();
    name.push(".sha256");
    name.into()
}

/// Returns the SHA-256 of a file in hexadecimal.
pub fn sha256(path: &Path) -> std::io::Result<String> {
    let (mut file, mut hasher, mut piece) = (File::open(path)?, Sha256::new(), vec![0; PIECE]);
    loop {
        let count = file.read(&mut piece)?;
        if count == 0 {
            break;
        }
        hasher.update(&piece[..count]);
    }
    Ok(hex(&hasher.finalize()))
}
