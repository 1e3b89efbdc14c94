//! The cache of plugin library descriptions. With this cache, a program opens only the libraries
//! that it uses.
//!
//! Each pair of a library and a program has one small cache file. The file name is a hash of both,
//! and the file contains the library's stamp. An entry is ignored if its stamp differs from the
//! file's, if it is damaged, or if another user may have written it. Safety does not depend on the
//! cache, because ferry checks a library again when it opens it.

use crate::context::stamp::Stamp;
use crate::formats::plugin::Inspection;
use crate::formats::refusal::Refusal;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, Metadata};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Incremented when the meaning of entries changes.
const VERSION: u32 = 2;
/// Maximum number of entries. If there are more, the older half is deleted.
const MAX_ENTRIES: usize = 1_000;
/// Maximum bytes of an entry. Real entries are a few kilobytes long.
const MAX_BYTES: u64 = 4 << 20;

#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    /// The identity of this program. Each program has its own entries, because two programs may
    /// describe the same library differently.
    host: String,
}

/// A cache entry: a library's description and stamp.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    version: u32,
    /// The path of the library, for people who read the file. ferry finds the entry by a hash of
    /// the path.
    library: String,
    pub(super) stamp: Stamp,
    pub(super) sha256: String,
    pub(super) outcome: Result<Inspection, Refusal>,
}

impl Entry {
    pub(super) fn new(
        library: &Path,
        stamp: Stamp,
        sha256: String,
        outcome: Result<Inspection, Refusal>,
    ) -> Self {
        Self { version: VERSION, library: library.display().to_string(), stamp, sha256, outcome }
    }
}

impl Cache {
    /// Returns the cache in this folder, which need not exist yet, or `None` if the folder cannot
    /// be trusted.
    pub(super) fn at(folder: &Path) -> Option<Self> {
        if let Ok(metadata) = folder.symlink_metadata()
            && !(metadata.is_dir() && is_own(&metadata))
        {
            return None;
        }
        let program = std::env::current_exe().and_then(|path| path.metadata()).ok()?;
        let host =
            format!("{} {} {:?}", env!("CARGO_PKG_VERSION"), tensorferry_sdk::VERSION, Stamp::of(&program));
        Some(Self { folder: folder.to_owned(), host })
    }

