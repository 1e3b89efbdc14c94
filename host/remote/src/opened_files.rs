//! Keeps files that were opened to check whether they exist, or that were opened in advance.
//! Keeping these files saves a request when the caller opens such a file.

use crate::cache::{CANCEL_CHECK_INTERVAL, Cancelled};
use crate::fault::Fault;
use crate::runtime::{Engine, OpeningPermit};
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tensorferry_core::context::remote::RemoteFile;
use tensorferry_sdk::{Error, Result};

/// An opened file, or `None` if the file does not exist.
pub(crate) type Found = Option<Arc<dyn RemoteFile>>;

/// Time for which a file that was opened here may be used without another check.
const MAX_AGE: Duration = Duration::from_secs(5);

/// The limit that replaces [`MAX_AGE`] for files that were opened in advance.
const MAX_AGE_IN_ADVANCE: Duration = Duration::from_secs(60);

/// The opened files, keyed by path.
#[derive(Default)]
pub(crate) struct OpenedFiles(Mutex<HashMap<String, Slot>>);

struct Slot {
    until: Instant,
    /// ID of the process whose transfer thread opens the file.
    process: u32,
    file: Opening,
}

enum Opening {
    Open(Arc<dyn RemoteFile>),
    Pending(Receiver<(Found, OpeningPermit)>, Arc<AtomicBool>),
}

impl Slot {
    fn new(time: Duration, file: Opening) -> Self {
        Self { until: Instant::now() + time, process: std::process::id(), file }
    }
}

impl OpenedFiles {
    fn slots(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        slots.retain(|_, slot| Instant::now() < slot.until && slot.process == process);
        slots
    }

    /// Keeps a file that the caller will probably open soon.
    pub(crate) fn keep(&self, path: &str, file: Arc<dyn RemoteFile>) {
        self.slots().insert(path.to_owned(), Slot::new(MAX_AGE, Opening::Open(file)));
    }

    /// Starts to open a file in advance. If this fails, the caller of [`take`](Self::take) opens
    /// the file again and receives the error.
    pub(crate) fn begin(
        &self,
        path: &str,
        engine: &Engine,
        opening: impl Future<Output = Result<Found, Fault>> + Send + 'static,
    ) {
        let mut slots = self.slots();
        if slots.contains_key(path) {
            return;
        }
        let (send, receive) = sync_channel(1);
        let is_taken = Arc::new(AtomicBool::new(false));
        let is_begun = Arc::clone(&is_taken);
        engine.begin(move |turn| async move {
            // If `take` was called before a permit became available, the caller of `take` opens the
            // file.
            if !is_begun.swap(true, Ordering::AcqRel)
                && let Ok(found) = opening.await
            {
                // The permit is held until the file is taken, which limits the number of files that
                // are opened but never taken.
                drop(send.send((found, turn)));
            }
        });
        slots.insert(path.to_owned(), Slot::new(MAX_AGE_IN_ADVANCE, Opening::Pending(receive, is_taken)));
    }

    /// Returns the file at a path, if it was opened recently or is being opened. Otherwise, returns
    /// `None`, even if the opening is still waiting for a permit. The caller must then open the
    /// file.
    pub(crate) fn take(&self, path: &str, cancelled: &Cancelled) -> Result<Found> {
        let slot = self.slots().remove(path);
        let receive = match slot.map(|slot| slot.file) {
            None => return Ok(None),
            Some(Opening::Open(file)) => return Ok(Some(file)),
            Some(Opening::Pending(_, is_begun)) if !is_begun.swap(true, Ordering::AcqRel) => return Ok(None),
            Some(Opening::Pending(receive, _)) => receive,
        };
        loop {
            match receive.recv_timeout(CANCEL_CHECK_INTERVAL) {
                Ok((found, _turn)) => return Ok(found),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if cancelled() => {
                    return Err(Error::cancelled("interrupted while opening a file"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
