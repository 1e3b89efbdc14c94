//! Names in output folders, cached for a run's jobs. Thousands of jobs may write to one folder,
//! which may contain a million names.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The names that each folder contained when it was first listed. Files that the run's own jobs
/// wrote later are not included.
#[derive(Debug, Default)]
pub struct FolderNames {
    /// Only the most recently used folder is cached, because consecutive jobs usually share a
    /// folder.
    last: Mutex<Option<(PathBuf, Names)>>,
}

type Names = Arc<Vec<String>>;

impl FolderNames {
    /// Returns the names in a folder that begin with `prefix`, sorted. Calls `list` if the folder
    /// is not cached.
    pub fn with_prefix<E>(
        &self,
        folder: &Path,
        prefix: &str,
        list: impl FnOnce() -> Result<Vec<String>, E>,
    ) -> Result<Vec<String>, E> {
        let lock = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().as_ref().filter(|(of, _)| of == folder).map(|(_, names)| names.clone());
        let names = match known {
            Some(names) => names,
            None => {
                let mut listed = list()?;
                listed.sort_unstable();
                let names = Arc::new(listed);
                *lock() = Some((folder.to_owned(), names.clone()));
                names
            }
        };
        let first = names.partition_point(|name| name.as_str() < prefix);
        Ok(names[first..].iter().take_while(|name| name.starts_with(prefix)).cloned().collect())
    }
}
