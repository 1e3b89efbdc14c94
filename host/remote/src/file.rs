//! A file that is read through the cache, from a server, a repository or an object store.

use crate::cache::Origin;
use crate::runtime::{Engine, Process};
use bytes::Bytes;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_core::context::remote::{RemoteFile, RemoteStamp};
use tensorferry_sdk::{Error, Result};

/// Number of bytes that the first request for a file reads. Most file headers fit in this number of
/// bytes. The response also contains the file's length and tag.
pub(crate) const START: u64 = 128 << 10;

pub(crate) struct CachedFile {
    engine: Arc<Engine>,
    origin: Arc<dyn Origin>,
    id: u64,
    stamp: RemoteStamp,
    /// The first bytes of the file. This field keeps the bytes until they are passed to the cache.
    start: Mutex<Bytes>,
    /// Whether the file has been read beyond the bytes of the first response.
    is_read_on: AtomicBool,
}

impl CachedFile {
    /// Creates a file that reads its bytes from an origin. `start` contains the bytes that were
    /// received when the file was opened.
    pub(crate) fn opened(
        engine: &Arc<Engine>,
        origin: impl Origin,
        stamp: RemoteStamp,
        start: Bytes,
    ) -> Arc<dyn RemoteFile> {
        let id = engine.next_file();
        Arc::new(Self {
            engine: Arc::clone(engine),
            origin: Arc::new(origin),
            id,
            stamp,
            start: Mutex::new(start),
            is_read_on: AtomicBool::new(false),
        })
    }

    /// Returns the resources of this process. On first use, registers the file with the cache of
    /// these resources.
    fn process(&self) -> Result<Arc<Process>> {
        let process = self.engine.process()?;
        let start = std::mem::take(&mut *self.start.lock().unwrap_or_else(PoisonError::into_inner));
        process.cache.begin(self.id, &self.origin, &start);
        Ok(process)
    }
}

impl RemoteFile for CachedFile {
    fn stamp(&self) -> &RemoteStamp {
        &self.stamp
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.stamp.len);
        let Some(end) = end else {
            return Err(Error::io("read past the end").file(self.origin.name()).offset(offset));
        };
        if end > START {
            self.is_read_on.store(true, Ordering::Relaxed);
        }
        let process = self.process()?;
        let read = process.cache.read(self.id, offset, buffer, &self.engine.cancelled);
        read.map_err(|error| error.file(self.origin.name()).offset(offset))
    }

    fn advise(&self, ranges: &[Range<u64>]) {
        // Advice is only a hint, so errors are ignored. The same error occurs again when the bytes
        // are read.
        if let Ok(process) = self.process() {
            process.cache.advise(self.id, ranges);
        }
    }

    fn check_unchanged(&self) -> Result<()> {
        // If only the first response was read, all bytes are from one version of the file.
        if !self.is_read_on.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (origin, client) = (Arc::clone(&self.origin), self.engine.process()?.client.clone());
        let found = self.engine.wait(async move { origin.check(&client).await })?;
        found.map_err(|fault| {
            if let Ok(process) = self.engine.process() {
                process.cache.note(self.id, &fault);
            }
            fault.error.file(self.origin.name())
        })
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        self.engine.forget(self.id);
    }
}
