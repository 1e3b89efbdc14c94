//! Opens URLs. The scheme of a URL determines which kind of server or store is accessed.

use crate::http::HttpPlace;
use crate::hub::{self, HubPlace};
use crate::object::{Bucket, ObjectPlace};
use crate::runtime::Engine;
use crate::settings::Settings;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_core::context::remote::{Remote, RemotePlace};
use tensorferry_sdk::Result;

/// Opens URLs with the schemes `http`, `https`, `hf`, `s3`, `gs`, `az`, `abfs` and `abfss`. Each
/// server, repository and bucket is kept after its first use, so that tokens are fetched and trees
/// are listed only once.
pub struct Remotes {
    engine: Arc<Engine>,
    places: Mutex<HashMap<String, Arc<dyn RemotePlace>>>,
}

impl fmt::Debug for Remotes {
    /// Does not show the opened servers and stores, because their URLs may contain keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remotes").finish_non_exhaustive()
    }
}

impl Remotes {
    /// Creates an instance with these settings. Prefetched data uses up to `memory` bytes. Each
    /// read of data that was not prefetched uses one more page of 1 MiB.
    #[must_use]
    pub fn new(settings: Settings, memory: u64) -> Self {
        Self::cancelled_by(settings, memory, || false)
    }

    /// Like [`new`](Self::new), but a call that waits ends when `is_cancelled` returns true. While
    /// a call waits, it calls this function several times per second.
    #[must_use]
    pub fn cancelled_by(
        settings: Settings,
        memory: u64,
        is_cancelled: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let engine = Arc::new(Engine::new(settings, memory, Arc::new(is_cancelled)));
        Self { engine, places: Mutex::default() }
    }

    /// Returns the place (a server, repository or bucket) that is stored under a key. If the place
    /// does not exist, creates it.
    fn kept<P: RemotePlace + 'static>(
        &self,
        name: String,
        make: impl FnOnce() -> Result<P>,
    ) -> Result<Arc<dyn RemotePlace>> {
        // The lock is held while the place is created, so that other callers wait for it.
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get(&name) {
            return Ok(Arc::clone(place));
        }
        let place: Arc<dyn RemotePlace> = Arc::new(make()?);
        places.insert(name, Arc::clone(&place));
        Ok(place)
    }
}

impl Remote for Remotes {
    fn take_notes(&self) -> Vec<String> {
        self.engine.notes.take()
    }

    fn place(&self, url: &str) -> Result<Option<(Arc<dyn RemotePlace>, String)>> {
        let Some((scheme, _)) = url.split_once("://") else { return Ok(None) };
        match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => HttpPlace::of(&self.engine, url).map(Some),
            "hf" => {
                let (name, path) = hub::address(url)?;
                Ok(Some((self.kept(name, || HubPlace::new(&self.engine, url))?, path)))
            }
            _ => {
                let Some((bucket, path)) = Bucket::parse(url)? else { return Ok(None) };
                let name = bucket.root().to_owned();
                Ok(Some((self.kept(name, || ObjectPlace::new(&self.engine, bucket))?, path)))
            }
        }
    }
}
