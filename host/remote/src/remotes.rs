//! Remotes are all places that this crate reads from, by the schemes of their URLs.

use crate::http::HttpPlace;
use crate::runtime::Engine;
use crate::settings::Settings;
use std::sync::Arc;
use tensorferry::engine::read::remote::{Remote, RemotePlace};
use tensorferry_sdk::Result;

/// Opens what URLs of `http`, `https`, `hf`, `s3`, `gs`, `az`, `abfs` and `abfss` lead to. Places are kept: a token is
/// fetched and a tree listed once.
pub struct Remotes {
    engine: Arc<Engine>,
}

impl Remotes {
    /// Remotes of these settings; what is fetched ahead takes up to `memory` bytes, and each read that finds nothing
    /// fetched a page of 1 MiB beyond that.
    #[must_use]
    pub fn new(settings: Settings, memory: u64) -> Self {
        Self::cancelled_by(settings, memory, || false)
    }

    /// As [`new`](Self::new); whoever waits looks several times a second whether the user has ended the run.
    #[must_use]
    pub fn cancelled_by(
        settings: Settings,
        memory: u64,
        is_cancelled: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { engine: Arc::new(Engine::new(settings, memory, Arc::new(is_cancelled))) }
    }
}

impl Remote for Remotes {
    fn place(&self, url: &str) -> Result<Option<(Arc<dyn RemotePlace>, String)>> {
        let Some((scheme, _)) = url.split_once("://") else { return Ok(None) };
        match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => HttpPlace::new(&self.engine, url).map(Some),
            _ => Ok(None),
        }
    }
}
