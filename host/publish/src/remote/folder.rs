//! The folder of an output in an object store.

use crate::disk::exists;
use crate::stage::{Destination, DestinationKind, check_relative};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_core::context::remote::{RemoteEntry, RemotePlace};
use tensorferry_core::context::session::Session;
use tensorferry_core::read::folder::{place_of, shown};
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_sdk::{ErrorKind, Result};

/// The folder of an output in a store, which is a prefix of object names.
#[derive(Clone)]
pub struct RemoteFolder {
    pub(super) place: Arc<dyn RemotePlace>,
    path: String,
    /// The URL of the folder for display.
    shown: PathBuf,
    is_own: bool,
    most_listed: u64,
    listed: Arc<Mutex<BTreeMap<String, Arc<Vec<RemoteEntry>>>>>,
}

impl RemoteFolder {
    /// Returns the folder of a destination in a store, or `None` if the destination is on this
    /// machine.
    pub fn of(destination: &Destination, session: &Session) -> Result<Option<Self>> {
        // Some stores support only files, so the file's own URL is used instead of its folder's
        // URL.
        let url = match &destination.kind {
            DestinationKind::Beside { name } => destination.folder.join(name),
            DestinationKind::Folder => destination.folder.clone(),
        };
        let Some((place, path)) = place_of(&url, session)? else { return Ok(None) };
        let path = match &destination.kind {
            DestinationKind::Beside { .. } => {
                path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned()
            }
            DestinationKind::Folder => path,
        };
        Ok(Some(Self {
            place,
            path,
            shown: PathBuf::from(shown(&destination.folder)),
            is_own: destination.kind == DestinationKind::Folder,
            most_listed: session.limits.entries,
            listed: Arc::default(),
        }))
    }

    /// Returns the store path of a file in this folder.
    pub(super) fn path_of(&self, name: &str) -> String {
        match (&*self.path, name) {
            ("", name) => name.to_owned(),
            (path, "") => path.to_owned(),
            (path, name) => format!("{path}/{name}"),
        }
    }

    /// Returns the URL of a file in this folder, for display.
    pub fn url(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.shown.clone() } else { self.shown.join(name) }
    }

    /// Checks that an output of these files may be written, based on the objects that the store
    /// lists. The condition of each upload covers objects that are not listed.
    pub fn check_free(&self, names: &[&str], force: bool) -> Result<()> {
        names.iter().try_for_each(|name| check_relative(name))?;
        if force {
            return Ok(());
        }
        if self.is_own {
            match self.is_empty() {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(exists(&self.shown)),
                Err(error) if is_refusal(error.kind()) => {}
                Err(error) => return Err(error),
            }
        }
        names.par_iter().try_for_each(|name| match self.place.stamp(&self.path_of(name)) {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(exists(&self.url(name))),
            Err(error) if error.kind() == ErrorKind::Io => Ok(()),
            Err(error) => Err(error),
        })
    }

    pub fn is_empty(&self) -> Result<bool> {
        match self.entries("") {
            Err(error) if error.kind() == ErrorKind::Limit => Ok(false),
            listed => Ok(listed?.is_empty()),
        }
    }

    /// Returns the names of the files in a sub-folder.
    pub fn files(&self, folder: &str) -> Result<Vec<String>> {
        let entries = self.entries(folder)?;
        Ok(entries.iter().filter(|entry| entry.len.is_some()).map(|entry| entry.name.clone()).collect())
    }

    /// Returns whether the store's listing contains a file with this name.
    pub fn has_file(&self, name: &str) -> Result<bool> {
        let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
        Ok(self.entries(folder)?.iter().any(|entry| entry.name == file && entry.len.is_some()))
    }

    /// Returns the identity of a file, or `None` if the file is missing or cannot be opened.
    pub fn identity(&self, name: &str) -> Option<FileIdentity> {
        Some(FileIdentity::of_remote(self.place.open(&self.path_of(name)).ok()?.stamp()))
    }

    /// Returns the bytes of a file, if the file exists and is at most `most` bytes long.
    pub fn read_small(&self, name: &str, most: u64) -> Option<Vec<u8>> {
        let path = self.path_of(name);
        self.place.stamp(&path).ok()??;
        let file = self.place.open(&path).ok()?;
        let len = usize::try_from(file.stamp().len).ok().filter(|_| file.stamp().len <= most)?;
        let mut bytes = vec![0; len];
        file.read_at(0, &mut bytes).ok()?;
        Some(bytes)
    }

    fn entries(&self, folder: &str) -> Result<Arc<Vec<RemoteEntry>>> {
        let known = || self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listed) = known().get(folder) {
            return Ok(listed.clone());
        }
        let listed = Arc::new(self.place.list(&self.path_of(folder), self.most_listed)?);
        known().insert(folder.to_owned(), listed.clone());
        Ok(listed)
    }
}

/// Returns whether an error means that the store denies the request. Otherwise the request itself
/// has failed.
pub fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Io | ErrorKind::Limit | ErrorKind::Unsupported)
}
