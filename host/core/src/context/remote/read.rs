//! What the engine asks of places that it reads from.

use super::stamp::RemoteStamp;
use super::write::{NewObject, RemoteUpload};
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tensorferry_sdk::{Error, Result};

/// Opens what URLs lead to.
pub trait Remote: Debug + Send + Sync {
    /// The place that a URL is of, and the path in it, without a slash at its ends: a bucket and a key, a repository at a
    /// commit and a file of it. `None`, if this is no URL of a scheme that it knows. What it needs to find the place it
    /// may ask for now; whether there is anything at the path it does not look at.
    ///
    /// # Errors
    /// Usage, for a URL of such a scheme that names no place; what the place answers.
    fn place(&self, url: &str) -> Result<Option<(Arc<dyn RemotePlace>, String)>>;

    /// What users have to be told of how files were opened since this was last asked.
    fn take_notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Files by path: relative, parts separated by `/`.
pub trait RemotePlace: Send + Sync {
    /// What a path is called for people, without anything secret; of the empty path, the place itself.
    fn url(&self, path: &str) -> String;

    /// What lies at a path; the empty path is a folder, if there is anything in it. A store without folders has one
    /// wherever names go on behind a `/`. It is asked once.
    ///
    /// # Errors
    /// I/o, transient, or what the place says; that there is nothing is no error.
    fn look(&self, path: &str) -> Result<Option<RemoteEntry>>;

    /// What lies directly in a folder, in any order. It is asked once.
    ///
    /// # Errors
    /// Unsupported, where the place lists nothing; a limit, of more than `most` entries; as [`look`](Self::look).
    fn list(&self, folder: &str, most: u64) -> Result<Vec<RemoteEntry>>;

    /// A file, as it is now. It is asked once.
    ///
    /// # Errors
    /// Malformed, if there is none; as [`look`](Self::look).
    fn open(&self, path: &str) -> Result<Arc<dyn RemoteFile>>;

    /// Says which files will be opened, in this order. A hint: several may be opened at the same time, ahead of who asks
    /// for them, so that a model of a hundred files takes the time of a few.
    fn will_open(&self, paths: &[&str]) {
        let _ = paths;
    }

    /// What lies at a path just now, as a file; `None` where there is none. It may be another one a moment later.
    ///
    /// # Errors
    /// Unsupported, where the place is none that is written to; as [`look`](Self::look).
    fn stamp(&self, path: &str) -> Result<Option<RemoteStamp>> {
        Err(read_only(self.url(path)))
    }

    /// Begins to write an object, of which nothing is visible until it is committed.
    fn create(&self, path: &str, object: NewObject) -> Result<Arc<dyn RemoteUpload>> {
        let _ = object;
        Err(read_only(self.url(path)))
    }

    /// Removes an object; that there is none is no error.
    fn remove(&self, path: &str) -> Result<()> {
        Err(read_only(self.url(path)))
    }

    /// Ends the uploads below a prefix of names that were begun longer ago than this and not committed; gives their
    /// names for people.
    ///
    /// # Errors
    /// Unsupported, where uploads cannot be listed; as [`stamp`](Self::stamp).
    fn end_uploads(&self, prefix: &str, older_than: Duration) -> Result<Vec<String>> {
        let _ = older_than;
        Err(read_only(self.url(prefix)))
    }
}

fn read_only(url: String) -> Error {
    Error::unsupported("outputs go to folders of this machine and to object stores").file(url)
}

/// Something in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteEntry {
    /// Its name, without those of the folders that it is in.
    pub name: String,
    /// Bytes of a file; `None` for a folder.
    pub len: Option<u64>,
}

/// An opened file. All of its bytes are of the stamp that it was opened with.
pub trait RemoteFile: Send + Sync {
    /// What it was when it was opened.
    fn stamp(&self) -> &RemoteStamp;

    /// Fills `buffer` from `offset` on; the range lies within the file.
    ///
    /// # Errors
    /// Transient, if it is another file now, or the place cannot be reached after what retries are worth.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Says which ranges will be read next, in this order, after those that were said before. A hint: they may be fetched
    /// ahead, within the memory that the remote was given.
    fn advise(&self, ranges: &[Range<u64>]);

    /// Looks whether it is still the same file, if more of it was read than came when it was opened.
    ///
    /// # Errors
    /// Transient, if not.
    fn check_unchanged(&self) -> Result<()>;
}
