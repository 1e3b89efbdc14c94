//! A pool of open files. The pool is needed because an output may consist of more files than a
//! process can have open.

use crate::disk::failed;
use crate::platform::reports_late;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::Result;

/// Maximum number of open files of one output, in addition to files that threads are currently
/// using.
pub(crate) const MAX_OPEN: usize = 64;

/// The open files of an output. The most recently used file is last.
#[derive(Debug)]
pub struct OpenFiles {
    open: Mutex<VecDeque<(usize, Arc<File>)>>,
    /// Whether files are flushed before they are closed. Flushing is needed because a write error
    /// may first be reported on close, and the result of a close is not checked.
    syncs: bool,
}

impl OpenFiles {
    /// Creates an empty pool for files on the file system of `folder`.
    pub fn new(folder: &Path) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), syncs: reports_late(folder) })
    }

    /// Returns the file with this number. If the file is not open, opens it.
    fn get(&self, number: usize, open: impl FnOnce() -> io::Result<File>) -> io::Result<Arc<File>> {
        let mut files = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let there = files.iter().position(|(of, _)| *of == number).and_then(|at| files.remove(at));
        let file = match there {
            Some((_, file)) => file,
            None => {
                if files.len() >= MAX_OPEN {
                    self.close_one(&mut files)?;
                }
                Arc::new(open()?)
            }
        };
        files.push_back((number, file.clone()));
        Ok(file)
    }

    /// Closes the least recently used file that no thread is using.
    fn close_one(&self, files: &mut VecDeque<(usize, Arc<File>)>) -> io::Result<()> {
        let is_idle = |(_, file): &(usize, Arc<File>)| Arc::strong_count(file) == 1;
        match files.iter().position(is_idle).and_then(|at| files.remove(at)) {
            Some((_, file)) if self.syncs => file.sync_data(),
            _ => Ok(()),
        }
    }
}

/// A file in a pool. The file is reopened when it is needed.
#[derive(Debug)]
pub struct PooledFile {
    pool: Arc<OpenFiles>,
    number: usize,
    path: PathBuf,
}

impl PooledFile {
    /// Adds a file that was just created at `path`. `number` identifies the file in the pool.
    pub(crate) fn new(pool: &Arc<OpenFiles>, number: usize, path: PathBuf, file: File) -> Result<Self> {
        let file = pool.get(number, || Ok(file)).map_err(failed("write the output", &path))?;
        drop(file);
        Ok(Self { pool: pool.clone(), number, path })
    }

    /// Returns the open file. May close a different file in the pool. If
    /// [`syncs`](OpenFiles::syncs) is set, that file is flushed first.
    pub(crate) fn open(&self) -> Result<LocalFile<'_>> {
        let open = || OpenOptions::new().read(true).write(true).open(&self.path);
        let file = self.pool.get(self.number, open).map_err(failed("reopen the output", &self.path))?;
        Ok(LocalFile::Shared(file))
    }
}

/// An open file. The pool does not close it while this handle exists.
#[derive(Debug)]
pub enum LocalFile<'a> {
    /// A file that is not in a pool and remains open.
    Own(&'a File),
    /// An open file from a pool.
    Shared(Arc<File>),
}

impl Deref for LocalFile<'_> {
    type Target = File;

    fn deref(&self) -> &File {
        match self {
            Self::Own(file) => file,
            Self::Shared(file) => file,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn no_more_files_are_open_than_the_pool_holds_and_none_that_is_in_use_is_closed() {
        let home = tempfile::tempdir().unwrap();
        let pool = OpenFiles::new(home.path());
        let create = |number: usize| {
            let path = home.path().join(number.to_string());
            let file = File::create_new(&path).unwrap();
            PooledFile::new(&pool, number, path, file).unwrap()
        };
        let files: Vec<PooledFile> = (0..3 * MAX_OPEN).map(create).collect();
        let first = files[0].open().unwrap();
        for round in 0..2_u8 {
            for file in &files {
                file.open().unwrap().write_all_at(&[round], u64::from(round)).unwrap();
            }
            assert_eq!(pool.open.lock().unwrap().len(), MAX_OPEN);
        }
        let LocalFile::Shared(first) = first else { unreachable!() };
        let LocalFile::Shared(again) = files[0].open().unwrap() else { unreachable!() };
        assert!(Arc::ptr_eq(&first, &again));
        for number in 0..files.len() {
            assert_eq!(std::fs::read(home.path().join(number.to_string())).unwrap(), [0, 1]);
        }
    }
}
