//! The folder that an input's files lie in: one of this machine, or of a place beyond a network.

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

/// A folder with files, which have names relative to it, separated by `/`.
#[derive(Clone)]
pub struct InputFolder {
    /// Of a remote one, its URL.
    path: PathBuf,
    place: Place,
}

#[derive(Clone)]
enum Place {
    Local(Arc<Links>),
    Remote(Arc<RemoteTree>, String),
}

/// What lies in a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FolderEntry {
    /// Its name, with those of the folders above it that it was asked for by.
    pub name: String,
    /// What it is, or where it is a link, what that leads to.
    pub kind: EntryKind,
    /// Whether it is a symbolic link.
    pub is_link: bool,
    /// Bytes of a file, where they came with the name.
    pub len: Option<u64>,
}

/// What something in a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A pipe, a device, a link that leads nowhere, a file that may not be read.
    Other,
    /// A link that leads out of the folder, and is not followed.
    Outside,
    /// Something whose name is not UTF-8; what stands for it is not its name.
    Unnameable,
}

/// A file that was opened.
pub(super) enum Opened {
    Local { file: File, path: PathBuf, stamp: Stamp },
    Remote(Arc<dyn RemoteFile>),
}

impl InputFolder {
    /// One of this machine.
    #[must_use]
    pub fn local(path: PathBuf) -> Self {
        Self::with_rules(path, LinkRules::default())
    }

    /// One of this machine, with what the user said of links.
    #[must_use]
    pub(crate) fn with_rules(path: PathBuf, rules: LinkRules) -> Self {
        Self { place: Place::Local(Arc::new(Links::of(path.clone(), rules))), path }
    }

    /// The same where links to weights and records outside of it are followed, if `follow` is set.
    #[must_use]
    pub fn following_links(self, follow: bool) -> Self {
        self.map_links(|links| links.following(follow))
    }

    /// The same where the user named this file in it, which is followed wherever it leads.
    #[must_use]
    pub(super) fn naming(self, name: &str) -> Self {
        let file = self.local_path(name);
        self.map_links(|links| links.naming(file))
    }

    /// The same for files whose bytes go into an output as they are: none is taken from elsewhere.
    #[must_use]
    pub(super) fn of_companions(self) -> Self {
        self.map_links(|links| links.with_purpose(Purpose::Companions))
    }

    /// The same for files that are only checked: links are followed.
    #[must_use]
    pub(super) fn for_checks(self) -> Self {
        self.map_links(|links| links.with_purpose(Purpose::Check))
    }

    fn map_links(self, change: impl FnOnce(&Links) -> Links) -> Self {
        let place = match self.place {
            Place::Local(links) => Place::Local(Arc::new(change(&links))),
            place @ Place::Remote(..) => place,
        };
        Self { place, ..self }
    }

    /// The folder at a path of this machine, or at a URL. Whether there is one is not looked at.
    ///
    /// # Errors
    /// Usage, for a URL of which nobody knows what it leads to; what the place answers.
    pub fn at(path: &Path, session: &Session) -> Result<Self> {
        let around = Self::around_url(path, session)?;
        Ok(around.map_or_else(
            || Self::with_rules(local_path(path).into_owned(), session.links.clone()),
            |(folder, name)| folder.below(&name),
        ))
    }

    /// The folder around what a URL leads to, and the name of that in it, empty for the top of a place; `None`, if this is no
    /// URL.
    pub(super) fn around_url(url: &Path, session: &Session) -> Result<Option<(Self, String)>> {
        let Some((place, path)) = place_of(url, session)? else { return Ok(None) };
        let tree = RemoteTree::new(place, session.limits.entries);
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        Ok(Some((Self::remote(Arc::new(tree), folder.to_owned()), name.to_owned())))
    }

    fn remote(tree: Arc<RemoteTree>, folder: String) -> Self {
        Self { path: PathBuf::from(tree.url(&folder)), place: Place::Remote(tree, folder) }
    }

    /// A folder in this one; of an empty name, this one.
    #[must_use]
    pub fn below(&self, folder: &str) -> Self {
        match &self.place {
            _ if folder.is_empty() => self.clone(),
            Place::Local(_) => Self { path: self.path.join(folder), place: self.place.clone() },
            Place::Remote(tree, above) => Self::remote(tree.clone(), joined(above, folder)),
        }
    }

