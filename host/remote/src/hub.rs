//! Repositories on the Hugging Face Hub, each at one commit. Each repository is listed only once,
//! and its files are read in ranges. If the local cache of the Hub contains a file, the file is
//! read from the cache.

mod address;
mod api;
mod cached;
mod login;
mod origin;
mod tree;

use crate::file::CachedFile;
use crate::opened_files::OpenedFiles;
use crate::runtime::Engine;
use crate::secret::shown_text;
use crate::settings::Settings;
use address::Address;
use api::Api;
use bytes::Bytes;
use cached::Snapshot;
use origin::HubOrigin;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tensorferry_core::context::remote::{RemoteEntry, RemoteFile, RemotePlace};
use tensorferry_sdk::{Error, Result};
use tree::{Tree, TreeEntry};

/// A repository on the Hub, at one commit.
pub(crate) struct HubPlace {
    engine: Arc<Engine>,
    api: Arc<Api>,
    snapshot: Snapshot,
    is_offline: bool,
    tree: Mutex<Tree>,
    opened_files: OpenedFiles,
}

/// Splits a URL into the URL of the repository at a revision, and the path of a file in the
/// repository. The first part identifies the repository among the opened repositories.
pub(crate) fn address(url: &str) -> Result<(String, String)> {
    let address = Address::parse(url)?;
    Ok((address.url(""), address.path))
}

/// Returns the file with the token that `hf auth login` saved, if it exists.
pub(crate) fn login(settings: &Settings) -> Option<PathBuf> {
    login::token_file(settings).filter(|file| file.is_file())
}

impl HubPlace {
    /// Opens the repository that a URL names, and resolves its revision to a commit.
    pub(crate) fn new(engine: &Arc<Engine>, url: &str) -> Result<Self> {
        let address = Address::parse(url)?;
        let settings = &engine.settings;
        let is_offline = settings.is_set("hf-offline");
        let folder = login::cache(settings);
        let commit = if address.is_commit() {
            address.revision().to_owned()
        } else if is_offline {
            Snapshot::commit_of(&folder, &address).ok_or_else(|| {
                Error::usage("hf-offline is set, and the Hub's cache does not have this revision")
                    .file(shown_text(url))
            })?
        } else {
            let api = Api::new(settings, address.clone(), address.revision())?;
            let client = engine.process()?.client.clone();
            engine.wait(async move { api.commit(&client).await })?.map_err(|fault| fault.error)?
        };
        let snapshot = Snapshot::new(&folder, &address, &commit);
        let api = Arc::new(Api::new(settings, address, &commit)?);
        let tree = Mutex::new(Tree::default());
        Ok(Self {
            engine: Arc::clone(engine),
            api,
            snapshot,
            is_offline,
            tree,
            opened_files: OpenedFiles::default(),
        })
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the entry at a path. If the known tree does not contain the entry, sends a request
    /// to the Hub.
    fn find(&self, path: &str) -> Result<Option<TreeEntry>> {
        if path.is_empty() {
            return Ok(Some(TreeEntry::Folder));
        }
        if let Some(found) = self.tree().find(path) {
            return Ok(found);
        }
        if let Some(found) = self.snapshot.find(path) {
            return Ok(Some(found));
        }
        if self.is_offline {
            return Ok(None);
        }
        let (api, client, owned) =
            (Arc::clone(&self.api), self.engine.process()?.client.clone(), path.to_owned());
        let found = self.engine.wait(async move { api.path(&client, &owned).await })?;
        let found = found.map_err(|fault| fault.error)?;
        self.tree().note(path, found.clone());
        Ok(found)
    }
}

impl RemotePlace for HubPlace {
    fn url(&self, path: &str) -> String {
        self.api.address.url(path)
    }

    fn look(&self, path: &str) -> Result<Option<RemoteEntry>> {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(self.find(path)?.map(|known| RemoteEntry { name, len: known.len() }))
    }

    fn list(&self, folder: &str, most: u64) -> Result<Vec<RemoteEntry>> {
        if self.is_offline {
            return self.snapshot.list(folder, most).map_err(|error| error.file(self.url(folder)));
        }
        if let Some(found) = self.tree().list(folder) {
            return within(found, most, || self.url(folder));
        }
        let (api, client, owned) =
            (Arc::clone(&self.api), self.engine.process()?.client.clone(), folder.to_owned());
        let found = self.engine.wait(async move { api.tree(&client, &owned).await })?;
        let found = found.map_err(|fault| fault.error)?;
        let mut tree = self.tree();
        tree.add(folder, found);
        within(tree.list(folder).unwrap_or_default(), most, || self.url(folder))
    }

    fn open(&self, path: &str) -> Result<Arc<dyn RemoteFile>> {
        let missing = || Error::malformed("no such file").file(self.url(path));
        let Some(TreeEntry::File(file)) = self.find(path)? else { return Err(missing()) };
        if let Some(cached) = self.snapshot.open(path, &file, self.url(path)) {
            return Ok(Arc::new(cached));
        }
        if self.is_offline {
            return Err(missing());
        }
        if let Some(file) = self.opened_files.take(path, &self.engine.cancelled)? {
            return Ok(file);
        }
        let stamp = file.stamp();
        let origin = HubOrigin::new(&self.api, path, file);
        Ok(CachedFile::opened(&self.engine, origin, stamp, Bytes::new()))
    }

    fn will_open(&self, paths: &[&str]) {
        for path in paths {
            // Only files in the known tree are opened in advance, because other files would need an
            // additional request. Files in the local cache do not need a request.
            let Some(Some(TreeEntry::File(file))) = self.tree().find(path) else { continue };
            if self.snapshot.open(path, &file, self.url(path)).is_some() {
                continue;
            }
            let (engine, stamp) = (Arc::clone(&self.engine), file.stamp());
            let origin = HubOrigin::new(&self.api, path, file);
            self.opened_files.begin(path, &self.engine, async move {
                let client = engine.process()?.client.clone();
                let start = origin.start(&client).await?;
                Ok(Some(CachedFile::opened(&engine, origin, stamp, start)))
            });
        }
    }
}

fn within(found: Vec<RemoteEntry>, most: u64, url: impl Fn() -> String) -> Result<Vec<RemoteEntry>> {
    if found.len() as u64 > most {
        return Err(Error::limit("too many entries in a folder")
            .file(url())
            .expected(most)
            .found(found.len()));
    }
    Ok(found)
}