    fn path(&self, library: &Path) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.host.as_bytes()).update(b"\0").update(library.as_os_str().as_bytes());
        self.folder.join(format!("{}.json", hasher.finalize().to_hex()))
    }

    /// Returns the cached entry of a library, if the entry has this stamp.
    pub(super) fn get(&self, library: &Path, stamp: &Stamp) -> Option<Entry> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::open(self.path(library), flags, Mode::empty()).ok()?);
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || !is_own(&metadata) || metadata.len() > MAX_BYTES {
            return None;
        }
        let mut text = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut text).ok()?;
        let entry: Entry = serde_json::from_slice(&text).ok()?;
        (entry.version == VERSION && entry.stamp == *stamp).then_some(entry)
    }

    /// Stores an entry. Errors are ignored, because a missing entry only makes the next search
    /// slower.
    pub(super) fn put(&self, library: &Path, entry: &Entry) {
        let _ = self.try_put(library, entry);
    }

    fn try_put(&self, library: &Path, entry: &Entry) -> std::io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.folder)?;
        file.write_all(&serde_json::to_vec(entry)?)?;
        file.persist(self.path(library))?;
        self.prune()
    }

    /// Deletes the older half of the entries if there are too many. Libraries and programs that no
    /// longer exist leave entries behind.
    fn prune(&self) -> std::io::Result<()> {
        let entries = std::fs::read_dir(&self.folder)?.filter_map(Result::ok);
        let age = |entry: std::fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
        let names: Vec<_> = entries.collect();
        if names.len() > MAX_ENTRIES {
            let mut aged: Vec<(SystemTime, PathBuf)> = names.into_iter().filter_map(age).collect();
            aged.sort();
            for (_, path) in aged.iter().take(MAX_ENTRIES / 2) {
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// Returns whether the user owns the file and no other user may write to it.
fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    /// Returns a cache folder that does not exist yet, and an entry for a library.
    fn cache() -> (tempfile::TempDir, PathBuf, PathBuf, Entry) {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("plugin.so");
        write(&library, "code").unwrap();
        let stamp = Stamp::of(&library.metadata().unwrap());
        let entry = Entry::new(&library, stamp, "00".to_owned(), Err(Refusal::NotAPlugin));
        let place = folder.path().join("a/b");
        (folder, place, library, entry)
    }

    fn only_file(folder: &Path) -> PathBuf {
        let mut names: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(names.len(), 1, "{names:?}");
        names.remove(0)
    }

    #[test]
    fn what_is_put_is_got_until_the_file_changes() {
        let (_guard, place, library, entry) = cache();
        let cache = Cache::at(&place).unwrap();
        assert_eq!(cache.get(&library, &entry.stamp), None);
        cache.put(&library, &entry);
        cache.put(&library, &entry);
        assert_eq!(cache.get(&library, &entry.stamp), Some(entry.clone()));
        assert_eq!(place.metadata().unwrap().mode() & 0o777, 0o700);
        assert_eq!(only_file(&place).metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(cache.get(Path::new("/other.so"), &entry.stamp), None);
        let changed = |change: fn(&mut Stamp)| {
            let mut stamp = entry.stamp;
            change(&mut stamp);
            cache.get(&library, &stamp)
        };
        assert_eq!(changed(|stamp| stamp.len += 1), None);
        assert_eq!(changed(|stamp| stamp.inode += 1), None);
        assert_eq!(changed(|stamp| stamp.device += 1), None);
        assert_eq!(changed(|stamp| stamp.modified.1 += 1), None);
        assert_eq!(changed(|stamp| stamp.changed.1 += 1), None);
        // Each program has its own entries.
        let other = Cache { host: "another".to_owned(), ..Cache::at(&place).unwrap() };
        assert_eq!(other.get(&library, &entry.stamp), None);
    }

    #[test]
    fn a_damaged_entry_is_none_and_is_written_again() {
        let (_guard, place, library, entry) = cache();
        let cache = Cache::at(&place).unwrap();
        cache.put(&library, &entry);
        let path = only_file(&place);
        let good = std::fs::read(&path).unwrap();
        let version = String::from_utf8(good.clone()).unwrap().replace("\"version\":2", "\"version\":3");
        for bad in [&good[..good.len() / 2], b"", b"{}", b"\0\0\0\0", version.as_bytes()] {
            write(&path, bad).unwrap();
            assert_eq!(cache.get(&library, &entry.stamp), None);
            cache.put(&library, &entry);
            assert_eq!(cache.get(&library, &entry.stamp), Some(entry.clone()));
        }
    }

    #[test]
    fn what_others_may_have_written_is_not_believed() {
        let (_guard, place, library, entry) = cache();
        let cache = Cache::at(&place).unwrap();
        cache.put(&library, &entry);
        let path = only_file(&place);
        for mode in [0o620, 0o602] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(cache.get(&library, &entry.stamp), None);
        }
        set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(cache.get(&library, &entry.stamp).is_some());
        // Replace the entry's file with a link.
        std::fs::rename(&path, place.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert_eq!(cache.get(&library, &entry.stamp), None);
        // Give other users permission to write to the folder.
        set_permissions(&place, Permissions::from_mode(0o777)).unwrap();
        assert!(Cache::at(&place).is_none());
        assert!(Cache::at(&library).is_none());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_no_error() {
        let (_guard, _, library, entry) = cache();
        let cache = Cache::at(&library.join("below/a/file")).unwrap();
        cache.put(&library, &entry);
        assert_eq!(cache.get(&library, &entry.stamp), None);
    }

    #[test]
    fn it_does_not_grow_without_end() {
        let (_guard, place, library, entry) = cache();
        let cache = Cache::at(&place).unwrap();
        cache.put(&library, &entry);
        for number in 0..MAX_ENTRIES {
            write(place.join(format!("{number}.json")), "").unwrap();
        }
        cache.put(&library, &entry);
        assert!(std::fs::read_dir(&place).unwrap().count() <= MAX_ENTRIES);
    }
}
