//! Opens all kinds of places that this crate supports, according to the schemes of their URLs.

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

/// Opens URLs with the schemes `http`, `https`, `hf`, `s3`, `gs`, `az`, `abfs` and `abfss`. Places
/// are kept, so that a token is fetched and a tree is listed only once.
pub struct Remotes {
    engine: Arc<Engine>,
    places: Mutex<HashMap<String, Arc<dyn RemotePlace>>>,
}

impl fmt::Debug for Remotes {
    /// Leaves out the places, because their URLs may contain keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remotes").finish_non_exhaustive()
    }
}

impl Remotes {
    /// Creates remotes with these settings. Prefetched bytes take up to `memory` bytes. Each read
    /// of bytes that were not prefetched takes another page of 1 MiB.
    #[must_use]
    pub fn new(settings: Settings, memory: u64) -> Self {
        Self::cancelled_by(settings, memory, || false)
    }

    /// Does the same as [`new`](Self::new), but calls that wait end when `is_cancelled` returns
    /// true. The function is called several times per second.
    #[must_use]
    pub fn cancelled_by(
        settings: Settings,
        memory: u64,
        is_cancelled: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let engine = Arc::new(Engine::new(settings, memory, Arc::new(is_cancelled)));
        Self { engine, places: Mutex::default() }
    }

    /// Returns the place that is stored under a key. If there is none, creates it.
    fn kept<P: RemotePlace + 'static>(
        &self,
        name: String,
        make: impl FnOnce() -> Result<P>,
    ) -> Result<Arc<dyn RemotePlace>> {
        // Hold the lock while the place is created, so that other callers wait for it.
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
