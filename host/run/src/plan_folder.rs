//! The location of a plan and its journals: a local folder, or a folder in a store. Each file is
//! written as a whole and only once.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tensorferry::Session;
use tensorferry::places::{absolute, place_of};
use tensorferry_core::context::regular_file;
use tensorferry_core::context::remote::{Condition, NewObject, RemotePlace};
use tensorferry_sdk::{Error, Result};

/// Maximum size in bytes of a file of a plan. Such a file normally has a few hundred lines of a few
/// kilobytes each. Larger files in a store are refused.
const MAX_BYTES: u64 = 256 << 20;

#[derive(Clone)]
pub(crate) enum PlanFolder {
    Local(PathBuf),
    Remote(Arc<dyn RemotePlace>, String),
}

impl PlanFolder {
    /// Opens the folder at a path or URL.
    pub(crate) fn open(path: &Path, session: &Session) -> Result<Self> {
        if let Some((place, folder)) = place_of(path, session)? {
            return Ok(Self::Remote(place, folder));
        }
        let absolute = absolute(path).map_err(|e| Error::from(e).file(path.display().to_string()))?;
        Ok(Self::Local(absolute))
    }

    /// Returns a subfolder of this folder.
    pub(crate) fn subfolder(&self, name: &str) -> Self {
        match self {
            Self::Local(folder) => Self::Local(folder.join(name)),
            Self::Remote(place, folder) => Self::Remote(place.clone(), joined(folder, name)),
        }
    }

    /// Returns the path or URL of a file in the folder, for messages.
    pub(crate) fn shown(&self, name: &str) -> String {
        match self {
            Self::Local(folder) => folder.join(name).display().to_string(),
            Self::Remote(place, folder) => place.url(&joined(folder, name)),
        }
    }

    /// Reads a file. Returns `None` if the file does not exist.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Local(folder) => {
                let path = folder.join(name);
                check_no_link(&path)?;
                let mut bytes = Vec::new();
                match regular_file::open(&path).and_then(|mut file| file.read_to_end(&mut bytes)) {
                    Ok(_) => Ok(Some(bytes)),
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(Error::from(error).file(self.shown(name))),
                }
            }
            Self::Remote(place, folder) => {
                let path = joined(folder, name);
                if place.stamp(&path)?.is_none() {
                    return Ok(None);
                }
                let file = place.open(&path)?;
                let len = file.stamp().len;
                if len > MAX_BYTES {
                    let error = Error::limit("the plan's file is too large").file(self.shown(name));
                    return Err(error.expected(format!("at most {MAX_BYTES} bytes")).found(len.to_string()));
                }
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                let mut bytes = vec![0; len];
                file.read_at(0, &mut bytes)?;
                Ok(Some(bytes))
            }
        }
    }

    /// Returns the names of the folder's files, sorted. If the folder does not exist, returns no
    /// names.
    pub(crate) fn names(&self, session: &Session) -> Result<Vec<String>> {
        let mut names: Vec<String> = match self {
            Self::Local(folder) => {
                let failed = |e: std::io::Error| Error::from(e).file(folder.display().to_string());
                let entries = match fs::read_dir(folder) {
                    Ok(entries) => entries,
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
                    Err(error) => return Err(failed(error)),
                };
                let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
                names.collect::<std::io::Result<_>>().map_err(failed)?
            }
            Self::Remote(place, folder) => {
                let entries = place.list(folder, session.limits.entries)?;
                entries.into_iter().filter(|entry| entry.len.is_some()).map(|entry| entry.name).collect()
            }
        };
        names.sort();
        Ok(names)
    }

    /// Writes a new file.
    pub(crate) fn create(&self, name: &str, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Local(folder) => {
                let path = folder.join(name);
                let file = OpenOptions::new().write(true).create_new(true).open(&path);
                let written = file.and_then(|mut file| file.write_all(bytes));
                written.map_err(|error| Error::from(error).file(path.display().to_string()))
            }
            Self::Remote(place, folder) => {
                let object = NewObject { len: Some(bytes.len() as u64), ..NewObject::default() };
                let upload = place.create(&joined(folder, name), object)?;
                upload.write_at(0, bytes)?;
                upload.finish()?;
                upload.commit(&Condition::Absent).map(drop)
            }
        }
    }
}

/// Checks that a plan's file or folder is not a link. A link may have been copied along with the
/// plan, and its target may be anywhere.
pub(crate) fn check_no_link(path: &Path) -> Result<()> {
    if !path.is_symlink() {
        return Ok(());
    }
    let error = Error::usage("an entry of the plan is a link").file(path.display().to_string());
    Err(error.hint("make the plan again, or replace the link with a file or a folder"))
}

fn joined(folder: &str, name: &str) -> String {
    match (folder, name) {
        ("", name) => name.to_owned(),
        (folder, "") => folder.to_owned(),
        _ => format!("{folder}/{name}"),
    }
}
