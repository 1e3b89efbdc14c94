//! The traits for reading from remote places.

use super::stamp::RemoteStamp;
use super::write::{NewObject, RemoteUpload};
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tensorferry_sdk::{Error, Result};

/// An object that opens URLs.
pub trait Remote: Debug + Send + Sync {
    /// Returns the place that a URL refers to, and the path in that place without leading or
    /// trailing slashes. For an object store, the place is a bucket and the path is a key. For the
    /// Hub, the place is a repository at a commit, and the path is a file in the repository.
    /// Returns `None` if the URL's scheme is unknown. May send requests to find the place, but does
    /// not check whether anything exists at the path.
    fn place(&self, url: &str) -> Result<Option<(Arc<dyn RemotePlace>, String)>>;

    /// Returns and clears the user messages that were recorded while files were opened.
    fn take_notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A remote place with files. Paths are relative, and their parts are separated by `/`.
pub trait RemotePlace: Send + Sync {
    /// Returns the URL of a path for display, without secrets. For the empty path, returns the URL
    /// of the place.
    fn url(&self, path: &str) -> String;

    /// Looks up a path, with a single request. The empty path is a folder if the place is not
    /// empty. In a store without folders, a path is a folder if any key starts with the path and
    /// `/`. Returns `None` if nothing exists there.
    fn look(&self, path: &str) -> Result<Option<RemoteEntry>>;

    /// Lists the direct entries of a folder, in any order, with a single request. Returns an error
    /// if the folder has more than `max` entries.
    fn list(&self, folder: &str, max: u64) -> Result<Vec<RemoteEntry>>;

    /// Opens the current version of a file, with a single request.
    fn open(&self, path: &str) -> Result<Arc<dyn RemoteFile>>;

    /// Announces the files that will be opened, in this order. The implementation may open several
    /// files in advance, so that opening a hundred files takes about as long as opening a few.
    fn will_open(&self, paths: &[&str]) {
        let _ = paths;
    }

    /// Returns the current stamp of the file at a path, or `None` if no file exists there. The file
    /// may change immediately after this call.
    fn stamp(&self, path: &str) -> Result<Option<RemoteStamp>> {
        Err(read_only(self.url(path)))
    }

    /// Starts writing an object, which remains invisible until it is committed.
    fn create(&self, path: &str, object: NewObject) -> Result<Arc<dyn RemoteUpload>> {
        let _ = object;
        Err(read_only(self.url(path)))
    }

    /// Removes an object. A missing object is not an error.
    fn remove(&self, path: &str) -> Result<()> {
        Err(read_only(self.url(path)))
    }

    /// Aborts uncommitted uploads below a prefix that are older than `older_than`. Returns the
    /// names of the aborted uploads for display.
    fn end_uploads(&self, prefix: &str, older_than: Duration) -> Result<Vec<String>> {
        let _ = older_than;
        Err(read_only(self.url(prefix)))
    }
}

fn read_only(url: String) -> Error {
    Error::unsupported("outputs can be written only to local folders and object stores").file(url)
}

/// A file or folder in a remote folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteEntry {
    /// The entry's name without its parent folders.
    pub name: String,
    /// The size of a file in bytes; `None` for a folder.
    pub len: Option<u64>,
}

/// An opened file. All bytes that it returns are from the version that its stamp identifies.
pub trait RemoteFile: Send + Sync {
    /// Returns the stamp of the file when it was opened.
    fn stamp(&self) -> &RemoteStamp;

    /// Fills `buffer` with the bytes from `offset` on. The caller must pass a range inside the
    /// file. Fails with a transient error if the file has changed, or if the place remains
    /// unreachable after all retries.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Announces ranges that will be read next, in this order, after all previously announced
    /// ranges. The implementation may prefetch these ranges within its memory limit.
    fn advise(&self, ranges: &[Range<u64>]);

    /// Returns a transient error if the file has changed since it was opened. Skips the check if
    /// the opening request returned all bytes that were read.
    fn check_unchanged(&self) -> Result<()>;
}
