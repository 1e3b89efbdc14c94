//! The folder of an input's files, on this machine or in a remote place.

mod file_url;
mod links;
mod remote_tree;

pub use file_url::local_path;
pub(crate) use links::{ADVICE, is_companion, leads_out};
pub use links::{LEADS_OUT, is_repository};

use crate::context::regular_file;
use crate::context::remote::{RemoteFile, RemotePlace};
use crate::context::session::{LinkRules, Session};
use crate::context::stamp::Stamp;
use crate::read::identity::FileIdentity;
use links::{Links, Purpose};
use remote_tree::RemoteTree;
use std::fs::File;
use std::io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory, NotFound};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tensorferry_sdk::{Error, Result};

/// A folder that contains files. File names are relative to the folder, and their parts are
/// separated by `/`.
#[derive(Clone)]
pub struct InputFolder {
    /// The folder's path, or its URL if the folder is remote.
    path: PathBuf,
    place: FolderLocation,
}

#[derive(Clone)]
enum FolderLocation {
    Local(Arc<Links>),
    Remote(Arc<RemoteTree>, String),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FolderEntry {
    /// The entry's name, relative to the folder that was listed.
    pub name: String,
    /// The kind of the entry. For a link, this is the kind of the link's target.
    pub kind: EntryKind,
    /// Whether the entry is a symbolic link.
    pub is_link: bool,
    /// The size of a file in bytes, if the listing includes the size.
    pub len: Option<u64>,
}

/// The kind of an entry in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    File,
    Folder,
    /// A pipe, a device, a link without a target, or a file without read permission.
    Other,
    /// A link that leads out of the folder and is not followed.
    Outside,
    /// An entry whose name is not UTF-8. A placeholder is used as its name.
    Unnameable,
}

/// An opened local or remote file.
pub(super) enum OpenedFile {
    Local { file: File, path: PathBuf, stamp: Stamp },
    Remote(Arc<dyn RemoteFile>),
}

impl InputFolder {
    /// Returns a folder on this machine.
    #[must_use]
    pub fn local(path: PathBuf) -> Self {
        Self::with_rules(path, LinkRules::default())
    }

    /// Returns a folder on this machine, with the user's options for links.
    #[must_use]
    pub(crate) fn with_rules(path: PathBuf, rules: LinkRules) -> Self {
        Self { place: FolderLocation::Local(Arc::new(Links::of(path.clone(), rules))), path }
    }

    /// Sets whether links that lead out of the folder are followed for weights and records.
    #[must_use]
    pub fn following_links(self, follow: bool) -> Self {
        self.map_links(|links| links.following(follow))
    }

    /// Marks this file as named by the user. If the file is a link, ferry follows the link to any
    /// target.
    #[must_use]
    pub(super) fn naming(self, name: &str) -> Self {
        let file = self.local_path(name);
        self.map_links(|links| links.naming(file))
    }

    /// Restricts the folder to files whose bytes go into an output unchanged. Links out of the
    /// folder are not followed.
    #[must_use]
    pub(super) fn of_companions(self) -> Self {
        self.map_links(|links| links.with_purpose(Purpose::Companions))
    }

    /// Restricts the folder to files that are only checked. All links are followed.
    #[must_use]
    pub(super) fn for_checks(self) -> Self {
        self.map_links(|links| links.with_purpose(Purpose::Check))
    }

    fn map_links(self, change: impl FnOnce(&Links) -> Links) -> Self {
        let place = match self.place {
            FolderLocation::Local(links) => FolderLocation::Local(Arc::new(change(&links))),
            place @ FolderLocation::Remote(..) => place,
        };
        Self { place, ..self }
    }

    /// Returns the folder at a local path or a URL. Does not check whether the folder exists.
    pub fn at(path: &Path, session: &Session) -> Result<Self> {
        let around = Self::around_url(path, session)?;
        Ok(around.map_or_else(
            || Self::with_rules(local_path(path).into_owned(), session.links.clone()),
            |(folder, name)| folder.in_folder(&name),
        ))
    }

    /// Returns the folder that contains a URL's target, and the target's name in that folder. The
    /// name is empty if the target is the top folder of a place. Returns `None` if the string is
    /// not a URL.
    pub(super) fn around_url(url: &Path, session: &Session) -> Result<Option<(Self, String)>> {
        let Some((place, path)) = place_of(url, session)? else { return Ok(None) };
        let tree = RemoteTree::new(place, session.limits.entries);
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        Ok(Some((Self::remote(Arc::new(tree), folder.to_owned()), name.to_owned())))
    }

