//! What was opened to be looked at is opened to be read soon after: one request for both.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tensorferry::engine::context::remote::RemoteFile;

/// How long a look counts as one at what is there now.
const SOON: Duration = Duration::from_secs(5);

/// Files that were looked at.
#[derive(Default)]
pub(crate) struct Looked(Mutex<HashMap<String, (Instant, Arc<dyn RemoteFile>)>>);

impl Looked {
    /// Keeps a file for who opens it soon.
    pub(crate) fn keep(&self, path: &str, file: Arc<dyn RemoteFile>) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|_, (since, _)| since.elapsed() < SOON);
        files.insert(path.to_owned(), (Instant::now(), file));
    }

    /// The file at a path, if it was looked at just now; once.
    pub(crate) fn take(&self, path: &str) -> Option<Arc<dyn RemoteFile>> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.remove(path).filter(|(since, _)| since.elapsed() < SOON).map(|(_, file)| file)
    }
}
