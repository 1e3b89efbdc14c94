//! A source is the file or folder that the user named, together with the files next to it. Files
//! are opened by relative name, stamped when they are first opened, and read by position.
//!
//! Opened files are checked for changes again before the commit, and before a reader's error is
//! reported (`FileSource::attribute_error`). If a file has changed, the change is reported instead
//! of the reader's error. The folder of a named file is listed only if a format requests other
//! files in it.

use crate::context::regular_file;
use crate::context::remote::RemoteFile;
use crate::context::session::{LinkRules, Session};
use crate::context::stamp::Stamp;
use crate::context::suggest::suggest;
use crate::context::windows::size;
use crate::platform::will_need;
use crate::read::folder::{
    EntryKind, FolderEntry, InputFolder, LEADS_OUT, OpenedFile, is_companion, is_loop, leads_out, local_path,
    shown,
};
use crate::read::identity::FileIdentity;
use crate::read::pattern::FilePattern;
use crate::read::unfinished;
use rustix::fs::Access;
use rustix::process::{Resource, getrlimit};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tensorferry_sdk::{
    Entry, Error, ErrorKind, FileId, FileRange, Limits, Result, Source, check_name, check_range, split_ranges,
};

/// The number of files that a source keeps open is limited to the process's maximum number of
/// descriptors, divided by `PART_OPEN` and clamped to the range `OPEN`. The least recently used
/// files are closed, and reopened when needed.
const PART_OPEN: u64 = 4;
const OPEN: RangeInclusive<u64> = 64..=4096;

/// The part of a hint that names the option to continue without an unreadable entry.
pub(crate) const ALLOW_INPUT: &str = "or pass --allow-loss input to skip it";

/// The treatment of unreadable files and folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unreadable {
    /// An unreadable entry is an error.
    Refused,
    /// An unreadable entry is an error that names the option to skip it.
    Advised,
    /// Unreadable entries are omitted from listings.
    LeftOut,
}

/// A source that consists of a folder's files.
pub struct FileSource {
    folder: InputFolder,
    /// If set, the first file contains the names of the other files. All files except the first one
    /// are opened in this folder.
    named_by_first: Option<InputFolder>,
    entry: Entry,
    /// The names that the source lists, if it does not list all names in the folder.
    only: Option<Vec<String>>,
    /// The glob whose matches are the names in `only`.
    pattern: Option<String>,
    /// Maximum number of names to list in a folder.
    most_listed: u64,
    unreadable: Unreadable,
    files: boxcar::Vec<SourceFile>,
    state: Mutex<OpenFiles>,
    /// Requested names that are links and lead out of the folder.
    unfollowed: Mutex<BTreeSet<String>>,
    /// Bytes read since the last call of `take_read`.
    read: AtomicU64,
}

#[derive(Default)]
struct OpenFiles {
    by_name: HashMap<String, u32>,
    open: HashMap<u32, OpenFile>,
    /// The number of uses of descriptors so far.
    uses: u64,
}

struct OpenFile {
    file: Arc<File>,
    /// The value of `uses` when this file was last used.
    used: u64,
}

struct SourceFile {
    name: String,
    len: u64,
    place: FilePlace,
}

/// The location of a file's bytes.
enum FilePlace {
    /// A file in a local folder.
    Path(PathBuf, Stamp),
    /// An unnamed temporary file.
    Unnamed(Arc<File>),
    /// A remote file, with its URL and its reader.
    Remote(PathBuf, Arc<dyn RemoteFile>),
}

impl FileSource {
    /// Opens what the user named: a file, a folder, the common prefix of several files, or a glob.
    /// `input` is a local path, or a URL that the session's [remote](Session::remote) opens.
    pub fn open(input: &Path, session: &Session) -> Result<Self> {
        Self::open_with(input, session.links.clone(), session)
    }

    /// Opens an input whose bytes go into an output unchanged. Unlike [`open`](Self::open), does
    /// not follow links out of the folder.
    pub(crate) fn open_companions(input: &Path, session: &Session) -> Result<Self> {
        Self::open_with(input, LinkRules::default(), session).map(|source| source.of_companions())
    }

    fn open_with(input: &Path, links: LinkRules, session: &Session) -> Result<Self> {
        unfinished::check(input)?;
        match InputFolder::around_url(input, session)? {
            Some((folder, name)) => {
                let found = folder.kind(&name)?;
                Self::named(folder, name, found, input, &session.limits)
            }
            None => Self::open_local(&local_path(input), links, &session.limits),
        }
    }