    fn remote(tree: Arc<RemoteTree>, folder: String) -> Self {
        Self { path: PathBuf::from(tree.url(&folder)), place: FolderLocation::Remote(tree, folder) }
    }

    /// Returns a sub-folder, or this folder if the name is empty.
    #[must_use]
    pub fn in_folder(&self, folder: &str) -> Self {
        match &self.place {
            _ if folder.is_empty() => self.clone(),
            FolderLocation::Local(_) => Self { path: self.path.join(folder), place: self.place.clone() },
            FolderLocation::Remote(tree, above) => Self::remote(tree.clone(), joined(above, folder)),
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the folder is on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self.place, FolderLocation::Local(_))
    }

    /// Returns the path or URL of a file with this name in the folder.
    #[must_use]
    pub fn path_of(&self, name: &str) -> PathBuf {
        match &self.place {
            FolderLocation::Local(_) => self.path.join(name),
            FolderLocation::Remote(tree, folder) => PathBuf::from(tree.url(&joined(folder, name))),
        }
    }

    /// Returns the path of a name in a local folder. Joining an empty name to a file's path would
    /// append a slash and make the path invalid.
    fn local_path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.path.clone() } else { self.path.join(name) }
    }

    /// Returns the kind of the entry with this name, or `None` if no such entry exists. An empty
    /// name means the folder itself.
    pub fn kind(&self, name: &str) -> Result<Option<EntryKind>> {
        match &self.place {
            FolderLocation::Local(links) => match std::fs::metadata(self.local_path(name)) {
                Ok(_) if !links.admit(&self.local_path(name)) => Ok(Some(EntryKind::Outside)),
                Ok(found) => Ok(Some(kind_of(found.file_type()))),
                Err(error) if matches!(error.kind(), NotFound | NotADirectory | InvalidFilename) => Ok(None),
                Err(error) => Err(Error::from(error).file(name)),
            },
            FolderLocation::Remote(tree, folder) => {
                let kind = |len: Option<u64>| if len.is_some() { EntryKind::File } else { EntryKind::Folder };
                Ok(tree.look_up(&joined(folder, name))?.map(kind))
            }
        }
    }

    /// Returns the size of a file in bytes, or 0 if the file does not exist.
    #[must_use]
    pub fn len(&self, name: &str) -> u64 {
        match &self.place {
            FolderLocation::Local(_) => {
                std::fs::metadata(self.local_path(name)).map_or(0, |found| found.len())
            }
            FolderLocation::Remote(tree, folder) => {
                tree.look_up(&joined(folder, name)).ok().flatten().flatten().unwrap_or(0)
            }
        }
    }

    /// Lists the direct entries of a sub-folder whose names begin with `start`, sorted by name.
    /// Returns an error if there are more than `max` entries.
    pub fn entries(&self, folder: &str, start: &str, max: u64) -> Result<Vec<FolderEntry>> {
        let mut entries = match &self.place {
            FolderLocation::Local(links) => self.local_entries(links, folder, start, max)?,
            FolderLocation::Remote(tree, above) => {
                let all = tree.list(&joined(above, folder))?;
                let of = all.iter().filter(|entry| entry.name.starts_with(start)).map(|entry| FolderEntry {
                    name: joined(folder, &entry.name),
                    kind: if entry.len.is_some() { EntryKind::File } else { EntryKind::Folder },
                    is_link: false,
                    len: entry.len,
                });
                of.collect()
            }
        };
        entries.sort();
        Ok(entries)
    }

    fn local_entries(&self, links: &Links, folder: &str, start: &str, max: u64) -> Result<Vec<FolderEntry>> {
        let path = self.path.join(folder);
        let failed = |e: std::io::Error| Error::from(e).file(path.display().to_string());
        let is_outside = !folder.is_empty() && !links.admit(&path);
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let own = entry.file_name();
            let name = own.to_string_lossy();
            if !name.starts_with(start) {
                continue;
            }
            let file_type = entry.file_type().map_err(failed)?;
            let kind = if own.to_str().is_none() {
                EntryKind::Unnameable
            } else if is_outside || (file_type.is_symlink() && !links.admit(&entry.path())) {
                EntryKind::Outside
            } else if file_type.is_symlink() {
                std::fs::metadata(entry.path()).map_or(EntryKind::Other, |found| kind_of(found.file_type()))
            } else {
                kind_of(file_type)
            };
            entries.push(FolderEntry {
                name: joined(folder, &name),
                kind,
                is_link: file_type.is_symlink(),
                len: None,
            });
            if entries.len() as u64 > max {
                return Err(too_many(&path, max));
            }
        }
        Ok(entries)
    }

    /// Opens a file for reading.
    pub(super) fn open(&self, name: &str) -> Result<OpenedFile> {
        match &self.place {
            FolderLocation::Local(links) => {
                let path = self.local_path(name);
                let file = regular_file::open(&path).map_err(|e| match e.kind() {
                    NotFound => Error::malformed("no such file").file(name),
                    InvalidInput => Error::malformed("not a regular file").file(name),
                    _ if is_loop(&e) => {
                        Error::malformed("a symbolic link that is part of a cycle").file(name)
                    }
                    _ => Error::from(e).file(name),
                })?;
                if !links.admit_file(&path, &file) {
                    return Err(links.error(name));
                }
                let stamp = Stamp::of(&file.metadata().map_err(|e| Error::from(e).file(name))?);
                Ok(OpenedFile::Local { file, path, stamp })
            }
            FolderLocation::Remote(tree, folder) => Ok(OpenedFile::Remote(tree.open(&joined(folder, name))?)),
        }
    }
}