    /// Its path or URL.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is one of this machine, so that its path is one.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self.place, Place::Local(_))
    }

    /// The path or URL of a name in it.
    #[must_use]
    pub fn path_of(&self, name: &str) -> PathBuf {
        match &self.place {
            Place::Local(_) => self.path.join(name),
            Place::Remote(tree, folder) => PathBuf::from(tree.url(&joined(folder, name))),
        }
    }

    /// The path of a name in a folder of this machine. Joined to an empty name, that of a file would end in a slash and lead nowhere.
    fn local_path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.path.clone() } else { self.path.join(name) }
    }

    /// What lies at a name in it; of an empty name, at its own place.
    ///
    /// # Errors
    /// I/o, and what the place answers; that there is nothing is no error.
    pub fn kind(&self, name: &str) -> Result<Option<EntryKind>> {
        match &self.place {
            Place::Local(links) => match std::fs::metadata(self.local_path(name)) {
                Ok(_) if !links.admit(&self.local_path(name)) => Ok(Some(EntryKind::Outside)),
                Ok(found) => Ok(Some(kind_of(found.file_type()))),
                Err(error) if matches!(error.kind(), NotFound | NotADirectory | InvalidFilename) => Ok(None),
                Err(error) => Err(Error::from(error).file(name)),
            },
            Place::Remote(tree, folder) => {
                let kind = |len: Option<u64>| if len.is_some() { EntryKind::File } else { EntryKind::Folder };
                Ok(tree.look(&joined(folder, name))?.map(kind))
            }
        }
    }

    /// Bytes of a file in it; none, if it is not there.
    #[must_use]
    pub fn len(&self, name: &str) -> u64 {
        match &self.place {
            Place::Local(_) => std::fs::metadata(self.local_path(name)).map_or(0, |found| found.len()),
            Place::Remote(tree, folder) => {
                tree.look(&joined(folder, name)).ok().flatten().flatten().unwrap_or(0)
            }
        }
    }

    /// What lies directly in a folder below this one, of names that begin with `start`, sorted by name.
    ///
    /// # Errors
    /// I/o; a limit, of more than `most` entries.
    pub fn entries(&self, folder: &str, start: &str, most: u64) -> Result<Vec<FolderEntry>> {
        let mut entries = match &self.place {
            Place::Local(links) => self.local_entries(links, folder, start, most)?,
            Place::Remote(tree, above) => {
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

    fn local_entries(&self, links: &Links, folder: &str, start: &str, most: u64) -> Result<Vec<FolderEntry>> {
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
            if entries.len() as u64 > most {
                return Err(too_many(&path, most));
            }
        }
        Ok(entries)
    }

    /// Opens a file to be read.
    pub(super) fn open(&self, name: &str) -> Result<Opened> {
        match &self.place {
            Place::Local(links) => {
                let path = self.local_path(name);
                let file = regular_file::open(&path).map_err(|e| match e.kind() {
                    NotFound => Error::malformed("no such file").file(name),
                    InvalidInput => Error::malformed("not a regular file").file(name),
                    _ if is_loop(&e) => Error::malformed("a symbolic link that leads nowhere").file(name),
                    _ => Error::from(e).file(name),
                })?;
                if !links.admit_file(&path, &file) {
                    return Err(links.error(name));
                }
                let stamp = Stamp::of(&file.metadata().map_err(|e| Error::from(e).file(name))?);
                Ok(Opened::Local { file, path, stamp })
            }
            Place::Remote(tree, folder) => Ok(Opened::Remote(tree.open(&joined(folder, name))?)),
        }
    }
}

/// The place that a URL is of, and the path in it; `None`, if this is no URL.
///
/// # Errors
/// Usage, for a URL of which nobody knows what it leads to; what the place answers.
pub fn place_of(url: &Path, session: &Session) -> Result<Option<(Arc<dyn RemotePlace>, String)>> {
    let Some(url) = url.to_str().filter(|text| is_url(text)) else { return Ok(None) };
    let unknown = |why: &str| Error::usage(format!("{why}: {:?}", shown(Path::new(url))));
    let remote = session.remote.as_ref().ok_or_else(|| unknown("this program opens no URLs"))?;
    remote.place(url)?.ok_or_else(|| unknown("nothing is known that opens such a URL")).map(Some)
}

/// Whether a text begins as a URL does: with a scheme and `://` (RFC 3986, section 3.1). One of a file of this machine is a
/// path: [`local_path`].
#[must_use]
pub fn is_url(text: &str) -> bool {
    let is_local = file_url::path_of(text).is_some();
    text.split_once("://").filter(|_| !is_local).is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    })
}

/// A path or a URL for people, without what may be secret in a URL: a user and password, a signed query.
#[must_use]
pub fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    let Some((scheme, rest)) = text.split_once("://").filter(|_| is_url(&text)) else { return text };
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, _)| (rest, "?..."));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = match authority.rsplit_once('@') {
        // A container of Azure's is written so too, and is no secret.
        Some((user, host)) if user.contains(':') || scheme.starts_with("http") => host,
        _ => authority,
    };
    format!("{scheme}://{host}{path}{query}")
}

/// What tells the file that a path or a URL leads to from another of its name.
///
/// # Errors
/// I/o; what the place of a URL answers.
pub fn identity(path: &Path, session: &Session) -> Result<FileIdentity> {
    let Some((folder, name)) = InputFolder::around_url(path, session)? else {
        return Ok(FileIdentity::of(&std::fs::metadata(local_path(path))?));
    };
    Ok(match folder.open(&name)? {
        Opened::Local { stamp, .. } => FileIdentity::of_stamp(&stamp),
        Opened::Remote(file) => FileIdentity::of_remote(file.stamp()),
    })
}

/// A path as one that does not depend on the current folder; a URL as it is.
///
/// # Errors
/// I/o, where there is no current folder.
pub fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    if path.to_str().is_some_and(is_url) {
        Ok(path.to_owned())
    } else {
        std::path::absolute(local_path(path))
    }
}

/// Whether links lead from one to the other without end.
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

fn too_many(folder: &Path, most: u64) -> Error {
    Error::limit("too many files in the folder")
        .file(folder.display().to_string())
        .expected(format!("at most {most}, or --limit entries=N"))
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
