//! Files that were opened to be looked at, or because they will be: one request for that and for opening them.

use crate::cache::{Cancelled, LOOK};
use crate::fault::Fault;
use crate::runtime::{Engine, Turn};
use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tensorferry_core::context::remote::RemoteFile;
use tensorferry_sdk::{Error, Result};

/// A file, if there is one.
pub(crate) type Found = Option<Arc<dyn RemoteFile>>;

/// How long a look counts as one at what is there now.
const SOON: Duration = Duration::from_secs(5);

/// As [`SOON`], of a file that somebody said will be opened.
const LATER: Duration = Duration::from_secs(60);

/// Files by path.
#[derive(Default)]
pub(crate) struct Looked(Mutex<HashMap<String, Slot>>);

struct Slot {
    until: Instant,
    /// Of which process the thread is that opens it.
    process: u32,
    file: Opening,
}

enum Opening {
    Here(Arc<dyn RemoteFile>),
    Coming(Receiver<(Found, Turn)>, Arc<AtomicBool>),
}

impl Slot {
    fn new(time: Duration, file: Opening) -> Self {
        Self { until: Instant::now() + time, process: std::process::id(), file }
    }
}

impl Looked {
    fn slots(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        slots.retain(|_, slot| Instant::now() < slot.until && slot.process == process);
        slots
    }

    /// Keeps a file for who opens it soon.
    pub(crate) fn keep(&self, path: &str, file: Arc<dyn RemoteFile>) {
        self.slots().insert(path.to_owned(), Slot::new(SOON, Opening::Here(file)));
    }

    /// Begins to open a file. If that fails, who takes it tries anew, and is told.
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
            // Whose turn comes after it was asked for has been opened by who asked.
            if !is_begun.swap(true, Ordering::AcqRel)
                && let Ok(found) = opening.await
            {
                // Until it is taken it keeps its turn: of what nobody takes there is not much.
                drop(send.send((found, turn)));
            }
        });
        slots.insert(path.to_owned(), Slot::new(LATER, Opening::Coming(receive, is_taken)));
    }

    /// The file at a path, if it was opened just now or is being opened; once. One that waits for its turn is left to
    /// who takes it.
    pub(crate) fn take(&self, path: &str, cancelled: &Cancelled) -> Result<Found> {
        let slot = self.slots().remove(path);
        let receive = match slot.map(|slot| slot.file) {
            None => return Ok(None),
            Some(Opening::Here(file)) => return Ok(Some(file)),
            Some(Opening::Coming(_, is_begun)) if !is_begun.swap(true, Ordering::AcqRel) => return Ok(None),
            Some(Opening::Coming(receive, _)) => receive,
        };
        loop {
            match receive.recv_timeout(LOOK) {
                Ok((found, _turn)) => return Ok(found),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if cancelled() => {
                    return Err(Error::cancelled("interrupted while a file was opened"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