/// Returns the place that a URL refers to and the path in that place, or `None` if the string is
/// not a URL.
pub fn place_of(url: &Path, session: &Session) -> Result<Option<(Arc<dyn RemotePlace>, String)>> {
    let Some(url) = url.to_str().filter(|text| is_url(text)) else { return Ok(None) };
    let unknown = |why: &str| Error::usage(format!("{why}: {:?}", shown(Path::new(url))));
    let remote = session.remote.as_ref().ok_or_else(|| unknown("this program cannot open URLs"))?;
    remote.place(url)?.ok_or_else(|| unknown("unsupported URL scheme")).map(Some)
}

/// Returns whether a string begins like a URL, with a scheme and `://` (RFC 3986, section 3.1). The
/// URL of a local file counts as a path, not as a URL: see [`local_path`].
#[must_use]
pub fn is_url(text: &str) -> bool {
    let is_local = file_url::path_of(text).is_some();
    text.split_once("://").filter(|_| !is_local).is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    })
}

/// Returns a path or URL for display. Removes possible secrets from a URL: the user and password,
/// and a signed query.
#[must_use]
pub fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    let Some((scheme, rest)) = text.split_once("://").filter(|_| is_url(&text)) else { return text };
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, _)| (rest, "?..."));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = match authority.rsplit_once('@') {
        // In an Azure URL, the container is at the position of a user name. The container is not a
        // secret.
        Some((user, host)) if user.contains(':') || scheme.starts_with("http") => host,
        _ => authority,
    };
    format!("{scheme}://{host}{path}{query}")
}

/// Returns the identity of the file at a path or URL.
pub fn identity(path: &Path, session: &Session) -> Result<FileIdentity> {
    let Some((folder, name)) = InputFolder::around_url(path, session)? else {
        return Ok(FileIdentity::of(&std::fs::metadata(local_path(path))?));
    };
    Ok(match folder.open(&name)? {
        OpenedFile::Local { stamp, .. } => FileIdentity::of_stamp(&stamp),
        OpenedFile::Remote(file) => FileIdentity::of_remote(file.stamp()),
    })
}

/// Makes a path absolute. A URL remains unchanged.
pub fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    if path.to_str().is_some_and(is_url) {
        Ok(path.to_owned())
    } else {
        std::path::absolute(local_path(path))
    }
}

/// Returns whether the error reports a cycle of links.
pub(super) fn is_loop(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

fn joined(folder: &str, name: &str) -> String {
    match (folder, name) {
        ("", only) | (only, "") => only.to_owned(),
        (folder, name) => format!("{folder}/{name}"),
    }
}

fn kind_of(file_type: std::fs::FileType) -> EntryKind {
    if file_type.is_file() {
        EntryKind::File
    } else if file_type.is_dir() {
        EntryKind::Folder
    } else {
        EntryKind::Other
    }
}

fn too_many(folder: &Path, max: u64) -> Error {
    Error::limit("too many files in the folder")
        .file(folder.display().to_string())
        .hint("raise the limit with --limit entries=N")
        .expected(format!("at most {max}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_secret_in_a_url_is_not_shown() {
        for (url, expected) in [
            ("/a@b/c?d", "/a@b/c?d"),
            ("https://u:p@host/a?X-Amz-Signature=1", "https://host/a?..."),
            ("http://token@host/a", "http://host/a"),
            ("s3://bucket/a@b", "s3://bucket/a@b"),
            ("az://container@account/a", "az://container@account/a"),
        ] {
            assert_eq!(shown(Path::new(url)), expected);
        }
    }
}