    /// Opens a local path, as [`open`](Self::open) does.
    pub(super) fn open_local(input: &Path, links: LinkRules, limits: &Limits) -> Result<Self> {
        let metadata = std::fs::metadata(input);
        if metadata.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
            return Ok(Self::of(InputFolder::with_rules(input.to_owned(), links), Entry::Folder, limits));
        }
        let name = input.file_name().ok_or_else(|| not_found(input))?;
        let name =
            name.to_str().ok_or_else(|| Error::unsupported("a file name that is not UTF-8"))?.to_owned();
        let folder = match input.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let found = match metadata {
            // If the file is of any other kind, opening it returns an error.
            Ok(_) => Some(EntryKind::File),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) if is_loop(&error) => {
                return Err(Error::malformed("a symbolic link that is part of a cycle")
                    .file(input.display().to_string()));
            }
            Err(error) => return Err(Error::from(error).file(input.display().to_string())),
        };
        Self::named(InputFolder::with_rules(folder, links), name, found, input, limits)
    }

    /// Returns the source for a name in a folder. `found` is the kind of the entry with that name.
    /// `input` is the path that the user typed, for error messages.
    fn named(
        folder: InputFolder,
        name: String,
        found: Option<EntryKind>,
        input: &Path,
        limits: &Limits,
    ) -> Result<Self> {
        match found {
            Some(EntryKind::Folder) => return Ok(Self::of(folder.in_folder(&name), Entry::Folder, limits)),
            Some(_) => return Ok(Self::of(folder.naming(&name), Entry::File(name), limits)),
            None => {}
        }
        let source = Self::of(folder, Entry::Prefix(name.clone()), limits);
        // For a local folder, a failed listing usually means that the folder is missing. Errors
        // from remote places are returned unchanged.
        let is_told = |error: &Error| !source.is_local() || error.kind() == ErrorKind::Limit;
        let found =
            source.list(&name).map_err(|error| if is_told(&error) { error } else { not_found(input) })?;
        if !found.is_empty() && !name.is_empty() {
            return Ok(source);
        }
        let names = source.list("")?;
        // The name may be a quoted pattern that the shell did not expand.
        if FilePattern::is_pattern(&name) {
            let matching = source.matching(&name, names.clone())?;
            if !matching.is_empty() {
                return Ok(Self { pattern: Some(name), ..source.with_files(matching) });
            }
        }
        let folders = source.folders("").unwrap_or_default();
        let near = suggest(&name, names.iter().chain(&folders).map(String::as_str));
        let near = near.map(|near| source.path(near).display().to_string());
        Err(match near {
            Some(near) => {
                Error::usage(format!("no such file or folder; did you mean {near:?}?")).file(shown(input))
            }
            None => not_found(input),
        })
    }

    /// Returns a source of the files in a local folder.
    #[must_use]
    pub fn at(folder: PathBuf, entry: Entry, limits: &Limits) -> Self {
        Self::of(InputFolder::local(folder), entry, limits)
    }

    /// Returns a source of the files in the folder at a path or URL.
    pub fn below_path(folder: &Path, entry: Entry, session: &Session) -> Result<Self> {
        Ok(Self::of(InputFolder::at(folder, session)?, entry, &session.limits))
    }

    pub(super) fn of(folder: InputFolder, entry: Entry, limits: &Limits) -> Self {
        Self {
            folder,
            named_by_first: None,
            entry,
            only: None,
            pattern: None,
            most_listed: limits.entries,
            unreadable: Unreadable::Refused,
            files: boxcar::Vec::new(),
            state: Mutex::default(),
            unfollowed: Mutex::default(),
            read: AtomicU64::new(0),
        }
    }

    /// Returns a source of only these files, with names relative to a local folder. If there is
    /// only one name, the source's entry is that file. Other files of the folder, such as an index
    /// next to a file, are not listed but can be opened by name.
    #[must_use]
    pub fn of_files(folder: PathBuf, names: Vec<String>) -> Self {
        Self::at(folder, Entry::Folder, &Limits::default()).with_files(names)
    }

    /// Returns a source of only these files in the same folder, as [`of_files`](Self::of_files)
    /// does.
    #[must_use]
    pub fn with_files(&self, names: Vec<String>) -> Self {
        let entry = match &*names {
            [one] => Entry::File(one.clone()),
            _ => Entry::Folder,
        };
        Self { only: Some(names), entry, ..self.in_folder("") }
    }

    /// Returns a source of all files in a sub-folder. For an empty name, returns a source of all
    /// files in this source's folder.
    #[must_use]
    pub fn in_folder(&self, folder: &str) -> Self {
        Self {
            most_listed: self.most_listed,
            unreadable: self.unreadable,
            ..Self::of(self.folder.in_folder(folder), Entry::Folder, &Limits::default())
        }
    }

    /// Returns the same source for files whose bytes go into an output unchanged. Links out of the
    /// folder are not followed.
    #[must_use]
    pub fn of_companions(&self) -> Self {
        let (entry, only) = (self.entry.clone(), self.only.clone());
        let of = Self::of(self.folder.clone().of_companions(), entry, &Limits::default());
        Self { only, most_listed: self.most_listed, ..of }
    }

    /// Returns the same source with no open files. In this source, the first file contains the
    /// names of the other files. For the other files, links out of the folder are not followed.
    #[must_use]
    pub(crate) fn named_by_first(&self) -> Self {
        Self { named_by_first: Some(self.folder.clone().of_companions()), ..self.reopen() }
    }

    /// Returns the folder in which the next file is opened.
    fn next_folder(&self) -> &InputFolder {
        let named = self.named_by_first.as_ref().filter(|_| self.files.count() > 0);
        named.unwrap_or(&self.folder)
    }

    /// Returns the same source, but only for checks. All links are followed.
    #[must_use]
    pub fn for_checks(&self) -> Self {
        let (entry, only) = (self.entry.clone(), self.only.clone());
        let of = Self::of(self.folder.clone().for_checks(), entry, &Limits::default());
        Self { only, most_listed: self.most_listed, ..of }
    }

    /// Returns the requested files that were not read because they are links out of the folder.
    pub fn unfollowed(&self) -> Vec<String> {
        self.unfollowed_names().iter().cloned().collect()
    }

    /// Checks that no requested file with weights or records is a link out of the folder.
    pub fn check_links(&self) -> Result<()> {
        let names = self.unfollowed_names();
        names.iter().find(|name| !is_companion(Path::new(name))).map_or(Ok(()), |name| Err(leads_out(name)))
    }

    fn unfollowed_names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.unfollowed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the source's files were listed one by one.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.only.is_some()
    }

    /// Returns the glob with which the user named the files.
    #[must_use]
    pub fn pattern(&self) -> Option<&str> {
        self.pattern.as_deref()
    }

    /// Returns the same source with no open files, so that files that were opened for probing do
    /// not count as read.
    #[must_use]
    pub fn reopen(&self) -> Self {
        let (entry, only, pattern) = (self.entry.clone(), self.only.clone(), self.pattern.clone());
        Self { entry, only, pattern, ..self.in_folder("") }
    }

    /// Returns the same source, but lists unreadable files and folders as [`EntryKind::Other`].
    #[must_use]
    pub(crate) fn without_unreadable(mut self) -> Self {
        self.only = self.only.take().map(|mut names| {
            names.retain(|name| self.why_unreadable(name).is_none());
            names
        });
        Self { unreadable: Unreadable::LeftOut, ..self }
    }

    /// Returns the same source, but its errors for unreadable files and folders name the option to
    /// skip them.
    #[must_use]
    pub(crate) fn advising(self) -> Self {
        let is_one_file = matches!(self.entry, Entry::File(_)) && self.only.is_none();
        if is_one_file { self } else { Self { unreadable: Unreadable::Advised, ..self } }
    }

    fn advised(&self, error: Error, name: &str) -> Error {
        let is_advised = self.unreadable == Unreadable::Advised && error.kind() == ErrorKind::Io;
        if is_advised && self.why_unreadable(name).is_some() {
            return error.hint(format!("make it readable, {ALLOW_INPUT}"));
        }
        error
    }

    /// Returns the reason why a local file or folder is unreadable, or `None` if it is readable.
    pub fn why_unreadable(&self, name: &str) -> Option<std::io::Error> {
        let path = self.is_local().then(|| self.path(name))?;
        // Opening files in a folder also requires permission to search the folder.
        let reads = if path.is_dir() { Access::READ_OK | Access::EXEC_OK } else { Access::READ_OK };
        rustix::fs::access(path, reads).err().map(std::io::Error::from)
    }

    /// Returns the path or URL of a file with this name in the source.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path_of(name)
    }

    /// Returns the path or URL of the file or folder that the user named.
    #[must_use]
    pub fn entry_path(&self) -> PathBuf {
        self.path(self.entry.name())
    }

    /// Returns the path or URL of the folder to which file names are relative.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns whether the source's folder is on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.folder.is_local()
    }

    /// Lists the direct entries of a sub-folder, sorted by name. With an empty name, lists the
    /// source's folder.
    pub fn entries(&self, folder: &str) -> Result<Vec<FolderEntry>> {
        self.entries_from(folder, "")
    }

    fn entries_from(&self, folder: &str, start: &str) -> Result<Vec<FolderEntry>> {
        let entries = self.folder.entries(folder, start, self.most_listed);
        let mut entries = entries.map_err(|error| self.advised(error, folder))?;
        if self.unreadable == Unreadable::LeftOut {
            for entry in entries.iter_mut().filter(|entry| self.why_unreadable(&entry.name).is_some()) {
                entry.kind = EntryKind::Other;
            }
        }
        Ok(entries)
    }

    /// Returns the size in bytes of the named file, or the total size of the files with the named
    /// prefix or in the folder.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let names = match &self.entry {
            Entry::File(name) => vec![name.clone()],
            entry => self.list(entry.name()).unwrap_or_default(),
        };
        // The sum saturates, because sparse files may have any length.
        names.iter().map(|name| self.folder.len(name)).fold(0, u64::saturating_add)
    }

    /// Returns the number of bytes that were read by position from all files, and resets this count
    /// to zero.
    #[must_use]
    pub fn take_read(&self) -> u64 {
        self.read.swap(0, Ordering::Relaxed)
    }

    /// Returns whether the source has opened a file with this name.
    #[must_use]
    pub fn is_open(&self, name: &str) -> bool {
        self.state().by_name.contains_key(name)
    }

    /// Returns the names of all opened files, sorted.
    #[must_use]
    pub fn opened(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.open_files().map(|file| file.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// Returns whether a path leads to an opened file, even if the file was opened under a
    /// different name.
    #[must_use]
    pub fn has_opened(&self, path: &Path) -> bool {
        let metadata = std::fs::metadata(path).ok();
        let is_it = |file: &SourceFile| match (&file.place, &metadata) {
            (FilePlace::Path(_, stamp), Some(found)) => {
                (stamp.device, stamp.inode) == (found.dev(), found.ino())
            }
            (FilePlace::Remote(url, _), _) => url == path,
            _ => false,
        };
        self.open_files().any(is_it)
    }

    /// Iterates over all opened files, with the identities that the files had when they were
    /// opened.
    pub fn stamped(&self) -> impl Iterator<Item = (&Path, FileIdentity)> {
        self.open_files().filter_map(|file| match &file.place {
            FilePlace::Path(path, stamp) => Some((&**path, FileIdentity::of_stamp(stamp))),
            FilePlace::Remote(url, remote) => Some((&**url, FileIdentity::of_remote(remote.stamp()))),
            FilePlace::Unnamed(_) => None,
        })
    }

    /// Returns the SHA-256, in hexadecimal, that the remote place reports for a file.
    pub fn stated_sha256(&self, id: FileId) -> Option<&str> {
        match &self.get(id).ok()?.place {
            FilePlace::Remote(_, remote) => remote.stamp().tag.strip_prefix("sha256:"),
            FilePlace::Path(..) | FilePlace::Unnamed(_) => None,
        }
    }

    /// Checks that all opened files are unchanged. The error names the first file that changed.
    pub fn check_unchanged(&self) -> Result<()> {
        for file in self.open_files() {
            let (path, stamp) = match &file.place {
                FilePlace::Path(path, stamp) => (path, stamp),
                FilePlace::Remote(_, remote) => {
                    remote.check_unchanged()?;
                    continue;
                }
                FilePlace::Unnamed(_) => continue,
            };
            let now = std::fs::metadata(path).map_err(|e| changed(file).found(e))?;
            if Stamp::of(&now) != *stamp {
                return Err(changed(file));
            }
        }
        Ok(())
    }

    /// Checks that the contents of the open files are unchanged. If a different file has replaced
    /// an open file at its path, the open file remains valid.
    pub fn check_content(&self) -> Result<()> {
        let open: Vec<_> = self.state().open.iter().map(|(&id, open)| (id, open.file.clone())).collect();
        for (id, open) in open {
            let file = self.get(FileId(id))?;
            let FilePlace::Path(_, stamp) = &file.place else { continue };
            let now = Stamp::of(&open.metadata().map_err(|e| Error::from(e).file(&file.name))?);
            if (now.len, now.modified) != (stamp.len, stamp.modified) {
                return Err(changed(file));
            }
        }
        Ok(())
    }

    /// Replaces an error with its likely cause, if a file has changed or is a link that is not
    /// followed. For example, a file that a program is rewriting is reported as changed, not as
    /// damaged.
    #[must_use]
    pub fn attribute_error(&self, error: Error) -> Error {
        let may_follow = matches!(
            error.kind(),
            ErrorKind::Malformed
                | ErrorKind::Unsupported
                | ErrorKind::Limit
                | ErrorKind::Verification
                | ErrorKind::Plugin
        );
        match self.check_unchanged() {
            Err(changed) if may_follow && changed.kind() == ErrorKind::Transient => changed,
            // An error that ends with `LEADS_OUT` already has a hint about its file.
            _ if may_follow && !error.message().ends_with(LEADS_OUT) => {
                self.check_links().err().unwrap_or(error)
            }
            _ => error,
        }
    }

    /// Returns the descriptor of a local file. Returns an error if the file has changed or is
    /// remote.
    pub fn descriptor(&self, id: FileId) -> Result<Arc<File>> {
        let file = self.get(id)?;
        let (path, stamp) = match &file.place {
            FilePlace::Path(path, stamp) => (path, stamp),
            FilePlace::Unnamed(unnamed) => return Ok(unnamed.clone()),
            FilePlace::Remote(url, _) => {
                return Err(Error::unsupported("not a local file").file(url.display().to_string()));
            }
        };
        if let Some(open) = self.state().used(id.0) {
            return Ok(open);
        }
        let open = regular_file::open(path).map_err(|e| Error::from(e).file(&file.name))?;
        if Stamp::of(&open.metadata().map_err(|e| Error::from(e).file(&file.name))?) != *stamp {
            return Err(changed(file));
        }
        Ok(self.state().keep(id.0, open))
    }

    /// Adds an unnamed file that was made from bytes of other files. The source reads it like other
    /// files, but does not count it as opened.
    pub fn adopt(&self, name: &str, file: File) -> Result<FileId> {
        let len = file.metadata().map_err(|e| Error::from(e).file(name))?.len();
        let file = SourceFile { name: name.to_owned(), len, place: FilePlace::Unnamed(Arc::new(file)) };
        u32::try_from(self.files.push(file)).map(FileId).map_err(|_| Error::limit("too many files"))
    }

    /// Iterates over the opened files of the folder. Unnamed files are not included.
    fn open_files(&self) -> impl Iterator<Item = &SourceFile> {
        let is_named = |file: &&SourceFile| !matches!(file.place, FilePlace::Unnamed(_));
        self.files.iter().map(|(_, file)| file).filter(is_named)
    }

    fn state(&self) -> MutexGuard<'_, OpenFiles> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the names in a folder with this prefix and of this kind, sorted.
    fn names(&self, folder: &str, start: &str, kind: EntryKind) -> Result<Vec<String>> {
        if !folder.is_empty() {
            check_name(folder)?;
        }
        let entries = match self.entries_from(folder, start) {
            // If a place cannot list files, only the files that the user named are known.
            Err(error) if error.kind() == ErrorKind::Unsupported && !self.is_local() => Vec::new(),
            entries => entries?,
        };
        let (wanted, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.kind == kind);
        // This list does not include links that lead out of the top folder, because the account of
        // the input reports them.
        let unfollowed =
            others.into_iter().filter(|entry| entry.kind == EntryKind::Outside && !folder.is_empty());
        self.unfollowed_names().extend(unfollowed.map(|entry| entry.name));
        Ok(wanted.into_iter().map(|entry| entry.name).collect())
    }

    /// Returns the names among `names` that match a pattern.
    pub fn matching(&self, pattern: &str, names: Vec<String>) -> Result<Vec<String>> {
        FilePattern::parse(pattern, self.most_listed)?.matching(names)
    }

    fn get(&self, id: FileId) -> Result<&SourceFile> {
        self.files.get(id.0 as usize).ok_or_else(|| Error::plugin(format!("no file {}", id.0)))
    }
}

impl OpenFiles {
    fn used(&mut self, id: u32) -> Option<Arc<File>> {
        self.uses += 1;
        let open = self.open.get_mut(&id)?;
        open.used = self.uses;
        Some(open.file.clone())
    }

    fn keep(&mut self, id: u32, file: File) -> Arc<File> {
        // Another thread may have opened the file in the meantime.
        if let Some(open) = self.used(id) {
            return open;
        }
        if self.open.len() >= max_open()
            && let Some(oldest) = self.open.iter().min_by_key(|(_, open)| open.used).map(|(id, _)| *id)
        {
            self.open.remove(&oldest);
        }
        let file = Arc::new(file);
        self.open.insert(id, OpenFile { file: file.clone(), used: self.uses });
        file
    }
}

/// Returns the maximum number of descriptors that a source keeps open.
fn max_open() -> usize {
    static OPEN_LIMIT: OnceLock<usize> = OnceLock::new();
    *OPEN_LIMIT.get_or_init(|| {
        let process = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        size((process / PART_OPEN).clamp(*OPEN.start(), *OPEN.end()))
    })
}

fn not_found(input: &Path) -> Error {
    Error::usage("no such file or folder").file(shown(input))
}

fn changed(file: &SourceFile) -> Error {
    Error::transient("the source changed while it was being read").file(&file.name)
}

impl Source for FileSource {
    fn entry(&self) -> &Entry {
        &self.entry
    }

    fn open(&self, name: &str) -> Result<FileId> {
        check_name(name)?;
        let known = |state: &OpenFiles| state.by_name.get(name).map(|&id| FileId(id));
        if let Some(id) = known(&self.state()) {
            return Ok(id);
        }
        let opened = self.next_folder().open(name).inspect_err(|error| {
            if error.message().ends_with(LEADS_OUT) {
                self.unfollowed_names().insert(name.to_owned());
            }
        });
        let (len, place, descriptor) = match opened.map_err(|error| self.advised(error, name))? {
            OpenedFile::Local { file, path, stamp } => (stamp.len, FilePlace::Path(path, stamp), Some(file)),
            OpenedFile::Remote(file) => (file.stamp().len, FilePlace::Remote(self.path(name), file), None),
        };
        let mut state = self.state();
        // Another thread may have opened the file in the meantime.
        if let Some(id) = known(&state) {
            return Ok(id);
        }
        let id = u32::try_from(self.files.push(SourceFile { name: name.to_owned(), len, place }))
            .map_err(|_| Error::limit("too many files"))?;
        state.by_name.insert(name.to_owned(), id);
        if let Some(descriptor) = descriptor {
            state.keep(id, descriptor);
        }
        Ok(FileId(id))
    }

    fn contains(&self, name: &str) -> Result<bool> {
        if check_name(name).is_err() {
            return Ok(false);
        }
        let kind = match self.next_folder().kind(name) {
            Err(error) if self.unreadable == Unreadable::LeftOut && error.kind() == ErrorKind::Io => None,
            kind => kind?,
        };
        if kind == Some(EntryKind::Outside) {
            self.unfollowed_names().insert(name.to_owned());
        }
        Ok(kind == Some(EntryKind::File))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        if let Some(names) = &self.only {
            return Ok(names.iter().filter(|name| name.starts_with(prefix)).cloned().collect());
        }
        let (folder, start) = prefix.rsplit_once('/').unwrap_or(("", prefix));
        self.names(folder, start, EntryKind::File)
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        if self.only.is_some() {
            return Ok(Vec::new());
        }
        self.names(folder, "", EntryKind::Folder)
    }

    fn name(&self, file: FileId) -> &str {
        self.files.get(file.0 as usize).map_or("", |file| &file.name)
    }

    fn len(&self, file: FileId) -> u64 {
        self.files.get(file.0 as usize).map_or(0, |file| file.len)
    }

    fn read_at(&self, id: FileId, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let file = self.get(id)?;
        check_range(&file.name, file.len, offset, buffer.len() as u64)?;
        self.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        if let FilePlace::Remote(_, remote) = &file.place {
            return if buffer.is_empty() { Ok(()) } else { remote.read_at(offset, buffer) };
        }
        self.descriptor(id)?.read_exact_at(buffer, offset).map_err(|error| match error.kind() {
            // The stamp shows that these bytes existed when the file was opened, so the file has
            // changed.
            std::io::ErrorKind::UnexpectedEof => changed(file).offset(offset),
            _ => Error::from(error).file(&file.name).offset(offset),
        })
    }

    fn read_ranges(&self, ranges: &[FileRange], buffer: &mut [u8]) -> Result<()> {
        let mut parts = split_ranges(ranges, buffer)?;
        for (range, _) in &parts {
            check_range(self.name(range.file), self.len(range.file), range.offset, range.len)?;
        }
        parts.sort_by_key(|(range, _)| (range.file, range.offset));
        let runs = runs(&mut parts);
        // If there are several runs, the disk can start reading all of them while the first one is
        // being read.
        if runs.len() > 1 {
            self.advise(&runs.iter().map(|run| run.range).collect::<Vec<_>>());
        }
        let mut together = Vec::new();
        for ReadRun { range, parts } in runs {
            if let [(_, only)] = parts {
                self.read_at(range.file, range.offset, only)?;
                continue;
            }
            together.resize(size(range.len), 0);
            self.read_at(range.file, range.offset, &mut together)?;
            for (part, bytes) in parts {
                bytes.copy_from_slice(&together[size(part.offset - range.offset)..][..bytes.len()]);
            }
        }
        Ok(())
    }

    fn advise(&self, ranges: &[FileRange]) {
        for of_file in ranges.chunk_by(|a, b| a.file == b.file) {
            let Ok(file) = self.get(of_file[0].file) else { continue };
            if let FilePlace::Remote(_, remote) = &file.place {
                let end = |range: &FileRange| range.offset.saturating_add(range.len).min(file.len);
                let inside = of_file.iter().map(|range| range.offset.min(file.len)..end(range));
                remote.advise(&inside.filter(|range| !range.is_empty()).collect::<Vec<_>>());
                continue;
            }
            let Ok(file) = self.descriptor(of_file[0].file) else { continue };
            for range in of_file {
                will_need(&file, range.offset, range.len);
            }
        }
    }
}

/// Ranges of one file that are read with one call.
struct ReadRun<'r, 'b> {
    range: FileRange,
    parts: &'r mut [(FileRange, &'b mut [u8])],
}

