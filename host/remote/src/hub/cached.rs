//! A repository's snapshot at a commit in the Hub's local cache:
//! `REPOSITORY/snapshots/COMMIT/PATH`. Most of these files are links to `REPOSITORY/blobs/ETAG`.
//! This module reads the cache and never changes it.

use super::address::Address;
use super::tree::{TreeEntry, TreeFile};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use tensorferry_core::context::remote::{RemoteEntry, RemoteFile, RemoteStamp};
use tensorferry_sdk::{Error, Result};

/// The folder of a snapshot, or `None` if there is no cache.
pub(super) struct Snapshot(Option<PathBuf>);

impl Snapshot {
    pub(super) fn new(cache: &Option<PathBuf>, address: &Address, commit: &str) -> Self {
        Self(cache.as_ref().map(|cache| cache.join(address.folder()).join("snapshots").join(commit)))
    }

    /// Returns the commit to which a revision last referred, according to the cache.
    pub(super) fn commit_of(cache: &Option<PathBuf>, address: &Address) -> Option<String> {
        let refs = cache.as_ref()?.join(address.folder()).join("refs");
        let commit = std::fs::read_to_string(refs.join(address.revision())).ok()?;
        let commit = commit.trim();
        let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_commit.then(|| commit.to_owned())
    }

    /// Returns the entry at a path, if the cache contains it.
    pub(super) fn find(&self, path: &str) -> Option<TreeEntry> {
        let path = self.0.as_ref()?.join(path);
        let found = std::fs::metadata(&path).ok()?;
        if !found.is_file() {
            // A folder in the cache is not used, because it may be incomplete.
            return None;
        }
        let blob = std::fs::read_link(&path).ok()?;
        let etag = blob.file_name()?.to_str()?.to_owned();
        if !etag.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let sha256 = (etag.len() == 64).then(|| etag.clone());
        Some(TreeEntry::File(TreeFile { len: found.len(), sha256, oid: etag }))
    }

    /// Lists the cached entries of a folder.
    pub(super) fn list(&self, folder: &str, most: u64) -> Result<Vec<RemoteEntry>> {
        let missing = || Error::malformed("hf-offline is set, and the Hub's cache does not have this folder");
        let path = self.0.as_ref().ok_or_else(missing)?.join(folder);
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(&path).map_err(|_| missing())? {
            let entry = entry?;
            let found = std::fs::metadata(entry.path())?;
            if entries.len() as u64 == most {
                return Err(Error::limit("too many entries in a folder").expected(most));
            }
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(RemoteEntry { name, len: found.is_file().then_some(found.len()) });
            }
        }
        Ok(entries)
    }

    /// Opens a file from the cache, if the cache contains the file with the expected content.
    pub(super) fn open(&self, path: &str, expected: &TreeFile, url: String) -> Option<SnapshotFile> {
        let path = self.0.as_ref()?.join(path);
        let file = File::open(&path).ok()?;
        let found = file.metadata().ok()?;
        // If the file is a link, the name of its target identifies the content. On file systems
        // without links, the file is a copy, and only its length can be compared.
        let is_same = std::fs::read_link(&path).map_or(true, |blob| names(&blob, expected.etag()));
        let is_whole = found.is_file() && found.len() == expected.len && is_same;
        is_whole.then(|| SnapshotFile { stamp: expected.stamp(), written: written(&found), file, url })
    }
}

fn names(blob: &Path, etag: &str) -> bool {
    blob.file_name().is_some_and(|name| name == etag)
}

fn written(found: &std::fs::Metadata) -> (u64, i64, i64) {
    (found.len(), found.mtime(), found.mtime_nsec())
}

pub(super) struct SnapshotFile {
    file: File,
    stamp: RemoteStamp,
    written: (u64, i64, i64),
    url: String,
}

impl RemoteFile for SnapshotFile {
    fn stamp(&self) -> &RemoteStamp {
        &self.stamp
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let read = self.file.read_exact_at(buffer, offset);
        read.map_err(|error| Error::from(error).file(&self.url).offset(offset))
    }

    fn advise(&self, _: &[Range<u64>]) {}

    fn check_unchanged(&self) -> Result<()> {
        if written(&self.file.metadata()?) == self.written {
            return Ok(());
        }
        Err(Error::transient("changed in the Hub's cache while it was being read").file(&self.url))
    }
}
