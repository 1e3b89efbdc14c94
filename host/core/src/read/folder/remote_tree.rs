//! A cache of a remote place's responses about its files. Formats look up the same names repeatedly
//! while an input is probed and read. Each lookup is sent to the place once, and later lookups use
//! the first response.

use crate::context::remote::{RemoteEntry, RemoteFile, RemotePlace};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tensorferry_sdk::{ErrorKind, Result, ShardName};

pub(super) struct RemoteTree {
    place: Arc<dyn RemotePlace>,
    most_listed: u64,
    known: Mutex<PlaceCache>,
}

#[derive(Default)]
struct PlaceCache {
    /// Results of path lookups. `None` means that nothing exists at the path, `Some(None)` means a
    /// folder, and `Some(Some(len))` means a file of this size.
    looked: HashMap<String, Option<Option<u64>>>,
    listed: HashMap<String, Result<Arc<Vec<RemoteEntry>>>>,
    opened: HashMap<String, Arc<dyn RemoteFile>>,
    /// For each numbered set, the path that was requested first. The value is `None` after the
    /// other files of the set have been announced.
    sets: HashMap<String, Option<String>>,
}

/// Maximum number of files in a set whose files are announced. Files of larger sets are opened one
/// by one.
const MAX_ANNOUNCED: u32 = 4096;

impl RemoteTree {
    pub(super) fn new(place: Arc<dyn RemotePlace>, most_listed: u64) -> Self {
        Self { place, most_listed, known: Mutex::default() }
    }

    pub(super) fn url(&self, path: &str) -> String {
        self.place.url(path)
    }

    /// Looks up a path. Returns `None` if nothing exists, `Some(None)` for a folder, and otherwise
    /// the size of the file.
    pub(super) fn look_up(&self, path: &str) -> Result<Option<Option<u64>>> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let known = self.known();
        if let Some(found) = known.looked.get(path) {
            return Ok(*found);
        }
        if let Some(file) = known.opened.get(path) {
            return Ok(Some(Some(file.stamp().len)));
        }
        // Listings do not contain the top folder, because the top folder has no name.
        if let (Some(Ok(listed)), false) = (known.listed.get(folder), path.is_empty()) {
            return Ok(listed.iter().find(|entry| entry.name == name).map(|entry| entry.len));
        }
        drop(known);
        self.announce_shards(path);
        let found = self.place.look(path)?.map(|entry| entry.len);
        self.known().looked.insert(path.to_owned(), found);
        Ok(found)
    }

    pub(super) fn list(&self, folder: &str) -> Result<Arc<Vec<RemoteEntry>>> {
        if let Some(listed) = self.known().listed.get(folder) {
            return listed.clone();
        }
        let listed = self.place.list(folder, self.most_listed).map(Arc::new);
        let is_lasting = |kind| matches!(kind, ErrorKind::Unsupported | ErrorKind::Limit);
        if listed.as_ref().err().is_none_or(|error| is_lasting(error.kind())) {
            self.known().listed.insert(folder.to_owned(), listed.clone());
        }
        listed
    }

    pub(super) fn open(&self, path: &str) -> Result<Arc<dyn RemoteFile>> {
        if let Some(file) = self.known().opened.get(path) {
            return Ok(file.clone());
        }
        self.announce_shards(path);
        let file = self.place.open(path)?;
        // Another thread may have opened the file in the meantime.
        Ok(self.known().opened.entry(path.to_owned()).or_insert(file).clone())
    }

    /// Announces the other files of a numbered set when a second file of the set is requested.
    fn announce_shards(&self, path: &str) {
        let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
        let Some(shard) = ShardName::parse(name) else { return };
        let Some(count) = u32::try_from(shard.count).ok().filter(|&count| count <= MAX_ANNOUNCED) else {
            return;
        };
        let mut known = self.known();
        let set = format!("{folder}/{}", shard.pattern());
        let first = known.sets.entry(set).or_insert_with(|| Some(path.to_owned()));
        let Some(other) = first.take_if(|first| first != path) else { return };
        // Sets are numbered from 0 or from 1, and readers request the first file of a set before
        // the others.
        let is_of_zero = |path: &str| ShardName::parse(path).is_some_and(|shard| shard.number == 0);
        let start = u32::from(!is_of_zero(path) && !is_of_zero(&other));
        let name = |number: u32| ShardName::format(shard.stem, number.into(), count.into(), shard.ending);
        let paths = (start..count + start).map(|number| super::joined(folder, &name(number)));
        let is_new = |path: &String| !known.opened.contains_key(path) && !known.looked.contains_key(path);
        let paths: Vec<String> = paths.filter(is_new).collect();
        drop(known);
        self.place.will_open(&paths.iter().map(String::as_str).collect::<Vec<_>>());
    }

    fn known(&self) -> MutexGuard<'_, PlaceCache> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
