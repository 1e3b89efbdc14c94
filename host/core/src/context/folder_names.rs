//! Names in folders, kept for the jobs of a run: thousands of them may write to one folder, which may hold a
//! million names.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// What folders held when they were first looked into. What the run's own jobs have written since is not in it.
#[derive(Debug, Default)]
pub struct FolderNames {
    /// The last folder: jobs of one folder follow each other.
    last: Mutex<Option<(PathBuf, Names)>>,
}

type Names = Arc<Vec<String>>;

impl FolderNames {
    /// The names in a folder that begin with `prefix`, in order; `list` lists the folder.
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