/// Maximum gap between two ranges of a run. Reading a gap of this size costs less than a separate
/// call.
const MAX_GAP: u64 = 64 << 10;
/// Maximum size of a run in bytes, unless a single range is longer.
const MAX_RUN: u64 = 1 << 20;

/// Groups sorted ranges into runs of nearby ranges.
fn runs<'r, 'b>(parts: &'r mut [(FileRange, &'b mut [u8])]) -> Vec<ReadRun<'r, 'b>> {
    let mut runs = Vec::new();
    let mut rest = parts;
    while let Some((first, _)) = rest.first() {
        let mut range = *first;
        let mut count = 1;
        for (next, _) in &rest[1..] {
            let end = (range.offset + range.len).max(next.offset + next.len);
            let is_near = next.offset <= range.offset + range.len + MAX_GAP;
            if next.file != range.file || !is_near || end - range.offset > MAX_RUN {
                break;
            }
            range.len = end - range.offset;
            count += 1;
        }
        let (parts, others) = rest.split_at_mut(count);
        runs.push(ReadRun { range, parts });
        rest = others;
    }
    runs
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_file_that_shrinks_is_a_changed_source() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, b"0123456789").unwrap();
        let source = FileSource::open_local(&path, LinkRules::default(), &Limits::default()).unwrap();
        let id = source.open("a").unwrap();
        source.check_unchanged().unwrap();
        File::options().write(true).open(&path).unwrap().set_len(4).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(source.read_at(id, 0, &mut buffer).unwrap_err().kind(), ErrorKind::Transient);
        assert_eq!(source.check_unchanged().unwrap_err().kind(), ErrorKind::Transient);
    }

    #[test]
    fn a_file_that_was_written_to_is_told_and_one_that_lost_its_name_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&path, b"0123456789").unwrap();
        let source = FileSource::open_local(&path, LinkRules::default(), &Limits::default()).unwrap();
        let id = source.open("a").unwrap();
        source.read_at(id, 0, &mut [0; 4]).unwrap();
        source.check_content().unwrap();
        let mut writer = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        std::fs::write(&other, b"others").unwrap();
        std::fs::rename(&other, &path).unwrap();
        source.check_content().unwrap();
        std::io::Write::write_all(&mut writer, b"more").unwrap();
        assert_eq!(source.check_content().unwrap_err().kind(), ErrorKind::Transient);
    }

    #[test]
    fn what_is_wrong_with_a_file_that_changes_is_that_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, b"0123456789").unwrap();
        let source = FileSource::open_local(&path, LinkRules::default(), &Limits::default()).unwrap();
        source.open("a").unwrap();
        let blamed = |error: Error| source.attribute_error(error).kind();
        assert_eq!(blamed(Error::malformed("damaged")), ErrorKind::Malformed);
        std::fs::write(&path, b"others").unwrap();
        assert_eq!(blamed(Error::malformed("damaged")), ErrorKind::Transient);
        assert_eq!(blamed(Error::cancelled("ended")), ErrorKind::Cancelled);
    }

    #[test]
    fn ranges_come_in_the_order_that_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..3 * MAX_RUN).map(|i| (i * 7 % 251).to_le_bytes()[0]).collect();
        std::fs::write(folder.path().join("a"), &bytes).unwrap();
        std::fs::write(folder.path().join("b"), b"0123456789").unwrap();
        let source = FileSource::open_local(folder.path(), LinkRules::default(), &Limits::default()).unwrap();
        let [a, b] = ["a", "b"].map(|name| source.open(name).unwrap());
        let far = MAX_RUN + MAX_GAP;
        let ranges = [(a, far, 5), (b, 3, 4), (a, 0, 1), (a, 2, 0), (a, 1, 900_000), (a, 0, 3), (b, 9, 1)]
            .map(|(file, offset, len)| FileRange { file, offset, len });
        let mut expected = Vec::new();
        for range in &ranges {
            let all = if range.file == a { &bytes[..] } else { b"0123456789" };
            expected.extend_from_slice(&all[size(range.offset)..][..size(range.len)]);
        }
        let mut found = vec![0; expected.len()];
        source.read_ranges(&ranges, &mut found).unwrap();
        assert!(found == expected);
        assert_eq!(source.read_ranges(&ranges, &mut found[1..]).unwrap_err().kind(), ErrorKind::Plugin);
        let past = [FileRange { file: b, offset: 9, len: 2 }];
        assert_eq!(source.read_ranges(&past, &mut [0; 2]).unwrap_err().kind(), ErrorKind::Malformed);
        let mut parts = split_ranges(&ranges, &mut found).unwrap();
        parts.sort_by_key(|(range, _)| (range.file, range.offset));
        let read: Vec<_> = runs(&mut parts).iter().map(|run| (run.range.offset, run.parts.len())).collect();
        assert_eq!(read, [(0, 4), (far, 1), (3, 2)]);
    }

    #[test]
    fn what_a_person_points_at() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("model.index"), b"x").unwrap();
        let open = |name: &str| {
            FileSource::open_local(&folder.path().join(name), LinkRules::default(), &Limits::default())
        };
        assert_eq!(open("").unwrap().entry, Entry::Folder);
        assert_eq!(open("model.index").unwrap().entry, Entry::File("model.index".into()));
        assert_eq!(open("model").unwrap().entry, Entry::Prefix("model".into()));
        assert_eq!(open("other").err().unwrap().kind(), ErrorKind::Usage);
        assert!(open("model.index").unwrap().open("../x").is_err());
    }

    #[test]
    fn a_listing_is_bounded_by_the_runs_limits() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let mut limits = Limits::default();
        for (entries, is_listed) in [(3, true), (2, false)] {
            limits.entries = entries;
            let source = FileSource::open_local(folder.path(), LinkRules::default(), &limits).unwrap();
            for source in [&source, &source.reopen()] {
                let listed = source.list("");
                assert_eq!(listed.is_ok(), is_listed);
                assert!(listed.err().is_none_or(|error| format!("{error:?}").contains("--limit entries=N")));
            }
            // Finding files with a common prefix requires a listing.
            let found = FileSource::open_local(&folder.path().join("[ab]"), LinkRules::default(), &limits);
            assert_eq!(found.is_ok(), is_listed);
        }
    }

    #[test]
    fn files_of_several_folders_are_one_source() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        for name in ["a", "b", "sub/a"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let of = |names: &[&str]| {
            let names = names.iter().map(|&name| name.to_owned()).collect();
            FileSource::of_files(folder.path().to_owned(), names).reopen()
        };
        let both = of(&["a", "sub/a"]);
        assert_eq!(both.entry, Entry::Folder);
        assert_eq!(both.list("").unwrap(), ["a", "sub/a"]);
        assert!(both.folders("").unwrap().is_empty() && both.open("sub/a").is_ok());
        assert_eq!(of(&["sub/a"]).entry, Entry::File("sub/a".to_owned()));
        assert!(of(&["a"]).contains("b").unwrap());
    }

    #[test]
    fn more_files_than_descriptors() {
        let folder = tempfile::tempdir().unwrap();
        for i in 0..max_open() + 10 {
            std::fs::write(folder.path().join(format!("f{i}")), format!("f{i}")).unwrap();
        }
        let source = FileSource::open_local(folder.path(), LinkRules::default(), &Limits::default()).unwrap();
        let ids: Vec<FileId> = source.list("f").unwrap().iter().map(|n| source.open(n).unwrap()).collect();
        for id in ids {
            let mut content = vec![0; usize::try_from(source.len(id)).unwrap()];
            source.read_at(id, 0, &mut content).unwrap();
            assert_eq!(source.name(id).as_bytes(), content);
        }
        assert_eq!(source.state().open.len(), max_open());
    }
}
