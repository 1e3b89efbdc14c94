//! A cancellable source fails when its session is canceled. Some calls of record readers, such as a
//! scan, do not receive a session. With this source, these calls fail at their next read after a
//! cancellation.

use crate::context::session::Session;
use crate::read::source::FileSource;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tensorferry_sdk::{Entry, Error, FileId, FileRange, Limits, Result, Source};

/// A source that fails when its session is canceled.
pub struct CancellableSource {
    source: Arc<FileSource>,
    cancelled: Arc<AtomicBool>,
}

impl CancellableSource {
    pub(crate) fn new(source: Arc<FileSource>, session: &Session) -> Arc<Self> {
        Arc::new(Self { source, cancelled: session.cancel_flag() })
    }

    fn check(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) {
            Err(Error::cancelled("ended by the user"))
        } else {
            Ok(())
        }
    }
}

#[deny(clippy::missing_trait_methods, reason = "every call is forwarded to the source")]
impl Source for CancellableSource {
    fn entry(&self) -> &Entry {
        self.source.entry()
    }

    fn open(&self, name: &str) -> Result<FileId> {
        self.check()?;
        self.source.open(name)
    }

    fn contains(&self, name: &str) -> Result<bool> {
        self.source.contains(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.check()?;
        self.source.list(prefix)
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        self.check()?;
        self.source.folders(folder)
    }

    fn name(&self, file: FileId) -> &str {
        self.source.name(file)
    }

    fn len(&self, file: FileId) -> u64 {
        self.source.len(file)
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.check()?;
        self.source.read_at(file, offset, buffer)
    }

    fn read_ranges(&self, ranges: &[FileRange], buffer: &mut [u8]) -> Result<()> {
        self.check()?;
        self.source.read_ranges(ranges, buffer)
    }

    fn advise(&self, ranges: &[FileRange]) {
        self.source.advise(ranges);
    }

    fn read_vec(&self, file: FileId, offset: u64, len: u64, limits: &Limits) -> Result<Vec<u8>> {
        self.check()?;
        self.source.read_vec(file, offset, len, limits)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use tensorferry_sdk::ErrorKind;

    #[test]
    fn nothing_is_read_once_the_session_is_cancelled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, b"abcd").unwrap();
        let session = Session::default();
        let source = Arc::new(FileSource::open(&path, &session).unwrap());
        let source = CancellableSource::new(source, &session);
        let file = source.open("a").unwrap();
        let range = FileRange { file, offset: 1, len: 2 };
        let mut buffer = [0; 2];
        source.read_ranges(&[range], &mut buffer).unwrap();
        assert_eq!((&buffer, source.name(file), source.len(file)), (b"bc", "a", 4));
        session.cancel();
        for ended in [
            source.open("a").map(drop),
            source.list("").map(drop),
            source.read_at(file, 0, &mut buffer),
            source.read_ranges(&[range], &mut buffer),
            source.read_vec(file, 0, 2, &session.limits).map(drop),
        ] {
            assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
        }
    }
}
