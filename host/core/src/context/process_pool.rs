//! The threads of a session. The threads are started on first use. A forked process starts its own
//! threads. A fork does not copy the parent's threads, so waiting for them would block forever.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::{Error, Result};

#[derive(Debug, Default)]
pub(super) struct ProcessPool(Mutex<Option<OwnedPool>>);

#[derive(Debug, Clone)]
struct OwnedPool {
    process: u32,
    threads: Result<Arc<ThreadPool>, String>,
}

impl ProcessPool {
    /// Returns this process's thread pool. Starts a pool of `threads` threads if the process has
    /// none.
    pub(super) fn get(&self, threads: usize) -> Result<Arc<ThreadPool>> {
        let process = std::process::id();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|known| known.process != process) {
            let started = ThreadPoolBuilder::new().num_threads(threads).build();
            let threads = started.map(Arc::new).map_err(|error| error.to_string());
            // The parent's pool is leaked, because dropping it would wake threads that do not exist
            // in this process.
            std::mem::forget(known.replace(OwnedPool { process, threads }));
        }
        let threads = known.as_ref().map(|known| known.threads.clone());
        match threads {
            Some(Ok(pool)) => Ok(pool),
            Some(Err(error)) => Err(Error::io(format!("cannot start threads: {error}"))),
            None => Err(Error::io("cannot start threads")),
        }
    }
}
